//! The stored form of the intent head.
//!
//! `PMH1`, then as 32-bit counts the dimensions and the own rows, the tools of the own rows, the three scalars, the biases, and the
//! matrices `A`, `C`, `B` and `e`; a checksum.

use ndarray::Array1;

use super::parameters::Parameters;
use crate::bytes::{DecodeError, Reader, Writer};
use crate::own_rows::OwnRows;

const FORMAT: [u8; 4] = *b"PMH1";
const SCALARS: usize = 3;

pub(super) fn to_bytes(parameters: &Parameters<f32>, own: &OwnRows) -> Vec<u8> {
    let mut writer = Writer::new(FORMAT);
    writer.count(parameters.intent.nrows());
    own.write(&mut writer);
    writer.numbers(&parameters.scalars);
    writer.numbers(&parameters.bias);
    for matrix in [&parameters.intent, &parameters.clause, &parameters.tool, &parameters.own] {
        writer.matrix(matrix);
    }
    writer.finish()
}

pub(super) fn from_bytes(bytes: &[u8]) -> Result<(Parameters<f32>, OwnRows), DecodeError> {
    let mut reader = Reader::new(bytes, FORMAT)?;
    let dim = reader.count()?;
    let own = OwnRows::read(&mut reader)?;
    let scalars = Array1::from(reader.numbers(SCALARS)?);
    let bias = Array1::from(reader.numbers(own.len() + 1)?);
    let parameters = Parameters {
        scalars,
        bias,
        intent: reader.matrix(dim, dim)?,
        clause: reader.matrix(dim, dim)?,
        tool: reader.matrix(dim, dim)?,
        own: reader.matrix(own.len(), dim)?,
    };
    reader.finish()?;
    Ok((parameters, own))
}
