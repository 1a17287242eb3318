//! Changes of protobuf messages: a field is taken out, doubled, moved, or gets another number, type or value; the lengths around it are
//! made right.

use pml_model::random::Random;

/// How deep fields of bytes are taken for messages.
const DEPTH_MAX: usize = 12;
/// Deepest nesting that is made.
const NESTED_MAX: usize = 200;
/// Field numbers that are made: those of small messages, and a large one.
const NUMBERS: u64 = 17;

struct Field {
    number: u64,
    value: Value,
}

enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

/// The message with one change, or `None` if the bytes are no message. `donor` is another message, whose fields may be taken.
pub(crate) fn changed(message: &[u8], donor: &[u8], words: &[&str], random: &mut Random) -> Option<Vec<u8>> {
    let fields = parse(message)?;
    let donor = parse(donor).unwrap_or_default();
    Some(write(&change(fields, &donor, words, random, DEPTH_MAX)))
}

fn change(mut fields: Vec<Field>, donor: &[Field], words: &[&str], random: &mut Random, depth: usize) -> Vec<Field> {
    let at = random.below(fields.len() + 1);
    if let Some(Field { value: Value::Bytes(bytes), .. }) = fields.get_mut(at)
        && depth > 0
        && random.below(5) > 0
        && let Some(inside) = parse(bytes)
    {
        *bytes = write(&change(inside, donor, words, random, depth - 1));
        return fields;
    }
    match random.below(7) {
        0 if at < fields.len() => drop(fields.remove(at)),
        1 if at < fields.len() => {
            let copies = 1 << random.below(8);
            let copy = write(&fields[at..=at]).repeat(copies);
            fields.extend(parse(&copy).unwrap_or_default());
        }
        2 if at < fields.len() => fields[at].number = 1 + random.next_u64() % NUMBERS,
        3 if at < fields.len() => {
            let other = random.below(fields.len());
            fields.swap(at, other);
        }
        4 if !donor.is_empty() => {
            let taken = random.below(donor.len());
            fields.extend(parse(&write(&donor[taken..=taken])).unwrap_or_default());
        }
        _ => {
            let (number, value) = (1 + random.next_u64() % NUMBERS, value(words, random));
            match fields.get_mut(at) {
                // The same field with another value, or one more.
                Some(field) if random.below(2) == 0 => field.value = value,
                _ => fields.insert(at, Field { number, value }),
            }
        }
    }
    fields
}

/// A value that a decoder may not expect.
fn value(words: &[&str], random: &mut Random) -> Value {
    match random.below(7) {
        0 => Value::Varint(u64::MAX >> random.below(64)),
        1 => Value::Fixed64((u64::MAX << random.below(64)).to_le_bytes()),
        2 => Value::Fixed32((u32::MAX >> random.below(32)).to_le_bytes()),
        3 => Value::Bytes(vec![0; random.below(20)]),
        4 => Value::Bytes(vec![[0x08, b'x', 0xff][random.below(3)]; 1 << random.below(14)]),
        5 => {
            // A list in a list, or a map in a map.
            let fields = [[5, 1], [6, 1], [1, 1]][random.below(3)];
            let mut message = Vec::new();
            for level in 0..=random.below(NESTED_MAX) {
                message = write(&[Field { number: fields[level % 2], value: Value::Bytes(message) }]);
            }
            Value::Bytes(message)
        }
        _ if words.is_empty() => Value::Bytes(Vec::new()),
        _ => Value::Bytes(words[random.below(words.len())].into()),
    }
}

fn parse(mut rest: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => Value::Fixed64(take(&mut rest, 8)?.try_into().ok()?),
            2 => {
                let len = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(take(&mut rest, len)?.to_vec())
            }
            5 => Value::Fixed32(take(&mut rest, 4)?.try_into().ok()?),
            _ => return None,
        };
        fields.push(Field { number: tag >> 3, value });
    }
    Some(fields)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn write(fields: &[Field]) -> Vec<u8> {
    let mut message = Vec::new();
    for Field { number, value } in fields {
        match value {
            Value::Varint(value) => {
                put_varint(&mut message, number << 3);
                put_varint(&mut message, *value);
            }
            Value::Fixed64(bytes) => {
                put_varint(&mut message, number << 3 | 1);
                message.extend(bytes);
            }
            Value::Bytes(bytes) => {
                put_varint(&mut message, number << 3 | 2);
                put_varint(&mut message, bytes.len() as u64);
                message.extend(bytes);
            }
            Value::Fixed32(bytes) => {
                put_varint(&mut message, number << 3 | 5);
                message.extend(bytes);
            }
        }
    }
    message
}

fn put_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    message.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_message_is_a_message_and_often_another_one() {
        let sample = write(&[
            Field { number: 1, value: Value::Bytes(write(&[Field { number: 2, value: Value::Varint(300) }])) },
            Field { number: 7, value: Value::Fixed64([1; 8]) },
            Field { number: 9, value: Value::Fixed32([2; 4]) },
        ]);
        assert_eq!(parse(&sample).map(|fields| write(&fields)), Some(sample.clone()), "it is written as it was read");
        let mut random = Random::new(1);
        let inputs: Vec<_> = (0..500).filter_map(|_| changed(&sample, &sample, &["word"], &mut random)).collect();
        assert!(inputs.len() == 500 && inputs.iter().all(|input| parse(input).is_some()));
        assert!(inputs.iter().filter(|input| **input != sample).count() > 400);
        assert_eq!(changed(&[0x0b], &sample, &[], &mut random), None);
    }
}
