//! What comes next, asked of states that were folded record by record, with the vectors of the built-in embedder.

use std::sync::Arc;

use pml::ask::question;
use pml::config::Config;
use pml::core::event::{Event, FeedbackVerdict, NewRecord, Outcome, PredictionServed, RankedOutcome, Record};
use pml::core::graph::measures::Measures;
use pml::core::id::{Callee, RecordId, Seq};
use pml::core::predict::evidence::Evidence;
use pml::core::predict::explain::explain;
use pml::core::predict::signals::Signal;
use pml::core::predict::strategic::underway;
use pml::core::predict::threshold::Mode;
use pml::core::predict::{Contribution, Prediction, PredictionQuery, predict};
use pml::core::state::State;
use pml::embed::{SharedEmbedder, open};

use crate::given::{self, at, record};

/// What an office does, one line per intent: the tools it takes, in order.
const WORK: [(&str, &[&str]); 6] = [
    ("mail the quarterly report to the board", &["fs:read", "doc:summarise", "mail:send"]),
    ("send the sales figures by mail", &["fs:read", "doc:summarise", "mail:send"]),
    ("archive the old invoices", &["fs:list", "zip:pack", "fs:delete"]),
    ("pack last year's invoices and remove them", &["fs:list", "zip:pack", "fs:delete"]),
    ("translate the contract into French", &["fs:read", "doc:translate", "fs:write"]),
    ("put the manual into German", &["fs:read", "doc:translate", "fs:write"]),
];

const TOOLS: [(&str, &str); 9] = [
    ("fs:read", "Read the contents of a file"),
    ("fs:write", "Write text to a file"),
    ("fs:list", "List the files of a folder"),
    ("fs:delete", "Remove a file for good"),
    ("doc:summarise", "Summarise a long document"),
    ("doc:translate", "Translate a document into another language"),
    ("mail:send", "Send a message to somebody by mail"),
    ("zip:pack", "Pack files into an archive"),
    ("web:fetch", "Fetch a page from the web"),
];

/// A log under construction, and the state it gives.
struct Office {
    records: Vec<Record>,
    state: State,
    embedder: SharedEmbedder,
}

impl Office {
    fn new() -> Self {
        let embedder = open(&Config::load(None, []).unwrap().embedding).unwrap();
        let mut office = Self { records: Vec::new(), state: State::default(), embedder };
        for (tool, description) in TOOLS {
            office.append(given::registered(tool, description), None);
        }
        office
    }

    fn append(&mut self, event: Event, causation: Option<RecordId>) -> RecordId {
        let number = self.records.len() as u64 + 1;
        let id = RecordId::from_parts(at(number), number.into());
        let fact = NewRecord { id, time: at(number), source: "urn:test".into(), causation, envelope: None, event };
        let record = record(number, &Arc::new(fact));
        self.state.apply(&record);
        self.records.push(record);
        self.embed();
        id
    }

    /// What the embedding actor does after every record.
    fn embed(&mut self) {
        let model = self.embedder.model().to_string();
        for (_, text) in self.state.vectors.lacking(&model, usize::MAX) {
            let vector = self.embedder.embed(&[&text]).unwrap().remove(0);
            let number = self.records.len() as u64 + 1;
            let record = record(number, &given::fact(number, given::embedded(&model, &text, &vector)));
            self.state.apply(&record);
            self.records.push(record);
        }
    }

    /// One run; after its start and after each step a prediction is served, and the first of them is judged.
    fn run(&mut self, name: &str, intent: &str, tools: &[&str]) {
        let Event::ExecutionStarted(started) = given::started(name) else { unreachable!("as given") };
        let started = pml::core::event::ExecutionStarted { intent: intent.to_owned(), ..started };
        let mut cause = self.append(Event::ExecutionStarted(started), None);
        for at in 0..=tools.len() {
            let prediction = self.serve(name, intent, &tools[..at], cause);
            if at == 0 {
                let target = pml::core::event::FeedbackTarget::Prediction(prediction);
                let feedback = pml::core::event::FeedbackGiven { target, verdict: FeedbackVerdict::Accepted };
                self.append(Event::FeedbackGiven(feedback), None);
            }
            if let Some(tool) = tools.get(at) {
                cause = self.append(given::step_finished(name, &format!("s{at}"), tool, &[], true), None);
            }
        }
        self.append(given::finished(name, true), None);
        let id = name.parse().unwrap();
        let trace = self.state.executions.get(&id).unwrap().complete(&id, false);
        self.append(Event::TraceCompleted(trace), None);
    }

