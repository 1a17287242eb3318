//! Training on states that were folded record by record, with vectors made from the words of a text.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::*;
use crate::event::{EmbeddingComputed, NewRecord, Outcome, Record, ToolRegistered, TraceCompleted, TraceStep};
use crate::hash::mix;
use crate::id::{Callee, RecordId};
use crate::predict::evidence::Evidence;
use crate::predict::threshold::Mode;
use crate::predict::{PredictionQuery, predict_with};
use crate::rank::{Clause, Question};
use crate::text::clauses;
use crate::time::Timestamp;

const MODEL: &str = "words";
const DIM: usize = 24;
const TOOLS: usize = 8;
const VERBS: [&str; TOOLS] = ["read", "pack", "mail", "rename", "print", "sign", "count", "erase"];
const THINGS: [&str; 10] =
    ["report", "invoice", "picture", "note", "letter", "budget", "contract", "drawing", "order", "ledger"];
const PLACES: [&str; 9] = ["Rome", "Oslo", "Lima", "Cairo", "Paris", "Quito", "Delhi", "Perth", "Seoul"];

/// A workspace whose state is folded record by record, with every text embedded before the next trace.
#[derive(Default)]
struct Workspace {
    state: State,
}

/// The vector of a text: the sum of one direction per word, of length one.
fn vector(text: &str) -> Vec<f32> {
    let mut sum = [0.0_f32; DIM];
    for word in text.split(' ') {
        let seed = word.bytes().fold(17, |seed, byte| mix(seed ^ u64::from(byte)));
        for (at, value) in (0..).zip(&mut sum) {
            let bits = u16::try_from(mix(seed ^ mix(at)) >> 48).unwrap();
            *value += f32::from(bits) / 32_768.0 - 1.0;
        }
    }
    let length = libm::sqrtf(sum.iter().map(|value| value * value).sum::<f32>());
    sum.iter().map(|value| value / length).collect()
}

fn tool(number: usize) -> Callee {
    format!("office:t{number}").parse().unwrap()
}

/// Intent `number`: two clauses, each with a verb. Returns the verbs.
fn intent(number: usize) -> (String, [usize; 2]) {
    let draw = |at: usize, count: usize| usize::try_from(mix((number * 8 + at) as u64) % count as u64).unwrap();
    let verbs = [draw(0, TOOLS), draw(1, TOOLS)];
    let clause = |at: usize| {
        format!("{} {} {}", VERBS[verbs[at]], THINGS[draw(2 + at, THINGS.len())], PLACES[draw(4 + at, PLACES.len())])
    };
    (format!("{}, then {}", clause(0), clause(1)), verbs)
}

impl Workspace {
    fn new() -> Self {
        let mut workspace = Self::default();
        for number in 0..TOOLS {
            let Callee::Tool(tool) = tool(number) else { unreachable!("a tool") };
            let description = format!("component {number} suite");
            workspace.apply(Event::ToolRegistered(ToolRegistered {
                name: tool.name().to_owned(),
                description,
                input_schema: None,
                output_schema: None,
                annotations: None,
                tool,
            }));
        }
        workspace
    }

    fn apply(&mut self, event: Event) {
        let seq = self.state.applied().next();
        let time = Timestamp::from_micros(i64::try_from(seq.0).unwrap() * 1_000_000);
        let id = RecordId::from_parts(time, u128::from(seq.0));
        let fact = NewRecord { id, time, source: "urn:test".into(), causation: None, envelope: None, event };
        self.state.apply(&Record { seq, recorded_at: time, fact: Arc::new(fact) });
    }

