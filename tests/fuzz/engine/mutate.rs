//! Changes of samples: as bytes, as text with the words of a format, as JSON trees, as protobuf messages.

use std::ops::Range;

use pml_model::random::Random;
use serde_json::{Map, Value};

use crate::protobuf;

/// Longest input that is made.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Deepest nesting that is made of JSON.
const DEPTH_MAX: usize = 200;

/// How inputs of a format are changed. All are changed as bytes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Bytes,
    Text,
    Json,
    /// Lines of JSON: one of them is changed as a tree, or lines change their places.
    JsonLines,
    Protobuf,
}

/// Makes inputs from samples.
pub struct Mutator<'a> {
    pub form: Form,
    /// Words of the format: names of members, keywords, limits.
    pub words: &'a [&'a str],
}

impl Mutator<'_> {
    /// An input made from one or two samples by a few changes.
    pub fn input(&self, samples: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
        let mut input = samples[random.below(samples.len())].clone();
        let more = if random.below(3) == 0 { random.below(4) } else { 0 };
        for _ in 0..=more {
            input = self.changed(input, samples, random);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn changed(&self, input: Vec<u8>, samples: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
        match (self.form, random.below(8)) {
            (_, 0) => splice(&input, &samples[random.below(samples.len())], random),
            (Form::Json, 1..=6) => self.changed_json(&input, samples, random).unwrap_or_else(|| changed_bytes(input, random)),
            (Form::JsonLines, 1..=4) => self.changed_line(input, samples, random),
            (Form::Text, 1..=5) | (Form::JsonLines, 5..=6) => self.changed_text(input, random),
            (Form::Protobuf, 1..=6) => {
                let donor = &samples[random.below(samples.len())];
                protobuf::changed(&input, donor, self.words, random).unwrap_or_else(|| changed_bytes(input, random))
            }
            _ => changed_bytes(input, random),
        }
    }

    fn changed_json(&self, input: &[u8], samples: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
        let mut value: Value = serde_json::from_slice(input).ok()?;
        let donor = serde_json::from_slice(&samples[random.below(samples.len())]).unwrap_or(Value::Null);
        let at = random.below(size(&value));
        self.change_node(&mut value, &mut { at }, &donor, random);
        serde_json::to_vec(&value).ok()
    }

    fn changed_line(&self, input: Vec<u8>, samples: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
        let other = &samples[random.below(samples.len())];
        let donor = other[line(other, random)].to_vec();
        let line = line(&input, random);
        match self.changed_json(&input[line.clone()], &[donor], random) {
            Some(changed) => [&input[..line.start], &changed, &input[line.end..]].concat(),
            None => self.changed_text(input, random),
        }
    }

    /// Changes the node with the number `at`, in depth-first order.
    fn change_node(&self, value: &mut Value, at: &mut usize, donor: &Value, random: &mut Random) -> bool {
        if *at == 0 {
            self.change_value(value, donor, random);
            return true;
        }
        *at -= 1;
        match value {
            Value::Array(items) => items.iter_mut().any(|item| self.change_node(item, at, donor, random)),
            Value::Object(members) => members.values_mut().any(|member| self.change_node(member, at, donor, random)),
            _ => false,
        }
    }

    fn change_value(&self, value: &mut Value, donor: &Value, random: &mut Random) {
        match (value, random.below(4)) {
            (Value::Object(members), 0..=2) => self.change_members(members, donor, random),
            (Value::Array(items), 0..=2) => {
                let at = random.below(items.len() + 1);
                match random.below(4) {
                    0 if at < items.len() => drop(items.remove(at)),
                    1 if at < items.len() => items.insert(at, items[at].clone()),
                    2 if items.len() > 1 => items.reverse(),
                    _ => items.insert(at, self.value(donor, random)),
                }
            }
            (Value::String(text), 0..=1) => *text = self.text(text, random),
            (value, _) => *value = self.value(donor, random),
        }
    }

    fn change_members(&self, members: &mut Map<String, Value>, donor: &Value, random: &mut Random) {
        let names: Vec<String> = members.keys().cloned().collect();
        let name = if names.is_empty() { String::new() } else { names[random.below(names.len())].clone() };
        match random.below(5) {
            0 => drop(members.remove(&name)),
            1 => {
                let renamed = self.text(&name, random);
                let value = members.remove(&name).unwrap_or_default();
                members.insert(renamed, value);
            }
            2 => drop(members.insert(self.word(random), self.value(donor, random))),
            3 => {
                // Two members exchange their values.
                let other = names.get(random.below(names.len().max(1))).cloned().unwrap_or_default();
                if let (Some(one), Some(two)) = (members.get(&name).cloned(), members.get(&other).cloned()) {
                    members.insert(name, two);
                    members.insert(other, one);
                }
            }
            _ => drop(members.insert(name, self.value(donor, random))),
        }
    }

    /// A value that a decoder may not expect.
    fn value(&self, donor: &Value, random: &mut Random) -> Value {
        match random.below(12) {
            0 => Value::Null,
            1 => Value::Bool(random.below(2) == 0),
            2 => Value::from(u64::MAX >> random.below(64)),
            3 => Value::from(i64::MIN >> random.below(64)),
            4 => Value::from([0.0, -0.0, 1e308, 5e-324, 0.1, -1.5][random.below(6)]),
            5 => Value::String(self.word(random)),
            6 => Value::String("x".repeat(1 << random.below(15))),
            7 => Value::Array(Vec::new()),
            8 => Value::Object(Map::new()),
            9 => nested(1 + random.below(DEPTH_MAX), random),
            _ => part(donor, random).clone(),
        }
    }

    fn word(&self, random: &mut Random) -> String {
        const ODD: [&str; 10] = ["", " ", "\u{0}", "\n", "%", "../..", "\u{fffd}", "e\u{301}", "0", "-1"];
        let word = if self.words.is_empty() || random.below(3) == 0 {
            ODD[random.below(ODD.len())]
        } else {
            self.words[random.below(self.words.len())]
        };
        word.to_owned()
    }

    fn text(&self, text: &str, random: &mut Random) -> String {
        let bytes = match random.below(3) {
            0 => return self.word(random),
            1 => self.changed_text(text.as_bytes().to_vec(), random),
            _ => changed_bytes(text.as_bytes().to_vec(), random),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn changed_text(&self, mut text: Vec<u8>, random: &mut Random) -> Vec<u8> {
        let at = random.below(text.len() + 1);
        match random.below(4) {
            // Another line in its place, once more, or not at all.
            0 => {
                let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
                if lines.is_empty() {
                    return text;
                }
                let (from, to) = (random.below(lines.len()), random.below(lines.len()));
                match random.below(3) {
                    0 => lines.swap(from, to),
                    1 => lines.insert(to, lines[from]),
                    _ => drop(lines.remove(from)),
                }
                lines.concat()
            }
            1 => {
                let word = self.word(random).repeat(1 << random.below(8));
                text.splice(at..at, word.bytes());
                text
            }
            2 => {
                // A word of the format in the place of a word of the text.
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let start = text[..at].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
                let end = at + text[at..].iter().position(|byte| !is_word(byte)).unwrap_or(text.len() - at);
                text.splice(start..end, self.word(random).into_bytes());
                text
            }
            _ => {
                const PAIRS: [(&[u8], &[u8]); 5] = [(b"(", b")"), (b"[", b"]"), (b"{", b"}"), (b"\"", b"\""), (b"`${", b"}`")];
                let (open, close) = PAIRS[random.below(PAIRS.len())];
                let times = 1 << random.below(8);
                let end = at + random.below(text.len() - at + 1);
                text.splice(end..end, close.repeat(times));
                text.splice(at..at, open.repeat(times));
                text
            }
        }
    }
}

/// Where a line of a text stands, without its end.
fn line(text: &[u8], random: &mut Random) -> Range<usize> {
    let at = random.below(text.len() + 1);
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end);
    start..end
}

/// The number of nodes in a tree.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.values().map(size).sum(),
        _ => 0,
    }
}

