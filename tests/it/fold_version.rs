//! The fold has a version. The digest of a fixed log is pinned to it, so that nobody changes the fold and keeps the number: snapshots
//! made before would be folded on into states that no fold of the log gives.
//!
//! The log is made here, from whole numbers, so that it is the same on every machine.

use pml::core::event::{
    CapabilityApproved, CapabilityMerged, CapabilityRenamed, CapabilityRetired, CurvePoint, CurveStage, DeclaredStructure,
    Event, ExecutionStarted, FeedbackGiven, FeedbackTarget, FeedbackVerdict, Json, Kind, LogForked, ModelMetric, ModelPart,
    ModelRolledBack, ModelTrained, ModelVersion, StepSpeculated, StructureEdge, StructureNode, ToolAnnotations, ToolApproved,
    ToolOutputInferred, ToolQuarantined, ToolRegistered,
};
use pml::core::graph::Node;
use pml::core::graph::edge::EdgeKind;
use pml::core::graph::transition::Symbol;
use pml::core::id::{Callee, ExecutionId, Seq};
use pml::core::predict::asked::prediction_id;
use pml::core::predict::ranker::{NextWeights, RankerWeights};
use pml::core::predict::signals::{Signal, StepKind};
use pml::core::state::{FOLD, State};
use pml::core::text::clauses;
use pml::core::train::TrainedPart;

use crate::given::{self, History};

/// The fold version, and the digest of the log below under it.
const PINNED: (u32, &str) = (7, "1b3c8c1f4372a6fda15c070c10b6908bbd2322d6b04f8f6b20100765d99265c7");

const TOOLS: usize = 24;
const RUNS: u64 = 48;
const DIM: usize = 8;
/// Prime to 17.
const WIDE_STEPS: usize = 40;

/// Numbers that look random and are the same everywhere (Knuth, MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn tool(number: usize) -> String {
    format!("server{}:tool{number}", number % 5)
}

fn intent(number: usize) -> String {
    let verbs = ["read", "pack", "mail", "rename", "translate", "count"];
    let things = ["the report", "all invoices", "a picture", "her notes", "the log"];
    let (verb, thing) = (verbs[number % verbs.len()], things[number % things.len()]);
    format!("{verb} {thing}, then {} {}", verbs[(number + 1) % verbs.len()], things[number / 2 % things.len()])
}

/// Halves of small whole numbers: exact in every format, whatever the machine.
fn vector(text: &str, model: &str) -> Vec<f32> {
    let mut vector = vec![0.5_f32; DIM];
    for (at, byte) in model.bytes().chain(text.bytes()).enumerate() {
        vector[(at + usize::from(byte)) % DIM] += f32::from(byte % 4) / 2.0;
    }
    vector
}

fn described(number: usize) -> Event {
    let hint = number.is_multiple_of(3).then_some(number.is_multiple_of(2));
    Event::ToolRegistered(ToolRegistered {
        tool: tool(number).parse().unwrap(),
        name: format!("tool {number}"),
        description: format!("Can {} and more of the kind", intent(number)),
        input_schema: None,
        output_schema: None,
        annotations: Some(ToolAnnotations { read_only: hint, destructive: hint, ..ToolAnnotations::default() }),
    })
}

fn started(execution: &str, intent: String) -> Event {
    Event::ExecutionStarted(ExecutionStarted {
        execution: execution.parse().unwrap(),
        intent,
        session: Some("session".parse().unwrap()),
        agent: Some("agent".to_owned()),
        parent: None,
    })
}

/// Gives every text that lacks one a vector of `model`.
fn embed(history: &mut History, model: &str) {
    for (_, text) in history.state.vectors.lacking(model, usize::MAX) {
        history.append(given::embedded(model, &text, &vector(&text, model)));
    }
}

