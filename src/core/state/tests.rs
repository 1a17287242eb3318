use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::event::{EmbeddingComputed, ExecutionStarted, NewRecord, StepFinished, TraceCompleted, TraceStep};
use crate::time::Timestamp;

/// The digest of everything that answers questions: all but the ids, which the horizon drops.
fn answers(state: &State) -> StateDigest {
    let mut state = state.clone();
    state.seen = SeenIds::default();
    state.digest()
}

/// The event with this number: runs of a few executions over a few tools, with vectors.
fn event(number: usize) -> Event {
    let execution = format!("e{}", number / 4 % 50).parse().unwrap();
    let tool: Callee = format!("fs:t{}", number % 7).parse().unwrap();
    let at = Timestamp::from_micros(0).plus_millis(number as u64);
    let intent = format!("do {}", number % 11);
    match number % 4 {
        0 => Event::ExecutionStarted(ExecutionStarted { execution, intent, session: None, agent: None, parent: None }),
        1 => Event::StepFinished(StepFinished {
            execution,
            step: "s".parse().unwrap(),
            tool,
            depends_on: Vec::new(),
            success: true,
            duration_ms: Some(5),
            error_kind: None,
            arguments: None,
            result_summary: None,
        }),
        2 => {
            let text_hash = TextHash::compute(&intent).to_string();
            Event::EmbeddingComputed(EmbeddingComputed { text_hash, model: "m".to_owned(), vector: vec![1.0, 0.5] })
        }
        _ => {
            let step = TraceStep {
                step: "s".parse().unwrap(),
                tool,
                depends_on: Vec::new(),
                success: !number.is_multiple_of(5),
                duration_ms: None,
                error_kind: None,
            };
            Event::TraceCompleted(TraceCompleted {
                execution,
                session: None,
                agent: None,
                intent,
                steps: vec![step],
                success: true,
                started: at,
                ended: at,
                abandoned: false,
                code: None,
            })
        }
    }
}

proptest! {
    /// A log takes no id twice. What races between processes may put into a log twice comes within the horizon, here 48 ids.
    #[test]
    fn with_and_without_a_horizon_the_answers_are_the_same(back in prop::collection::vec(prop::option::weighted(0.2, 1..40_usize), 400)) {
        let (mut bounded, mut unbounded) = (State::default(), State::default());
        bounded.seen = SeenIds::with_horizon(16, 3);
        unbounded.seen = SeenIds::with_horizon(usize::MAX, 1);
        let mut facts: Vec<Arc<NewRecord>> = Vec::new();
        for (number, back) in back.into_iter().enumerate() {
            let repeated = back.and_then(|back| facts.len().checked_sub(back)).map(|at| Arc::clone(&facts[at]));
            let fact = repeated.unwrap_or_else(|| {
                let time = Timestamp::from_micros(0).plus_millis(number as u64);
                let id = RecordId::from_parts(time, number as u128);
                let fact = NewRecord { id, time, source: "test".into(), causation: None, envelope: None, event: event(number) };
                facts.push(Arc::new(fact));
                Arc::clone(&facts[facts.len() - 1])
            });
            let record = Record { seq: Seq(number as u64 + 1), recorded_at: fact.time, fact };
            prop_assert_eq!(bounded.apply(&record), unbounded.apply(&record));
            prop_assert_eq!(bounded.duplicates(), unbounded.duplicates());
        }
        prop_assert_eq!(answers(&bounded), answers(&unbounded));
        prop_assert!(bounded.ids().len() <= 64 && unbounded.ids().len() > 200);
    }
}
