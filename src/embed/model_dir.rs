//! `ModelDir` is a directory with a sentence-embedding model: its files, its tokenizer and its pooling.
//!
//! | file | required | content |
//! |---|---|---|
//! | `model.onnx`, or `onnx/model.onnx` | yes | the graph; weights may be in files beside it that it names |
//! | `tokenizer.json` | yes | the tokenizer. Its padding and truncation settings are replaced: they are made for batches of fixed length |
//! | `1_Pooling/config.json` | unless the graph pools | how the vectors of tokens are pooled into one (sentence-transformers) |
//! | `sentence_bert_config.json` | no | `max_seq_length` |
//! | `modules.json` | no | may list only a transformer, pooling and normalising: the graph would lack any other module |
//! | `config_sentence_transformers.json` | no | the prompt that is put before texts by default |
//! | `pml.json` | no | settings for pml, which override the others: `pooling` ("mean", "cls", "max", "last"), `tokens_max`, `prefix` (put before every text), `graph` (the file), `output` (of the graph, one vector per text) |

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokenizers::{Tokenizer, TruncationParams};

use super::EmbedError;
use crate::core::id::ModelId;

/// Where the graph is looked for, unless `pml.json` names it.
const GRAPHS: [&str; 2] = ["model.onnx", "onnx/model.onnx"];
const TOKENIZER: &str = "tokenizer.json";

/// Used where no file gives a limit: the longest input of most sentence encoders.
const TOKENS_MAX_DEFAULT: usize = 512;
/// The lower bound leaves room for a word and the special tokens, the upper one bounds the memory of a batch of one text.
const TOKENS_MAX_RANGE: std::ops::RangeInclusive<usize> = 8..=8_192;

/// Hexadecimal digits of the digest in the model id.
const DIGEST_DIGITS: usize = 16;
/// Version of the computation from text to vector in this program; raised when the same text would get another vector.
const VERSION: u64 = 1;

/// How the vectors of a text's tokens become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pooling {
    Mean,
    /// The first token.
    Cls,
    Max,
    /// The last token.
    Last,
}

/// The parts of a model directory, read and checked.
pub(super) struct ModelDir {
    pub(super) model: ModelId,
    pub(super) graph: PathBuf,
    pub(super) tokenizer: Tokenizer,
    /// From `pml.json`; overrides the pooling of the graph.
    pub(super) pooling_wanted: Option<Pooling>,
    /// From `1_Pooling/config.json`.
    pub(super) pooling: Option<Pooling>,
    /// From `pml.json`: the output with one vector per text.
    pub(super) output: Option<String>,
    /// Put before every text.
    pub(super) prefix: String,
    pub(super) padding: u32,
    /// The token of words that the tokenizer does not know.
    pub(super) unknown: Option<u32>,
}

/// The content of `pml.json`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PmlJson {
    pooling: Option<Pooling>,
    tokens_max: Option<usize>,
    prefix: Option<String>,
    graph: Option<PathBuf>,
    output: Option<String>,
}

/// What is read of `config_sentence_transformers.json`.
#[derive(Default, Deserialize)]
struct SentenceTransformers {
    #[serde(default)]
    prompts: BTreeMap<String, String>,
    default_prompt_name: Option<String>,
}

impl SentenceTransformers {
    fn into_default_prompt(mut self) -> Option<String> {
        self.prompts.remove(&self.default_prompt_name?)
    }
}

#[derive(Deserialize)]
struct SentenceBert {
    max_seq_length: Option<usize>,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

impl ModelDir {
    pub(super) fn read(directory: &Path) -> Result<Self, EmbedError> {
        let unusable = |source| EmbedError::Model { directory: directory.to_owned(), source };
        let missing = |missing| EmbedError::NoModel { directory: directory.to_owned(), missing };
        let own: PmlJson = json(directory, "pml.json").map_err(unusable)?.unwrap_or_default();
        let graph = match &own.graph {
            Some(named) if directory.join(named).is_file() => named.clone(),
            Some(named) => return Err(unusable(format!("pml.json: graph: there is no file '{}'", named.display()).into())),
            None => GRAPHS.into_iter().find(|name| directory.join(name).is_file()).ok_or_else(|| missing(GRAPHS[0]))?.into(),
        };
        if !directory.join(TOKENIZER).is_file() {
            return Err(missing(TOKENIZER));
        }
        Self::parse(directory, &graph, own).map_err(unusable)
    }

    fn parse(directory: &Path, graph: &Path, own: PmlJson) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let sentence_bert: Option<SentenceBert> = json(directory, "sentence_bert_config.json")?;
        let modules: Vec<Module> = json(directory, "modules.json")?.unwrap_or_default();
        if let Some(module) = modules.iter().find(|module| !is_known(&module.kind)) {
            return Err(format!("modules.json: '{}' is not part of the graph", module.kind).into());
        }
        let pooling = json(directory, "1_Pooling/config.json")?.map(|config| pooling(&config)).transpose()?;

