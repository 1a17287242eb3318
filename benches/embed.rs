//! Text to vector, one text of 58 tokens at a time, and opening the built-in embedder, which every command that needs one does.
//! With `PML_TEST_MODELS` set, as `scripts/test` sets it, also the ONNX model.
//!
//! `cargo bench --bench embed`

#![expect(clippy::unwrap_used, reason = "a benchmark whose input is wrong must stop")]

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use pml::config::{Config, EmbedderKind};
use pml::embed;

const TEXT: &str = concat!(
    "Read the complete contents of a file from the file system as text. Handles various text encodings and provides detailed error ",
    "messages if the file cannot be read. Use this tool when you need to examine the contents of a single file. Only works within ",
    "allowed directories, and never on the whole system.",
);

fn embedders(criterion: &mut Criterion) {
    let mut config = Config::load(None, []).unwrap().embedding;
    let mut group = criterion.benchmark_group("embed");
    group.bench_function("static_open", |bench| bench.iter(|| embed::open(&config).unwrap()));
    let embedder = embed::open(&config).unwrap();
    group.bench_function("static", |bench| bench.iter(|| embedder.embed(&[black_box(TEXT)]).unwrap()));
    if let Some(models) = std::env::var_os("PML_TEST_MODELS") {
        config.embedder = EmbedderKind::Onnx;
        config.model_dir = PathBuf::from(models).join("minilm");
        let embedder = embed::open(&config).unwrap();
        group.sample_size(20);
        group.bench_function("onnx", |bench| bench.iter(|| embedder.embed(&[black_box(TEXT)]).unwrap()));
    }
    group.finish();
}

criterion_group!(benches, embedders);
criterion_main!(benches);
