//! Micro-benchmarks of code mode: reading a program of a hundred lines, a process from its start to its first call, one more call.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use pml_code::sandbox::{ChildCommand, Limits, Sandbox};
use serde_json::value::RawValue;

/// A program of a hundred lines: steps that use the result of the one before, branches and a loop.
fn hundred_lines() -> String {
    let block = "let v = await tools.fs.read({ path: 'a.txt' });\nif (v.ok) {\n  v = await tools.s.clean({ v, mode: `m${v.mode}` });\n} else {\n  console.log(v.error);\n}\nfor (const item of v.items) {\n  await tools.db.put({ item, id: item.id });\n}\nawait tools.mail.send({ body: v });\n";
    (0..10).map(|at| block.replace('v', &format!("v{at}")).replace("mov", "mo")).collect()
}

fn read(criterion: &mut Criterion) {
    let source = hundred_lines();
    assert_eq!(source.lines().count(), 100);
    criterion.bench_function("read_100_lines", |bencher| bencher.iter(|| pml_code::read(black_box(&source))));
}

/// Runs `calls` calls in a new process; gives the time until the first of them and the time until the last.
#[expect(clippy::disallowed_methods, reason = "measuring is what a benchmark is for")]
async fn run(calls: u64) -> (Duration, Duration) {
    let command = ChildCommand { program: env!("CARGO_BIN_EXE_pml-sandbox").into(), arguments: Vec::new() };
    let limits = Limits { calls_max: usize::MAX, time_ms: 600_000, ..Limits::default() };
    let source = format!("for (let i = 0; i < {calls}; i++) await tools.s.x({{ i }});");
    let nothing = RawValue::from_string("{}".to_owned()).expect("an object");
    let start = Instant::now();
    let (first, last) = (std::cell::OnceCell::new(), std::cell::Cell::new(Duration::ZERO));
    let sandbox = Sandbox::start(&command, limits).expect("the child starts");
    let answer = async |_| {
        last.set(start.elapsed());
        first.get_or_init(|| last.get());
        Ok(nothing.clone())
    };
    sandbox.run(&source, &nothing, answer).await.result.expect("the program ends");
    (first.into_inner().expect("at least one call"), last.get())
}

fn process(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    criterion.bench_function("start", |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| runtime.block_on(run(1)).0).sum());
    });
    criterion.bench_function("call_overhead", |bencher| {
        bencher.iter_custom(|rounds| {
            let (first, last) = runtime.block_on(run(rounds + 1));
            last.saturating_sub(first)
        });
    });
}

criterion_group!(benches, read, process);
criterion_main!(benches);
