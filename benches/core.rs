//! The two paths every event takes, without I/O: bytes to fact and back (`codec`), and fact into the state (`fold`).
//!
//! `cargo bench --bench core`

#![expect(clippy::unwrap_used, reason = "a benchmark whose input is wrong must stop")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pml::config::Config;
use pml::core::event::{
    Event, ExecutionFinished, ExecutionStarted, NewRecord, Record, StepFinished, StepStarted, ToolRegistered, cloud, stored,
};
use pml::core::execution::admit;
use pml::core::id::{Callee, ExecutionId, RecordId, Seq, StepId};
use pml::core::intake::Limits;
use pml::core::state::State;
use pml::core::time::Timestamp;
use pml::core::trace::Executions;

const NOON: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);

/// The most frequent event at about its usual size, 470 bytes.
const STEP_FINISHED: &str = concat!(
    r#"{"specversion":"1.0","id":"01KG9YS8F807GGJXS4D66X546Z","source":"urn:agent:claude-code/laptop-7","#,
    r#""type":"pml.step.finished","time":"2026-01-31T12:00:02.450000Z","dataschema":"urn:pml:step.finished/v1","#,
    r#""data":{"execution":"invoice-archive-42","step":"pack","tool":"zip:pack","depends_on":["list","read"],"#,
    r#""success":true,"duration_ms":450,"arguments":{"files":["invoices/2026-01-07.pdf","invoices/2026-01-19.pdf"],"#,
    r#""level":9},"result_summary":"2 files"}}"#
);

fn codec(criterion: &mut Criterion) {
    let fact = cloud::from_structured(STEP_FINISHED.as_bytes(), NOON).unwrap();
    let bytes = stored::encode(&fact, NOON);
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Elements(1));
    group.bench_function("from_structured", |bench| {
        bench.iter(|| cloud::from_structured(black_box(STEP_FINISHED.as_bytes()), NOON).unwrap());
    });
    group.bench_function("to_structured", |bench| bench.iter(|| cloud::to_structured(black_box(&fact))));
    group.bench_function("stored_encode", |bench| bench.iter(|| stored::encode(black_box(&fact), NOON)));
    group.bench_function("stored_decode", |bench| bench.iter(|| stored::decode(Seq(1), black_box(&bytes)).unwrap()));
    group.finish();
}

const EXECUTIONS: u64 = 2_000;
const TOOLS: u64 = 64;

fn tool(number: u64) -> String {
    format!("server{}:tool{number}", number % 8)
}

/// Executions of two to seven steps. A step continues the chain of its execution, so procedures recur, as they do with agents.
fn history() -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut append = |event: Event| {
        let number = records.len() as u64 + 1;
        let time = NOON.plus_millis(number);
        let id = RecordId::from_parts(time, number.into());
        let fact = Arc::new(NewRecord { id, time, source: "urn:bench".into(), causation: None, envelope: None, event });
        records.push(Record { seq: Seq(number), recorded_at: time, fact: Arc::clone(&fact) });
        fact
    };
    for number in 0..TOOLS {
        append(Event::ToolRegistered(ToolRegistered {
            tool: tool(number).parse().unwrap(),
            name: tool(number),
            description: "Does one thing and does it well".to_owned(),
            input_schema: None,
            output_schema: None,
            annotations: None,
        }));
    }
    let mut open = Executions::default();
    for number in 0..EXECUTIONS {
        // A multiplier prime to the count spreads the executions over the procedures without a random generator.
        let procedure = number * 617 % 211;
        let execution: ExecutionId = format!("execution-{number}").parse().unwrap();
        let intent = format!("carry out procedure {procedure}");
        let start = ExecutionStarted { execution: execution.clone(), intent, session: None, agent: None, parent: None };
        open.apply(&append(Event::ExecutionStarted(start)));
        for step in 0..2 + procedure % 6 {
            let finished = StepFinished {
                execution: execution.clone(),
                step: format!("s{step}").parse().unwrap(),
                tool: tool((procedure + step * step) % TOOLS).parse().unwrap(),
                depends_on: step.checked_sub(1).map(|on| format!("s{on}").parse().unwrap()).into_iter().collect(),
                success: number % 10 != 0,
                duration_ms: Some(12),
                error_kind: None,
                arguments: None,
                result_summary: None,
            };
            open.apply(&append(Event::StepFinished(finished)));
        }
        let finish = ExecutionFinished { execution: execution.clone(), success: number % 10 != 0, error: None, code: None };
        open.apply(&append(Event::ExecutionFinished(finish)));
        let trace = open.get(&execution).unwrap().complete(&execution, false);
        open.apply(&append(Event::TraceCompleted(trace)));
    }
    records
}

