//! The stored form of trained parameters: little-endian numbers, and matrices as one signed byte per number with a scale per row.
//!
//! The bytes end with a checksum. A scale has at most 16 significant bits, so that 127 times the scale is exact: packing what was unpacked gives the same bytes.

use std::fmt;

use ndarray::Array2;

const LEVELS: f32 = 127.0;
/// The bits of an `f32` that a scale does not use.
const SCALE_UNUSED_BITS: u32 = 8;

/// Why stored bytes are not a trained part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The first bytes do not name this kind of part, or name another version of its format.
    UnknownFormat,
    /// The bytes end early or go on after the end.
    WrongLength,
    /// The bytes do not have the checksum that they end with.
    Damaged,
    /// A number is outside its range.
    InvalidValue,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownFormat => "not a trained part of this kind and version",
            Self::WrongLength => "the bytes of a trained part end early or late",
            Self::Damaged => "the bytes of a trained part do not have their checksum",
            Self::InvalidValue => "a number of a trained part is out of range",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Rounds every row to 255 levels. Deterministic, and a rounded matrix stays as it is.
pub(crate) fn round_rows(matrix: &Array2<f32>) -> Array2<f32> {
    let mut rounded = matrix.clone();
    for mut row in rounded.rows_mut() {
        let scale = scale_of(row.iter());
        row.mapv_inplace(|value| f32::from(level(value, scale)) * scale);
    }
    rounded
}

/// The distance of two levels: the largest size in the row divided by 127, rounded up to 16 significant bits.
fn scale_of<'a>(row: impl Iterator<Item = &'a f32>) -> f32 {
    let largest = row.fold(0.0_f32, |largest, value| largest.max(value.abs()));
    if !largest.is_finite() || largest < 1e-30 {
        return 0.0;
    }
    let bits = (largest / LEVELS).to_bits();
    let below = bits >> SCALE_UNUSED_BITS << SCALE_UNUSED_BITS;
    f32::from_bits(if f32::from_bits(below) * LEVELS >= largest { below } else { below + (1 << SCALE_UNUSED_BITS) })
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of a signed byte")]
fn level(value: f32, scale: f32) -> i8 {
    if scale == 0.0 { 0 } else { (value / scale).round().clamp(-LEVELS, LEVELS) as i8 }
}

/// Appends numbers and matrices to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(format: [u8; 4]) -> Self {
        Self(format.to_vec())
    }

    pub(crate) fn count(&mut self, count: usize) {
        let count = u32::try_from(count).expect("fewer than 2^32 rows");
        self.0.extend(count.to_le_bytes());
    }

    pub(crate) fn numbers<'a>(&mut self, numbers: impl IntoIterator<Item = &'a f32>) {
        for number in numbers {
            self.0.extend(number.to_le_bytes());
        }
    }

    /// A matrix whose rows were rounded by [`round_rows`].
    pub(crate) fn matrix(&mut self, matrix: &Array2<f32>) {
        for row in matrix.rows() {
            let scale = scale_of(row.iter());
            self.0.extend(scale.to_le_bytes());
            self.0.extend(row.iter().map(|value| level(*value, scale).to_le_bytes()[0]));
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let sum = checksum(&self.0);
        self.0.extend(sum.to_le_bytes());
        self.0
    }
}

/// Reads what a [`Writer`] wrote. Every length is checked before memory is taken for it.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], format: [u8; 4]) -> Result<Self, DecodeError> {
        let content = bytes.strip_prefix(&format).ok_or(DecodeError::UnknownFormat)?;
        let (content, sum) = content.split_last_chunk::<8>().ok_or(DecodeError::WrongLength)?;
        if checksum(&bytes[..bytes.len() - sum.len()]) != u64::from_le_bytes(*sum) {
            return Err(DecodeError::Damaged);
        }
        Ok(Self(content))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::WrongLength)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let bytes = self.take(4)?.try_into().map_err(|_| DecodeError::WrongLength)?;
        usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| DecodeError::InvalidValue)
    }

    pub(crate) fn counts(&mut self, count: usize) -> Result<Vec<usize>, DecodeError> {
        let bytes = self.take(count.checked_mul(4).ok_or(DecodeError::WrongLength)?)?;
        let decode = |chunk: &[u8; 4]| usize::try_from(u32::from_le_bytes(*chunk)).map_err(|_| DecodeError::InvalidValue);
        bytes.as_chunks::<4>().0.iter().map(decode).collect()
    }

    pub(crate) fn numbers(&mut self, count: usize) -> Result<Vec<f32>, DecodeError> {
        let bytes = self.take(count.checked_mul(4).ok_or(DecodeError::WrongLength)?)?;
        bytes.as_chunks::<4>().0.iter().map(|chunk| finite(f32::from_le_bytes(*chunk))).collect()
    }

    pub(crate) fn matrix(&mut self, rows: usize, columns: usize) -> Result<Array2<f32>, DecodeError> {
        let len = columns.checked_add(4).and_then(|row| row.checked_mul(rows)).ok_or(DecodeError::WrongLength)?;
        let mut bytes = Reader(self.take(len)?);
        let mut values = Vec::with_capacity(rows * columns);
        for _ in 0..rows {
            let scale = bytes.numbers(1)?[0];
            values.extend(bytes.take(columns)?.iter().map(|byte| f32::from(i8::from_le_bytes([*byte])) * scale));
        }
        Array2::from_shape_vec((rows, columns), values).map_err(|_| DecodeError::WrongLength)
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::WrongLength) }
    }
}

/// FNV-1a of 64 bits: finds every single damaged byte.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn finite(number: f32) -> Result<f32, DecodeError> {
    if number.is_finite() { Ok(number) } else { Err(DecodeError::InvalidValue) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_rounded_matrix_comes_back_bit_for_bit() {
        let mut random = Random::new(3);
        let matrix = Array2::from_shape_fn((40, 33), |(row, _)| if row == 7 { 0.0 } else { random.normal() * 1e-3 });
        let rounded = round_rows(&matrix);
        assert_eq!(round_rows(&rounded), rounded);
        let mut writer = Writer::new(*b"test");
        writer.matrix(&rounded);
        let bytes = writer.finish();
        assert_eq!(bytes.len(), 4 + 40 * 37 + 8);
        let mut reader = Reader::new(&bytes, *b"test").unwrap();
        assert_eq!(reader.matrix(40, 33).unwrap(), rounded);
        reader.finish().unwrap();
        for (value, rounded) in matrix.iter().zip(&rounded) {
            assert!((value - rounded).abs() <= 4e-3 / 127.0 * 0.51, "{value} {rounded}");
        }
    }

    #[test]
    fn a_length_is_checked_before_memory_is_taken() {
        let bytes = Writer::new(*b"test").finish();
        let mut reader = Reader::new(&bytes, *b"test").unwrap();
        assert_eq!(reader.matrix(usize::MAX, 8), Err(DecodeError::WrongLength));
        assert_eq!(reader.matrix(1 << 30, 1 << 20), Err(DecodeError::WrongLength));
    }
}