    fn serve(&mut self, execution: &str, intent: &str, context: &[&str], cause: RecordId) -> RecordId {
        let prediction = asked(&self.state, &self.embedder, intent, context, cause);
        let id = RecordId::from_parts(at(0), self.records.len() as u128);
        let ranked = prediction.ranked.iter();
        let served = PredictionServed {
            prediction: id,
            execution: Some(execution.parse().unwrap()),
            based_on_seq: prediction.based_on_seq,
            model: prediction.model.clone(),
            ranked: ranked.map(|r| RankedOutcome { outcome: r.outcome.clone(), probability: r.p }).collect(),
            threshold: prediction.threshold,
        };
        self.append(Event::PredictionServed(served), Some(cause));
        id
    }

    fn busy(rounds: usize) -> Self {
        let mut office = Self::new();
        for round in 0..rounds {
            for (number, (intent, tools)) in WORK.iter().enumerate() {
                office.run(&format!("e{round}-{number}"), &format!("{intent}, number {round}"), tools);
            }
        }
        office
    }
}

fn callees(tools: &[&str]) -> Vec<Callee> {
    tools.iter().map(|tool| tool.parse().unwrap()).collect()
}

fn asked(state: &State, embedder: &SharedEmbedder, intent: &str, context: &[&str], seed: RecordId) -> Prediction {
    let question = question(Some(&**embedder), intent.to_owned()).unwrap();
    predict(state, &question, &PredictionQuery { context: &callees(context), k: 5, mode: Mode::Passive, seed })
}

fn names(prediction: &Prediction) -> Vec<String> {
    let name = |outcome: &Outcome| match outcome {
        Outcome::Call(callee) => callee.to_string(),
        Outcome::Done => "done".to_owned(),
    };
    prediction.ranked.iter().map(|ranked| name(&ranked.outcome)).collect()
}

const SEED: u128 = 77;

fn seed() -> RecordId {
    RecordId::from_parts(at(0), SEED)
}

#[test]
fn what_came_before_comes_again_and_the_end_is_foreseen() {
    let office = Office::busy(4);
    let ask = |intent: &str, context: &[&str]| {
        let prediction = asked(&office.state, &office.embedder, intent, context, seed());
        let sum: f64 = prediction.ranked.iter().map(|ranked| ranked.p).sum();
        assert!(sum <= 1.0 + 1e-9 && prediction.ranked.is_sorted_by(|a, b| a.p >= b.p), "{prediction:?}");
        names(&prediction).swap_remove(0)
    };
    assert_eq!(ask("mail the annual report to the partners", &[]), "fs:read");
    assert_eq!(ask("mail the annual report to the partners", &["fs:read"]), "doc:summarise");
    assert_eq!(ask("translate the leaflet into Spanish", &["fs:read"]), "doc:translate");
    assert_eq!(ask("archive the letters", &["fs:list", "zip:pack"]), "fs:delete");
    assert_eq!(ask("archive the letters", &["fs:list", "zip:pack", "fs:delete"]), "done");
}

#[test]
fn there_is_an_answer_without_intent_without_context_and_after_an_unknown_call() {
    let office = Office::busy(2);
    let state = &office.state;
    for (intent, context) in [("", vec![]), ("", vec!["fs:list"]), ("archive it", vec!["no:such"])] {
        let prediction = asked(state, &office.embedder, intent, &context, seed());
        assert!(prediction.ranked.len() > 1, "{intent} {context:?}");
        assert_eq!(prediction.based_on_seq, state.applied());
    }
    assert_eq!(names(&asked(state, &office.embedder, "", &["fs:list"], seed()))[0], "zip:pack");
    let fresh = asked(&State::default(), &office.embedder, "anything", &[], seed());
    assert_eq!(names(&fresh), ["done"], "a state that knows nothing can only say that nothing is left");
}

#[test]
fn a_tool_nobody_used_yet_is_found_by_its_text() {
    let office = Office::busy(1);
    let prediction = asked(&office.state, &office.embedder, "fetch the page of the town from the web", &[], seed());
    assert!(names(&prediction)[..3].contains(&"web:fetch".to_owned()), "{:?}", names(&prediction));
}

