//! Reading an event in one pass. What `data` is depends on `type`, which may stand after it, so the kind is guessed: it is the one that the
//! first text which looks like a type names. If the guess is wrong, or anything is unusual, the event is read in two passes, which also
//! say what is wrong with it.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use super::{Attributes, SPACE, TYPE_PREFIX, parse_kind, parse_version};
use crate::event::codec::{WireData, for_usual_kinds};
use crate::event::kind::Kind;

/// Bytes in which the type is searched for: an array of events without one must not be searched to its end for each of them.
const SEARCHED_BYTES_MAX: usize = 8 << 10;
/// Longest name of a kind.
const NAME_BYTES_MAX: usize = 64;

/// Reads the event at the beginning of `text`. Returns it and the text after it; `None` if it must be read in two passes.
pub(super) fn read(text: &str) -> Option<(Attributes<'_, WireData<'_>>, &str)> {
    let kind = probable_kind(text)?;
    let (event, rest) = read_as(kind, text)?;
    let is_as_guessed = parse_kind(event.kind.as_deref()?).ok()? == kind
        && parse_version(kind, event.dataschema.as_deref()).ok()? == kind.version();
    // An id that is left out follows from the text of the data.
    (is_as_guessed && event.id.is_some() && event.data.is_some()).then_some((event, rest))
}

/// Does the same with a text that holds nothing else.
pub(super) fn read_all(text: &str) -> Option<Attributes<'_, WireData<'_>>> {
    read(text).filter(|(_, rest)| rest.trim_start_matches(SPACE).is_empty()).map(|(event, _)| event)
}

macro_rules! read_as {
    ($($kind:ident),* $(,)?) => {
        /// Reads an event with the data of `kind`.
        fn read_as(kind: Kind, text: &str) -> Option<(Attributes<'_, WireData<'_>>, &str)> {
            match kind {
                $(Kind::$kind => parse(text, WireData::$kind),)*
                _ => None,
            }
        }
    };
}

for_usual_kinds!(read_as);

fn parse<'a, D: Deserialize<'a>>(
    text: &'a str,
    data: impl FnOnce(D) -> WireData<'a>,
) -> Option<(Attributes<'a, WireData<'a>>, &'a str)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Attributes<'a, D>>();
    let event = stream.next()?.ok()?;
    Some((event.map_data(data), &text[stream.byte_offset()..]))
}

/// The kind that the first member `type` of the text names, at whatever depth it stands.
fn probable_kind(text: &str) -> Option<Kind> {
    static QUOTED_PREFIX: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"pml."));
    let searched = &text.as_bytes()[..text.len().min(SEARCHED_BYTES_MAX)];
    let at = QUOTED_PREFIX.find_iter(searched).find(|at| is_type(&text[..*at]))?;
    let name = &text[at + 1 + TYPE_PREFIX.len()..];
    let len = name.bytes().take(NAME_BYTES_MAX).position(|byte| byte == b'"')?;
    name[..len].parse().ok()
}

/// Whether `before` ends with `"type":`.
fn is_type(before: &str) -> bool {
    let name = before.trim_end_matches(SPACE).strip_suffix(':');
    name.is_some_and(|name| name.trim_end_matches(SPACE).ends_with("\"type\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::cloud::{receive_structured, to_structured};
    use crate::event::document;
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    /// The events of a run, as text: the data before the type, as the members are sorted.
    fn events() -> Vec<String> {
        let run = document::read(document::example().to_string().as_bytes(), NOW.into(), crate::id::RecordId::from_bits(7));
        run.unwrap().records.iter().map(|record| to_structured(record).to_string()).collect()
    }

    #[test]
    fn usual_events_are_read_in_one_pass_wherever_the_type_stands() {
        for event in events() {
            let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&event).unwrap();
            let type_first =
                format!(r#"{{ "type" : {}, {}"#, members["type"], event.replace(r#","type":"#, r#","other":"#)[1..].trim());
            for text in [&event, &type_first, &format!(" {event}\n")] {
                assert!(read_all(text).is_some(), "{text}");
                assert_eq!(receive_structured(text.as_bytes(), NOW.into()), receive_structured(event.as_bytes(), NOW.into()));
            }
        }
    }

    #[test]
    fn what_is_unusual_is_read_in_two_passes() {
        let step = events().remove(1);
        let with = |name: &str, value: serde_json::Value| {
            let mut event: serde_json::Value = serde_json::from_str(&step).unwrap();
            event[name] = value;
            event.to_string()
        };
        let data = |extra: serde_json::Value| {
            let mut event: serde_json::Value = serde_json::from_str(&step).unwrap();
            event["data"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            event.to_string()
        };
        assert!(read_all(&step).is_some());
        for text in [
            with("type", json!("pml.execution.finished")),
            with("type", json!("other.step.finished")),
            with("dataschema", json!("urn:pml:step.finished/v9")),
            with("id", json!(null)),
            with("id", json!(7)),
            with("data", json!(null)),
            with("data", json!("text")),
            data(json!({"tokens": 7})),
            data(json!({"arguments": {"type": "pml.tool.registered"}})),
            format!("{step} x"),
            format!("[{step}]"),
            step[..step.len() - 1].to_owned(),
        ] {
            assert!(read_all(&text).is_none(), "{text}");
        }
        let nested = data(json!({"arguments": {"type": "pml.tool.registered"}}));
        assert!(receive_structured(nested.as_bytes(), NOW.into()).is_ok(), "it is read all the same");
    }

    #[test]
    fn the_type_is_searched_for_near_the_beginning_only() {
        let far = format!(r#"{{"data":"{}","type":"pml.step.finished"}}"#, "x".repeat(SEARCHED_BYTES_MAX));
        assert_eq!(probable_kind(&far), None);
        assert_eq!(probable_kind(r#"{"type":"pml.step.finished"#), None, "the name has no end");
        assert_eq!(probable_kind("{\"type\"\n: \"pml.step.finished\""), Some(Kind::StepFinished));
        assert_eq!(probable_kind(r#"{"kind":"pml.step.started","type":"pml.step.finished"}"#), Some(Kind::StepFinished));
    }
}