    /// Learns the trace of intent `number`; `habit` says which tool serves a verb.
    fn learn(&mut self, number: usize, habit: impl Fn(usize) -> usize) {
        let (intent, verbs) = intent(number);
        let step = |(at, verb): (usize, usize)| TraceStep {
            step: format!("s{at}").parse().unwrap(),
            tool: tool(habit(verb)),
            depends_on: Vec::new(),
            success: true,
            duration_ms: None,
            error_kind: None,
        };
        self.apply(Event::TraceCompleted(TraceCompleted {
            execution: format!("e{number}").parse().unwrap(),
            session: None,
            agent: None,
            intent,
            steps: verbs.into_iter().enumerate().map(step).collect(),
            success: true,
            started: Timestamp::from_micros(0),
            ended: Timestamp::from_micros(1),
            abandoned: false,
            code: None,
        }));
        for (hash, text) in self.state.vectors.lacking(MODEL, usize::MAX) {
            let (text_hash, model) = (hash.to_string(), MODEL.to_owned());
            self.apply(Event::EmbeddingComputed(EmbeddingComputed { text_hash, model, vector: vector(&text) }));
        }
    }

    /// Trains, and records the result as the trainer does.
    fn train(&mut self, settings: &TrainSettings) -> Vec<TrainedPart> {
        let parts = self.trained(settings);
        self.record(&parts);
        parts
    }

    fn trained(&self, settings: &TrainSettings) -> Vec<TrainedPart> {
        train(&self.state, settings, seed(&self.state), &mut |_| ControlFlow::Continue(())).unwrap()
    }

    fn record(&mut self, parts: &[TrainedPart]) {
        for event in parts.iter().flat_map(TrainedPart::events) {
            self.apply(event);
        }
    }

    /// How many first calls of the intents that nothing was learnt from are predicted right, and the mean log-loss.
    fn quality(&self, habit: impl Fn(usize) -> usize) -> (usize, f64) {
        let (mut hits, mut loss) = (0, 0.0);
        for number in 10_000..10_100 {
            let (intent, verbs) = intent(number);
            let clause = |text: &str| Clause { text: text.to_owned(), vector: Some(vector(text)) };
            let parts = clauses(&intent).into_iter().map(clause).collect();
            let question = Question { vector: Some(vector(&intent)), clauses: parts, intent };
            let seed = RecordId::from_parts(Timestamp::from_micros(0), 1);
            let query = PredictionQuery { context: &[], k: usize::MAX, mode: Mode::Asked, seed };
            let prediction = predict_with(&self.state, &Evidence::for_question(&self.state, &question), &query);
            let right = Outcome::Call(tool(habit(verbs[0])));
            hits += usize::from(prediction.ranked[0].outcome == right);
            let p = prediction.ranked.iter().find(|ranked| ranked.outcome == right).map_or(0.0, |ranked| ranked.p);
            loss -= libm::log(p.max(1e-6)) / 100.0;
        }
        (hits, loss)
    }
}

fn accepted(parts: &[TrainedPart], part: ModelPart) -> bool {
    parts.iter().any(|trained| trained.event.version.part() == part && trained.event.accepted)
}

/// The head alone learns which tool serves a verb, and the ranker how much that counts: quick enough to train again and again.
fn head_only() -> TrainSettings {
    TrainSettings { parts: vec![ModelPart::Head], ..TrainSettings::default() }
}

/// Traces of the new habits after which a challenger has won; it takes 20 here.
const DRIFT_TRACES_MAX: usize = 40;
/// Traces after which the first answers are right one and a half times as often as without training; 20 of 100 against 11 here.
const ADAPTED_TRACES: usize = 80;

#[test]
fn a_challenger_wins_soon_after_the_habits_have_changed() {
    let (before, after) = (|verb: usize| verb, |verb: usize| (verb + TOOLS / 2) % TOOLS);
    let mut workspace = Workspace::new();
    (0..120).for_each(|number| workspace.learn(number, before));
    let parts = workspace.train(&head_only());
    assert!(accepted(&parts, ModelPart::Ranker), "{}", parts.last().unwrap().event.reason);
    // The same workspace, whose model is never trained again.
    let mut frozen = Workspace { state: workspace.state.clone() };
    let mut won_after = None;
    for learnt in (0..ADAPTED_TRACES).step_by(20) {
        for number in 120 + learnt..140 + learnt {
            workspace.learn(number, after);
            frozen.learn(number, after);
        }
        if accepted(&workspace.train(&head_only()), ModelPart::Ranker) {
            won_after.get_or_insert(learnt + 20);
        }
        let ((_, loss), (_, frozen_loss)) = (workspace.quality(after), frozen.quality(after));
        assert!(won_after.is_none() || loss < frozen_loss, "after {learnt} traces: {loss} against {frozen_loss}");
    }
    assert!(won_after.is_some_and(|traces| traces <= DRIFT_TRACES_MAX), "{won_after:?}");
    let ((hits, _), (frozen_hits, _)) = (workspace.quality(after), frozen.quality(after));
    assert!(2 * hits >= 3 * frozen_hits, "{hits} of 100 against {frozen_hits}");
}

