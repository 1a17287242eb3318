//! Checksums of stored values: XXH3 with 64 bits, which detects accidental changes, not forgeries.
//!
//! The checksum of a value depends on its table and its key, so that intact bytes under the wrong key are noticed too.

use twox_hash::XxHash3_64;

/// Bytes of a checksum.
pub(super) const LEN: usize = size_of::<u64>();

/// The tables whose values carry a checksum.
#[derive(Clone, Copy)]
pub(super) enum SealedTable {
    Block,
    IdRun,
    Letter,
}

impl SealedTable {
    fn seed(self, key: u128) -> u64 {
        let tag: u64 = match self {
            Self::Block => 0x626c_6f63_6b00_0000,
            Self::IdRun => 0x6964_7275_6e00_0000,
            Self::Letter => 0x6c65_7474_6572_0000,
        };
        // Both halves of the key are mixed in.
        tag ^ u64::try_from(key >> 64).expect("the upper half")
            ^ u64::try_from(key & u128::from(u64::MAX)).expect("the lower half")
    }

    /// Returns the checksum of `body` under `key`.
    pub(super) fn checksum(self, key: impl Into<u128>, body: &[u8]) -> [u8; LEN] {
        XxHash3_64::oneshot_with_seed(self.seed(key.into()), body).to_le_bytes()
    }

    /// Returns the body of a sealed value; `None` if its checksum is wrong.
    pub(super) fn open(self, key: impl Into<u128>, value: &[u8]) -> Option<&[u8]> {
        let (sum, body) = value.split_first_chunk::<LEN>()?;
        (self.checksum(key, body) == *sum).then_some(body)
    }

    /// Returns the checksum of `body` followed by `body`.
    pub(super) fn seal(self, key: impl Into<u128>, body: &[u8]) -> Vec<u8> {
        [self.checksum(key, body).as_slice(), body].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_only_as_it_was_and_where_it_was() {
        let sealed = SealedTable::Letter.seal(7_u64, b"some text");
        assert_eq!(SealedTable::Letter.open(7_u64, &sealed), Some(b"some text".as_slice()));
        assert_eq!(SealedTable::Letter.open(8_u64, &sealed), None);
        assert_eq!(SealedTable::Block.open(7_u64, &sealed), None);
        for place in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            assert_eq!(SealedTable::Letter.open(7_u64, &damaged), None, "bit {place}");
        }
        for len in 0..sealed.len() {
            assert_eq!(SealedTable::Letter.open(7_u64, &sealed[..len]), None, "cut to {len}");
        }
    }
}
