//! `pml embed`: computes the vectors of texts and their cosines.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::Outcome;
use super::output::Output;
use crate::config::{Config, EmbedderKind};
use crate::embed;

/// Components of a vector that are printed for people.
const SHOWN: usize = 6;

#[derive(Args)]
pub(super) struct Arguments {
    /// Texts to embed; two or more are also compared pair by pair
    #[arg(required = true, value_name = "TEXT")]
    texts: Vec<String>,
    #[command(flatten)]
    embedder: EmbedderArguments,
}

/// Arguments that select another embedder than the configured one.
#[derive(Args)]
pub(super) struct EmbedderArguments {
    /// Embedder [default: as configured]
    #[arg(long)]
    embedder: Option<EmbedderName>,
    /// Directory with model.onnx and tokenizer.json [default: as configured]
    #[arg(long, value_name = "DIR")]
    model_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum EmbedderName {
    Static,
    Onnx,
}

impl EmbedderArguments {
    /// Overrides the configured embedder.
    pub(super) fn apply(self, config: &mut Config) {
        config.embedding.embedder = match self.embedder {
            Some(EmbedderName::Static) => EmbedderKind::Static,
            Some(EmbedderName::Onnx) => EmbedderKind::Onnx,
            None => config.embedding.embedder,
        };
        config.embedding.model_dir = self.model_dir.unwrap_or_else(|| config.embedding.model_dir.clone());
    }
}

pub(super) fn run(arguments: Arguments, mut config: Config, output: &Output) -> Outcome {
    let Arguments { texts, embedder } = arguments;
    embedder.apply(&mut config);
    let embedder = embed::open(&config.embedding)?;
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = embedder.embed(&borrowed)?;
    let cosines: Vec<Vec<f32>> = vectors.iter().map(|one| vectors.iter().map(|other| dot(one, other)).collect()).collect();

    let (model, dim) = (embedder.model(), embedder.dim());
    let items = borrowed.iter().zip(&vectors).map(|(text, vector)| json!({"text": text, "vector": vector}));
    output.json(&json!({"model": model.as_str(), "dim": dim, "items": items.collect::<Vec<_>>(), "cosine": cosines}));

    output.say(format!("model {model}, {dim} dimensions"));
    let row = |(number, (text, vector)): (usize, (&&str, &Vec<f32>))| {
        let shown: Vec<String> = vector.iter().take(SHOWN).map(|value| format!("{value:+.3}")).collect();
        vec![(number + 1).to_string(), (*text).to_owned(), format!("{:.3}", dot(vector, vector).sqrt()), shown.join(" ")]
    };
    output.table(&["", "text", "length", "first components"], borrowed.iter().zip(&vectors).enumerate().map(row));
    if vectors.len() > 1 {
        let numbers: Vec<String> = (1..=vectors.len()).map(|number| number.to_string()).collect();
        let header: Vec<&str> = std::iter::once("cosine").chain(numbers.iter().map(String::as_str)).collect();
        let cells = |row: &Vec<f32>| row.iter().map(|cosine| format!("{cosine:.3}")).collect::<Vec<_>>();
        output.table(&header, numbers.iter().zip(&cosines).map(|(number, row)| [vec![number.clone()], cells(row)].concat()));
    }
    if let Some(empty) = borrowed.iter().zip(&vectors).find_map(|(text, vector)| (dot(vector, vector) == 0.0).then_some(text)) {
        output.say(format!(
            "{empty:?} has no word that this model knows; such texts are compared by their words instead of their vectors"
        ));
    }
    Ok(0)
}

/// Returns the dot product, which is the cosine of vectors of length 1.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}
