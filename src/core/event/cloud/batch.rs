//! A JSON array of events. Both readers stop after `limit` of them: whoever gets that many does not learn what follows, and an array
//! that is far too long costs no more than one that is a little too long.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use super::{Attributes, Receipt, Received, SPACE, one_pass, utf8};
use crate::event::NewRecord;
use crate::id::ExecutionId;
use crate::refusal::Refusal;

/// What `taken` makes of the first `limit` events of an array, each with its own text, read in one pass. `None` if something is wrong
/// with the JSON or with a type in the envelope of one of them: [`split_batch`] and each event by itself show what.
pub fn from_batch<'a, T>(
    text: &'a str,
    limit: usize,
    receipt: impl Fn() -> Receipt<'a>,
    taken: impl Fn(&'a str, Result<Received, Refusal>) -> T,
) -> Option<Vec<T>> {
    let mut rest = text.trim_start_matches(SPACE).strip_prefix('[')?.trim_start_matches(SPACE);
    let mut events = Vec::new();
    let mut texts = SharedTexts::default();
    while events.len() < limit {
        let (mut read, after) = if let Some((event, after)) = one_pass::read(rest) {
            (event.into_received(receipt()), after)
        } else {
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Attributes<'_, &RawValue>>();
            let event = stream.next()?.ok()?;
            (event.map_data(RawValue::get).into_received(receipt()), &rest[stream.byte_offset()..])
        };
        let event = &rest[..rest.len() - after.len()];
        if let Ok(received) = &mut read {
            texts.share(&mut received.fact);
        }
        events.push(taken(event, read));
        let after = after.trim_start_matches(SPACE);
        if let Some(end) = after.strip_prefix(']') {
            return end.trim_start_matches(SPACE).is_empty().then_some(events);
        }
        rest = after.strip_prefix(',')?.trim_start_matches(SPACE);
    }
    Some(events)
}

/// Neighbours in a batch mostly come from one agent and belong to one execution; events are kept for a while, their texts once.
#[derive(Default)]
struct SharedTexts {
    source: SmolStr,
    execution: Option<ExecutionId>,
}

impl SharedTexts {
    fn share(&mut self, fact: &mut NewRecord) {
        if fact.source == self.source {
            fact.source = self.source.clone();
        } else {
            self.source = fact.source.clone();
        }
        if fact.event.execution() == self.execution.as_ref() {
            self.execution.iter().for_each(|execution| fact.event.share_execution(execution));
        } else {
            self.execution = fact.event.execution().cloned();
        }
    }
}

/// The texts of the first `limit` elements of an array, whatever they are.
pub fn split_batch(bytes: &[u8], limit: usize) -> Result<Vec<&str>, Refusal> {
    let text = utf8(bytes, "body")?;
    let mut elements = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = deserializer.deserialize_seq(Elements { found: &mut elements, limit }).and_then(|()| deserializer.end());
    match read {
        Err(error) if elements.len() < limit => {
            Err(Refusal::Malformed { field: "body".to_owned(), problem: error.to_string() })
        }
        // The error at the limit is the one that `Elements` stops with.
        _ => Ok(elements),
    }
}

struct Elements<'a, 'de> {
    found: &'a mut Vec<&'de str>,
    limit: usize,
}

impl<'de> Visitor<'de> for Elements<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(element) = sequence.next_element::<&'de RawValue>()? {
            self.found.push(element.get());
            if self.found.len() == self.limit {
                return Err(A::Error::custom("enough was read"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::{Value, json};

    use super::*;
    use crate::event::cloud::receive_structured;
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn event(changes: Value) -> String {
        let mut value = json!({
            "specversion": "1.0", "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "source": "test", "type": "pml.execution.started",
            "data": {"execution": "e1", "intent": "read a file"}
        });
        let Value::Object(changes) = changes else { panic!("changes are an object") };
        value.as_object_mut().unwrap().extend(changes);
        value.to_string()
    }

    #[test]
    fn a_batch_read_in_one_pass_is_what_its_events_are_one_by_one() {
        let check = |text: &str, expected: Option<usize>| {
            let read = from_batch(text, 100, || NOW.into(), |event, read| (event, read));
            assert_eq!(read.as_ref().map(Vec::len), expected, "{text}");
            for (event, read) in read.into_iter().flatten() {
                assert_eq!(receive_structured(event.as_bytes(), NOW.into()), read, "{event}");
            }
        };
        let (good, escaped) = (event(json!({})), event(json!({"source": "a\"b", "data": {"execution": "e1", "intent": "\n"}})));
        let refused = event(json!({"time": "noon"}));
        check(&format!("[{good},{escaped},{refused}]"), Some(3));
        check(&format!(" [ {good} , {refused}\n]\n"), Some(2));
        // These are split first, so that the error stands with the event it belongs to.
        let wrong_type = event(json!({"id": 7}));
        for text in [format!("[{good},{wrong_type}]"), format!("[{good}"), format!("[{good}] x"), format!("[{good},]")] {
            check(&text, None);
        }
        for text in ["", "[]", "{}", "[1]", &format!("[{good} {good}]"), &good] {
            check(text, None);
        }
    }

    #[test]
    fn an_array_is_split_whatever_its_elements_are() {
        assert_eq!(split_batch(b" [1, {\"a\": [2]} ,\"x\" ] ", 4).unwrap(), ["1", "{\"a\": [2]}", "\"x\""]);
        assert_eq!(split_batch(b"[]", 1).unwrap(), [] as [&str; 0]);
        for (text, problem) in [
            ("[1,2", "EOF while parsing a list at line 1 column 4"),
            ("[1 2]", "expected `,` or `]` at line 1 column 4"),
            ("[1] x", "trailing characters at line 1 column 5"),
            ("{}", "invalid type: map, expected a sequence at line 1 column 0"),
        ] {
            let refusal = split_batch(text.as_bytes(), 4).unwrap_err();
            assert_eq!(refusal, Refusal::Malformed { field: "body".to_owned(), problem: problem.to_owned() }, "{text}");
        }
        assert_eq!(split_batch(b"[\xff]", 4).unwrap_err().to_string(), "body: cannot be read: not UTF-8 after byte 1");
    }

    /// The rest is not JSON: that it is not noticed shows that it was not read.
    #[test]
    fn what_follows_the_limit_is_not_read() {
        let good = event(json!({}));
        let visited = Cell::new(0);
        let count = |_: &str, _| visited.set(visited.get() + 1);
        let unread = format!("[{good},{good},{good},???");
        assert_eq!(from_batch(&unread, 3, || NOW.into(), count).unwrap().len(), 3);
        assert_eq!(visited.get(), 3);
        assert!(from_batch(&unread, 4, || NOW.into(), |_, _| ()).is_none());
        assert_eq!(split_batch(b"[0,0,0???", 3).unwrap(), ["0"; 3]);
        assert!(split_batch(b"[0,0,0???", 4).is_err());
    }
}
