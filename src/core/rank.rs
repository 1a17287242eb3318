//! Answers: what fits an intent. Pure functions of an index, which is a function of a state.
//!
//! ```text
//!  State --Index::update--> Index --signals--> 7 values per item --blend--> semantic --reliability--> score
//!                             |                                     ^
//!                             +-- calibrate: past intents say how much each signal is to be trusted
//! ```
//!
//! The index is derived and lives beside the fold: contiguous rows for vector products (`rows`), words (`bm25`), items (`documents`)
//! and past intents (`recall`). It keeps the state it was made from, so an answer is about one moment.

pub mod bm25;
pub mod documents;
pub mod recall;
pub mod rows;

pub mod blend;
pub mod calibrate;
pub mod index;
pub mod signals;

pub mod discover;
pub mod reliability;
pub mod search;

pub use index::Index;

/// A question, with its vectors where the model knows the words.
#[derive(Clone, Debug, Default)]
pub struct Question {
    pub intent: String,
    /// In the model of the index; `None` where there is none.
    pub vector: Option<Vec<f32>>,
    /// The clauses of the intent; none if it is one clause.
    pub clauses: Vec<Clause>,
}

impl Question {
    /// The vectors of those clauses that have one.
    fn clause_vectors(&self) -> impl Iterator<Item = &[f32]> {
        self.clauses.iter().filter_map(|clause| clause.vector.as_deref())
    }
}

#[derive(Clone, Debug)]
pub struct Clause {
    pub text: String,
    pub vector: Option<Vec<f32>>,
}