#[test]
fn a_run_is_repeated_from_the_settings_that_it_recorded() {
    let mut workspace = Workspace::new();
    (0..40).for_each(|number| workspace.learn(number, |verb| verb));
    let mut settings = TrainSettings::default();
    (settings.head.patience, settings.head.binary_share, settings.head.failed_weight) = (1, 0.25, 0.5);
    (settings.encoder.units, settings.encoder.gradient_max, settings.encoder.epochs_max) = (12, 0.5, 4);
    (settings.shgat.epochs, settings.shgat.calibration, settings.shgat.patience) = (3, 0.1, 2);
    Switch::Temporal.turn_off(&mut settings.shgat.switches);
    let parts = workspace.trained(&settings);
    let run: Vec<ModelTrained> = parts.iter().map(|part| part.event.clone()).collect();
    let digests = |parts: &[TrainedPart]| parts.iter().map(|part| part.event.digest.clone()).collect::<Vec<_>>();
    assert_eq!(digests(&workspace.trained(&TrainSettings::recorded(&run))), digests(&parts));
    let usual = TrainSettings { parts: settings.parts.clone(), ..TrainSettings::default() };
    assert_ne!(digests(&workspace.trained(&usual)), digests(&parts));
}

#[test]
fn a_run_can_be_stopped_at_every_step_of_the_fit_and_the_gate() {
    let mut workspace = Workspace::new();
    (0..40).for_each(|number| workspace.learn(number, |verb| verb));
    let settings = TrainSettings { parts: Vec::new(), ..TrainSettings::default() };
    let mut steps = 0_i32;
    train(&workspace.state, &settings, 1, &mut |step| {
        assert!(matches!(step, TrainStep::Gate), "no part is trained");
        steps += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(steps > 100, "{steps} steps");
    for last in [0, 1, steps / 3, steps / 2, steps - 1] {
        let mut left = last;
        let stopped = train(&workspace.state, &settings, 1, &mut |_| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(stopped.unwrap_err(), TrainError::Stopped, "step {last}");
    }
}

#[test]
fn a_training_begins_with_the_priorities_that_the_last_one_left() {
    let mut workspace = Workspace::new();
    (0..160).for_each(|number| workspace.learn(number, |verb| verb));
    let settings = TrainSettings { parts: vec![ModelPart::Shgat], ..TrainSettings::default() };
    let starting = |state: &State| {
        let data = TrainingData::new(state);
        let runs = shgat::ShgatRuns::new(state, &data, &settings.shgat, 1);
        runs.starting_priorities()
    };
    assert_eq!(starting(&workspace.state).iter().count(), 0);
    let mut parts = workspace.trained(&settings);
    parts.truncate(1);
    assert!(!parts[0].bytes.is_empty(), "{}", parts[0].event.reason);
    parts[0].event.accepted = true;
    workspace.record(&parts);
    let left = starting(&workspace.state);
    assert_eq!(left.iter().count(), 160, "one per trace");
    assert!(left.iter().any(|(trace, priority)| (priority - left.get(u128::MAX)).abs() > 0.1 && trace > 0));
    // New traces are as surprising as unknown ones.
    workspace.learn(160, |verb| verb);
    assert_eq!(starting(&workspace.state), left);
    let again = workspace.trained(&settings);
    assert_ne!(again[0].event.digest, parts[0].event.digest);
}
