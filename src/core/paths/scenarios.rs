//! The scenarios of the pathfinding spike (S2) as scripts: a history, a question per line, and the answers.

use super::cover::{DependsOn, covering, tool_or_capability};
use super::dag::Dag;
use super::index::PathIndex;
use super::prerequisites::{Measure, Plan};
use crate::given::History;
use crate::graph::adjacency::Adjacency;
use crate::graph::{Node, NodeKind};

/// Tells the history, asks the questions, and compares the answers line by line.
#[track_caller]
fn check(history: &str, questions_and_answers: &[(&str, &str)]) {
    let history = History::new(history);
    let index = PathIndex::from_state(&history.state);
    for (question, expected) in questions_and_answers {
        assert_eq!(answer(&history, &index, question), *expected, "{question}");
    }
}

fn answer(history: &History, index: &PathIndex, question: &str) -> String {
    let (word, rest) = question.split_once(' ').unwrap();
    let nodes = |text: &str| text.split(',').map(|name| history.node(name.trim())).collect::<Vec<Node>>();
    let names = |nodes: &[Node]| nodes.iter().map(|node| history.name(*node)).collect::<Vec<_>>();
    match word {
        "path" => {
            let (from, to) = rest.split_once(" -> ").unwrap();
            let path = index.path(history.node(from), history.node(to));
            path.map_or("none".to_owned(), |path| names(&path.nodes).join(" -> "))
        }
        "work" | "time" => {
            let measure = if word == "time" { Measure::Time } else { Measure::Work };
            let (target, given) =
                rest.split_once(" given ").map_or((rest, Vec::new()), |(target, given)| (target, nodes(given)));
            plan(history, &index.prerequisites(history.node(target), &given, measure))
        }
        "dag" => dag(history, &dag_of(history, &nodes(rest))),
        "cover" => names(&covering(index, &dag_of(history, &nodes(rest)))).join(", "),
        "depends" => {
            let (tool, capability) = rest.split_once(" on ").unwrap();
            let NodeKind::Capability(position) = history.node(capability).kind() else { panic!("{capability}") };
            match tool_or_capability(&history.state, history.node(tool), position) {
                Some(DependsOn::Capability(node)) => format!("the whole of {}", history.name(node)),
                Some(DependsOn::Tool(node)) => format!("only {}", history.name(node)),
                None => "neither".to_owned(),
            }
        }
        _ => panic!("{question}"),
    }
}

fn dag_of(history: &History, nodes: &[Node]) -> Dag {
    Dag::by_paths(&Adjacency::from_state(&history.state, &[]), nodes)
}

fn dag(history: &History, dag: &Dag) -> String {
    let edge = |from: usize, to: usize| format!("{} > {}", history.name(dag.nodes()[from]), history.name(dag.nodes()[to]));
    dag.dependencies().iter().map(|dependency| edge(dependency.from, dependency.to)).collect::<Vec<_>>().join(", ")
}

/// The tasks layer by layer, `a + b, c`, then what is missing.
fn plan(history: &History, plan: &Plan) -> String {
    let layers = plan.tasks.iter().map(|task| task.layer + 1).max().unwrap_or(0);
    let layer = |layer: usize| {
        let mut names: Vec<String> =
            plan.tasks.iter().filter(|task| task.layer == layer).map(|task| history.name(task.node)).collect();
        names.sort_unstable();
        names.join(" + ")
    };
    let tasks = (0..layers).map(layer).collect::<Vec<_>>().join(", ");
    let missing: Vec<String> = plan.missing.iter().map(|node| history.name(*node)).collect();
    if missing.is_empty() { tasks } else { format!("{tasks}; missing {}", missing.join(", ")) }
}

