//! Embedders turn texts into vectors. The port is [`Embedder`]; its adapters are a table compiled into the program (`static_table`,
//! the default: microseconds per text, English) and sentence-embedding models in ONNX form (`onnx`: better, slower, needs a shared
//! library and a model on disk).

mod static_table;
mod wordpiece;

mod model_dir;
mod onnx;

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::config::{self, EmbedderKind};
use crate::core::id::ModelId;
use onnx::Onnx;
use static_table::StaticTable;

/// An embedder computes the vector of a text. Vectors have length 1, or are all zero when the text holds nothing the model knows
/// (such a text has no dense score).
///
/// The same text gives the same vector on every thread. Texts embedded in one batch get the vectors they would get alone (`static`:
/// bit for bit, `onnx`: to 1e-5, because the library sums in another order). Calls block and compute: keep them off the threads
/// that answer requests when the model is slow.
pub trait Embedder: Send + Sync + 'static {
    /// Id of the model. It covers everything that changes the vectors, and vectors of different models are never compared.
    fn model(&self) -> &ModelId;

    /// Length of every vector.
    fn dim(&self) -> usize;

    /// One vector per text, in the order of the texts.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

pub type SharedEmbedder = Arc<dyn Embedder>;

/// The hint of error messages: where to get the library and a model.
const GET_BOTH: &str = "scripts/fetch-onnx of the source gets ONNX Runtime and a model";

/// Why an embedder cannot be opened or cannot embed a text.
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

/// Opens the configured embedder. An ONNX model is loaded and run once, so that a broken one is noticed here.
pub fn open(config: &config::Embedding) -> Result<SharedEmbedder, EmbedError> {
    match config.embedder {
        EmbedderKind::Static => Ok(builtin()),
        EmbedderKind::Onnx => Ok(Arc::new(Onnx::open(config)?)),
    }
}

/// The embedder that is compiled into the program.
pub fn builtin() -> SharedEmbedder {
    static TABLE: LazyLock<Arc<StaticTable>> = LazyLock::new(|| Arc::new(StaticTable::builtin()));
    Arc::clone(&*TABLE) as SharedEmbedder
}

/// Scales a vector to length 1; the zero vector stays zero.
fn normalise(vector: &mut [f32]) {
    // Eight separate sums: fast, and added in the same order on every machine.
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
