//! `Onnx` embeds texts with a sentence-embedding model in ONNX form. ONNX Runtime is loaded from a shared library when the embedder
//! is opened.
//!
//! A process loads one library, the first that works; its threads belong to the session. Texts of similar length share a batch,
//! because shorter texts are padded to the longest. The session is released after every batch, so that a question does not wait for
//! a long list of texts.

use std::path::{Path, PathBuf};

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::Tensor;
use parking_lot::{Mutex, MutexGuard};
use tokenizers::Tokenizer;

use super::model_dir::{ModelDir, Pooling};
use super::{EmbedError, Embedder, normalise};
use crate::config;
use crate::core::id::ModelId;

/// Tokens of one batch, padding included; bounds its memory and the time others wait.
const BATCH_TOKENS_MAX: usize = 8_192;

/// Name of the output of graphs that do the pooling themselves.
const SENTENCE: &str = "sentence_embedding";

/// The handle of the loaded library. It must outlive every session, and a process can have only one.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// An embedder that runs an ONNX model.
pub(super) struct Onnx {
    model: ModelId,
    dim: usize,
    tokenizer: Tokenizer,
    prefix: String,
    padding: u32,
    unknown: Option<u32>,
    batch_texts_max: usize,
    inputs: Vec<ModelInput>,
    output: ModelOutput,
    session: Mutex<Session>,
}

/// The inputs that a graph may have.
#[derive(Clone, Copy)]
enum ModelInput {
    Tokens,
    Mask,
    Types,
}

impl ModelInput {
    const ALL: [Self; 3] = [Self::Tokens, Self::Mask, Self::Types];

    fn name(self) -> &'static str {
        match self {
            Self::Tokens => "input_ids",
            Self::Mask => "attention_mask",
            Self::Types => "token_type_ids",
        }
    }
}

/// The output that is read, by name.
enum ModelOutput {
    /// One vector per text.
    Sentence(String),
    /// One vector per token.
    Tokens(String, Pooling),
}

/// The tokens of one text.
struct TokenizedText {
    /// Position of the text in the list that was given to `embed`.
    index: usize,
    tokens: Vec<u32>,
}

impl Onnx {
    pub(super) fn open(config: &config::Embedding) -> Result<Self, EmbedError> {
        let library = library(config)?;
        let directory = ModelDir::read(&config.model_dir)?;
        let environment = environment(&library)?;
        let unusable = |source| EmbedError::Model { directory: config.model_dir.clone(), source };
        let session = session(&environment, &directory.graph, config.threads).map_err(|error| unusable(error.into()))?;
        let inputs = inputs(&session).map_err(|problem| unusable(problem.into()))?;
        let output = output(&session, &directory).map_err(|problem| unusable(problem.into()))?;
        let ModelDir { model, tokenizer, prefix, padding, unknown, .. } = directory;
        let (batch_texts_max, session) = (config.batch_texts_max, Mutex::new(session));
        let mut onnx = Self { model, dim: 0, tokenizer, prefix, padding, unknown, batch_texts_max, inputs, output, session };
        // Not every graph declares the length of its vectors; running one token shows it, and that the model works.
        let probe = TokenizedText { index: 0, tokens: vec![padding] };
        onnx.dim = onnx.run(&[probe])?.first().map_or(0, Vec::len);
        Ok(onnx)
    }

