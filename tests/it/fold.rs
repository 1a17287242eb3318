//! The fold depends on the records and nothing else: not on the order in which the events of an execution arrived, on how often
//! they were delivered, nor on where the fold was interrupted.

use std::sync::Arc;

use pml::core::event::{CapabilityDeclared, Event, FeedbackVerdict, NewRecord, Record, ToolAnnotations, ToolRegistered};
use pml::core::id::ExecutionId;
use pml::core::state::State;
use pml::core::trace::Executions;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::given::{self, fact, record};

const TOOLS: [&str; 5] = ["fs:list", "fs:read", "zip:pack", "mail:send", "capability:00112233445566778899aabbccddeeff"];

/// A step of a made-up execution. Bit `n` of `uses` says that it uses the output of step `n`, if that stands before it.
#[derive(Clone, Debug)]
struct PlannedStep {
    tool: Index,
    uses: u8,
    success: bool,
    announced: bool,
    /// Somebody else says the step finished differently, and depends on the last one, which may close a cycle.
    contested: bool,
}

#[derive(Clone, Debug)]
struct PlannedRun {
    steps: Vec<PlannedStep>,
    success: bool,
}

fn planned_run() -> impl Strategy<Value = PlannedRun> {
    let step = (any::<Index>(), any::<u8>(), prop::bool::weighted(0.8), any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(tool, uses, success, announced, contested)| PlannedStep { tool, uses, success, announced, contested });
    (vec(step, 1..8), prop::bool::weighted(0.8)).prop_map(|(steps, success)| PlannedRun { steps, success })
}

fn step_name(at: usize) -> String {
    format!("s{at}")
}

fn events(execution: &str, run: &PlannedRun) -> Vec<Event> {
    let mut events = vec![given::started(execution)];
    for (at, step) in run.steps.iter().enumerate() {
        let (name, tool) = (step_name(at), TOOLS[step.tool.index(TOOLS.len())]);
        let uses: Vec<String> = (0..at).filter(|on| step.uses & (1 << on) != 0).map(step_name).collect();
        let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
        if step.announced {
            events.push(given::step_started(execution, &name, tool));
        }
        events.push(given::step_finished(execution, &name, tool, &uses, step.success));
        if step.contested {
            let last = step_name(run.steps.len() - 1);
            events.push(given::step_finished(execution, &name, "rival:tool", &[&last], !step.success));
        }
    }
    events.push(given::finished(execution, run.success));
    events
}

/// The facts of one execution, and the same facts as they were delivered: in any order, some of them several times. Times are
/// distinct and follow no order either: producers' clocks disagree.
fn delivery() -> impl Strategy<Value = (Vec<Arc<NewRecord>>, Vec<Arc<NewRecord>>)> {
    let events = planned_run().prop_map(|run| events("e1", &run));
    let timed = events.prop_flat_map(|events| {
        let times: Vec<u64> = (1..=events.len() as u64).collect();
        (Just(events), Just(times).prop_shuffle())
    });
    (timed, vec(any::<Index>(), 0..8)).prop_flat_map(|((events, times), copied)| {
        let facts: Vec<_> = times.into_iter().zip(events).map(|(time, event)| fact(time, event)).collect();
        let again: Vec<_> = copied.iter().map(|of| Arc::clone(of.get(&facts))).collect();
        let delivered = [facts.clone(), again].concat();
        (Just(facts), Just(delivered).prop_shuffle())
    })
}

/// Something that adds to a history.
#[derive(Clone, Debug)]
enum Chapter {
    Tool {
        tool: Index,
        removed: bool,
    },
    Run {
        run: PlannedRun,
        closed: bool,
    },
    Template {
        name: Index,
        from: Index,
        to: Index,
    },
    Declared {
        tools: Vec<Index>,
    },
    /// A vector for an intent that may be remembered or not, by one of two models.
    Embedded {
        execution: Index,
        new_model: bool,
        values: (u8, u8),
    },
    /// A step for an execution that may be open, closed or unknown.
    Stray {
        execution: Index,
        tool: Index,
    },
    /// A prediction for such an execution, and what somebody thought of it.
    Predicted {
        execution: Index,
        tools: Vec<Index>,
        verdict: Index,
    },
}

