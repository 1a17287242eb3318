//! Lessons: training examples for the logit, drawn from the memory during the fold. A lesson predicts the steps of a remembered
//! intent as if the intent had never been seen, and the logit learns from the calls that were made.
//!
//! Lessons come from the memory, not from the trace at hand: the vectors of an intent arrive after its trace, and the weights are to
//! suit the memory as it is now. The runs of the intent are left out of every count ([`Excluded`]), or it would predict itself. The
//! number of lessons due follows from the number of traces and grows slower than it; each costs a comparison with all vectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use pml_model::Next;

use super::candidates::{self, Candidate};
use super::chances::Chances;
use super::evidence::{AskedText, Evidence, Excluded};
use super::logit::Example;
use super::parts::HeadScores;
use super::shgat::TargetScores;
use super::signals::{SignalInputs, StepKind};
use crate::digest::{DigestWriter, Digestible};
use crate::graph::{Node, NodeKind};
use crate::memory::{CallSequence, PastIntent};
use crate::state::State;
use crate::text::clauses;
use crate::vectors::TextHash;

/// Every trace adds two lessons until there are this many traces; after that, e times as many traces add this many lessons.
const LESSONS_AT_FIRST: u64 = 256;
/// From this many traces on, e times as many add a quarter of that: the few weights have converged, and a fold of millions of traces
/// should not spend its time on them.
const TRACES_MANY: u64 = 4_096;
const LESSONS_LATER: u64 = LESSONS_AT_FIRST / 4;
/// Lessons that may wait for vectors, and lessons per record; at most. The second bounds the time that one record takes.
const DUE_MAX: u64 = 512;
const LESSONS_PER_RECORD: u64 = 32;
/// Steps of a run that one lesson predicts, at most.
const STEPS_MAX: usize = 6;

/// `LessonSchedule` counts the lessons taken and due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LessonSchedule {
    /// Traces with calls, so far.
    traces: u64,
    due: u64,
    taken: u64,
    /// The number of traces at which the next lesson is due.
    next: u64,
}

impl LessonSchedule {
    /// Counts a trace and the lessons that it adds.
    pub fn count_trace(&mut self) {
        self.traces += 1;
        if self.traces >= self.next {
            let lessons = if self.traces <= LESSONS_AT_FIRST { 2 } else { 1 };
            self.due = (self.due + lessons).min(DUE_MAX);
            let per_growth = if self.traces < TRACES_MANY { LESSONS_AT_FIRST } else { LESSONS_LATER };
            self.next = self.traces + 1 + self.traces / per_growth;
        }
    }

    /// The number of lessons taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Traces so far, lessons due, lessons taken, and the number of traces at which the next is due.
    pub const fn to_numbers(self) -> [u64; 4] {
        [self.traces, self.due, self.taken, self.next]
    }

    /// Restores what [`Self::to_numbers`] gave.
    pub const fn from_numbers([traces, due, taken, next]: [u64; 4]) -> Self {
        Self { traces, due, taken, next }
    }
}

impl Digestible for LessonSchedule {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.u64(self.traces).u64(self.due).u64(self.taken).u64(self.next);
    }
}

/// Takes lessons that are due, unless too many vectors are missing ([`vectors_are_pending`]). Those due are spread evenly over the
/// records of the vectors still missing, so that after an import all are taken with the last vector, by a memory that is nearly
/// complete. At most [`LESSONS_PER_RECORD`] per record, each O((tools + remembered intents) * dim).
pub fn apply_due_lessons(state: &mut State) {
    let due = state.predictor.lessons.due;
    if due == 0 || state.memory.is_empty() || vectors_are_pending(state) {
        return;
    }
    let (have, wanted) = state.vectors.coverage();
    let records_left = wanted.saturating_sub(have) as u64 + 1;
    for _ in 0..due.div_ceil(records_left).min(LESSONS_PER_RECORD) {
        let lessons = &mut state.predictor.lessons;
        lessons.due -= 1;
        lessons.taken += 1;
        let drawn = draw(lessons.taken, state.memory.numbers());
        let entry = Arc::clone(state.memory.get(drawn).expect("drawn from those kept"));
        for example in examples(state, drawn, &entry, HeldOutScores::default()) {
            state.predictor.logit.learn(&example);
        }
    }
}

/// Whether lessons should wait: an intent without a vector looks similar to nothing. When [`DUE_MAX`] lessons wait and no vector ever
/// came, there is no embedder, and the other signals are learnt without.
fn vectors_are_pending(state: &State) -> bool {
    let (have, wanted) = state.vectors.coverage();
    match state.vectors.model() {
        Some(_) => have * 10 < wanted * 9,
        None => state.predictor.lessons.due < DUE_MAX,
    }
}

