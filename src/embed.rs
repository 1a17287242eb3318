//! Text to vector. One port, two embedders: a table compiled into the program (`static_table`, the default: microseconds per text,
//! English), and any sentence-embedding model in ONNX form (`onnx`: better, slower, needs a library and a model on disk).

mod static_table;
mod wordpiece;

mod model_dir;
mod onnx;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, EmbedderKind};
use crate::core::id::ModelId;
use onnx::Onnx;
use static_table::StaticTable;

/// Text to vector. Vectors have length 1, or are all zero when the text holds nothing the model knows (no dense score then).
///
/// The same text gives the same vector, from whichever thread; texts embedded together get the vectors they would get alone
/// (`static`: bit for bit, `onnx`: to 1e-5, since the library sums in another order). Calls block and compute: keep them off the
/// threads that answer requests when the model is slow.
pub trait Embedder: Send + Sync + 'static {
    /// Which model: vectors of different models never mix. Contains everything that changes the vectors.
    fn model(&self) -> &ModelId;

    /// Length of every vector.
    fn dim(&self) -> usize;

    /// One vector per text, in the order of the texts.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

pub type SharedEmbedder = Arc<dyn Embedder>;

/// Where a library and a model come from.
const GET_BOTH: &str = "scripts/fetch-onnx of the source gets ONNX Runtime and a model";

#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error("no ONNX Runtime at {}; {GET_BOTH}, or set embedding.library (or ORT_DYLIB_PATH) to the shared library of your own",
        tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or "))]
    NoLibrary { tried: Vec<PathBuf> },
    #[error("cannot load ONNX Runtime (1.17 or newer) from {}; {GET_BOTH}", path.display())]
    Library {
        path: PathBuf,
        #[source]
        source: ort::LoadDynamicError,
    },
    #[error("{} holds no {missing}; {GET_BOTH}, or set embedding.model_dir to a directory with model.onnx and tokenizer.json",
        directory.display())]
    NoModel { directory: PathBuf, missing: &'static str },
    #[error("cannot use the model in {}", directory.display())]
    Model {
        directory: PathBuf,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("cannot cut a text into tokens")]
    Tokens(#[source] Box<dyn Error + Send + Sync>),
    #[error("cannot run the model")]
    Run(#[source] ort::Error),
    #[error("the model's output '{output}' has the shape {shape:?}, which is not one vector each")]
    Shape { output: String, shape: Vec<i64> },
    #[error("the model's output '{output}' is not a number in places")]
    NotANumber { output: String },
}

/// The embedder that is configured, loaded and tried.
pub fn open(config: &config::Embedding) -> Result<SharedEmbedder, EmbedError> {
    match config.embedder {
        EmbedderKind::Static => Ok(builtin()),
        EmbedderKind::Onnx => Ok(Arc::new(Onnx::open(config)?)),
    }
}

/// The one that is compiled in.
pub fn builtin() -> SharedEmbedder {
    Arc::new(StaticTable::builtin())
}

/// Brings a vector to length 1; the zero vector stays as it is.
fn normalise(vector: &mut [f32]) {
    // Eight sums side by side: fast, and the same order on every machine.
    let mut squares = [0.0_f32; 8];
    for chunk in vector.chunks(8) {
        for (sum, value) in squares.iter_mut().zip(chunk) {
            *sum += value * value;
        }
    }
    let norm = squares.iter().sum::<f32>().sqrt();
    if norm > 0.0 {
        let inverse = norm.recip();
        for value in vector {
            *value *= inverse;
        }
    }
}