fn chapter() -> impl Strategy<Value = Chapter> {
    let index = any::<Index>;
    prop_oneof![
        1 => (index(), any::<bool>()).prop_map(|(tool, removed)| Chapter::Tool { tool, removed }),
        4 => (planned_run(), prop::bool::weighted(0.9)).prop_map(|(run, closed)| Chapter::Run { run, closed }),
        1 => (index(), index(), index()).prop_map(|(name, from, to)| Chapter::Template { name, from, to }),
        1 => vec(index(), 1..4).prop_map(|tools| Chapter::Declared { tools }),
        3 => (index(), any::<bool>(), any::<(u8, u8)>())
            .prop_map(|(execution, new_model, values)| Chapter::Embedded { execution, new_model, values }),
        1 => (index(), index()).prop_map(|(execution, tool)| Chapter::Stray { execution, tool }),
        2 => (index(), vec(index(), 1..4), index())
            .prop_map(|(execution, tools, verdict)| Chapter::Predicted { execution, tools, verdict }),
    ]
}

/// Positions are ten apart, so that a test can put copies in between; holes are legal anyway.
const GAP: u64 = 10;

pub(crate) fn history() -> impl Strategy<Value = Vec<Record>> {
    vec(chapter(), 1..12).prop_map(|chapters| {
        let mut facts: Vec<Arc<NewRecord>> = Vec::new();
        let mut append = |event| facts.push(fact(facts.len() as u64 + 1, event));
        // The last callee is a capability, which cannot be registered.
        let tool_at = |index: &Index| TOOLS[index.index(TOOLS.len() - 1)];
        for (at, chapter) in chapters.iter().enumerate() {
            let execution = format!("e{at}");
            match chapter {
                Chapter::Tool { tool, removed: false } => append(given::registered(tool_at(tool), &execution)),
                Chapter::Tool { tool, removed: true } => append(given::removed(tool_at(tool))),
                Chapter::Run { run, closed } => {
                    let events = events(&execution, run);
                    if *closed {
                        let trace = trace_of(&execution, &events);
                        events.into_iter().chain([trace]).for_each(&mut append);
                    } else {
                        events.into_iter().for_each(&mut append);
                    }
                }
                Chapter::Template { name, from, to } => {
                    append(given::template(["one", "two"][name.index(2)], &[(tool_at(from), tool_at(to))]));
                }
                Chapter::Declared { tools: chosen } => {
                    let chosen: Vec<&str> = chosen.iter().map(|tool| TOOLS[tool.index(TOOLS.len())]).collect();
                    append(given::declared(&execution, &chosen));
                }
                Chapter::Embedded { execution, new_model, values: (one, other) } => {
                    let text = format!("do e{}", execution.index(chapters.len()));
                    let (model, dim) = if *new_model { ("new", 3) } else { ("old", 2) };
                    append(given::embedded(model, &text, &[f32::from(*one), f32::from(*other), 1.0][..dim]));
                }
                Chapter::Stray { execution, tool } => {
                    let execution = format!("e{}", execution.index(chapters.len()));
                    append(given::step_finished(&execution, "stray", tool_at(tool), &[], true));
                }
                Chapter::Predicted { execution, tools: chosen, verdict } => {
                    let ranked: Vec<(Option<&str>, f64)> =
                        chosen.iter().map(|tool| (Some(TOOLS[tool.index(TOOLS.len())]), 0.25)).chain([(None, 0.1)]).collect();
                    let execution = format!("e{}", execution.index(chapters.len()));
                    let served = given::prediction_served(at as u64 + 1, Some(&execution), &ranked);
                    let verdict =
                        [FeedbackVerdict::Accepted, FeedbackVerdict::Ignored, FeedbackVerdict::Rejected][verdict.index(3)];
                    append(served);
                    append(given::feedback(at as u64 + 1, verdict));
                    append(given::plan_feedback(at as u64 % 3, verdict));
                }
            }
        }
        (1..).zip(&facts).map(|(at, fact)| record(at * GAP, fact)).collect()
    })
}

fn trace_of(execution: &str, events: &[Event]) -> Event {
    let facts: Vec<_> = (1..).zip(events.iter().cloned()).map(|(time, event)| fact(time, event)).collect();
    Event::TraceCompleted(complete(execution, &facts))
}

fn complete(execution: &str, facts: &[Arc<NewRecord>]) -> pml::core::event::TraceCompleted {
    let mut executions = Executions::default();
    for fact in facts {
        assert!(executions.apply(fact));
    }
    let execution: ExecutionId = execution.parse().unwrap();
    executions.get(&execution).unwrap().complete(&execution, false)
}

pub(crate) fn folded(records: &[Record]) -> State {
    let mut state = State::default();
    for record in records {
        state.apply(record);
    }
    state
}

/// Everything a state knows, without how often it was told.
fn knowledge(state: &State) -> String {
    let State { tools, executions, graph, transitions, capabilities, templates, .. } = state;
    format!("{:?}", (tools, executions, graph, transitions, capabilities, templates))
}

