//! The wire types of the events about trained parts of the model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{WireBytes, WireText};

/// A part of the model was trained and measured. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelTrained<'a> {
    /// The part (`head`, `encoder`, `shgat`, `ranker`), `-`, and the first 12 digits of `digest`.
    #[serde(borrow)]
    pub(crate) version: WireText<'a>,
    /// The version that served while it was trained.
    pub(crate) parent: Option<WireText<'a>>,
    pub(crate) seed: u64,
    /// The last record that it was trained on.
    pub(crate) through_seq: u64,
    /// Intents of the memory with this number or a higher one are unseen.
    pub(crate) intents_end: u64,
    /// The embedding model whose vectors it takes.
    pub(crate) embedding_model: Option<WireText<'a>>,
    pub(crate) examples: u64,
    /// Runs that gave no example.
    pub(crate) skipped: u64,
    /// Pairs of name and value.
    pub(crate) settings: Vec<(WireText<'a>, WireText<'a>)>,
    #[serde(borrow)]
    pub(crate) metrics: Vec<ModelMetric<'a>>,
    /// Lower-case hexadecimal BLAKE3 of the parameters.
    #[serde(borrow)]
    pub(crate) digest: WireText<'a>,
    /// Length of the parameters in bytes.
    pub(crate) size: u64,
    /// Whether the gate let it in.
    pub(crate) accepted: bool,
    #[serde(borrow)]
    pub(crate) reason: WireText<'a>,
    /// The epochs of its training in order, at most 64, numbers rounded to four decimals. Absent for a part that is not trained in epochs.
    #[serde(default, borrow)]
    pub(crate) curve: Option<Vec<CurvePoint<'a>>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurvePoint<'a> {
    /// `validation`: choosing the number of epochs on runs that are held out; `fit`: training on all runs.
    #[serde(borrow)]
    pub(crate) stage: WireText<'a>,
    pub(crate) epoch: u32,
    pub(crate) loss: f64,
    /// The measure on the runs that are held out.
    pub(crate) validation: Option<f64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelMetric<'a> {
    #[serde(borrow)]
    pub(crate) name: WireText<'a>,
    pub(crate) value: f64,
    /// The number of samples it is a mean of.
    pub(crate) n: u64,
}

/// A piece of the parameters of a promoted version. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelParameters<'a> {
    #[serde(borrow)]
    pub(crate) version: WireText<'a>,
    /// From 0.
    pub(crate) piece: u32,
    pub(crate) pieces: u32,
    pub(crate) bytes: WireBytes,
}

/// A trained version began to serve. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelPromoted<'a> {
    #[serde(borrow)]
    pub(crate) version: WireText<'a>,
    #[serde(borrow)]
    pub(crate) reason: WireText<'a>,
}

/// A part went back to an earlier version, or to none. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelRolledBack<'a> {
    #[serde(borrow)]
    pub(crate) part: WireText<'a>,
    pub(crate) to: Option<WireText<'a>>,
    #[serde(borrow)]
    pub(crate) reason: WireText<'a>,
}
