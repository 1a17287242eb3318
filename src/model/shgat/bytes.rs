//! Parameters as bytes: a header, the values, a check sum. All numbers are little-endian.
//!
//! ```text
//! "SHGA" | version u16 | dim u32 | heads u32 | levels u32 | values f32 ... | FNV-1a of all before, u64
//! ```

use super::parameters::{Parameters, Shape};

const MAGIC: &[u8; 4] = b"SHGA";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 4 + 2 + 4 + 4 + 4;
const SUM_LEN: usize = 8;
/// More than any embedder or hierarchy has; a larger number is damage, and its square must not overflow.
const SIZE_MAX: u32 = 1 << 14;

/// Why bytes are not parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesError {
    /// They do not begin as parameters of this network do.
    NotParameters,
    /// They were written by a version that this program does not read.
    Version(u16),
    /// A dimension, a number of heads or a number of levels is impossible.
    Shape,
    /// There are more or fewer bytes than the header says.
    Length,
    /// The check sum is wrong, or a value is not a finite number.
    Damaged,
}

impl std::fmt::Display for BytesError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotParameters => formatter.write_str("these bytes are not SHGAT parameters"),
            Self::Version(version) => write!(formatter, "cannot read SHGAT parameters of version {version}"),
            Self::Shape => formatter.write_str("the header of the SHGAT parameters has an impossible size"),
            Self::Length => formatter.write_str("the SHGAT parameters have a wrong length"),
            Self::Damaged => formatter.write_str("the SHGAT parameters are damaged"),
        }
    }
}

impl std::error::Error for BytesError {}

impl Parameters<f32> {
    /// The parameters as bytes: four per value and 26 more.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = |size: usize| u32::try_from(size).expect("a dimension fits").to_le_bytes();
        let mut bytes = Vec::with_capacity(HEADER_LEN + 4 * self.values.len() + SUM_LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.shape().dim, self.shape().heads, self.levels()] {
            bytes.extend_from_slice(&size(number));
        }
        for value in &self.values {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let sum = check_sum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The parameters that were written as these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BytesError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(BytesError::NotParameters)?;
        let (version, rest) = rest.split_first_chunk().ok_or(BytesError::Length)?;
        let version = u16::from_le_bytes(*version);
        if version != VERSION {
            return Err(BytesError::Version(version));
        }
        let (dim, rest) = size(rest)?;
        let (heads, rest) = size(rest)?;
        let (levels, rest) = size(rest)?;
        if dim == 0 || heads == 0 || !dim.is_multiple_of(heads) {
            return Err(BytesError::Shape);
        }
        let shape = Shape { dim, heads };
        let (values, sum) = rest.split_last_chunk::<SUM_LEN>().ok_or(BytesError::Length)?;
        if values.len() != 4 * shape.len(levels) {
            return Err(BytesError::Length);
        }
        if u64::from_le_bytes(*sum) != check_sum(&bytes[..bytes.len() - SUM_LEN]) {
            return Err(BytesError::Damaged);
        }
        let (values, _) = values.as_chunks::<4>();
        let values = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
        Self::from_values(shape, values).filter(Self::is_finite).ok_or(BytesError::Damaged)
    }
}

fn size(bytes: &[u8]) -> Result<(usize, &[u8]), BytesError> {
    let (size, rest) = bytes.split_first_chunk().ok_or(BytesError::Length)?;
    let size = u32::from_le_bytes(*size);
    if size > SIZE_MAX {
        return Err(BytesError::Shape);
    }
    Ok((size as usize, rest))
}

/// FNV-1a: it finds accidents, not attacks.
fn check_sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn parameters_come_back_as_they_were() {
        let mut parameters = Parameters::new(Shape::new(10, 2), 2);
        parameters.values[3] = -0.125;
        let bytes = parameters.to_bytes();
        assert_eq!(bytes.len(), HEADER_LEN + 4 * parameters.values.len() + SUM_LEN);
        assert_eq!(Parameters::from_bytes(&bytes).unwrap(), parameters);
    }

    #[test]
    fn damage_is_refused() {
        let bytes = Parameters::new(Shape::new(4, 2), 1).to_bytes();
        for len in 0..bytes.len() {
            assert!(Parameters::from_bytes(&bytes[..len]).is_err(), "cut at {len}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(Parameters::from_bytes(&damaged).is_err(), "bit {bit} of byte {at}");
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Parameters::from_bytes(&longer), Err(BytesError::Length));
        assert_eq!(Parameters::from_bytes(b"{}"), Err(BytesError::NotParameters));
        let mut newer = bytes;
        newer[4] = 9;
        assert_eq!(Parameters::from_bytes(&newer), Err(BytesError::Version(9)));
        let mut random = Random::new(5);
        for _ in 0..2000 {
            let noise: Vec<u8> = (0..random.below(64)).map(|_| random.next_u64().to_le_bytes()[0]).collect();
            assert!(Parameters::from_bytes(&[&MAGIC[..], &VERSION.to_le_bytes(), &noise].concat()).is_err());
        }
    }
}