fn fold(criterion: &mut Criterion) {
    let records = history();
    let folded = || {
        let mut state = State::default();
        for record in &records {
            state.apply(record);
        }
        state
    };
    let state = folded();
    let mut group = criterion.benchmark_group("fold");
    group.sample_size(20);
    group.throughput(Throughput::Elements(records.len() as u64));
    group.bench_function("apply", |bench| bench.iter_with_large_drop(folded));
    group.bench_function("digest", |bench| bench.iter(|| black_box(&state).digest()));
    group.finish();
}

const WIDE_STEPS: usize = 1_000;

/// The events of the execution that costs most within the limits: every step was announced, and uses the output of all before it. Those
/// that `limits` refuse are left out.
fn wide(limits: &Limits) -> (Vec<Arc<NewRecord>>, Executions) {
    let execution: ExecutionId = "wide".parse().unwrap();
    let names: Vec<StepId> = (0..WIDE_STEPS).map(|step| format!("s{step:03}").parse().unwrap()).collect();
    let tools: Vec<Callee> = (0..TOOLS).map(|number| tool(number).parse().unwrap()).collect();
    let intent = "use everything".to_owned();
    let started = ExecutionStarted { execution: execution.clone(), intent, session: None, agent: None, parent: None };
    let announced = names.iter().zip(tools.iter().cycle()).map(|(step, tool)| {
        Event::StepStarted(StepStarted {
            execution: execution.clone(),
            step: step.clone(),
            tool: tool.clone(),
            arguments: None,
        })
    });
    let done = names.iter().zip(tools.iter().cycle()).enumerate().map(|(at, (step, tool))| {
        Event::StepFinished(StepFinished {
            execution: execution.clone(),
            step: step.clone(),
            tool: tool.clone(),
            depends_on: names[..at].to_vec(),
            success: true,
            duration_ms: Some(12),
            error_kind: None,
            arguments: None,
            result_summary: None,
        })
    });
    let finished = ExecutionFinished { execution: execution.clone(), success: true, error: None, code: None };
    let events = [Event::ExecutionStarted(started)].into_iter().chain(announced).chain(done);
    let facts = (1..).zip(events.chain([Event::ExecutionFinished(finished)])).map(|(number, event)| {
        let time = NOON.plus_millis(number);
        let id = RecordId::from_parts(time, number.into());
        Arc::new(NewRecord { id, time, source: "urn:bench".into(), causation: None, envelope: None, event })
    });
    admitted(facts, limits)
}

fn admitted(facts: impl IntoIterator<Item = Arc<NewRecord>>, limits: &Limits) -> (Vec<Arc<NewRecord>>, Executions) {
    let mut executions = Executions::default();
    let admits = |fact: &Arc<NewRecord>| admit(&executions, &fact.event, limits).is_ok() && executions.apply(fact);
    (facts.into_iter().filter(admits).collect(), executions)
}

/// One execution of 1,000 steps: with all 499,500 dependencies, and with as many as the default limit admits.
fn wide_execution(criterion: &mut Criterion) {
    let default = Limits::from(&Config::load(None, []).unwrap());
    let unlimited = Limits { dependencies_max: usize::MAX, ..default.clone() };
    let mut group = criterion.benchmark_group("wide_execution");
    group.sample_size(10);
    for (name, limits) in [("all", unlimited), ("default_limit", default)] {
        let (facts, executions) = wide(&limits);
        let execution: ExecutionId = "wide".parse().unwrap();
        let open = executions.get(&execution).unwrap();
        group.bench_function(format!("{name}/admit"), |bench| {
            bench.iter_with_large_drop(|| admitted(facts.iter().cloned(), &limits));
        });
        group.bench_function(format!("{name}/close"), |bench| {
            bench.iter_with_large_drop(|| open.complete(&execution, false));
        });
        let time = NOON.plus_millis(10_000);
        let id = RecordId::from_parts(time, 0);
        let event = Event::TraceCompleted(open.complete(&execution, false));
        let trace = NewRecord { id, time, source: "urn:bench".into(), causation: None, envelope: None, event };
        let trace = Record { seq: Seq(1), recorded_at: time, fact: Arc::new(trace) };
        group.bench_function(format!("{name}/learn"), |bench| {
            bench.iter_with_large_drop(|| {
                let mut state = State::default();
                state.apply(&trace);
                state
            });
        });
    }
    group.finish();
}

criterion_group!(benches, codec, fold, wide_execution);
criterion_main!(benches);
