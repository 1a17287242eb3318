//! A digest that covers a state bit for bit: every value is written with its length or a fixed width, in a fixed order.

use std::fmt;

/// Feeds typed values to BLAKE3. Lengths before contents, so that no two different states write the same bytes.
pub struct Writer(blake3::Hasher);

impl Writer {
    pub(crate) fn new() -> Self {
        Self(blake3::Hasher::new())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.update(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.update(&value.to_le_bytes());
        self
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.0.update(&value.to_le_bytes());
        self
    }

    pub(crate) fn u128(&mut self, value: u128) -> &mut Self {
        self.0.update(&value.to_le_bytes());
        self
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.u32(u32::from(value))
    }

    pub(crate) fn len(&mut self, len: usize) -> &mut Self {
        self.u64(len as u64)
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.len(text.len()).0.update(text.as_bytes());
        self
    }

    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }

    pub(crate) fn finish(self) -> StateDigest {
        StateDigest(*self.0.finalize().as_bytes())
    }
}

/// Something whose every bit belongs into the digest.
pub trait Digestible {
    fn digest(&self, writer: &mut Writer);
}

/// The digest of a state: equal states, equal digests, on every adapter and machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateDigest([u8; 32]);

impl fmt::Display for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
