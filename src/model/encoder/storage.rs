//! The stored form of the recurrent encoder.
//!
//! `PME1`, then as 32-bit counts the dimensions, the units and the tools with own rows, then the groups of parameters: those without
//! weight decay, which are short, as numbers, the others as one byte per number with a scale per row; a checksum.

use ndarray::Array2;

use super::parameters::{DECAYS, Parameters, Sizes, shapes};
use crate::bytes::{DecodeError, Reader, Writer};
use crate::own_rows::OwnRows;

const FORMAT: [u8; 4] = *b"PME1";

pub(super) fn to_bytes(parameters: &Parameters<f32>, own: &OwnRows) -> Vec<u8> {
    let mut writer = Writer::new(FORMAT);
    let sizes = parameters.sizes();
    writer.count(sizes.dim);
    writer.count(sizes.units);
    own.write(&mut writer);
    for (group, rounded) in parameters.groups().into_iter().zip(DECAYS) {
        if rounded { writer.matrix(group) } else { writer.numbers(group) }
    }
    writer.finish()
}

pub(super) fn from_bytes(bytes: &[u8]) -> Result<(Parameters<f32>, OwnRows), DecodeError> {
    let mut reader = Reader::new(bytes, FORMAT)?;
    let (dim, units) = (reader.count()?, reader.count()?);
    let own = OwnRows::read(&mut reader)?;
    let sizes = Sizes { dim, units, own: own.len() };
    if units > bytes.len() || dim > bytes.len() {
        return Err(DecodeError::WrongLength);
    }
    let mut groups = Vec::new();
    for ((rows, columns), rounded) in shapes(sizes).into_iter().zip(DECAYS) {
        groups.push(if rounded {
            reader.matrix(rows, columns)?
        } else {
            let numbers = reader.numbers(rows * columns)?;
            Array2::from_shape_vec((rows, columns), numbers).map_err(|_| DecodeError::WrongLength)?
        });
    }
    reader.finish()?;
    let mut parameters = Parameters::zeros(sizes);
    for (group, read) in parameters.groups_mut().into_iter().zip(groups) {
        *group = read;
    }
    Ok((parameters, own))
}