#[test]
fn a_replay_gives_every_served_prediction_again_bit_for_bit() {
    let office = Office::busy(3);
    let mut state = State::default();
    let mut compared = 0;
    for record in &office.records {
        if let Event::PredictionServed(served) = record.event() {
            assert_eq!(state.applied(), served.based_on_seq);
            let execution = served.execution.as_ref().unwrap();
            let open = state.executions.get(execution).unwrap();
            let trace = open.complete(execution, false);
            let context: Vec<String> = trace.steps.iter().map(|step| step.tool.to_string()).collect();
            let context: Vec<&str> = context.iter().map(String::as_str).collect();
            let cause = record.fact.causation.unwrap();
            let again = asked(&state, &office.embedder, &trace.intent, &context, cause);
            let bits = |p: f64| p.to_bits();
            assert_eq!((again.model.as_str(), bits(again.threshold)), (served.model.as_str(), bits(served.threshold)));
            for (ranked, before) in again.ranked.iter().zip(&served.ranked) {
                assert_eq!((&ranked.outcome, bits(ranked.p)), (&before.outcome, bits(before.probability)));
            }
            compared += again.ranked.len();
        }
        state.apply(record);
        if record.seq.0 % 7 == 0 {
            // A view is taken: what follows is copied on write.
            state = state.clone();
        }
    }
    assert!(compared > 100, "{compared}");
    assert_eq!(state.digest(), office.state.digest());
}

#[test]
fn served_predictions_are_scored_by_what_came_and_move_the_thresholds() {
    let office = Office::busy(4);
    let scores = &office.state.predictor.scores;
    assert_eq!(scores.total(), 4 * 6 * 4, "after the start and after each of three steps");
    let window = scores.window(usize::MAX);
    assert!(window.hit1 > 0.5 && window.hit3 >= window.hit1 && window.n == 96, "{window:?}");
    let later = scores.window(24);
    assert!(later.hit1 > window.hit1 && later.log_loss < window.log_loss, "it learns: {later:?} {window:?}");
    assert!(office.state.predictor.thresholds.iter().count() > 3);
}

#[test]
fn lessons_change_the_weights_and_the_digest_covers_them() {
    let office = Office::busy(2);
    let logit = &office.state.predictor.logit;
    assert!(logit.examples() > 20 && logit.version() != State::default().predictor.logit.version());
    let mut other = office.state.clone();
    other.predictor.logit = pml::core::predict::logit::Logit::default();
    assert_ne!(other.digest(), office.state.digest());
}

#[test]
fn an_explanation_names_signals_and_the_records_that_taught_them() {
    let office = Office::busy(3);
    let question = question(Some(&*office.embedder), "archive the letters of the year".to_owned()).unwrap();
    let evidence = Evidence::for_question(&office.state, &question);
    let context = callees(&["fs:list"]);
    let asked = PredictionQuery { context: &context, k: 3, mode: Mode::Asked, seed: seed() };
    let why = explain(&office.state, &evidence, &asked, None).unwrap();
    assert_eq!((why.rank, why.ranked.outcome.clone()), (1, Outcome::Call("zip:pack".parse().unwrap())));
    let score = |ranked: &pml::core::predict::Ranked| ranked.contributions().iter().map(Contribution::amount).sum::<f64>();
    let (first, second) = (&why.prediction.ranked[0], &why.prediction.ranked[1]);
    let odds = (score(first) - score(second)).exp();
    assert!((first.p / second.p / odds - 1.0).abs() < 1e-9, "the contributions are what the odds are made of");
    let transition = why.supporting.iter().find(|trace| trace.signal == Signal::Transition).unwrap();
    let taught_by = |seq: Seq| office.records.iter().find(|record| record.seq == seq).unwrap();
    let Event::TraceCompleted(trace) = taught_by(transition.seq).event() else { panic!("a trace teaches") };
    assert_eq!((&trace.execution, trace.intent.as_str()), (&transition.execution, &*transition.intent));
    let memory = why.supporting.iter().find(|trace| trace.signal == Signal::MemoryNext).unwrap();
    assert!(memory.intent.contains("invoices") && memory.similarity.unwrap() > 0.3, "{memory:?}");
    let done = explain(&office.state, &evidence, &asked, Some(&Outcome::Done)).unwrap();
    assert!(done.rank > 1);
    let unknown = Outcome::Call("no:such".parse().unwrap());
    assert!(explain(&office.state, &evidence, &asked, Some(&unknown)).is_none());
}

#[test]
fn capabilities_under_way_are_those_the_context_is_part_of() {
    let office = Office::busy(1);
    let measures = Measures::default();
    let found = underway(&office.state, &measures, &callees(&["fs:list", "zip:pack"]), 5);
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert!((one.overlap - 2.0 / 3.0).abs() < 1e-12 && (one.score - one.overlap).abs() < 1e-12);
    let missing: Vec<Callee> = one.missing.iter().map(|node| office.state.callee(*node)).collect();
    assert_eq!(missing, callees(&["fs:delete"]));
    assert_eq!(underway(&office.state, &measures, &callees(&["fs:read"]), 5).len(), 2);
    assert!(underway(&office.state, &measures, &callees(&["fs:list", "zip:pack", "fs:delete"]), 5).is_empty());
    assert!(underway(&office.state, &measures, &[], 5).is_empty());
}
