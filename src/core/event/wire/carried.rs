//! Values that are carried without being interpreted: JSON of the sender, and bytes.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::WireText;

/// Any JSON value, carried as compact text.
#[derive(Clone, Debug)]
pub(crate) struct JsonText<'a>(pub(crate) WireText<'a>);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serde_json::from_str::<&RawValue>(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0)
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <&str>::deserialize(deserializer).map(|text| Self(Cow::Borrowed(text)));
        }
        // A raw value is not fully checked: it may contain numbers out of range, lone surrogates or unbounded nesting, which a later
        // reader could not parse. Parsing and printing also removes the sender's layout.
        let raw = <&RawValue>::deserialize(deserializer)?;
        let value: Value = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self(Cow::Owned(value.to_string())))
    }
}

impl JsonSchema for JsonText<'_> {
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}

/// Bytes: base64 in JSON, as they are in the log.
#[derive(Clone, Debug)]
pub(crate) struct WireBytes(pub(crate) Arc<[u8]>);

impl Serialize for WireBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for WireBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
            Ok(Self(bytes.into()))
        } else {
            <&[u8]>::deserialize(deserializer).map(|bytes| Self(bytes.into()))
        }
    }
}

impl JsonSchema for WireBytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "string", "contentEncoding": "base64" })
    }
}
