//! Checksums of stored values: XXH3 with 64 bits, which finds accidents, not forgeries.
//!
//! The sum of a value depends on its table and its key, so that bytes that are whole but stand in the wrong place are noticed too.

use twox_hash::XxHash3_64;

pub(super) const LEN: usize = size_of::<u64>();

/// The tables whose values carry a checksum.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Block,
    IdRun,
    Letter,
}

impl Of {
    fn seed(self, key: u128) -> u64 {
        let tag: u64 = match self {
            Self::Block => 0x626c_6f63_6b00_0000,
            Self::IdRun => 0x6964_7275_6e00_0000,
            Self::Letter => 0x6c65_7474_6572_0000,
        };
        // Both halves of the key; which bits they are does not matter.
        tag ^ u64::try_from(key >> 64).expect("the upper half")
            ^ u64::try_from(key & u128::from(u64::MAX)).expect("the lower half")
    }

    pub(super) fn sum(self, key: impl Into<u128>, body: &[u8]) -> [u8; LEN] {
        XxHash3_64::oneshot_with_seed(self.seed(key.into()), body).to_le_bytes()
    }

    /// The body of a value that begins with its checksum; `None` if it is not the one that was written.
    pub(super) fn open(self, key: impl Into<u128>, value: &[u8]) -> Option<&[u8]> {
        let (sum, body) = value.split_first_chunk::<LEN>()?;
        (self.sum(key, body) == *sum).then_some(body)
    }

    /// The body behind its checksum.
    pub(super) fn seal(self, key: impl Into<u128>, body: &[u8]) -> Vec<u8> {
        [self.sum(key, body).as_slice(), body].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_only_as_it_was_and_where_it_was() {
        let sealed = Of::Letter.seal(7_u64, b"some text");
        assert_eq!(Of::Letter.open(7_u64, &sealed), Some(b"some text".as_slice()));
        assert_eq!(Of::Letter.open(8_u64, &sealed), None);
        assert_eq!(Of::Block.open(7_u64, &sealed), None);
        for place in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            assert_eq!(Of::Letter.open(7_u64, &damaged), None, "bit {place}");
        }
        for len in 0..sealed.len() {
            assert_eq!(Of::Letter.open(7_u64, &sealed[..len]), None, "cut to {len}");
        }
    }
}
