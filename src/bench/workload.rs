//! The events the benchmarks use: the shipped traces, as many copies as needed, each under new ids.

use crate::clock::Clock;
use crate::core::event::{Event, NewRecord};
use crate::core::id::{Callee, ToolId};
use crate::dataset::Dataset;

/// `count` events (or a few more: traces are not cut) as agents would publish them. Every second copy calls tools of another set of
/// servers, so that there are about 500.
pub(super) fn published(count: usize, clock: &Clock) -> Vec<NewRecord> {
    let dataset = Dataset::demo(clock.now());
    let mut events = Vec::with_capacity(count + 16);
    let mut copy = 0;
    while events.len() < count {
        for trace in &dataset.traces {
            let mut run = trace.renamed(format!("{}-{copy}", trace.trace_id)).events(clock.now()).expect("shipped ids are valid");
            if copy % 2 == 1 {
                run.iter_mut().for_each(|fact| move_to_other_server(&mut fact.event));
            }
            for fact in &mut run {
                // Producers make time-ordered ids; so do the copies.
                fact.id = clock.fresh_id();
            }
            events.extend(run);
            if events.len() >= count {
                break;
            }
        }
        copy += 1;
    }
    events
}

fn move_to_other_server(event: &mut Event) {
    if let Event::StepFinished(step) = event
        && let Callee::Tool(tool) = &step.tool
    {
        let moved: ToolId = format!("other-{tool}").parse().expect("a longer server name is still a tool id");
        step.tool = Callee::Tool(moved);
    }
}