/// One execution: some steps announced, some failing, data flow to earlier steps, now and then a capability called as a tool, and a
/// prediction before every other step.
fn run(history: &mut History, numbers: &mut Numbers, run: u64) {
    let execution = format!("run{run}");
    // The same procedures come again and again, with other intents.
    let procedure = numbers.below(12);
    history.append(started(&execution, intent(numbers.below(20))));
    let steps = 1 + procedure % 6;
    for step in 0..steps {
        let callee = if procedure == 7 && step == 1 { known_capability(&history.state) } else { tool(procedure + step * 3) };
        let name = format!("s{step}");
        if numbers.below(2) == 0 {
            let ranked = [(Some(tool(procedure + step * 3)), 0.5), (Some(tool(step)), 0.25), (None, 0.125)];
            let ranked = ranked.each_ref().map(|(tool, p)| (tool.as_deref(), *p));
            let number = run * 10 + step as u64;
            history.append(given::prediction_served(number, Some(&execution), &ranked));
            let verdict = [FeedbackVerdict::Accepted, FeedbackVerdict::Ignored, FeedbackVerdict::Rejected][numbers.below(3)];
            history.append(given::feedback(number, verdict));
            history.append(given::plan_feedback(number % 7, verdict));
        }
        if numbers.below(3) == 0 {
            history.append(given::step_started(&execution, &name, &callee));
        }
        let before = format!("s{}", numbers.below(step.max(1)));
        let uses: &[&str] = if step > 0 && !procedure.is_multiple_of(3) { &[&before] } else { &[] };
        history.append(given::step_finished(&execution, &name, &callee, uses, numbers.below(10) > 0));
    }
    if run % 16 == 15 {
        history.append(given::step_started(&execution, "unfinished", &tool(0)));
    }
    history.append(given::finished(&execution, numbers.below(8) > 0));
    if run % 12 != 11 {
        history.close(&execution);
    }
}

/// A capability learnt so far, as a callee; a tool while there is none.
fn known_capability(state: &State) -> String {
    state.capabilities.iter().next().map_or_else(|| tool(1), |known| Callee::Capability(known.id).text().into_owned())
}

/// A procedure that calls a capability, with every kind of edge and a loop.
fn declared(state: &State) -> Event {
    let calls = [tool(2), known_capability(state), tool(4)];
    let id = |at: usize| format!("n{at}").parse().unwrap();
    let node = |(at, callee): (usize, &String)| StructureNode { id: id(at), callee: callee.parse().unwrap() };
    let edge = |(from, to, kind)| StructureEdge { from: id(from), to: id(to), kind };
    let Event::CapabilityDeclared(mut declared) = given::declared("with a loop", &[]) else { unreachable!() };
    "Tries again until it works".clone_into(&mut declared.description);
    declared.code = Some("while not done".to_owned());
    declared.structure = DeclaredStructure {
        nodes: calls.iter().enumerate().map(node).collect(),
        edges: [(0, 1, EdgeKind::Provides), (1, 0, EdgeKind::Provides), (1, 2, EdgeKind::Sequence), (0, 2, EdgeKind::Contains)]
            .map(edge)
            .to_vec(),
    };
    Event::CapabilityDeclared(declared)
}

/// An execution whose steps were announced in one order, finished in another, and depend on many.
fn wide(history: &mut History) {
    let name = |step: usize| format!("s{:02}", step * 17 % WIDE_STEPS);
    history.append(started("wide", intent(3)));
    for step in 0..WIDE_STEPS {
        history.append(given::step_started("wide", &name(WIDE_STEPS - 1 - step), &tool((WIDE_STEPS - 1 - step) % 7)));
    }
    for step in 0..WIDE_STEPS {
        let uses: Vec<String> = (0..step).filter(|on| (step - on) % 3 == 1).map(name).collect();
        let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
        history.append(given::step_finished("wide", &name(step), &tool(step % 7), &uses, true));
    }
    history.append(given::finished("wide", true));
    history.close("wide");
}

