//! A real ONNX model, run by the real library: its vectors, and what is said when one of them is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use pml::config::{Config, EmbedderKind, Embedding};
use pml::embed::{self, SharedEmbedder};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::pml;

/// Where `scripts/fetch-onnx` put the library and the model.
fn models() -> PathBuf {
    let directory = std::env::var_os("PML_TEST_MODELS").expect("no ONNX model to test with: run the tests by scripts/test");
    directory.into()
}

fn config(model_dir: &Path) -> Embedding {
    let defaults = Config::load(None, []).unwrap().embedding;
    Embedding { embedder: EmbedderKind::Onnx, model_dir: model_dir.to_owned(), ..defaults }
}

static MINILM: LazyLock<SharedEmbedder> = LazyLock::new(|| embed::open(&config(&models().join("minilm"))).unwrap());

/// What opening fails with, as a person reads it.
fn refusal(config: &Embedding) -> String {
    let error = embed::open(config).err().expect("it cannot be opened");
    anyhow::Error::from(error).chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A directory with the files of the model, as links, but for those that are left out.
fn model_without(left_out: &[&str]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for entry in fs::read_dir(models().join("minilm")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !left_out.contains(&name) {
            std::os::unix::fs::symlink(&path, directory.path().join(name)).unwrap();
        }
    }
    directory
}

/// The model elsewhere, with the library where it always was.
fn config_of(directory: &TempDir) -> Embedding {
    let name = format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    Embedding { library: models().join(name), ..config(directory.path()) }
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

fn largest_difference(ones: &[Vec<f32>], others: &[Vec<f32>]) -> f32 {
    assert_eq!(ones.len(), others.len());
    let differences = ones.iter().flatten().zip(others.iter().flatten()).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max)
}

#[derive(Deserialize)]
struct Reference {
    text: String,
    vector: Vec<f32>,
}

fn references() -> Vec<Reference> {
    serde_json::from_str(include_str!("../data/minilm.reference.json")).unwrap()
}

const TEXTS: [&str; 7] = [
    "take a screenshot",
    "a",
    "",
    "Cancel my 8 o'clock alarm and set it to 6:30 every day.",
    "read a file from disk, count its lines, and write the number of lines into another file next to it",
    "\u{1F600}",
    "create a pull request",
];

#[test]
fn vectors_equal_those_of_the_original_model() {
    for Reference { text, vector } in references() {
        let ours = MINILM.embed(&[&text]).unwrap().remove(0);
        assert_eq!(ours.len(), MINILM.dim());
        let cosine = dot(&ours, &vector);
        assert!(cosine > 0.999, "{text}: cosine {cosine}");
        assert!((dot(&ours, &ours) - 1.0).abs() < 1e-5, "{text}: not of length 1");
    }
}

#[test]
fn a_batch_gives_the_vectors_of_one_by_one_from_every_thread() {
    let alone: Vec<Vec<f32>> = TEXTS.iter().map(|text| MINILM.embed(&[text]).unwrap().remove(0)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| MINILM.embed(&TEXTS).unwrap())).collect();
        let together: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(together.iter().all(|vectors| *vectors == together[0]), "the same batch gave different bits");
        let difference = largest_difference(&together[0], &alone);
        assert!(difference < 1e-5, "differs by {difference}");
    });
    let small = Embedding { batch_texts_max: 2, threads: 1, ..config(&models().join("minilm")) };
    let difference = largest_difference(&embed::open(&small).unwrap().embed(&TEXTS).unwrap(), &alone);
    assert!(difference < 1e-5, "small batches differ by {difference}");
}

#[test]
fn text_the_model_does_not_know_has_the_zero_vector() {
    for nothing in ["", "  ", "\u{1F600}"] {
        assert!(MINILM.embed(&[nothing]).unwrap()[0].iter().all(|value| *value == 0.0), "{nothing:?}");
    }
}