    /// The tokens of a text; none if the model knows nothing in it.
    fn tokenize(&self, index: usize, text: &str) -> Result<TokenizedText, EmbedError> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(EmbedError::Tokens)?;
        let mut ids = encoding.get_ids().iter().zip(encoding.get_special_tokens_mask());
        let known = ids.any(|(token, special)| *special == 0 && Some(*token) != self.unknown);
        if !known || self.prefix.is_empty() {
            return Ok(TokenizedText { index, tokens: if known { encoding.get_ids().to_vec() } else { Vec::new() } });
        }
        let encoding = self.tokenizer.encode_fast(format!("{}{text}", self.prefix), true).map_err(EmbedError::Tokens)?;
        Ok(TokenizedText { index, tokens: encoding.get_ids().to_vec() })
    }

    /// Number of texts, counted from the first, in the next batch. `texts` are sorted by length.
    fn batch_len(&self, texts: &[TokenizedText]) -> usize {
        let fits = |(before, text): (usize, &TokenizedText)| (before + 1) * text.tokens.len() <= BATCH_TOKENS_MAX;
        let fitting = texts.iter().enumerate().take(self.batch_texts_max).take_while(|text| fits(*text)).count();
        fitting.max(1)
    }

    fn run(&self, batch: &[TokenizedText]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let longest = batch.iter().map(|text| text.tokens.len()).max().unwrap_or(0);
        let tensor = |input: ModelInput| {
            let (of_token, of_padding): (fn(u32) -> i64, i64) = match input {
                ModelInput::Tokens => (i64::from, i64::from(self.padding)),
                ModelInput::Mask => (|_| 1, 0),
                ModelInput::Types => (|_| 0, 0),
            };
            let mut values = Vec::with_capacity(batch.len() * longest);
            for text in batch {
                values.extend(text.tokens.iter().map(|token| of_token(*token)));
                values.resize(values.len() + longest - text.tokens.len(), of_padding);
            }
            Tensor::from_array(([batch.len(), longest], values))
        };
        let inputs = self.inputs.iter().map(|input| Ok((input.name(), tensor(*input)?)));
        let inputs = inputs.collect::<ort::Result<Vec<_>>>().map_err(EmbedError::Run)?;

        let mut session = self.session.lock();
        let result = self.vectors(&mut session, inputs, batch, longest);
        // Fair: the longest waiting thread gets the session next. Otherwise the loop that just held it would get it again.
        MutexGuard::unlock_fair(session);
        result
    }

    fn vectors(
        &self,
        session: &mut Session,
        inputs: Vec<(&'static str, Tensor<i64>)>,
        batch: &[TokenizedText],
        longest: usize,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let outputs = session.run(inputs).map_err(EmbedError::Run)?;
        let (ModelOutput::Sentence(name) | ModelOutput::Tokens(name, _)) = &self.output;
        let (shape, values) = outputs[name.as_str()].try_extract_tensor::<f32>().map_err(EmbedError::Run)?;
        let rows = if matches!(self.output, ModelOutput::Sentence(_)) { batch.len() } else { batch.len() * longest };
        let dim = shape.last().and_then(|dim| usize::try_from(*dim).ok()).unwrap_or(0);
        if dim == 0 || values.len() != rows * dim || (self.dim != 0 && dim != self.dim) {
            return Err(EmbedError::Shape { output: name.clone(), shape: shape.to_vec() });
        }
        let mut vectors: Vec<Vec<f32>> = match self.output {
            ModelOutput::Sentence(_) => values.chunks_exact(dim).map(<[f32]>::to_vec).collect(),
            ModelOutput::Tokens(_, pooling) => {
                let texts = values.chunks_exact(longest * dim).zip(batch);
                texts.map(|(values, text)| pool(pooling, &values[..text.tokens.len() * dim], dim)).collect()
            }
        };
        for vector in &mut vectors {
            normalise(vector);
            if !vector.iter().all(|value| value.is_finite()) {
                return Err(EmbedError::NotANumber { output: name.clone() });
            }
        }
        Ok(vectors)
    }
}

impl Embedder for Onnx {
    fn model(&self) -> &ModelId {
        &self.model
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let tokenized = texts.iter().enumerate().map(|(index, text)| self.tokenize(index, text));
        let mut tokenized = tokenized.collect::<Result<Vec<_>, _>>()?;
        tokenized.retain(|text| !text.tokens.is_empty());
        tokenized.sort_by_key(|text| text.tokens.len());
        let mut vectors = vec![vec![0.0; self.dim]; texts.len()];
        let mut rest = tokenized.as_slice();
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.batch_len(rest));
            for (text, vector) in batch.iter().zip(self.run(batch)?) {
                vectors[text.index] = vector;
            }
            rest = later;
        }
        Ok(vectors)
    }
}

/// Pools the vectors of a text's tokens into one. It is normalised later, so the mean needs no division.
fn pool(pooling: Pooling, values: &[f32], dim: usize) -> Vec<f32> {
    let mut tokens = values.chunks_exact(dim);
    let fold = |mut pooled: Vec<f32>, token: &[f32], both: fn(f32, f32) -> f32| {
        for (pooled, value) in pooled.iter_mut().zip(token) {
            *pooled = both(*pooled, *value);
        }
        pooled
    };
    let first = tokens.next().map(<[f32]>::to_vec).unwrap_or_default();
    match pooling {
        Pooling::Mean => tokens.fold(first, |pooled, token| fold(pooled, token, |a, b| a + b)),
        Pooling::Max => tokens.fold(first, |pooled, token| fold(pooled, token, f32::max)),
        Pooling::Cls => first,
        Pooling::Last => tokens.next_back().map_or(first, <[f32]>::to_vec),
    }
}

