//! Suggestions on small histories. Texts are embedded as bags of words, so texts with the same words are similar.

use std::sync::Arc;

use super::*;
use crate::given::History;
use crate::hash::fnv1a;
use crate::rank::Clause;
use crate::text::{clauses, words};

const DIM: usize = 256;

/// The words of a text as a vector: each word in a dimension of its own, as far as the hash keeps them apart.
fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0_f32; DIM];
    for word in words(text) {
        let at = usize::try_from(fnv1a(word.as_bytes()) % DIM as u64).unwrap();
        vector[at] += 1.0;
    }
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / norm.max(1.0)).collect()
}

fn question(intent: &str) -> Question {
    let clause = |text: &str| Clause { text: text.to_owned(), vector: Some(vector(text)) };
    let clauses = clauses(intent).into_iter().map(clause).collect();
    Question { intent: intent.to_owned(), vector: Some(vector(intent)), clauses }
}

/// Everything that suggestions are computed from.
struct Derived {
    history: History,
    index: Index,
    paths: PathIndex,
    graph: Adjacency,
    model: PlanModel,
}

impl Derived {
    fn new(lines: &str) -> Self {
        let mut history = History::default();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            history.line(line);
            history.embed(vector);
        }
        let index = Index::default().update(Arc::new(history.state.clone())).calibrated();
        let paths = PathIndex::from_state(&history.state);
        let graph = Adjacency::from_state(&history.state, &[]);
        let model = PlanModel::default().fitted(&index);
        Self { history, index, paths, graph, model }
    }

    fn suggest(&self, intent: &str, context: &[&str]) -> Suggestion {
        let context: Vec<Callee> = context.iter().map(|callee| callee.parse().unwrap()).collect();
        let sources = Sources { index: &self.index, paths: &self.paths, graph: &self.graph, model: &self.model };
        suggest(sources, &question(intent), &context)
    }
}

/// The tasks as `tool(layer)`.
fn shown(plan: Option<&SuggestedPlan>) -> String {
    let task = |task: &SuggestedTask| format!("{}({})", task.callee, task.layer);
    plan.map_or("none".to_owned(), |plan| plan.tasks.iter().map(task).collect::<Vec<_>>().join(" "))
}

/// Thirty runs of two procedures with varied intents, enough to fit the model.
fn two_procedures() -> String {
    let tools =
        "tool fs:read path\ntool zip:pack files\ntool net:upload archive\ntool mail:search query\ntool mail:send address\n";
    let runs = |number: u32| {
        format!(
            "run ok back up the file report{number} to the archive: fs:read, zip:pack < fs:read, net:upload < zip:pack\n\
             run ok find mail and send answer to person{number}: mail:search, mail:send < mail:search\n"
        )
    };
    std::iter::once(tools.to_owned()).chain((0..15).map(runs)).collect()
}

#[test]
fn a_familiar_intent_gets_the_plan_that_worked_with_order_and_layers() {
    let derived = Derived::new(&two_procedures());
    let backup = derived.suggest("back up the file holiday to the archive", &[]);
    assert_eq!(shown(backup.best.as_ref()), "fs:read(0) zip:pack(1) net:upload(2)");
    assert!(backup.is_sure, "{backup:?}");
    assert_eq!(backup.suggested_capabilities.len(), 1, "the run is a capability of its own");
    assert!(backup.missing.is_empty());
    let mail = derived.suggest("find mail and send answer to grandmother", &[]);
    assert_eq!(shown(mail.best.as_ref()), "mail:search(0) mail:send(1)");
    assert!(mail.best.unwrap().rationale.iter().all(|reason| !reason.is_empty()));
}

#[test]
fn what_a_person_retired_is_not_suggested_and_its_tools_still_are() {
    let derived = Derived::new(&format!("{}retire 0", two_procedures()));
    let backup = derived.suggest("back up the file holiday to the archive", &[]);
    assert_eq!(shown(backup.best.as_ref()), "fs:read(0) zip:pack(1) net:upload(2)");
    assert!(backup.suggested_capabilities.is_empty(), "{backup:?}");
    let mail = derived.suggest("find mail and send answer to grandmother", &[]);
    assert_eq!(mail.suggested_capabilities.len(), 1, "the other one is offered as before");
}

