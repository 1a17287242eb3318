//! The digest of a state. It covers every bit: each value is written with its length or in a fixed width, in a fixed order.

use std::fmt;

/// Bytes hashed at once: enough for BLAKE3 to process several of its chunks in parallel.
const PIECE_BYTES: usize = 64 << 10;

/// Feeds typed values to BLAKE3. Lengths are written before contents, so no two different states write the same bytes.
pub struct DigestWriter {
    hasher: blake3::Hasher,
    /// Written, but not hashed yet.
    buffer: Vec<u8>,
}

impl DigestWriter {
    pub(crate) fn new() -> Self {
        Self { hasher: blake3::Hasher::new(), buffer: Vec::with_capacity(PIECE_BYTES) }
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        if self.buffer.len() + bytes.len() > PIECE_BYTES {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(bytes);
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
        StateDigest(*self.hasher.update(&self.buffer).finalize().as_bytes())
    }
}

/// A part of the state that can be written to the digest, completely.
pub trait Digestible {
    fn digest(&self, writer: &mut DigestWriter);
}

/// The digest of a state. Equal states have equal digests on every adapter and machine.
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