/// Path of the ONNX Runtime library: the configured one, else the one beside the model or one directory up, where
/// `scripts/fetch-onnx` puts it.
fn library(config: &config::Embedding) -> Result<PathBuf, EmbedError> {
    let configured = &config.library;
    // A bare file name is resolved by the system's loader.
    if configured.components().count() == 1 && !configured.is_file() {
        return Ok(configured.clone());
    }
    let tried = if configured.as_os_str().is_empty() {
        let name = format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let directory = std::path::absolute(&config.model_dir).unwrap_or_else(|_| config.model_dir.clone());
        [Some(directory.as_path()), directory.parent()].into_iter().flatten().map(|place| place.join(&name)).collect()
    } else {
        vec![std::path::absolute(configured).unwrap_or_else(|_| configured.clone())]
    };
    tried.iter().find(|path| path.is_file()).cloned().ok_or(EmbedError::NoLibrary { tried })
}

fn environment(library: &Path) -> Result<Environment, EmbedError> {
    let mut loaded = ENVIRONMENT.lock();
    if let Some(environment) = &*loaded {
        return Ok(environment.clone());
    }
    let builder = ort::init_from(library).map_err(|source| EmbedError::Library { path: library.to_owned(), source })?;
    let environment = builder.with_telemetry(false).build().map_err(EmbedError::Run)?;
    *loaded = Some(environment.clone());
    Ok(environment)
}

/// Opens a session. Its threads do not spin while they wait, which would slow down everything else on the machine.
fn session(environment: &Environment, graph: &Path, threads: usize) -> ort::Result<Session> {
    Session::builder(environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_deterministic_compute(true)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        .commit_from_file(graph)
}

fn inputs(session: &Session) -> Result<Vec<ModelInput>, String> {
    let known = |name: &str| ModelInput::ALL.into_iter().find(|input| input.name() == name);
    let unknown = |name: &str| format!("the graph wants '{name}'; known inputs are input_ids, attention_mask, token_type_ids");
    session.inputs().iter().map(|input| known(input.name()).ok_or_else(|| unknown(input.name()))).collect()
}

fn output(session: &Session, directory: &ModelDir) -> Result<ModelOutput, String> {
    let names = |rank: usize| {
        let outputs = session.outputs().iter();
        outputs
            .filter(move |output| output.dtype().tensor_shape().is_some_and(|shape| shape.len() == rank))
            .map(ort::value::Outlet::name)
    };
    if let Some(wanted) = &directory.output {
        let found = names(2).find(|name| name == wanted);
        let found = found.ok_or_else(|| format!("pml.json: output: the graph gives no '{wanted}' with one vector per text"))?;
        return Ok(ModelOutput::Sentence(found.to_owned()));
    }
    if directory.pooling_wanted.is_none() && names(2).any(|name| name == SENTENCE) {
        return Ok(ModelOutput::Sentence(SENTENCE.to_owned()));
    }
    let tokens = names(3).next().ok_or_else(|| format!("the graph gives neither '{SENTENCE}' nor vectors of tokens"))?;
    let pooling = directory.pooling_wanted.or(directory.pooling).ok_or_else(|| {
        let where_to = r#"write pml.json with {"pooling": "mean"}, "cls", "max" or "last""#;
        format!("nothing says how to pool the vectors of tokens; {where_to}, as its authors say")
    })?;
    Ok(ModelOutput::Tokens(tokens.to_owned(), pooling))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_pooled_as_asked() {
        // Three tokens of two dimensions.
        let values = [1.0, 8.0, 5.0, 2.0, 3.0, 2.0];
        let check = |pooling: Pooling, expected: [f32; 2]| assert_eq!(pool(pooling, &values, 2), expected, "{pooling:?}");
        // The sum has the direction of the mean, and normalising removes the factor.
        check(Pooling::Mean, [9.0, 12.0]);
        check(Pooling::Cls, [1.0, 8.0]);
        check(Pooling::Max, [5.0, 8.0]);
        check(Pooling::Last, [3.0, 2.0]);
        assert_eq!(pool(Pooling::Last, &values[..2], 2), [1.0, 8.0]);
    }
}
