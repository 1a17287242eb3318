//! Training on whole states: what the gate lets in, what it refuses, and that the log alone restores what was learnt.

use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;

use pml::config::Config;
use pml::core::event::{Event, ModelPart, NewRecord, Record};
use pml::core::id::RecordId;
use pml::core::intake::Limits;
use pml::core::predict::threshold::Mode;
use pml::core::predict::{Prediction, PredictionQuery, predict};
use pml::core::state::State;
use pml::core::train::{TrainSettings, TrainedPart, seed, train};
use pml::dataset::{Dataset, TRAIN};
use pml::embed;
use pml::eval::learn::{Learner, START};
use serde_json::{Value, json};
use tempfile::TempDir;

/// One word of an intent per tool, in three wordings. The tools' own texts have none of them.
const WORDS: [[&str; 3]; 10] = [
    ["read", "open", "view"],
    ["zip", "pack", "compress"],
    ["mail", "send", "post"],
    ["rename", "retitle", "relabel"],
    ["translate", "interpret", "reword"],
    ["print", "publish", "plot"],
    ["sign", "approve", "certify"],
    ["count", "sum", "total"],
    ["sort", "order", "rank"],
    ["erase", "delete", "remove"],
];
const THINGS: [&str; 6] = ["the report", "all invoices", "a picture", "her notes", "the minutes", "two letters"];

