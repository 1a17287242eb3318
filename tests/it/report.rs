//! `pml report`: the same numbers for a dataset and for the history that it became, as text, JSON and one HTML file.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{run, text, write_dataset};
use crate::server::pml;

#[test]
fn a_history_and_the_dataset_it_came_from_give_the_same_report() {
    let home = TempDir::new().unwrap();
    let (dataset, data) = (home.path().join("dataset"), home.path().join("data"));
    write_dataset(&dataset, 60);
    run(0, &["import", text(&dataset), "--data", text(&data)]);
    let html = home.path().join("report.html");
    let report = run(0, &["report", text(&dataset), "--html", text(&html)]).json();
    assert_eq!(
        (&report["history"], &report["runs"], &report["steps"], &report["decisions"]),
        (&json!("dataset"), &json!(61), &json!(121), &json!(182))
    );
    let covered = |at: usize, how: &str| report["coverage"][at][how]["coverage"]["value"].as_f64().unwrap();
    assert!((0.6..0.67).contains(&covered(0, "hindsight")), "always the same two calls, and an end: {report}");
    assert!(covered(0, "forward") > 0.3 && covered(0, "forward") <= covered(0, "hindsight"), "{report}");
    assert!(covered(2, "hindsight") <= covered(0, "hindsight"));
    assert_eq!((&report["habits"]["count"], &report["habits"]["most_run"][0]["runs"]), (&json!(1), &json!(60)));
    assert_eq!((&report["failing"][0]["tool"], &report["failing"][0]["failed"]), (&json!("net:fetch"), &json!(1)));
    assert_eq!(report["never_used"]["count"], 0);
    let own = run(0, &["report", "--data", text(&data)]).json();
    for part in ["runs", "steps", "definition_tokens", "failing", "habits"] {
        assert_eq!(own[part], report[part], "{part}");
    }
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.matches("<svg").count() == 2, "{page}");
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"), "nothing is fetched");
}

#[test]
fn the_report_of_what_was_learnt_says_what_failed_and_what_worked_next() {
    let home = TempDir::new().unwrap();
    let (log, data) = (home.path().join("messages.jsonl"), home.path().join("data"));
    let line = |number: usize| {
        let call = |id: &str, name: &str| json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}]});
        let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
        json!({"messages": [
            {"role": "user", "content": format!("send the report of week {number}")},
            call("c1", "mail__queue"), result("c1", "Error: timed out"), call("c2", "mail__send"), result("c2", "{\"ok\": true}"),
        ]})
        .to_string()
    };
    fs::write(&log, (0..10).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    run(0, &["learn", text(&log), "--data", text(&data)]);
    let report = run(0, &["report", "--data", text(&data)]).json();
    assert_eq!(
        report["failing"],
        json!([
            {"tool": "mail:queue", "calls": 10, "failed": 10, "worked_instead": {"tool": "mail:send", "times": 10}},
        ])
    );
    let shown = pml().args(["report", "--data", text(&data)]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("10 runs, 20 steps") && shown.contains("mail:send (10)"), "{shown}");
    let empty = home.path().join("empty");
    run(0, &["import", text(&write_empty(&home)), "--data", text(&empty)]);
    let nothing: Value = run(1, &["report", "--data", text(&empty)]).json();
    assert!(nothing["error"].as_str().unwrap().contains("`pml learn`"), "{nothing}");
}

fn write_empty(home: &TempDir) -> std::path::PathBuf {
    let directory = home.path().join("tools-only");
    write_dataset(&directory, 0);
    fs::write(directory.join("traces_train.jsonl"), "").unwrap();
    directory
}
