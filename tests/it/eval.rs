//! `pml eval` measures, and a measure that differs from run to run is none: the same dataset gives the same log, hence the same numbers.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pml::clock::Clock;
use pml::config::Config;
use pml::core::event::{Event, Record};
use pml::core::id::Seq;
use pml::core::intake::Limits;
use pml::dataset::{Dataset, TRAIN};
use pml::embed;
use pml::eval::learn::{Learner, START};
use pml::log::MemoryLog;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::embedded::Embedded;
use crate::server::pml;

const TOOLS: usize = 12;

/// Traces of one to four steps; steps use what the one before made, tools recur with the verb of the intent.
fn trace(number: usize) -> Value {
    let verbs = ["read", "pack", "mail", "rename", "translate"];
    let things = ["the report", "all invoices", "a picture", "her notes"];
    let (verb, thing) = (number % verbs.len(), number * 7 / 3 % things.len());
    let step = |at: usize| {
        let depends_on: Vec<String> = at.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect();
        let tool = (verb * 2 + at + number % 3) % TOOLS;
        json!({"id": format!("s{at}"), "tool_id": format!("office:t{tool}"), "depends_on": depends_on, "success": !number.is_multiple_of(7)})
    };
    let intent = format!("{} {}, then {} it", verbs[verb], things[thing], verbs[(verb + 1 + number % 2) % verbs.len()]);
    let steps: Vec<Value> = (0..=number % 4).map(step).collect();
    json!({"trace_id": format!("trace-{number}"), "intent": intent, "steps": steps, "success": !number.is_multiple_of(11)})
}

fn dataset() -> TempDir {
    dataset_of(60)
}

/// With this many training traces, and some to test with.
fn dataset_of(train: usize) -> TempDir {
    let home = TempDir::new().unwrap();
    let write = |name: &str, lines: Vec<Value>| {
        let text: Vec<String> = lines.iter().map(Value::to_string).collect();
        fs::write(home.path().join(name), text.join("\n")).unwrap();
    };
    let tool = |number: usize| {
        let description = format!("Does what {} asks for", trace(number)["intent"]);
        json!({"tool_id": format!("office:t{number}"), "server_id": "office", "name": format!("t{number}"), "description": description})
    };
    write("tools.jsonl", (0..TOOLS).map(tool).collect());
    write("traces_train.jsonl", (0..train).map(trace).collect());
    write("traces_test.jsonl", (60..75).map(trace).collect());
    home
}