#[test]
fn the_backup_workflow_is_found_as_a_path_and_proposed_as_one_capability() {
    check(
        "tool fs:read path
         tool zip:pack files
         tool net:upload file
         tool net:ping
         declare backup: fs:read, zip:pack < fs:read, net:upload < zip:pack",
        &[
            // Option E: the declared data flow is enough for a path, before anything ran.
            ("path fs:read -> net:upload", "fs:read -> zip:pack -> net:upload"),
            ("dag net:upload, fs:read, zip:pack", "fs:read > zip:pack, zip:pack > net:upload"),
            // Option C: the capability covers the path.
            ("cover net:upload, fs:read, zip:pack, net:ping", "[backup]"),
            ("cover net:upload, fs:read", ""),
            ("time [backup]", "fs:read, zip:pack, net:upload, [backup]"),
            ("time net:upload", "fs:read, zip:pack, net:upload"),
            ("time net:upload given zip:pack", "net:upload"),
        ],
    );
}

#[test]
fn a_tool_that_depends_on_a_capability_waits_for_all_of_it() {
    let x = "declare X: a:a, b:b < a:a, c:c < b:b, s:side
             run ok do x and d: [X], d:d < X";
    check(
        x,
        &[
            ("depends d:d on [X]", "the whole of [X]"),
            ("work d:d", "a:a + s:side, b:b, c:c, [X], d:d"),
            // What is done already need not be done again; the rest of X still comes first.
            ("work d:d given a:a, s:side", "b:b, c:c, [X], d:d"),
            ("work d:d given [X]", "d:d"),
            ("path [X] -> d:d", "[X] -> d:d"),
            ("path a:a -> d:d", "a:a -> b:b -> c:c -> [X] -> d:d"),
        ],
    );
}

#[test]
fn a_tool_that_uses_one_output_depends_on_that_tool() {
    check(
        "declare X: a:a, b:b < a:a, c:c < b:b
         run ok do d: a:a, b:b < a:a, c:c < b:b, d:d < c:c",
        &[("depends d:d on [X]", "only c:c"), ("work d:d", "a:a, b:b, c:c, d:d"), ("depends a:a on [X]", "neither")],
    );
    check(
        "declare X: a:a, b:b < a:a, c:c < a:a
         run ok do d: a:a, b:b < a:a, c:c < a:a, d:d < b:b + c:c",
        &[("depends d:d on [X]", "the whole of [X]"), ("work d:d", "a:a, b:b + c:c, d:d")],
    );
}

#[test]
fn membership_is_not_order_and_failed_runs_make_a_path_dear() {
    check(
        "declare X: a:a, b:b
         tool c:c",
        &[("path a:a -> b:b", "none"), ("dag a:a, b:b", ""), ("work b:b", "b:b"), ("work c:c", "c:c")],
    );
    check(
        "run ok one: a:a, b:b < a:a, d:d < b:b
         run failed one: a:a, b:b < a:a, d:d < b:b
         run failed one: a:a, b:b < a:a, d:d < b:b
         run ok two: a:a, c:c < a:a, d:d < c:c",
        &[("path a:a -> d:d", "a:a -> c:c -> d:d")],
    );
}

#[test]
fn what_was_removed_is_missing_and_comes_back_with_its_tool() {
    let backup = "tool fs:read path
                  declare backup: fs:read, zip:pack < fs:read, net:upload < zip:pack
                  remove zip:pack";
    // Of the removed tool nothing is known to be needed: whatever replaces it decides that.
    check(backup, &[("path fs:read -> net:upload", "none"), ("time net:upload", "net:upload; missing zip:pack")]);
    check(&format!("{backup}\ntool zip:pack"), &[("time net:upload", "fs:read, zip:pack, net:upload")]);
}

#[test]
fn time_takes_the_quicker_way_and_work_the_more_reliable_one() {
    check(
        "run ok one: slow:a 900ms, d:d < slow:a 10ms
         run ok one: slow:a 900ms, d:d < slow:a 10ms
         run ok one: slow:a 900ms, d:d < slow:a 10ms
         run ok two: quick:a 50ms, d:d < quick:a 10ms",
        &[("work d:d", "slow:a, d:d"), ("time d:d", "quick:a, d:d")],
    );
}

#[test]
fn a_template_names_what_must_come_first() {
    check(
        "tool auth:login
         tool fs:read path
         template safe: auth:login > fs:read
         run ok read: fs:read",
        &[("work fs:read", "auth:login, fs:read"), ("work fs:read given auth:login", "fs:read")],
    );
}
