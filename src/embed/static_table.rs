//! `StaticTable` is the built-in embedder: it averages one vector per `WordPiece` token. The table (`models/static-256`) is compiled
//! into the program and read in place; embedding costs microseconds per text and needs no download.
//!
//! Row `t` is `q[t] * s[t]`: 8-bit numbers with one scale per row. The vector of a text is the mean of its rows, scaled to length 1.
//! A text without a known token (such as one in another script: the table is English) has the zero vector.

use serde::Deserialize;

use super::wordpiece::Vocabulary;
use super::{EmbedError, Embedder, normalise};
use crate::core::id::ModelId;

static TABLE: &[u8] = include_bytes!("../../models/static-256/model.safetensors");

/// The model id: the name of the table, the first digits of its BLAKE3, and the version of the computation from text to vector.
/// A test compares the digits, so that the table cannot change under the same id.
const MODEL: &str = "static-256@5613cf6cc09d-1";

const DIM: usize = 256;

/// The built-in embedder.
pub(super) struct StaticTable {
    model: ModelId,
    vocabulary: Vocabulary,
    /// Signed bytes, `DIM` per token.
    rows: &'static [[u8; DIM]],
    /// Little-endian `f32`, one per token. Kept as bytes because they are not aligned.
    scales: &'static [[u8; 4]],
}

/// The header of a safetensors file: the position of each tensor in the data that follows it.
#[derive(Deserialize)]
struct SafetensorsHeader {
    q: Tensor,
    s: Tensor,
    vocab: Tensor,
}

#[derive(Deserialize)]
struct Tensor {
    data_offsets: [usize; 2],
}

impl StaticTable {
    /// The table shipped with the program, which is well formed.
    pub(super) fn builtin() -> Self {
        let (length, rest) = TABLE.split_first_chunk().expect("a safetensors file begins with the length of its header");
        let length = usize::try_from(u64::from_le_bytes(*length)).expect("the header fits in memory");
        let (header, data) = rest.split_at(length);
        let header: SafetensorsHeader = serde_json::from_slice(header).expect("the header lists q, s and vocab");
        let part = |tensor: &Tensor| &data[tensor.data_offsets[0]..tensor.data_offsets[1]];
        let vocabulary = Vocabulary::new(part(&header.vocab));
        let (rows, scales) = (part(&header.q).as_chunks().0, part(&header.s).as_chunks().0);
        assert!(rows.len() == vocabulary.len() && scales.len() == vocabulary.len(), "every token has a row and a scale");
        Self { model: MODEL.parse().expect("a valid id"), vocabulary, rows, scales }
    }

    fn vector(&self, tokens: &[u16]) -> Vec<f32> {
        let mut sum = [0.0_f32; DIM];
        for token in tokens {
            let scale = f32::from_le_bytes(self.scales[usize::from(*token)]);
            for (sum, quantised) in sum.iter_mut().zip(&self.rows[usize::from(*token)]) {
                *sum += f32::from(quantised.cast_signed()) * scale;
            }
        }
        // The mean differs from the sum by a factor, which normalising removes.
        normalise(&mut sum);
        sum.to_vec()
    }
}

impl Embedder for StaticTable {
    fn model(&self) -> &ModelId {
        &self.model
    }

    fn dim(&self) -> usize {
        DIM
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut tokens = Vec::new();
        let vector = |text: &&str| {
            tokens.clear();
            self.vocabulary.encode(text, &mut tokens);
            self.vector(&tokens)
        };
        Ok(texts.iter().map(vector).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Reference {
        text: String,
        token_ids: Vec<u16>,
        vector: Vec<f32>,
    }

    /// Texts with the tokens and vectors that the trainer of the table computed for them.
    fn references() -> Vec<Reference> {
        serde_json::from_str(include_str!("../../tests/data/static-256.reference.json")).unwrap()
    }

    fn one(table: &StaticTable, text: &str) -> Vec<f32> {
        table.embed(&[text]).unwrap().remove(0)
    }

    #[test]
    fn tokens_and_vectors_equal_the_reference() {
        let table = StaticTable::builtin();
        for Reference { text, token_ids, vector } in references() {
            let mut tokens = Vec::new();
            table.vocabulary.encode(&text, &mut tokens);
            assert_eq!(tokens, token_ids, "{text}");
            let largest = one(&table, &text).iter().zip(&vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(largest < 1e-4, "{text}: differs by {largest}");
        }
    }

    #[test]
    fn the_model_id_names_the_table() {
        let digest = blake3::hash(TABLE).to_hex();
        assert_eq!(StaticTable::builtin().model().as_str(), format!("static-256@{}-1", &digest[..12]));
    }

    #[test]
    fn vectors_have_length_one_or_are_zero() {
        let table = StaticTable::builtin();
        let squares = |text: &str| one(&table, text).iter().map(|value| value * value).sum::<f32>();
        assert!((squares("read a file") - 1.0).abs() < 1e-6);
        for nothing in ["", " \t\n", "\u{8bfb}\u{53d6}\u{6587}\u{4ef6}", "\u{41f}\u{440}\u{438}", "\u{1F600}"] {
            assert!(one(&table, nothing).iter().all(|value| *value == 0.0), "{nothing}");
        }
    }

    #[test]
    fn a_batch_gives_the_same_bits_as_one_by_one_from_every_thread() {
        let table = StaticTable::builtin();
        let references = references();
        let texts: Vec<&str> = references.iter().map(|reference| reference.text.as_str()).collect();
        let alone: Vec<Vec<f32>> = texts.iter().map(|text| one(&table, text)).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| table.embed(&texts).unwrap())).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), alone);
            }
        });
    }
}
