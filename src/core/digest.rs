//! A digest that covers a state bit for bit: every value is written with its length or a fixed width, in a fixed order.

use std::fmt;

/// Bytes that are hashed at once: enough for the hash to work on many of its chunks side by side.
const PIECE_BYTES: usize = 64 << 10;

/// Feeds typed values to BLAKE3. Lengths before contents, so that no two different states write the same bytes.
pub struct Writer {
    hasher: blake3::Hasher,
    /// Written, but not hashed yet.
    waiting: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { hasher: blake3::Hasher::new(), waiting: Vec::with_capacity(PIECE_BYTES) }
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        if self.waiting.len() + bytes.len() > PIECE_BYTES {
            self.hasher.update(&self.waiting);
            self.waiting.clear();
        }
        self.waiting.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.u32(u32::from(value))
    }

    pub(crate) fn len(&mut self, len: usize) -> &mut Self {
        self.u64(len as u64)
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.len(text.len()).bytes(text.as_bytes())
    }

    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }

    pub(crate) fn finish(mut self) -> StateDigest {
        StateDigest(*self.hasher.update(&self.waiting).finalize().as_bytes())
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
