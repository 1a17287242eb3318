//! Whole numbers as JSON Schema counts them: `5.0` is one, and Python writes a float of that value so.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a number that may be missing or null.
pub fn optional<'de, D: Deserializer<'de>, N: TryFrom<u64> + Deserialize<'de>>(deserializer: D) -> Result<Option<N>, D::Error> {
    if !deserializer.is_human_readable() {
        return Option::deserialize(deserializer);
    }
    Option::<Whole>::deserialize(deserializer)?.map(narrowed).transpose()
}

/// Reads a number.
pub fn one<'de, D: Deserializer<'de>, N: TryFrom<u64>>(deserializer: D) -> Result<N, D::Error> {
    narrowed(Whole::deserialize(deserializer)?)
}

/// Reads a list of numbers.
pub fn list<'de, D: Deserializer<'de>, N: TryFrom<u64>, C: FromIterator<N>>(deserializer: D) -> Result<C, D::Error> {
    Vec::<Whole>::deserialize(deserializer)?.into_iter().map(narrowed).collect()
}

/// Reads a list of numbers that may be missing or null.
pub fn optional_list<'de, D: Deserializer<'de>, N: TryFrom<u64>, C: FromIterator<N>>(
    deserializer: D,
) -> Result<Option<C>, D::Error> {
    let numbers = Option::<Vec<Whole>>::deserialize(deserializer)?;
    numbers.map(|numbers| numbers.into_iter().map(narrowed).collect()).transpose()
}

fn narrowed<N: TryFrom<u64>, E: Error>(Whole(number): Whole) -> Result<N, E> {
    N::try_from(number).map_err(|_| E::custom(format!("{number} is too large")))
}

struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(WholeVisitor).map(Self)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, not below zero")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        const END: f64 = 18_446_744_073_709_551_616.0;
        if (0.0..END).contains(&number) && number.fract() == 0.0 {
            return Ok(number as u64);
        }
        Err(E::invalid_type(serde::de::Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Numbers {
        #[serde(default, deserialize_with = "optional")]
        few: Option<u8>,
        #[serde(default, deserialize_with = "list")]
        many: Vec<usize>,
    }

    fn read(json: &str) -> Result<(Option<u8>, Vec<usize>), String> {
        serde_json::from_str(json).map(|Numbers { few, many }| (few, many)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_fraction_of_zero_is_none() {
        assert_eq!(read(r#"{"few": 5.0, "many": [1, 2.0, 1e3]}"#), Ok((Some(5), vec![1, 2, 1000])));
        assert_eq!(read(r#"{"few": null}"#), Ok((None, Vec::new())));
        for wrong in [r#"{"few": 5.5}"#, r#"{"few": -1}"#, r#"{"few": -1.0}"#, r#"{"few": 256}"#, r#"{"many": [1e30]}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