/// Returns the number of the intent that lesson number `lesson` is about: multiples of the golden ratio, which spread evenly, so that
/// few intents are drawn twice before most were drawn once.
fn draw(lesson: u64, among: std::ops::Range<u64>) -> u64 {
    let part = u128::from(lesson.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let at = (part * u128::from(among.end - among.start)) >> 64;
    among.start + u64::try_from(at).expect("smaller than what it is drawn from")
}

/// The steps of the latest call sequence of a remembered intent as examples, at most [`STEPS_MAX`], as they would look had the intent
/// never been seen. Failed runs count too: the weights say how well each signal predicts what an agent does next, and without failed
/// runs, agents that often fail are predicted badly.
pub fn examples(state: &State, number: u64, entry: &PastIntent, scores: HeldOutScores) -> Vec<Example> {
    let Some(sequence) = entry.sequences.last() else { return Vec::new() };
    let vector = |hash: TextHash| state.vectors.get(hash).map(|vector| &**vector);
    let part = |text| AskedText { text, vector: vector(TextHash::compute(text)) };
    let clauses: Vec<AskedText<'_>> = clauses(&entry.intent).into_iter().map(part).collect();
    let whole = AskedText { text: &entry.intent, vector: vector(entry.hash) };
    let excluded = Excluded { number: Some(number), sequences: entry.sequences.clone() };
    let mut evidence = Evidence::compute(state, whole, &clauses, &excluded);
    evidence.add_head(scores.head);
    evidence.add_target(scores.target);
    let calls: Vec<Option<Node>> = sequence.calls.iter().copied().map(Some).collect();
    let right = |step: usize| sequence.calls.get(step).map_or(Candidate::Done, |node| Candidate::Call(*node));
    let step = |step: usize| {
        let tools = sequence.calls[..step].iter().filter(|call| matches!(call.kind(), NodeKind::Tool(_))).count();
        let context = StepContext {
            calls: &calls[..step],
            excluded: &excluded,
            next: scores.next.get(&tools),
            with_hyperpaths: scores.with_hyperpaths,
        };
        example(state, &evidence, &context, right(step))
    };
    steps(sequence, number).map(step).collect()
}

/// What trained parts say about one remembered intent that they were not trained on.
#[derive(Clone, Debug, Default)]
pub struct HeldOutScores {
    /// What the intent head says.
    pub head: HeadScores,
    /// SHGAT's scores.
    pub(crate) target: TargetScores,
    /// Whether the signal `hyperpath` is computed.
    pub with_hyperpaths: bool,
    /// The recurrent encoder's predictions, by the number of calls of tools before.
    pub next: BTreeMap<usize, Next>,
}

/// A step of a remembered run.
struct StepContext<'a> {
    calls: &'a [Option<Node>],
    excluded: &'a Excluded,
    next: Option<&'a Next>,
    with_hyperpaths: bool,
}

/// All steps of a short run, evenly spread ones of a long run. The end counts as a step if the run had one.
fn steps(sequence: &CallSequence, number: u64) -> impl Iterator<Item = usize> {
    let steps = sequence.calls.len() + usize::from(sequence.ended);
    let stride = steps.div_ceil(STEPS_MAX).max(1);
    let first = usize::try_from(number % stride as u64).expect("smaller than the stride");
    (first..steps).step_by(stride)
}

