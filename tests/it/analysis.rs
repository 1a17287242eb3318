//! What other programs make of the files: `DuckDB` and `Polars` open every one of them and count what pml counts, and every recipe of
//! `docs/analysis.md` runs.

use pml::core::event::{Event, Kind};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::archive::Past;
use crate::cli::{run, text, write_dataset};
use crate::outside::python;

#[test]
fn duckdb_and_polars_count_what_the_state_counts() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    let past = Past::of(100);
    past.write(&place("data"));
    let exported = run(0, &["log", "export", text(&place("events")), "--data", text(&place("data"))]).json();
    let Some(told) = python("events.py", &[text(&place("events"))], "") else { return };
    let of_traces = |value: fn(&pml::core::event::TraceCompleted) -> u64| {
        let traces = past.records.iter().filter_map(|record| match record.event() {
            Event::TraceCompleted(trace) => Some(value(trace)),
            _ => None,
        });
        traces.sum::<u64>()
    };
    let of_steps = past.records.iter().filter_map(|record| match record.event() {
        Event::StepFinished(step) => step.duration_ms,
        Event::StepSpeculated(call) => Some(call.duration_ms),
        _ => None,
    });
    let expected = json!([
        past.records.len(),
        past.records.iter().map(|record| record.seq.0).sum::<u64>(),
        past.state.applied().0,
        past.state.count(Kind::StepFinished),
        exported["files"],
        of_traces(|trace| trace.steps.len() as u64),
        of_traces(|trace| trace.ended.millis_since(trace.started)) + of_steps.sum::<u64>(),
        past.records[0].recorded_at.micros(),
    ]);
    assert_eq!((&told["duckdb"], &told["polars"]), (&expected, &expected));
    let kinds: Value = Kind::ALL.into_iter().map(|kind| (kind.name().to_owned(), json!(past.state.count(kind)))).collect();
    assert_eq!(told["kinds"], kinds);
    let files = told["files"].as_array().unwrap();
    assert_eq!(json!(files.len()), exported["files"]);
    assert!(files.iter().all(|file| file[0] == file[1] && file[0].as_u64() > Some(0)), "{files:?}");
    let names: Vec<&str> = told["types"].as_array().unwrap().iter().map(|column| column[0].as_str().unwrap()).collect();
    let expected: Vec<&str> = pml::archive::columns::COLUMNS.iter().map(|column| column.name).chain(["day"]).collect();
    assert_eq!(names, expected, "the columns, and the folder as one more");
}

#[test]
fn every_recipe_of_the_document_runs() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    Past::of(100).write(&place("data"));
    run(0, &["log", "export", text(&place("events")), "--data", text(&place("data"))]);
    run(0, &["snapshot", "create", "--data", text(&place("data"))]);
    run(0, &["eval", "--prequential", text(&place("data")), "--out", text(home.path())]);
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/analysis.md");
    let Some(recipes) = python("recipes.py", &[document, text(home.path())], "") else { return };
    // A second snapshot doubles no rows.
    let newest = std::fs::read_dir(place("data/snapshots")).unwrap().next().unwrap().unwrap().path();
    let earlier = newest.with_file_name(format!("{:020}", 7));
    std::fs::create_dir(&earlier).unwrap();
    for file in std::fs::read_dir(&newest).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&file, earlier.join(file.file_name().unwrap())).unwrap();
    }
    assert_eq!(python("recipes.py", &[document, text(home.path())], "").as_ref(), Some(&recipes));
    let recipes = recipes.as_array().unwrap();
    assert!(recipes.len() >= 10, "{} recipes", recipes.len());
    for recipe in recipes {
        assert!(recipe["rows"].as_u64() > Some(0), "no rows: {}", recipe["recipe"].as_str().unwrap());
    }
}

#[test]
fn a_curve_asks_before_it_learns_whatever_the_history_comes_from() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    write_dataset(&place("dataset"), 30);
    let curves = |history: &str, out: &str| {
        let told =
            run(0, &["eval", "--prequential", text(&place(history)), "--out", text(&place(out)), "--window", "10"]).json();
        let picture = std::fs::read_to_string(place(out).join("curves.svg")).unwrap();
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
        for word in ["hit@1", "MRR", "recall@5", "pml", "popularity", "traces asked about"] {
            assert!(picture.contains(word), "{word}");
        }
        told
    };
    let of_dataset = curves("dataset", "out1");
    // Thirty runs of the same two tools; the one of a tool that nobody had described shows nothing that could be found.
    assert_eq!(of_dataset["traces"], 30, "{of_dataset}");
    for question in ["discover", "next"] {
        let mut asked = of_dataset["curves"].as_array().unwrap().iter().filter(|curve| curve["question"] == question);
        let pml = asked.find(|curve| curve["ranker"] == "pml").unwrap();
        assert_eq!((&pml["n"], &pml["last_window"]["recall5"]), (&json!(30), &json!(1.0)), "{question}");
    }

    run(0, &["import", text(&place("dataset")), "--data", text(&place("data"))]);
    let of_log = curves("data", "out2");
    run(0, &["log", "export", text(&place("events")), "--data", text(&place("data"))]);
    let of_events = curves("events", "out3");
    assert_eq!((&of_log["curves"], &of_log["traces"]), (&of_events["curves"], &json!(30)));
    let taken = run(0, &["snapshot", "create", "--data", text(&place("data"))]).json();
    let snapshot = format!("data/snapshots/{:020}", taken["seq"].as_u64().unwrap());
    assert_eq!(curves(&snapshot, "out4")["traces"], 30, "what a snapshot still knows of its history");
    run(1, &["eval", "--prequential", text(home.path())]);
}
