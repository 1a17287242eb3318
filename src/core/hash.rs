//! Hashes that are the same on every platform and in every version, because orders, ids and map layouts depend on them.

/// The 64-bit FNV-1a hash: the same on every platform and in every version, as orders and ids require.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014): spreads the bits of a number, the same on every platform.
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A hasher that returns the hash stored in the key (`ExecutionId`, `ToolId`), so that maps have the same layout in every
/// process.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrecomputedHash(u64);

impl std::hash::Hasher for PrecomputedHash {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only keys that contain a hash are hashed, by write_u64");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