fn example(state: &State, evidence: &Evidence, context: &StepContext<'_>, right: Candidate) -> Example {
    let chances = Chances::new(state, evidence, context.calls, context.excluded);
    let mut candidates = candidates::collect(state, evidence, &chances, context.next);
    let at = candidates.binary_search(&right).unwrap_or_else(|at| {
        candidates.insert(at, right);
        at
    });
    let mut inputs = SignalInputs::new(state, evidence, &chances, context.next);
    if context.with_hyperpaths {
        inputs = inputs.with_hyperpaths();
    }
    let values = candidates.into_iter().map(|candidate| inputs.values(candidate)).collect();
    Example { step: StepKind::after(context.calls.len()), values, right: at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EmbeddingComputed, Event, NewRecord, Record, ToolRegistered, TraceCompleted, TraceStep};
    use crate::id::{RecordId, Seq};
    use crate::predict::signals::{SIGNALS, Signal};
    use crate::time::Timestamp;

    const TOOLS: [&str; 5] = ["s:a", "s:b", "s:c", "s:d", "s:e"];
    const DESCRIPTIONS: [&str; 5] = ["read it all", "sort", "send as mail", "print on paper", "pack a box"];
    const RUNS: [(&str, &[usize]); 6] = [
        ("read it and mail it", &[0, 1, 2]),
        ("read it, then mail it", &[0, 1, 2]),
        ("read and print", &[0, 3]),
        ("pack", &[4, 3, 4]),
        ("pack and mail", &[4, 2]),
        ("read", &[0]),
    ];

    fn fold(events: impl IntoIterator<Item = Event>) -> State {
        let mut state = State::default();
        for (seq, event) in (1..).zip(events) {
            let time = Timestamp::from_micros(seq);
            let seq = Seq(u64::try_from(seq).unwrap());
            let fact = NewRecord {
                id: RecordId::from_parts(time, u128::from(seq.0)),
                time,
                source: "t".into(),
                causation: None,
                envelope: None,
                event,
            };
            state.apply(&Record { seq, recorded_at: time, fact: fact.into() });
        }
        state
    }

    fn registered(tool: &str, description: &str) -> Event {
        Event::ToolRegistered(ToolRegistered {
            tool: tool.parse().unwrap(),
            name: tool.to_owned(),
            description: description.to_owned(),
            input_schema: None,
            output_schema: None,
            annotations: None,
        })
    }

    fn trace(number: usize, intent: &str, tools: &[usize]) -> Event {
        let step = |(at, tool): (usize, &usize)| TraceStep {
            step: format!("s{at}").parse().unwrap(),
            tool: TOOLS[*tool].parse().unwrap(),
            depends_on: Vec::new(),
            success: true,
            duration_ms: None,
            error_kind: None,
        };
        Event::TraceCompleted(TraceCompleted {
            execution: format!("e{number}").parse().unwrap(),
            session: None,
            agent: None,
            intent: intent.to_owned(),
            steps: tools.iter().enumerate().map(step).collect(),
            success: true,
            started: Timestamp::from_micros(0),
            ended: Timestamp::from_micros(1),
            abandoned: false,
            code: None,
        })
    }

    /// The letter counts of the text as a unit vector: similar texts have similar vectors.
    fn embedded(text: &str) -> Event {
        let mut vector = vec![0.0_f32; 26];
        for letter in text.bytes().filter(u8::is_ascii_lowercase) {
            vector[usize::from(letter - b'a')] += 1.0;
        }
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        for value in &mut vector {
            *value /= length;
        }
        Event::EmbeddingComputed(EmbeddingComputed {
            text_hash: TextHash::compute(text).to_string(),
            model: "m".to_owned(),
            vector,
        })
    }

    /// All runs but `without`, with the vectors of everything that is wanted then.
    fn office(without: Option<usize>) -> State {
        let runs = RUNS.iter().enumerate().filter(|(number, _)| Some(*number) != without);
        let traces = runs.map(|(number, (intent, tools))| trace(number, intent, tools));
        let tools = TOOLS.iter().zip(DESCRIPTIONS).map(|(tool, description)| registered(tool, description));
        let events: Vec<Event> = tools.chain(traces).collect();
        let wanted = fold(events.clone()).vectors.lacking("m", usize::MAX);
        fold(events.into_iter().chain(wanted.iter().map(|(_, text)| embedded(text))))
    }

    #[test]
    fn a_lesson_sees_what_would_be_seen_had_the_intent_never_been_there() {
        let state = office(None);
        let mut steps_compared = 0;
        for (left_out, (intent, tools)) in RUNS.iter().enumerate() {
            let number = state.memory.number(TextHash::compute(intent)).unwrap();
            let entry = state.memory.get(number).unwrap();
            let excluded = Excluded { number: Some(number), sequences: entry.sequences.clone() };
            let never = office(Some(left_out));
            let vector = |text: &str| state.vectors.get(TextHash::compute(text)).unwrap().to_vec();
            let parts: Vec<(&str, Vec<f32>)> = clauses(intent).into_iter().map(|part| (part, vector(part))).collect();
            let parts: Vec<AskedText<'_>> =
                parts.iter().map(|(text, vector)| AskedText { text, vector: Some(vector) }).collect();
            let vector = vector(intent);
            let whole = AskedText { text: intent, vector: Some(&vector) };
            let (with, without) = (
                Evidence::compute(&state, whole, &parts, &excluded),
                Evidence::compute(&never, whole, &parts, &Excluded::default()),
            );
            let calls: Vec<Option<Node>> = tools.iter().map(|tool| Some(Node::tool(u32::try_from(*tool).unwrap()))).collect();
            for step in 0..=tools.len() {
                let context = |excluded| StepContext { calls: &calls[..step], excluded, next: None, with_hyperpaths: false };
                let asked = example(&state, &with, &context(&excluded), Candidate::Done);
                let served = example(&never, &without, &context(&Excluded::default()), Candidate::Done);
                assert_eq!(asked.values, served.values, "{intent}, step {step}");
                steps_compared += 1;
            }
        }
        assert_eq!(steps_compared, 20);
    }

    #[test]
    fn words_repeats_and_what_remains_are_seen_by_the_examples() {
        let state = office(None);
        let values_of = |intent: &str, step: usize, tool: u32| {
            let number = state.memory.number(TextHash::compute(intent)).unwrap();
            let excluded = Excluded { number: Some(number), sequences: state.memory.get(number).unwrap().sequences.clone() };
            let vector = state.vectors.get(TextHash::compute(intent)).unwrap().to_vec();
            let whole = AskedText { text: intent, vector: Some(&vector) };
            let evidence = Evidence::compute(&state, whole, &[], &excluded);
            let run = RUNS.iter().find(|run| run.0 == intent).unwrap().1;
            let calls: Vec<Option<Node>> =
                run[..step].iter().map(|tool| Some(Node::tool(u32::try_from(*tool).unwrap()))).collect();
            let chances = Chances::new(&state, &evidence, &calls, &excluded);
            SignalInputs::new(&state, &evidence, &chances, None).values(Candidate::Call(Node::tool(tool)))
        };
        let at = |values: [f64; SIGNALS], signal: Signal| values[signal as usize];
        assert!((at(values_of("pack", 0, 4), Signal::Words) - 1.0).abs() < 1e-6, "the only text with that word");
        assert!(at(values_of("pack", 0, 0), Signal::Words).abs() < 1e-9);
        assert!(at(values_of("pack and mail", 0, 2), Signal::Words) > 0.3);
        let (again, other) = (values_of("pack", 2, 3), values_of("pack", 2, 4));
        assert!((at(again, Signal::Repeat) - 1.0).abs() < 1e-9 && at(other, Signal::Repeat).abs() < 1e-9);
        assert!((at(other, Signal::Used) - 1.0).abs() < 1e-9, "called, but not last");
        // After `a`, runs with similar intents go on with `b`.
        let (next, later) = (values_of("read it and mail it", 1, 1), values_of("read it and mail it", 1, 2));
        assert!(at(next, Signal::MemoryRemaining) > at(later, Signal::MemoryRemaining) + 0.5);
    }

    #[test]
    fn lessons_grow_rare_as_traces_grow_many() {
        let mut lessons = LessonSchedule::default();
        let mut due_at = |traces: u64| {
            let mut due = 0;
            while lessons.traces < traces {
                lessons.count_trace();
                due += lessons.due;
                lessons.due = 0;
            }
            due
        };
        assert_eq!(due_at(200), 400);
        assert_eq!(due_at(2_000) / 50, 10, "112 to come, and fewer than 256 each time there are e times as many traces");
        assert!((400..800).contains(&due_at(400_000)));
    }

    #[test]
    fn lessons_wait_for_vectors_and_are_taken_when_those_come() {
        let runs = || RUNS.iter().enumerate().map(|(number, (intent, tools))| trace(number, intent, tools));
        assert_eq!(fold(runs()).predictor.lessons.taken(), 0);
        // All twelve that were due, spread over the last tenth of the vectors.
        let lessons = office(None).predictor.lessons;
        assert_eq!((lessons.taken(), lessons.due), (12, 0));
        let logit = office(None).predictor.logit;
        assert!(logit.first.examples() == 12 && logit.later.examples() >= 24, "{logit:?}");
    }

    #[test]
    fn most_intents_are_asked_about_before_many_are_asked_twice() {
        let drawn: std::collections::BTreeSet<u64> = (1..=100).map(|lesson| draw(lesson, 40..140)).collect();
        assert!(drawn.len() > 75 && drawn.iter().all(|number| (40..140).contains(number)), "{}", drawn.len());
    }

    #[test]
    fn without_an_embedder_there_are_lessons_in_the_end() {
        let many = (0..30_000_usize).map(|number| trace(number, RUNS[number % 6].0, RUNS[number % 6].1));
        let state = fold(many);
        assert!(state.predictor.lessons.taken() > 100 && state.vectors.model().is_none());
    }
}