/// A stream of numbers that looks random and is always the same.
fn number(seed: usize) -> usize {
    (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// A trace of two or three calls, one per clause of its intent. `tool` maps what the clause says to the tool that is called.
fn trace(at: usize, tool: impl Fn(usize, usize) -> usize) -> Value {
    let clauses = 2 + number(at) % 2;
    let topic = |clause: usize| (number(at * 7 + clause) + clause * 3) % WORDS.len();
    let text = |clause: usize| {
        let word = WORDS[topic(clause)][number(at * 11 + clause) % 3];
        format!("{word} {}", THINGS[number(at * 13 + clause) % THINGS.len()])
    };
    let intent = (0..clauses).map(text).collect::<Vec<_>>().join(", then ");
    let step = |clause: usize| {
        let depends_on: Vec<String> = clause.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect();
        let tool = format!("office:t{}", tool(at * 3 + clause, topic(clause)));
        json!({"id": format!("s{clause}"), "tool_id": tool, "depends_on": depends_on, "success": true})
    };
    json!({"trace_id": format!("trace-{at}"), "intent": intent, "steps": (0..clauses).map(step).collect::<Vec<_>>(), "success": true})
}

fn dataset(traces: &[Value]) -> Dataset {
    let home = TempDir::new().unwrap();
    let write = |name: &str, lines: &[Value]| {
        let text: Vec<String> = lines.iter().map(Value::to_string).collect();
        fs::write(home.path().join(name), text.join("\n")).unwrap();
    };
    let describe = |tool: usize| format!("Component number {tool} of the office suite");
    let tool = |tool: usize| json!({"tool_id": format!("office:t{tool}"), "server_id": "office", "name": format!("t{tool}"), "description": describe(tool)});
    write("tools.jsonl", &(0..WORDS.len()).map(tool).collect::<Vec<_>>());
    write(TRAIN, traces);
    Dataset::load(home.path(), TRAIN, START).unwrap()
}

/// The state after these traces, and all records of its log.
pub(crate) fn learnt(traces: &[Value]) -> (State, Vec<Record>) {
    let dataset = dataset(traces);
    let embedder = embed::builtin();
    let mut learner = Learner::new(&*embedder, Limits::from(&Config::load(None, []).unwrap()));
    let mut records = learner.register_tools(&dataset.tools).unwrap();
    for trace in &dataset.traces {
        records.extend(learner.learn_trace(trace).unwrap());
    }
    (learner.into_state(), records)
}

pub(crate) fn right(range: std::ops::Range<usize>) -> Vec<Value> {
    range.map(|at| trace(at, |_, topic| topic)).collect()
}

pub(crate) fn trained(state: &State, settings: &TrainSettings) -> Vec<TrainedPart> {
    train(state, settings, seed(state), &mut |_| ControlFlow::Continue(())).unwrap()
}

fn accepted(parts: &[TrainedPart], part: ModelPart) -> bool {
    parts.iter().any(|trained| trained.event.version.part() == part && trained.event.accepted)
}

/// Appends the events of trained parts to a log and folds them.
pub(crate) fn record(parts: &[TrainedPart], state: &mut State, records: &mut Vec<Record>) {
    for event in parts.iter().flat_map(TrainedPart::events) {
        let seq = state.applied().next();
        let time = START.plus_micros(i64::try_from(seq.0).unwrap());
        let id = RecordId::from_parts(time, u128::from(seq.0));
        let fact = NewRecord { id, time, source: "pml/trainer".into(), causation: None, envelope: None, event };
        let record = Record { seq, recorded_at: time, fact: Arc::new(fact) };
        state.apply(&record);
        records.push(record);
    }
}

fn ask(state: &State, intent: &str) -> Prediction {
    let question = pml::ask::question(Some(&*embed::builtin()), intent.to_owned()).unwrap();
    let id = RecordId::from_parts(START, 1);
    predict(state, &question, &PredictionQuery { context: &[], k: 5, mode: Mode::Asked, seed: id })
}

/// How many of these traces have their first call predicted right.
fn hits(state: &State, traces: &[Value]) -> usize {
    let hit = |trace: &&Value| {
        let answer = ask(state, trace["intent"].as_str().unwrap());
        let first = answer.ranked.first().map(|ranked| format!("{:?}", ranked.outcome)).unwrap_or_default();
        first.contains(trace["steps"][0]["tool_id"].as_str().unwrap())
    };
    traces.iter().filter(hit).count()
}

/// The answers to some intents, as bits.
pub(crate) fn answers(state: &State) -> Vec<String> {
    right(500..510).iter().map(|trace| format!("{:?}", ask(state, trace["intent"].as_str().unwrap()).ranked)).collect()
}

#[test]
fn a_trained_model_is_let_in_where_it_helps_and_the_log_alone_restores_it() {
    let (mut state, mut records) = learnt(&right(0..160));
    let (unseen, before) = (right(400..480), state.clone());
    let parts = trained(&state, &TrainSettings::default());
    assert!(accepted(&parts, ModelPart::Ranker), "{:?}", parts.iter().map(|part| &part.event.reason).collect::<Vec<_>>());
    assert!(accepted(&parts, ModelPart::Head) || accepted(&parts, ModelPart::Encoder));
    assert!(parts.iter().all(|part| part.event.skipped == 0), "no example is skipped silently");
    record(&parts, &mut state, &mut records);
    assert!(state.predictor.version().starts_with("ranker-"));
    let (old, new) = (hits(&before, &unseen), hits(&state, &unseen));
    assert!(new >= old, "{new} right of {} after training, {old} before", unseen.len());

    let mut replayed = State::default();
    for record in &records {
        replayed.apply(record);
    }
    assert_eq!(replayed.digest(), state.digest());
    assert!(answers(&replayed) == answers(&state));
}

#[test]
fn training_again_gives_the_same_bytes_also_on_another_thread() {
    let (state, _) = learnt(&right(0..60));
    let bytes = |parts: &[TrainedPart]| parts.iter().map(|part| (part.bytes.clone(), part.event.clone())).collect::<Vec<_>>();
    let here = bytes(&trained(&state, &TrainSettings::default()));
    let there = std::thread::scope(|scope| {
        let runs = [(); 2].map(|()| scope.spawn(|| bytes(&trained(&state, &TrainSettings::default()))));
        runs.map(|run| run.join().unwrap())
    });
    assert!(there.iter().all(|run| *run == here));
}

#[test]
fn what_cannot_be_learnt_is_refused_and_nothing_changes() {
    // Tools drawn by chance: no part finds anything in them.
    let shuffled: Vec<Value> = (0..120).map(|at| trace(at, |call, _| number(call * 31 + 5) % WORDS.len())).collect();
    let cases = [
        ("shuffled", shuffled, TrainSettings::default()),
        ("ten traces", right(0..10), TrainSettings::default()),
        ("a learning rate a hundred times too high", right(0..120), hundredfold()),
    ];
    for (name, traces, settings) in cases {
        let (mut state, mut records) = learnt(&traces);
        let before = answers(&state);
        let parts = trained(&state, &settings);
        for part in [ModelPart::Head, ModelPart::Encoder, ModelPart::Shgat] {
            assert!(!accepted(&parts, part), "{name}: {:?}", parts.iter().map(|part| &part.event.reason).collect::<Vec<_>>());
        }
        if !accepted(&parts, ModelPart::Ranker) {
            record(&parts, &mut state, &mut records);
            assert!(answers(&state) == before, "{name}");
        }
        assert!(records.iter().all(|record| !matches!(record.event(), Event::ModelParameters(_))), "{name}");
    }
}

/// The head alone: the encoder's gradients are clipped, so that it learns something at any rate.
fn hundredfold() -> TrainSettings {
    let mut settings = TrainSettings { parts: vec![ModelPart::Head], ..TrainSettings::default() };
    settings.head.learning_rate *= 100.0;
    settings
}
