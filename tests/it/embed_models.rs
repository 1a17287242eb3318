//! Sentence-embedding models of other architectures and file layouts, tiny and with random weights: `tests/outside/models.py` makes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use pml::config::{Config, EmbedderKind, Embedding};
use pml::embed::{self, SharedEmbedder};
use tempfile::TempDir;

use crate::outside::installed;
use crate::server::pml;

/// The directory with all of them; `None` where no Python is installed.
static MODELS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embedding-models");
    drop(fs::remove_dir_all(&directory));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/models.py");
    let made = Command::new(installed("PML_TEST_PYTHON")?).arg(script).arg(&directory).status().unwrap();
    assert!(made.success());
    Some(directory)
});

fn library() -> PathBuf {
    let models = std::env::var_os("PML_TEST_MODELS").expect("no ONNX Runtime to test with: run the tests by scripts/test");
    let name = format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    PathBuf::from(models).join(name)
}

fn open(directory: &Path) -> SharedEmbedder {
    let defaults = Config::load(None, []).unwrap().embedding;
    let model_dir = directory.to_owned();
    embed::open(&Embedding { embedder: EmbedderKind::Onnx, model_dir, library: library(), ..defaults }).unwrap()
}

fn one(embedder: &SharedEmbedder, text: &str) -> Vec<f32> {
    embedder.embed(&[text]).unwrap().remove(0)
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

const TEXTS: [&str; 4] = ["copy the file", "send a letter", "copy", "read the picture and write a letter to a file"];

#[test]
fn every_kind_of_model_gives_vectors_of_length_one_alone_and_in_a_batch() {
    let Some(models) = &*MODELS else { return };
    let mut seen = 0;
    for entry in fs::read_dir(models).unwrap() {
        let directory = entry.unwrap().path();
        let embedder = open(&directory);
        let expected = if directory.ends_with("xlm-roberta") { 1_024 } else { 32 };
        assert_eq!(embedder.dim(), expected, "{}", directory.display());
        let together = embedder.embed(&TEXTS).unwrap();
        for (text, vector) in TEXTS.iter().zip(&together) {
            assert!((cosine(vector, vector) - 1.0).abs() < 1e-4, "{}: {text}", directory.display());
            // A quantised model rounds by the range of its batch.
            let least = if directory.ends_with("quantised") { 0.99 } else { 0.9999 };
            let alone = cosine(vector, &one(&embedder, text));
            assert!(alone > least, "{}: {text}: {alone}", directory.display());
        }
        assert!(cosine(&together[0], &together[1]) < 0.9999, "{}: different texts", directory.display());
        assert!(one(&embedder, "").iter().all(|value| *value == 0.0), "{}: nothing in it", directory.display());
        seen += 1;
    }
    assert_eq!(seen, 9);
}

#[test]
fn each_pooling_is_its_own_and_that_of_the_graph_is_the_mean() {
    let Some(models) = &*MODELS else { return };
    let vector = |name: &str| one(&open(&models.join(name)), TEXTS[3]);
    let kinds = ["bert-mean", "bert-cls", "bert-max", "bert-last"].map(vector);
    for (at, first) in kinds.iter().enumerate() {
        assert!(kinds[at + 1..].iter().all(|second| cosine(first, second) < 0.99), "{at}");
    }
    for name in ["pooled", "named-output"] {
        assert!(cosine(&kinds[0], &vector(name)) > 0.9999, "{name} has the same weights");
    }
    let quantised = cosine(&kinds[0], &vector("quantised"));
    assert!((0.9..0.99999).contains(&quantised), "near, and not the same: {quantised}");
}

#[test]
fn a_prefix_stands_before_every_text_and_makes_another_model() {
    let Some(models) = &*MODELS else { return };
    let [prefixed, plain] = ["prefixed", "bert-mean"].map(|name| open(&models.join(name)));
    let with = one(&prefixed, "copy the file");
    assert!(cosine(&with, &one(&plain, "query: copy the file")) > 0.9999);
    assert!(cosine(&with, &one(&plain, "copy the file")) < 0.9999);
    let digest = |embedder: &SharedEmbedder| embedder.model().as_str().split('@').nth(1).unwrap().to_owned();
    assert_ne!(digest(&prefixed), digest(&plain));
    let own = TempDir::new().unwrap();
    for name in ["model.onnx", "tokenizer.json", "1_Pooling", "config_sentence_transformers.json"] {
        std::os::unix::fs::symlink(models.join("prefixed").join(name), own.path().join(name)).unwrap();
    }
    fs::write(own.path().join("pml.json"), r#"{"prefix": "passage: "}"#).unwrap();
    assert!(cosine(&one(&open(own.path()), "copy"), &one(&plain, "passage: copy")) > 0.9999, "pml.json counts first");
}

#[test]
fn weights_beside_the_graph_are_part_of_the_model() {
    let Some(models) = &*MODELS else { return };
    let original = models.join("xlm-roberta");
    let copy = TempDir::new().unwrap();
    let copied = Command::new("cp").arg("-r").arg(&original).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    let directory = copy.path().join("xlm-roberta");
    assert_eq!(open(&directory).model(), open(&original).model());
    let weights = directory.join("onnx/model.onnx_data");
    let mut bytes = fs::read(&weights).unwrap();
    bytes[1_000] ^= 1;
    fs::write(&weights, bytes).unwrap();
    assert_ne!(open(&directory).model(), open(&original).model());
    let accents = one(&open(&original), "\u{e9}\u{6587}\u{4ef6}");
    assert!(accents.iter().any(|value| *value != 0.0), "its tokenizer knows them");
}

#[test]
fn doctor_tries_the_model_and_says_what_is_wrong_with_its_directory() {
    let Some(models) = &*MODELS else { return };
    let doctor = |directory: &Path| {
        let mut command = pml();
        command.args(["doctor", "--json", "--url", "http://127.0.0.1:9"]).current_dir(models);
        command.env("PML__EMBEDDING__EMBEDDER", "onnx").env("PML__EMBEDDING__MODEL_DIR", directory);
        let output = command.env("PML__EMBEDDING__LIBRARY", library()).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let check = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "embedder").unwrap().clone();
        (check["result"].as_str().unwrap().to_owned(), check["text"].as_str().unwrap().to_owned())
    };
    let (result, text) = doctor(&models.join("xlm-roberta"));
    assert!(result != "bad" && text.contains("1024 dimensions") && text.contains("ms per text"), "{result}: {text}");
    let broken = TempDir::new().unwrap();
    fs::write(broken.path().join("pml.json"), r#"{"graph": "other.onnx"}"#).unwrap();
    let (result, text) = doctor(broken.path());
    assert!(result == "bad" && text.contains("other.onnx"), "{result}: {text}");
}