        let mut tokenizer = Tokenizer::from_file(directory.join(TOKENIZER))?;
        let tokens_max = own
            .tokens_max
            .or(sentence_bert.and_then(|config| config.max_seq_length))
            .or(tokenizer.get_truncation().map(|truncation| truncation.max_length))
            .unwrap_or(TOKENS_MAX_DEFAULT);
        if !TOKENS_MAX_RANGE.contains(&tokens_max) {
            let (min, max) = (TOKENS_MAX_RANGE.start(), TOKENS_MAX_RANGE.end());
            return Err(format!("{tokens_max} tokens per text; set tokens_max in pml.json, {min} to {max}").into());
        }
        let named = |names: [&str; 2]| names.into_iter().find_map(|name| tokenizer.token_to_id(name));
        let unknown = named(["[UNK]", "<unk>"]);
        let padding = tokenizer.get_padding().map(|padding| padding.pad_id).or(named(["[PAD]", "<pad>"])).unwrap_or(0);
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(TruncationParams { max_length: tokens_max, ..TruncationParams::default() }))?;

        let prompts: SentenceTransformers = json(directory, "config_sentence_transformers.json")?.unwrap_or_default();
        let prefix = own.prefix.or(prompts.into_default_prompt()).unwrap_or_default();

        // What models without them have is unchanged, so that their ids are too.
        let has_more = !prefix.is_empty() || own.output.is_some();
        let more = if has_more { format!(" {prefix:?} {:?}", own.output) } else { String::new() };
        let settings = format!("{tokens_max} {:?} {pooling:?}{more}", own.pooling);
        let graph = directory.join(graph);
        let model = model_id(directory, &graph, &settings)?;
        let (pooling_wanted, output) = (own.pooling, own.output);
        Ok(Self { model, graph, tokenizer, pooling_wanted, pooling, output, prefix, padding, unknown })
    }
}

fn is_known(module: &str) -> bool {
    ["Transformer", "Pooling", "Normalize"].contains(&module.rsplit('.').next().unwrap_or_default())
}

fn json<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<Option<T>, Box<dyn Error + Send + Sync>> {
    match fs::read(directory.join(name)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("{name}: {error}").into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{name}: {error}").into()),
    }
}

/// Reads which pooling is switched on: `"pooling_mode": "mean"`, or one of the older `"pooling_mode_...": true`.
fn pooling(config: &serde_json::Map<String, serde_json::Value>) -> Result<Pooling, String> {
    let switched_on = |key: &str| config.get(key).and_then(serde_json::Value::as_bool).unwrap_or(false);
    let old = config.keys().filter_map(|key| key.strip_prefix("pooling_mode_").filter(|_| switched_on(key)));
    let new = config.get("pooling_mode").and_then(serde_json::Value::as_str);
    let modes: Vec<&str> = new.into_iter().chain(old).collect();
    match modes.as_slice() {
        // These differ by a factor, which normalising removes.
        ["mean" | "mean_tokens" | "mean_sqrt_len_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::Cls),
        ["max" | "max_tokens"] => Ok(Pooling::Max),
        ["lasttoken"] => Ok(Pooling::Last),
        modes => Err(format!("1_Pooling/config.json: cannot pool by {modes:?}")),
    }
}

/// The model id: the directory's name, for people, and a digest of everything that determines the vectors.
fn model_id(directory: &Path, graph_file: &Path, settings: &str) -> Result<ModelId, Box<dyn Error + Send + Sync>> {
    let graph = fs::read(graph_file)?;
    let mut hasher = blake3::Hasher::new();
    let tokenizer = fs::read(directory.join(TOKENIZER))?;
    for part in [&VERSION.to_le_bytes(), settings.as_bytes(), &tokenizer, &graph] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let beside = graph_file.parent().unwrap_or(directory);
    for name in weights(beside, graph_file, &graph)? {
        let file = fs::File::open(beside.join(&name))?;
        hasher.update(name.as_bytes()).update(&file.metadata()?.len().to_le_bytes()).update_reader(file)?;
    }
    let digest = hasher.finalize().to_hex();
    let full = fs::canonicalize(directory)?;
    let name = full.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name: String = name.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).take(64).collect();
    Ok(format!("{name}@{}", &digest[..DIGEST_DIGITS]).parse()?)
}

/// Files beside the graph that hold its weights (external data): those whose names occur in the graph.
fn weights(directory: &Path, graph_file: &Path, graph: &[u8]) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_text = [".json", ".txt", ".md"].iter().any(|end| name.ends_with(end));
        let candidate = !is_text && entry.path() != graph_file && entry.path().is_file();
        if candidate && memchr::memmem::find(graph, name.as_bytes()).is_some() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_is_read_in_the_old_and_the_new_form() {
        let read = |text: &str| pooling(&serde_json::from_str(text).unwrap());
        let old = r#"{"word_embedding_dimension": 8, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#;
        assert_eq!(read(old), Ok(Pooling::Cls));
        assert_eq!(read(r#"{"pooling_mode_lasttoken": true, "include_prompt": true}"#), Ok(Pooling::Last));
        assert_eq!(read(r#"{"pooling_mode": "max"}"#), Ok(Pooling::Max));
        assert_eq!(read(r#"{"pooling_mode_mean_sqrt_len_tokens": true}"#), Ok(Pooling::Mean));
        // Two poolings are concatenated, which is not supported.
        assert!(read(r#"{"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}"#).is_err());
        assert!(read(r#"{"pooling_mode_weightedmean_tokens": true}"#).is_err());
    }
}