#[test]
fn the_same_question_has_the_same_answer() {
    let (one, other) = (Derived::new(&two_procedures()), Derived::new(&two_procedures()));
    for intent in ["back up the file holiday", "send mail", "something else entirely"] {
        assert_eq!(one.suggest(intent, &[]), other.suggest(intent, &[]));
    }
}

#[test]
fn what_is_done_already_is_not_planned_again() {
    let derived = Derived::new(&two_procedures());
    let rest = derived.suggest("back up the file holiday to the archive", &["fs:read"]);
    assert_eq!(shown(rest.best.as_ref()), "zip:pack(0) net:upload(1)");
}

#[test]
fn an_unknown_intent_is_answered_with_a_guess_that_says_so() {
    let derived = Derived::new(&two_procedures());
    let guess = derived.suggest("paint the ceiling blue", &[]);
    assert!(!guess.is_sure, "{guess:?}");
    let rationale = guess.best.map_or_else(Vec::new, |plan| plan.rationale);
    assert!(rationale.iter().all(|reason| !reason.starts_with("expected")), "{rationale:?}");
}

#[test]
fn a_plan_before_one_with_likelier_tools_says_why() {
    let derived = Derived::new(&two_procedures());
    let plan = derived.suggest("find mail and send answer to grandmother", &[]).best.unwrap();
    let explained = |likelier_by: f64| {
        let (mut best, mut other) = (plan.clone(), plan.clone());
        other.confidence += likelier_by;
        explain_order(&mut best, &[other]);
        best.rationale.len() > plan.rationale.len()
    };
    assert!(explained(0.1));
    assert!(!explained(0.0) && !explained(-0.1));
}

#[test]
fn nothing_known_gives_nothing_and_descriptions_alone_give_a_plan() {
    assert_eq!(shown(Derived::new("").suggest("read a file", &[]).best.as_ref()), "none");
    let cold = Derived::new("tool fs:read_file path\ntool net:upload_archive archive\ntool mail:send_answer address");
    assert_eq!(shown(cold.suggest("read the file", &[]).best.as_ref()), "fs:read_file(0)");
}

#[test]
fn alternatives_differ_and_are_at_most_three() {
    let derived = Derived::new(&two_procedures());
    let suggestion = derived.suggest("find mail and back up the file", &[]);
    assert!(suggestion.alternatives.len() <= 3);
    let tools = |plan: &SuggestedPlan| plan.tasks.iter().map(|task| task.callee.to_string()).collect::<Vec<_>>();
    let all: Vec<Vec<String>> = suggestion.best.iter().chain(&suggestion.alternatives).map(tools).collect();
    for (at, one) in all.iter().enumerate() {
        assert!(all[at + 1..].iter().all(|other| f1(one, other) <= OVERLAP_MAX), "{all:?}");
    }
}

#[test]
fn what_a_template_demands_and_a_removed_tool_are_missing() {
    let derived = Derived::new(&format!("tool auth:login\n{}template safe: auth:login > net:upload", two_procedures()));
    let backup = derived.suggest("back up the file holiday to the archive", &[]);
    let missing: Vec<(String, String, bool)> = backup
        .missing
        .iter()
        .map(|missing| (missing.callee.to_string(), missing.needed_by.to_string(), missing.is_callable))
        .collect();
    assert_eq!(missing, [("auth:login".to_owned(), "net:upload".to_owned(), true)]);
    let derived = Derived::new(&format!("{}remove zip:pack", two_procedures()));
    let backup = derived.suggest("back up the file holiday to the archive", &[]);
    assert_eq!(shown(backup.best.as_ref()), "fs:read(0) net:upload(0)");
    assert_eq!(backup.missing.len(), 1);
    assert!(!backup.missing[0].is_callable && backup.missing[0].callee.to_string() == "zip:pack");
}

#[test]
fn arguments_are_those_of_the_schema_and_what_no_earlier_task_feeds_has_to_be_supplied() {
    let derived = Derived::new(&two_procedures());
    let best = derived.suggest("back up the file holiday to the archive", &[]).best.unwrap();
    let arguments: Vec<(&str, bool, Option<usize>)> =
        best.tasks.iter().flat_map(|task| &task.arguments).map(|it| (it.name.as_str(), it.required, it.fed_by)).collect();
    assert_eq!(arguments, [("path", true, None), ("files", true, Some(0)), ("archive", true, Some(1))]);
    let node = |name: &str| derived.history.node(name);
    let state = &derived.history.state;
    assert_eq!(arguments::arguments(state, node("fs:read"), &[]).len(), 1);
}
