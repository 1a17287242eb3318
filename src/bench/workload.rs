//! The events that the benchmarks publish: the shipped traces, repeated with new ids as often as needed.

use crate::clock::Clock;
use crate::core::event::{Event, NewRecord};
use crate::core::id::{Callee, ToolId};
use crate::dataset::Dataset;

/// An endless iterator over events as agents would publish them. Every second repetition calls tools of other servers, so that there
/// are about 500 tools.
pub(super) fn published(clock: &Clock) -> impl Iterator<Item = NewRecord> + use<> {
    let traces = Dataset::demo(clock.now()).traces;
    let clock = clock.clone();
    let copies = (0_u32..).flat_map(move |copy| traces.clone().into_iter().map(move |trace| (copy, trace)));
    copies.flat_map(move |(copy, trace)| {
        let mut run = trace.renamed(format!("{}-{copy}", trace.trace_id)).events(clock.now()).expect("shipped ids are valid");
        for fact in &mut run {
            // Ids are in the order of time, like those of producers.
            fact.id = clock.fresh_id();
            if copy % 2 == 1 {
                move_to_other_server(&mut fact.event);
            }
        }
        run
    })
}

/// About `count` events, one vector per execution.
pub(super) fn runs(clock: &Clock, count: usize) -> Vec<Vec<NewRecord>> {
    let mut runs: Vec<Vec<NewRecord>> = Vec::new();
    for (at, fact) in published(clock).enumerate() {
        if matches!(fact.event, Event::ExecutionStarted(_)) {
            if at >= count {
                break;
            }
            runs.push(Vec::new());
        }
        runs.last_mut().expect("a run begins with its start").push(fact);
    }
    runs
}

/// `count` events in batches of `size`.
pub(super) fn batches(clock: &Clock, count: usize, size: usize) -> Vec<Vec<NewRecord>> {
    let mut events = published(clock).take(count);
    std::iter::from_fn(|| Some(events.by_ref().take(size).collect()))
        .take_while(|batch: &Vec<NewRecord>| !batch.is_empty())
        .collect()
}

fn move_to_other_server(event: &mut Event) {
    if let Event::StepFinished(step) = event
        && let Callee::Tool(tool) = &step.tool
    {
        let moved: ToolId = format!("other-{tool}").parse().expect("a longer server name is still a tool id");
        step.tool = Callee::Tool(moved);
    }
}