/// Runs of a declared capability, in a loop that repeats one call: one has its program, the other names it.
fn program(history: &mut History) {
    let declared = history.state.capabilities.iter().find(|known| known.name == "with a loop").unwrap().id;
    for (execution, code) in [("program", "while not done".to_owned()), ("named", format!("capability:{declared}"))] {
        history.append(started(execution, intent(4)));
        for step in ["s0", "s1"] {
            history.append(given::step_finished(execution, step, &tool(2), &[], true));
        }
        history.append(given::finished_program(execution, true, &code));
        history.close(execution);
    }
}

fn history() -> History {
    let (mut history, mut numbers) = (History::default(), Numbers(1));
    for number in 0..TOOLS {
        history.append(described(number));
    }
    let (first, second, third) = (tool(0), tool(3), tool(6));
    history.append(given::template("flow", &[(&first, &second), (&second, &third)]));
    history.append(given::declared("pack and send", &[&first, &second, &third]));
    for number in 0..RUNS {
        run(&mut history, &mut numbers, number);
        if number % 4 == 3 {
            embed(&mut history, "old");
        }
        if number == RUNS / 2 {
            let event = declared(&history.state);
            history.append(event);
            history.append(given::removed(&tool(5)));
            history.append(described(5 + TOOLS));
            history.append(given::template("flow", &[(&first, &third)]));
        }
    }
    wide(&mut history);
    program(&mut history);
    // Late, stray and repeated: a step of a closed execution, a trace that nobody started, a fork.
    history.append(given::step_finished("run0", "late", &first, &[], true));
    history.append(given::step_finished("stray", "s0", &first, &[], false));
    let stray: ExecutionId = "stray".parse().unwrap();
    let abandoned = history.state.executions.get(&stray).unwrap().complete(&stray, true);
    history.append(Event::TraceCompleted(abandoned));
    history.append(Event::LogForked(LogForked { parent_seq: Seq(7), parent_digest: "d".to_owned(), settings: Vec::new() }));
    quarantine(&mut history);
    decide(&mut history);
    // Another embedding model takes over.
    embed(&mut history, "new");
    train(&mut history);
    history
}

