//! The data of the events about trained parts of the model.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::id::Seq;

/// A part of the model that is trained, promoted and rolled back by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelPart {
    /// The intent head: how well a tool fits an intent.
    Head,
    /// The recurrent encoder: which call follows the calls so far.
    Encoder,
    /// SHGAT: which capability an intent is about.
    Shgat,
    /// The weights that join all signals into one score.
    Ranker,
}

impl ModelPart {
    pub const ALL: [Self; 4] = [Self::Head, Self::Encoder, Self::Shgat, Self::Ranker];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Encoder => "encoder",
            Self::Shgat => "shgat",
            Self::Ranker => "ranker",
        }
    }
}

impl fmt::Display for ModelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ModelPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|part| part.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a part of the model: head, encoder, shgat or ranker"))
    }
}

/// The name of one trained version of a part: `head-` and the first digits of the digest of its parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelVersion(Arc<str>);

impl ModelVersion {
    /// Hexadecimal digits of the digest in a version.
    const DIGITS: usize = 12;

    /// The version of parameters with this digest.
    pub fn new(part: ModelPart, digest: &str) -> Self {
        Self(format!("{part}-{}", digest.get(..Self::DIGITS).unwrap_or(digest)).into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn part(&self) -> ModelPart {
        let name = self.0.split('-').next().unwrap_or_default();
        name.parse().expect("a version was checked when it was made")
    }
}

impl fmt::Display for ModelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ModelVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (part, digits) = text.split_once('-').ok_or("must be a part, '-' and digits of a digest")?;
        part.parse::<ModelPart>()?;
        let is_hex = digits.len() == Self::DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex { Ok(Self(text.into())) } else { Err(format!("'{digits}' is not {} hexadecimal digits", Self::DIGITS)) }
    }
}

/// One measured number of a training run.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelMetric {
    pub name: String,
    pub value: f64,
    /// The number of samples it is a mean of.
    pub n: u64,
}

/// What an epoch of a training was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveStage {
    /// Choosing the number of epochs on runs that are held out.
    Validation,
    /// Training on all runs.
    Fit,
}

impl CurveStage {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Fit => "fit",
        }
    }
}

impl FromStr for CurveStage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Validation, Self::Fit].into_iter().find(|stage| stage.name() == text);
        found.ok_or_else(|| format!("'{text}' is not validation or fit"))
    }
}

/// One epoch of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    pub stage: CurveStage,
    /// Epochs done in this stage.
    pub epoch: u32,
    pub loss: f64,
    /// The measure on the runs that are held out.
    pub validation: Option<f64>,
}

/// A part of the model was trained and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTrained {
    pub version: ModelVersion,
    /// The version that served while it was trained.
    pub parent: Option<ModelVersion>,
    pub seed: u64,
    /// The last record that it was trained on.
    pub through_seq: Seq,
    /// The number that the next new intent of the memory had: intents with this number or a higher one are unseen.
    pub intents_end: u64,
    /// The embedding model whose vectors it takes; none if it takes no vectors.
    pub embedding_model: Option<String>,
    /// Examples learnt from, and runs that gave none.
    pub examples: u64,
    pub skipped: u64,
    /// Name and value of every setting.
    pub settings: Vec<(String, String)>,
    pub metrics: Vec<ModelMetric>,
    /// Lower-case hexadecimal BLAKE3 of the parameters, and their length in bytes.
    pub digest: String,
    pub size: u64,
    /// Whether the gate let it in, and why or why not.
    pub accepted: bool,
    pub reason: String,
    /// The epochs of its training in order, stage by stage, rounded; empty for a part that is not trained in epochs.
    pub curve: Vec<CurvePoint>,
}

/// A piece of the parameters of a promoted version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelParameters {
    pub version: ModelVersion,
    /// The number of this piece, from 0, and of all pieces.
    pub piece: u32,
    pub pieces: u32,
    pub bytes: Arc<[u8]>,
}

/// A trained version began to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPromoted {
    pub version: ModelVersion,
    pub reason: String,
}

/// A part went back to an earlier version, or to none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRolledBack {
    pub part: ModelPart,
    /// The version that serves from now on.
    pub to: Option<ModelVersion>,
    pub reason: String,
}