/// A part of a tree.
fn part<'a>(value: &'a Value, random: &mut Random) -> &'a Value {
    let children: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    if children.is_empty() || random.below(3) == 0 { value } else { part(children[random.below(children.len())], random) }
}

fn nested(depth: usize, random: &mut Random) -> Value {
    let mut value = Value::Null;
    let objects = random.below(2) == 0;
    for _ in 0..depth {
        value = if objects { Value::Object(Map::from_iter([("a".to_owned(), value)])) } else { Value::Array(vec![value]) };
    }
    value
}

/// The beginning of one sample and the end of another.
fn splice(one: &[u8], two: &[u8], random: &mut Random) -> Vec<u8> {
    let (end, start) = (random.below(one.len() + 1), random.below(two.len() + 1));
    [&one[..end], &two[start..]].concat()
}

fn changed_bytes(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let at = random.below(bytes.len() + 1);
    let len = random.below(8 + bytes.len() / 8);
    let end = (at + len).min(bytes.len());
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        3 => drop(bytes.splice(at..at, (0..len).map(|_| random.next_u64().to_le_bytes()[0]).collect::<Vec<_>>())),
        4 | 5 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        6 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'\n'][random.below(8)],
        // A number of two, four or eight bytes that is at the edge of its range.
        _ => {
            let number = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 31, 1 << 32, 255, 65_535][random.below(8)];
            let width = 2 << random.below(3);
            let end = (at + width).min(bytes.len());
            bytes.splice(at..end, number.to_le_bytes()[..width].iter().copied());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_inputs_and_json_often_stays_json() {
        let samples = vec![br#"{"a":[1,{"b":"c"}],"d":null}"#.to_vec(), br#"{"e":"f"}"#.to_vec()];
        let mutator = Mutator { form: Form::Json, words: &["a", "type"] };
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..2_000).map(|_| mutator.input(&samples, &mut random)).collect::<Vec<_>>()
        };
        let (one, two) = (inputs(1), inputs(1));
        assert_eq!(one, two);
        assert_ne!(one, inputs(2));
        let valid = one.iter().filter(|input| serde_json::from_slice::<Value>(input).is_ok()).count();
        assert!((600..1_900).contains(&valid), "{valid} of 2000 are JSON");
    }
}