#[test]
fn pooling_outside_the_graph_gives_what_the_graph_gives() {
    let directory = model_without(&[]);
    fs::write(directory.path().join("pml.json"), r#"{"pooling": "mean"}"#).unwrap();
    let pooled = embed::open(&config_of(&directory)).unwrap();
    let difference = largest_difference(&pooled.embed(&TEXTS).unwrap(), &MINILM.embed(&TEXTS).unwrap());
    assert!(difference < 1e-5, "differs by {difference}");
    assert_ne!(pooled.model(), MINILM.model());
}

#[test]
fn the_model_id_follows_what_makes_the_vectors_and_nothing_else() {
    let digest = |directory: &TempDir| {
        let embedder = embed::open(&config_of(directory)).unwrap();
        embedder.model().as_str().rsplit('@').next().unwrap().to_owned()
    };
    let same = model_without(&[]);
    fs::write(same.path().join("README.md"), "whatever").unwrap();
    fs::write(same.path().join("notes"), "whatever").unwrap();
    assert!(MINILM.model().as_str().ends_with(&digest(&same)), "{}", MINILM.model());
    fs::write(same.path().join("pml.json"), r#"{"tokens_max": 8}"#).unwrap();
    let shorter = digest(&same);
    assert!(!MINILM.model().as_str().ends_with(&shorter));
    fs::write(same.path().join("pml.json"), r#"{"tokens_max": 9}"#).unwrap();
    assert_ne!(digest(&same), shorter);
}

#[test]
fn long_texts_are_cut_and_not_refused() {
    let long = "word ".repeat(5_000);
    let vectors = MINILM.embed(&[&long, &long[..5 * 254]]).unwrap();
    assert!(dot(&vectors[0], &vectors[1]) > 0.9999);
}

#[test]
fn what_is_missing_is_named_with_what_to_run() {
    let empty = TempDir::new().unwrap();
    let check = |config: &Embedding, expected: &[&str]| {
        let said = refusal(config);
        for expected in expected {
            assert!(said.contains(expected), "no {expected:?} in {said:?}");
        }
    };
    check(&config(empty.path()), &["no ONNX Runtime at", "scripts/fetch-onnx", "embedding.library", "ORT_DYLIB_PATH"]);
    let nowhere = Embedding { library: "/nonexistent/libonnxruntime.so".into(), ..config(empty.path()) };
    check(&nowhere, &["no ONNX Runtime at /nonexistent/libonnxruntime.so", "scripts/fetch-onnx"]);
    check(&config_of(&empty), &["holds no model.onnx", "scripts/fetch-onnx", "embedding.model_dir"]);
    check(&config_of(&model_without(&["tokenizer.json"])), &["holds no tokenizer.json"]);
    // The graph without its weights.
    check(&config_of(&model_without(&["model.safetensors"])), &["cannot use the model in", "model.safetensors"]);
}

#[test]
fn a_model_that_would_give_wrong_vectors_is_refused() {
    let check = |file: &str, text: &str, expected: &str| {
        let directory = model_without(&[file]);
        fs::write(directory.path().join(file), text).unwrap();
        let said = refusal(&config_of(&directory));
        assert!(said.contains(expected), "{said}");
    };
    check("modules.json", r#"[{"type": "sentence_transformers.models.Dense"}]"#, "Dense");
    check("pml.json", r#"{"poling": "mean"}"#, "poling");
    check("pml.json", r#"{"tokens_max": 1}"#, "8 to 8192");
    check("model.onnx", "no graph", "cannot use the model in");
    check("tokenizer.json", "{}", "cannot use the model in");
}

/// The program's exit code and the JSON it printed.
fn run(arguments: &[&str], settings: &[(&str, &Path)]) -> (i32, Value) {
    let mut command = pml();
    command.args(arguments).arg("--json").env_remove("ORT_DYLIB_PATH").envs(settings.iter().copied());
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    (output.status.code().expect("it was not killed"), value)
}

#[test]
fn the_command_prints_vectors_and_how_alike_they_are() {
    let minilm = models().join("minilm");
    let texts = ["take a screenshot of the page", "capture the screen", "what is the weather in Paris tomorrow?"];
    for choice in [&["--embedder", "static"][..], &["--embedder", "onnx", "--model-dir", minilm.to_str().unwrap()]] {
        let (code, printed) = run(&[&["embed"], &texts[..], choice].concat(), &[]);
        assert_eq!(code, 0, "{printed}");
        let cosine = |one: usize, other: usize| printed["cosine"][one][other].as_f64().unwrap();
        assert!(cosine(0, 1) > cosine(0, 2) + 0.2, "{}", printed["cosine"]);
        assert_eq!(printed["items"][1]["text"], json!(texts[1]));
        assert_eq!(printed["items"][1]["vector"].as_array().unwrap().len() as u64, printed["dim"].as_u64().unwrap());
    }
}

#[test]
fn a_library_that_is_none_is_an_error_and_the_doctor_says_what_to_run() {
    let home = TempDir::new().unwrap();
    let library = home.path().join("libonnxruntime.so");
    fs::write(&library, "no library").unwrap();
    let model = models().join("minilm");
    let settings =
        [("PML__EMBEDDING__EMBEDDER", Path::new("onnx")), ("PML__EMBEDDING__MODEL_DIR", &model), ("ORT_DYLIB_PATH", &library)];
    let (code, printed) = run(&["embed", "a"], &settings);
    assert_eq!(code, 1);
    assert!(printed["error"].as_str().unwrap().starts_with("cannot load ONNX Runtime"), "{printed}");

    let finding = |settings: &[(&str, &Path)]| {
        let (_, printed) = run(&["doctor"], &[settings, &[("PML__DATA_DIR", home.path())]].concat());
        printed["checks"].as_array().unwrap().iter().find(|check| check["check"] == "embedder").unwrap().clone()
    };
    let bad = finding(&settings);
    assert_eq!(bad["result"], "bad");
    assert!(bad["text"].as_str().unwrap().contains("scripts/fetch-onnx"), "{bad}");
    assert_eq!(finding(&settings[..2])["result"], "ok");
    assert!(finding(&[])["text"].as_str().unwrap().starts_with("static-256@"));
}