/// A broken producer may use an id for two different facts: the digest must tell them apart by what they say.
#[test]
fn an_empty_text_and_none_differ_in_the_digest() {
    let digest = |event: Event| folded(&[record(1, &fact(1, event))]).digest();
    let declared = |code: Option<String>| match given::declared("archive", &["zip:pack"]) {
        Event::CapabilityDeclared(declared) => digest(Event::CapabilityDeclared(CapabilityDeclared { code, ..declared })),
        other => unreachable!("{other:?}"),
    };
    assert_ne!(declared(None), declared(Some(String::new())));
    let titled = |title: Option<String>| match given::registered("zip:pack", "Pack files") {
        Event::ToolRegistered(tool) => {
            let annotations = Some(ToolAnnotations { title, ..ToolAnnotations::default() });
            digest(Event::ToolRegistered(ToolRegistered { annotations, ..tool }))
        }
        other => unreachable!("{other:?}"),
    };
    assert_ne!(titled(None), titled(Some(String::new())));
}

proptest! {
    #[test]
    fn a_trace_is_a_function_of_the_set_of_events((facts, delivered) in delivery()) {
        let trace = complete("e1", &facts);
        prop_assert_eq!(&complete("e1", &delivered), &trace);
        for (at, step) in trace.steps.iter().enumerate() {
            for on in &step.depends_on {
                prop_assert!(trace.steps[..at].iter().any(|earlier| earlier.step == *on), "{on} must stand before {}", step.step);
            }
        }
    }

    #[test]
    fn a_fold_may_be_interrupted_anywhere_and_views_stay_as_they_were(records in history(), cuts in vec(any::<Index>(), 0..4)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(records.len())).collect();
        cuts.sort_unstable();
        let mut state = State::default();
        let mut views = Vec::new();
        for (at, record) in records.iter().enumerate() {
            if cuts.contains(&at) {
                views.push((state.clone(), state.digest(), folded(&records[..at]).digest()));
                state = state.clone();
            }
            state.apply(record);
        }
        prop_assert_eq!(state.digest(), folded(&records).digest());
        for (view, digest, expected) in views {
            prop_assert_eq!((view.digest(), digest), (expected, expected));
        }
    }

    #[test]
    fn a_record_delivered_again_changes_nothing(records in history(), again in vec(any::<Index>(), 1..8)) {
        let mut state = State::default();
        for (at, record) in records.iter().enumerate() {
            state.apply(record);
            let digest = state.digest();
            for old in again.iter().map(|old| &records[old.index(at + 1)]) {
                prop_assert_eq!(state.apply(old), []);
            }
            prop_assert_eq!(state.digest(), digest);
        }
        prop_assert_eq!(state.digest(), folded(&records).digest());
    }

    #[test]
    fn a_copy_under_another_position_is_counted_and_otherwise_ignored(records in history(), copied in vec(any::<Index>(), 1..8)) {
        let mut with_copies = records.clone();
        for (at, copy) in copied.iter().enumerate() {
            let of = copy.index(records.len());
            // Just after a later record, so the copy is never the first.
            let after = of + copy.index(records.len() - of);
            with_copies.push(record(records[after].seq.0 + 1 + at as u64, &records[of].fact));
        }
        with_copies.sort_by_key(|record| record.seq);
        let (once, twice) = (folded(&records), folded(&with_copies));
        prop_assert_eq!(knowledge(&once), knowledge(&twice));
        prop_assert_eq!((once.events(), once.late()), (twice.events(), twice.late()));
        prop_assert_eq!((once.duplicates(), twice.duplicates()), (0, copied.len() as u64));
    }

    #[test]
    fn every_record_leaves_its_mark_on_the_digest(records in history(), left_out in any::<Index>()) {
        let mut fewer = records.clone();
        fewer.remove(left_out.index(records.len()));
        prop_assert_ne!(folded(&fewer).digest(), folded(&records).digest());
    }

    #[test]
    fn counts_of_what_was_learnt_add_up(records in history()) {
        let state = folded(&records);
        prop_assert_eq!(state.events(), records.len() as u64);
        for capability in state.capabilities.iter() {
            prop_assert!(capability.successes <= capability.usage);
            prop_assert!(capability.first_seq <= capability.last_seq);
        }
        for (_, counter) in state.graph.edges() {
            prop_assert!(counter.successes <= counter.observations);
            prop_assert!(counter.declared + counter.observations > 0, "an edge nobody named or saw");
        }
    }
}