/// What a process of its own prints about the dataset.
fn evaluated(dataset: &Path, more: &[&str]) -> String {
    let done = pml().arg("eval").arg(dataset).args(more).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// The same as JSON, but for how long it took.
fn evaluated_report(dataset: &Path, more: &[&str]) -> Value {
    let mut report: Value = serde_json::from_str(&evaluated(dataset, &[more, &["--json"]].concat())).unwrap();
    assert!(report.as_object_mut().unwrap().remove("seconds").is_some(), "{report}");
    report
}

#[test]
fn two_evaluations_print_the_same_bytes() {
    let models = std::env::var("PML_TEST_MODELS").expect("PML_TEST_MODELS names the ONNX models; run scripts/test");
    let model = format!("{models}/minilm");
    let (home, small) = (dataset(), dataset_of(24));
    for (home, embedder) in [(&home, &["--embedder", "static"][..]), (&small, &["--embedder", "onnx", "--model-dir", &model])] {
        let report = evaluated_report(home.path(), embedder);
        assert_eq!(report.to_string(), evaluated_report(home.path(), embedder).to_string(), "{embedder:?}");
        assert_eq!(report["states"].as_array().unwrap().len(), 1, "{report}");
        assert!(report["rankers"]["pml"]["next"]["n"].as_u64() > Some(10), "{report}");
        for planner in ["pml", "copy_nearest"] {
            let plan = &report["rankers"][planner]["plan"];
            assert!(plan["n"] == 15 && plan["n_edges"].as_u64() < Some(15) && plan["node_f1"].as_f64() > Some(0.0), "{report}");
        }
    }
    let text = evaluated(small.path(), &[]);
    assert_eq!(text, evaluated(small.path(), &[]));
    assert!(text.contains("plan, in %") && text.contains("copy_nearest"), "{text}");
}

#[test]
fn the_ablation_has_a_row_for_everything_and_for_each_part_left_out() {
    let home = dataset_of(24);
    let run = |more: &[&str]| {
        let done = pml().arg("eval").arg(home.path()).args(["--embedder", "static"]).args(more).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let report: Value = serde_json::from_str(&run(&["--ablation", "--json"])).unwrap();
    let rows = report["ablation"].as_array().unwrap();
    let parts = ["head", "encoder", "shgat", "message_passing", "priorities", "semantic", "structure", "temporal", "hyperpath"];
    let mut expected = vec!["everything".to_owned()];
    expected.extend(parts.iter().map(|part| format!("without {part}")));
    expected.push("untrained".to_owned());
    let names: Vec<&str> = rows.iter().map(|row| row["variant"].as_str().unwrap()).collect();
    assert_eq!(names, expected);
    for row in rows {
        assert!(row["discover"]["n"] == rows[0]["discover"]["n"] && row["next"]["n"].as_u64() > Some(10), "{row}");
        let accepted = row["accepted"][0].as_array().unwrap();
        let variant = row["variant"].as_str().unwrap();
        let left_out = variant.strip_prefix("without ").unwrap_or_default();
        assert!(accepted.iter().all(|part| part != left_out), "{row}");
        assert!(variant != "untrained" || accepted.is_empty(), "{row}");
    }
    // A row is what the same evaluation prints by itself.
    for (row, flags) in [(1, &["--without", "head"][..]), (9, &["--untrained"])] {
        let alone: Value = serde_json::from_str(&run(&[flags, &["--json"]].concat())).unwrap();
        assert_eq!(alone["rankers"]["pml"]["discover"], rows[row]["discover"], "{flags:?}");
        assert_eq!(alone["rankers"]["pml"]["next"]["mrr"], rows[row]["next"]["mrr"], "{flags:?}");
    }
}

#[test]
fn two_prequential_evaluations_print_the_same_numbers() {
    let (home, out) = (dataset_of(24), TempDir::new().unwrap());
    let run = || {
        let done =
            pml().args(["eval", "--prequential", "--json"]).arg(home.path()).arg("--out").arg(out.path()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        (done.stdout, fs::read(out.path().join("curves.parquet")).unwrap())
    };
    assert_eq!(run(), run());
}

/// What a record says, without what tells when the embedder got to it.
fn said(record: &Record) -> (Seq, Event, Option<String>) {
    let id = (!matches!(record.event(), Event::EmbeddingComputed(_))).then(|| record.fact.id.to_string());
    (record.seq, record.event().clone(), id)
}

/// A pml that is told the traces one after the other, and left alone until each is learnt, writes the very records that `pml eval`
/// learns from.
#[actix_rt::test]
async fn evaluation_learns_from_the_log_that_the_actors_write() {
    let home = dataset();
    let dataset = Dataset::load(home.path(), TRAIN, START).unwrap();
    let config = Config::load(None, []).unwrap();
    let embedder = embed::open(&config.embedding).unwrap();
    let mut learner = Learner::new(&*embedder, Limits::from(&config));
    let mut expected = learner.register_tools(&dataset.tools).unwrap();

    let log = Arc::new(MemoryLog::new(Clock::system()));
    let pml = Embedded::start_on(log, &[("TRACE__SETTLE_MS", "0")]).await;
    pml.runtime.publisher.publish(dataset.tools.clone()).await.unwrap();
    pml.runtime.settled().await;
    for trace in &dataset.traces[..20] {
        let written = learner.learn_trace(trace).unwrap();
        let first = written.first().unwrap().fact.time;
        expected.extend(written);
        pml.runtime.publisher.publish(trace.events(first).unwrap()).await.unwrap();
        pml.runtime.settled().await;
    }
    let found: Vec<_> = pml.records().await.iter().map(said).collect();
    let expected: Vec<_> = expected.iter().map(said).collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    assert!(learner.into_state().predictor.lessons.taken() > 10);
    pml.stop().await;
}
