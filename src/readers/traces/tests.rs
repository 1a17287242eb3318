use super::*;

fn limits() -> TraceLimits {
    TraceLimits { linger: 10, timeout: 100, traces_max: 3, spans_max: 4, ..TraceLimits::default() }
}

fn traces() -> Traces {
    Traces::new(Arc::new(Options::default()), limits())
}

fn root(trace: &str) -> Span {
    Span {
        trace: trace.to_owned(),
        id: "root".to_owned(),
        parent: None,
        name: "invoke_agent planner".to_owned(),
        start: Some(Timestamp::from_micros(0)),
        end: Some(Timestamp::from_micros(9_000_000)),
        status: Status::Unset,
        error: None,
        error_type: None,
        role: Role::Agent,
        words: Some("plan the trip".to_owned()),
        arguments: None,
        result: None,
        session: Some("s1".to_owned()),
        agent: Some("planner".to_owned()),
    }
}

fn call(trace: &str, id: &str, parent: &str, tool: &str, at: i64) -> Span {
    Span {
        id: id.to_owned(),
        parent: Some(parent.to_owned()),
        name: "execute_tool".to_owned(),
        start: Some(Timestamp::from_micros(at * 1_000_000)),
        end: Some(Timestamp::from_micros(at * 1_000_000 + 250_000)),
        role: Role::Tool(tool.parse().unwrap()),
        words: None,
        ..root(trace)
    }
}

fn shown(runs: &[Run]) -> Vec<String> {
    let steps = |run: &Run| run.steps.iter().map(|step| step.tool.to_string()).collect::<Vec<_>>().join(" ");
    runs.iter().map(|run| format!("{}: {}", run.intent, steps(run))).collect()
}

#[test]
fn a_trace_is_closed_some_time_after_its_root() {
    let mut traces = traces();
    traces.add(call("t", "b", "root", "x:b", 2), 0);
    traces.add(call("t", "a", "root", "x:a", 1), 1);
    assert!(traces.take_due(50).is_empty(), "its root has not come");
    traces.add(root("t"), 51);
    assert!(traces.take_due(60).is_empty());
    let runs = traces.take_due(61);
    assert_eq!(shown(&runs), ["plan the trip: x:a x:b"]);
    assert_eq!(runs[0].session.as_ref().unwrap().as_str(), "s1");
    assert_eq!((runs[0].steps[0].duration_ms, &*runs[0].agent), (Some(250), "planner"));
    assert!(traces.open.is_empty() && traces.bytes == 0);
}

#[test]
fn a_trace_without_a_root_is_closed_after_a_while() {
    let mut traces = traces();
    traces.add(call("t", "a", "elsewhere", "x:a", 1), 0);
    assert!(traces.take_due(99).is_empty());
    let runs = traces.take_due(100);
    assert_eq!(shown(&runs), ["execute_tool: x:a"]);
    assert!(runs[0].intent_inferred);
}

#[test]
fn late_spans_continue_their_trace() {
    let mut traces = traces();
    traces.add(root("t"), 0);
    traces.add(call("t", "a", "root", "x:a", 1), 0);
    let first = traces.take_due(10);
    traces.add(call("t", "b", "root", "x:b", 2), 20);
    let late = traces.take_due(30);
    assert_eq!(shown(&late), ["plan the trip: x:b"]);
    assert_eq!(late[0].parent.as_ref(), Some(&first[0].execution));
    assert_ne!(late[0].execution, first[0].execution);
}

#[test]
fn two_views_of_a_call_are_one_call() {
    let mut traces = traces();
    traces.add(root("t"), 0);
    traces.add(call("t", "a", "root", "planner:find", 1), 0);
    traces.add(call("t", "b", "a", "maps:find", 1), 0);
    traces.add(call("t", "a", "root", "planner:find", 1), 0);
    assert_eq!(shown(&traces.take_all()), ["plan the trip: planner:find"]);
}

#[test]
fn the_status_of_the_top_span_is_the_outcome() {
    for (status, error, expected) in [
        (Status::Error, Some("no seats"), (false, Basis::Recorded)),
        (Status::Ok, None, (true, Basis::Recorded)),
        (Status::Unset, None, (false, Basis::LastCall)),
    ] {
        let mut traces = traces();
        traces.add(Span { status, error: error.map(str::to_owned), ..root("t") }, 0);
        traces.add(Span { status: Status::Error, error: Some("timed out".into()), ..call("t", "a", "root", "x:a", 1) }, 0);
        let run = traces.take_all().remove(0);
        assert_eq!((run.ending.success, run.ending.basis), expected);
        assert_eq!(run.steps[0].error_kind.as_deref(), Some("timeout"));
        assert_eq!(run.steps[0].error.as_deref(), Some("timed out"));
    }
}

#[test]
fn what_is_held_is_bounded() {
    let mut traces = traces();
    for number in 0..10 {
        traces.add(call(&format!("t{number}"), "a", "elsewhere", "x:a", 1), number);
    }
    assert_eq!(traces.take_due(9).len(), 7, "the oldest traces make room");
    for number in 0..10 {
        traces.add(call("t9", &format!("s{number}"), "elsewhere", "x:a", 1), 10);
    }
    assert_eq!(traces.dropped(), 7);
    for number in 0..5_000 {
        traces.add(root(&format!("r{number}")), 200);
        traces.take_due(300);
    }
    assert!(traces.closed.len() <= limits().remembered_max && traces.closed_order.len() == traces.closed.len());
}

#[test]
fn spans_that_are_their_own_ancestors_do_no_harm() {
    let mut traces = traces();
    traces.add(call("t", "a", "b", "x:a", 1), 0);
    traces.add(call("t", "b", "a", "x:b", 1), 0);
    assert_eq!(traces.take_all().len(), 0, "no span is on top");
}

#[test]
fn a_span_that_comes_again_counts_by_what_it_is_now() {
    let mut traces = Traces::new(Arc::new(Options::default()), TraceLimits { bytes_max: 10_000, ..limits() });
    traces.add(root("t"), 0);
    let small = traces.bytes;
    traces.add(Span { result: Some("x".repeat(20_000)), ..root("t") }, 1);
    assert!(traces.is_full() && traces.bytes == small + 20_000, "{} bytes", traces.bytes);
    traces.add(root("t"), 2);
    assert!(!traces.is_full() && traces.bytes == small, "{} bytes", traces.bytes);
    traces.take_all();
    assert_eq!(traces.bytes, 0);
}

#[test]
fn a_span_with_very_long_ids_is_not_held() {
    let mut traces = traces();
    let long = "a".repeat(100_000);
    traces.add(root(&long), 0);
    traces.add(Span { id: long, ..root("t") }, 0);
    assert_eq!((traces.dropped(), traces.open.len()), (2, 0));
}

#[test]
fn those_that_wait_for_longest_make_room() {
    let mut traces = traces();
    for (at, name) in ["c", "a", "d", "b", "e"].into_iter().enumerate() {
        traces.add(call(name, "1", "root", "x:a", 1), at as u64);
    }
    assert_eq!(traces.take_due(5).len(), 2);
    assert_eq!(traces.open.keys().map(String::as_str).collect::<Vec<_>>(), ["b", "d", "e"]);
}
