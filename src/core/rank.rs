//! Ranking of tools and capabilities for an intent: pure functions of an index, which is derived from a state.
//!
//! ```text
//!  State --Index::update--> Index --signals--> 7 values per item --blend--> semantic --reliability--> score
//!                             |                                     ^
//!                             +-- calibrate: fits the weights of the signals to past intents
//! ```
//!
//! The index is computed beside the fold and consists of packed vectors for products (`packed`), words (`bm25`), items
//! (`documents`) and past intents (`intent_index`). It keeps the state it was derived from, so an answer is about one state.

pub mod bm25;
pub mod documents;
pub mod intent_index;
pub(crate) mod packed;

pub mod blend;
pub mod calibrate;
pub mod index;
pub mod signals;

pub mod discover;
pub mod reliability;
pub mod search;

pub use index::Index;

use crate::predict::parts::IntentVectors;

/// An intent to find items for, with its vectors.
#[derive(Clone, Debug, Default)]
pub struct Question {
    pub intent: String,
    /// Computed by the model of the index; `None` if there is no model or it knows none of the words.
    pub vector: Option<Vec<f32>>,
    /// The clauses of the intent; empty if it is a single clause.
    pub clauses: Vec<Clause>,
}

impl Question {
    /// The vectors of the intent and of the clauses that have one; `None` if the intent has none.
    pub fn vectors(&self) -> Option<IntentVectors> {
        let clauses = self.clause_vectors().map(<[f32]>::to_vec).collect();
        self.vector.clone().map(|whole| IntentVectors { whole, clauses })
    }

    /// The vectors of the clauses that have one.
    fn clause_vectors(&self) -> impl Iterator<Item = &[f32]> {
        self.clauses.iter().filter_map(|clause| clause.vector.as_deref())
    }
}

/// A part of an intent, with its vector if the model knows its words.
#[derive(Clone, Debug)]
pub struct Clause {
    pub text: String,
    pub vector: Option<Vec<f32>>,
}
