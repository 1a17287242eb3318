//! JSON without absent members: a member whose value is null is not written. Nulls in lists, and in JSON of the sender, which is written
//! as it is, stay.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

/// Appends `value` as JSON without absent members.
pub(super) fn write_present(value: &impl Serialize, out: &mut Vec<u8>) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, PresentMembers::default()))
}

/// Writes a key only when its value turns out not to be null.
#[derive(Default)]
struct PresentMembers {
    /// For each open object: whether a member was written.
    has_members: Vec<bool>,
    /// The key whose value comes next, as it is to be written.
    key: Vec<u8>,
    is_in_key: bool,
}

impl PresentMembers {
    /// Writes the key that waits for its value, if any.
    fn write_key<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.key.is_empty() {
            return Ok(());
        }
        if let Some(has_members) = self.has_members.last_mut()
            && std::mem::replace(has_members, true)
        {
            writer.write_all(b",")?;
        }
        writer.write_all(&self.key)?;
        self.key.clear();
        writer.write_all(b":")
    }

    /// Writes a part of a text, or of a key.
    fn write_part<W: ?Sized + Write>(&mut self, writer: &mut W, part: &[u8]) -> io::Result<()> {
        if self.is_in_key {
            self.key.extend_from_slice(part);
            return Ok(());
        }
        writer.write_all(part)
    }
}

/// The functions that begin a value: each writes the key first, then what the compact form has.
macro_rules! begin_with_the_key {
    ($($name:ident($($value:ident: $type:ty)?);)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $value: $type)?) -> io::Result<()> {
            self.write_key(writer)?;
            serde_json::ser::CompactFormatter.$name(writer $(, $value)?)
        })*
    };
}

impl Formatter for PresentMembers {
    begin_with_the_key! {
        write_bool(value: bool);
        write_i8(value: i8);
        write_i16(value: i16);
        write_i32(value: i32);
        write_i64(value: i64);
        write_i128(value: i128);
        write_u8(value: u8);
        write_u16(value: u16);
        write_u32(value: u32);
        write_u64(value: u64);
        write_u128(value: u128);
        write_f32(value: f32);
        write_f64(value: f64);
        write_number_str(value: &str);
        write_raw_fragment(fragment: &str);
        begin_array();
    }

    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.key.is_empty() {
            return writer.write_all(b"null");
        }
        self.key.clear();
        Ok(())
    }

    fn begin_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if !self.is_in_key {
            self.write_key(writer)?;
        }
        self.write_part(writer, b"\"")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        self.write_part(writer, fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        let mut escaped = Vec::new();
        serde_json::ser::CompactFormatter.write_char_escape(&mut escaped, escape)?;
        self.write_part(writer, &escaped)
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.write_part(writer, b"\"")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.write_key(writer)?;
        self.has_members.push(false);
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.has_members.pop();
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, _: &mut W, _: bool) -> io::Result<()> {
        self.is_in_key = true;
        Ok(())
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_in_key = false;
        Ok(())
    }

    /// [`Self::write_key`] writes the colon.
    fn begin_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Serialize)]
    struct Outer<'a> {
        absent_first: Option<u8>,
        text: &'a str,
        absent: Option<&'a str>,
        raw: &'a RawValue,
        inner: Option<Inner>,
        list: Vec<Option<Inner>>,
        absent_last: Option<f64>,
    }

    #[derive(Serialize)]
    struct Inner {
        absent: Option<bool>,
        number: f64,
    }

    #[test]
    fn absent_members_are_left_out_and_the_rest_is_the_same() {
        let raw = RawValue::from_string(r#"{"kept": null}"#.to_owned()).unwrap();
        let inner = |number| Inner { absent: None, number };
        let outer = Outer {
            absent_first: None,
            text: "a \"quoted\"\n\u{1} \u{e9}",
            absent: None,
            raw: &raw,
            inner: Some(inner(0.1)),
            list: vec![None, Some(inner(-2.0)), None],
            absent_last: None,
        };
        let mut written = b"x".to_vec();
        write_present(&outer, &mut written).unwrap();
        assert_eq!(written[0], b'x', "it is appended");
        let expected = json!({
            "text": "a \"quoted\"\n\u{1} \u{e9}", "raw": {"kept": null}, "inner": {"number": 0.1},
            "list": [null, {"number": -2.0}, null],
        });
        assert_eq!(serde_json::from_slice::<Value>(&written[1..]).unwrap(), expected);
        let mut written = Vec::new();
        write_present(&Inner { absent: None, number: f64::NAN }, &mut written).unwrap();
        assert_eq!(written, b"{}", "what JSON cannot say is absent");
        let mut written = Vec::new();
        write_present(&json!({"a": null, "": 1, "b": {"c": null}, "d": []}), &mut written).unwrap();
        assert_eq!(written, br#"{"":1,"b":{},"d":[]}"#);
    }
}