/// Tools change their definitions: one change is approved, one is withdrawn, one waits; and what a tool answers is inferred.
fn quarantine(history: &mut History) {
    for number in 0..3 {
        let Event::ToolRegistered(known) = described(number) else { unreachable!("described is a registration") };
        let listed = ToolRegistered { description: format!("{}, changed", known.description), ..known.clone() };
        let approved = [Some(listed.definition()), Some(known.definition()), None];
        history.append(Event::ToolQuarantined(ToolQuarantined { listed }));
        if let Some(definition) = approved[number].clone() {
            history.append(Event::ToolApproved(ToolApproved { tool: known.tool.clone(), definition }));
        }
        history.append(Event::StepSpeculated(StepSpeculated {
            execution: "e1".parse().unwrap(),
            step: "s1".parse().unwrap(),
            tool: known.tool.clone(),
            success: true,
            duration_ms: 3,
            used: number == 0,
        }));
        let asked = prediction_id(Symbol::call(Node::tool(0)), "read", &[]);
        let target = FeedbackTarget::Prediction(asked);
        history.append(Event::FeedbackGiven(FeedbackGiven { target, verdict: FeedbackVerdict::Accepted }));
        let output_schema = Json::from_valid(r#"{"type":"string"}"#);
        history.append(Event::ToolOutputInferred(ToolOutputInferred { tool: known.tool, output_schema }));
    }
}

/// People decide about capabilities: each decision is in force for one of them and taken back for another.
fn decide(history: &mut History) {
    let ids: Vec<_> = history.state.capabilities.rows().filter(|row| row.usage > 0).map(|row| row.id).collect();
    for (at, &capability) in ids.iter().enumerate().take(6) {
        history.append(Event::CapabilityRenamed(CapabilityRenamed { capability, name: Some(format!("name {at}")) }));
        history.append(Event::CapabilityApproved(CapabilityApproved { capability, approved: true }));
        history.append(Event::CapabilityRetired(CapabilityRetired { capability, retired: at % 2 == 0 }));
        history.append(Event::CapabilityMerged(CapabilityMerged { capability, into: Some(ids[at + 1]) }));
    }
    history.append(Event::CapabilityRenamed(CapabilityRenamed { capability: ids[0], name: None }));
    history.append(Event::CapabilityApproved(CapabilityApproved { capability: ids[1], approved: false }));
    history.append(Event::CapabilityMerged(CapabilityMerged { capability: ids[2], into: None }));
}

/// A version of the ranker is trained and serves, then another, which is rolled back.
fn train(history: &mut History) {
    for weight in [0.25, 0.5] {
        let first = Signal::ALL.map(|signal| signal.prior(StepKind::First) + weight);
        let next = Some(NextWeights { first, later: Signal::ALL.map(|signal| signal.prior(StepKind::Later)) });
        let bytes = RankerWeights { requires: Vec::new(), next, discover: None, plan: None }.to_bytes();
        let digest = blake3::hash(&bytes).to_hex().to_string();
        let event = ModelTrained {
            version: ModelVersion::new(ModelPart::Ranker, &digest),
            parent: None,
            seed: 1,
            through_seq: history.state.applied(),
            intents_end: history.state.memory.next_number(),
            embedding_model: None,
            examples: 10,
            skipped: 0,
            settings: Vec::new(),
            metrics: vec![ModelMetric { name: "next.mrr".to_owned(), value: 0.5, n: 10 }],
            digest,
            size: bytes.len() as u64,
            accepted: true,
            reason: "better".to_owned(),
            curve: vec![CurvePoint { stage: CurveStage::Fit, epoch: 1, loss: 0.5, validation: None }],
        };
        for event in (TrainedPart { event, bytes, retires: false }).events() {
            history.append(event);
        }
    }
    let to = history.state.trained.serving(ModelPart::Ranker).previous.clone();
    history.append(Event::ModelRolledBack(ModelRolledBack { part: ModelPart::Ranker, to, reason: "worse".to_owned() }));
}

#[test]
fn a_change_of_the_fold_raises_its_version() {
    let found = history().state.digest().to_string();
    assert_eq!(
        (FOLD, found.as_str()),
        PINNED,
        "\nthe same records fold into another state than before. If that is not wanted, undo it. If it is: raise FOLD in \
         src/core/state.rs by one, so that snapshots of the old fold are not folded on by the new one, set PINNED in \
         tests/it/fold_version.rs to ({}, \"{found}\"), and name the change in CHANGELOG.md",
        PINNED.0 + 1
    );
}

#[test]
fn the_pinned_log_covers_every_kind_of_event_and_every_part_of_the_state() {
    let History { state, .. } = history();
    for kind in Kind::ALL {
        assert!(state.count(kind) > 0, "{kind}");
    }
    assert!(state.events() > 300, "{} records", state.events());
    assert!(state.late() > 0 && !state.executions.is_empty() && state.executions.traces_len() > 30);
    let levels = || state.capabilities.iter().map(|capability| capability.level);
    assert!(state.capabilities.len() > 8 && levels().max() > Some(0), "capabilities, and some that call others");
    assert!(state.graph.edge_count() > 20 && state.templates.len() == 1 && state.memory.len() > 10);
    let predictor = &state.predictor;
    assert!(predictor.lessons.taken() > 50 && predictor.logit.examples() > 100, "{} lessons", predictor.lessons.taken());
    assert!(predictor.scores.total() > 30 && predictor.thresholds.iter().count() > 5);
    assert!(predictor.feedback.iter().count() > 5);
    assert!(clauses(&intent(0)).len() > 1, "intents have clauses, whose vectors count too");
    assert!(state.predictor.version().starts_with("ranker-") && state.trained.versions().count() == 2);
    assert_eq!(state.vectors.model().map(|model| &**model), Some("new"), "a model that took over serves");
}
