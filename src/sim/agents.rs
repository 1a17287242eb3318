//! The agents of a run: they publish late, twice, out of order, and some never finish. Each event is sent until it has a verdict.

use std::sync::Arc;
use std::time::Duration;

use pml_model::random::Random;
use tokio::time::sleep;

use super::world::World;
use crate::core::event::{Event, ExecutionFinished, ExecutionStarted, NewRecord, StepFinished, StepStarted};
use crate::core::id::{Callee, ExecutionId, RecordId, StepId};
use crate::core::time::Timestamp;
use crate::publisher::{PublishError, Verdict};

/// Runs of one agent, at most.
const RUNS_MAX: usize = 4;
const STEPS_MAX: usize = 4;
/// Longest pause between two requests of an agent.
const PAUSE_MS_MAX: usize = 400;

/// How often a waiting agent looks whether the process is still there.
const DEATH_CHECK: Duration = Duration::from_millis(30);

fn finished(execution: ExecutionId, step: StepId, tool: Callee, success: bool) -> StepFinished {
    StepFinished {
        execution,
        step,
        tool,
        depends_on: Vec::new(),
        success,
        duration_ms: Some(7),
        error_kind: None,
        arguments: None,
        result_summary: None,
    }
}

/// The events of an agent's runs, in the order in which they happened.
fn events(agent: usize, random: &mut Random, start: Timestamp) -> Vec<NewRecord> {
    let mut events = Vec::new();
    for run in 0..=random.below(RUNS_MAX) {
        let execution: ExecutionId = format!("e-{agent}-{run}").parse().expect("a plain id");
        events.push(Event::ExecutionStarted(ExecutionStarted {
            execution: execution.clone(),
            intent: format!("do thing {}", random.below(5)),
            session: None,
            agent: Some(format!("agent {agent}")),
            parent: None,
        }));
        let steps = random.below(STEPS_MAX + 1);
        for step in 0..steps {
            let id: StepId = format!("s{step}").parse().expect("a plain id");
            let tool: Callee = format!("fs:t{}", random.below(4)).parse().expect("a plain tool");
            if random.below(2) == 0 {
                let (execution, step, tool) = (execution.clone(), id.clone(), tool.clone());
                events.push(Event::StepStarted(StepStarted { execution, step, tool, arguments: None }));
            }
            // Some calls never return.
            if random.below(12) > 0 {
                let finished = finished(execution.clone(), id, tool, random.below(5) > 0);
                // Some agents say it again under another id, which is refused.
                let again = (random.below(8) == 0).then(|| finished.clone());
                events.extend([finished].into_iter().chain(again).map(Event::StepFinished));
            }
        }
        // Some steps belong to executions that nobody starts.
        if random.below(10) == 0 {
            let (nobody, step) =
                (format!("never-{agent}-{run}").parse().expect("a plain id"), "s0".parse().expect("a plain id"));
            let tool = "fs:t0".parse().expect("a plain tool");
            events.push(Event::StepFinished(finished(nobody, step, tool, true)));
        }
        // Some agents never finish.
        if random.below(6) > 0 {
            events.push(Event::ExecutionFinished(ExecutionFinished { execution, success: true, error: None, code: None }));
        }
    }
    let fact = |(number, event): (usize, Event)| {
        let time = start.plus_millis(number as u64);
        let id = RecordId::from_parts(time, u128::from(random.next_u64()));
        NewRecord { id, time, source: format!("agent-{agent}").into(), causation: None, envelope: None, event }
    };
    events.into_iter().enumerate().map(fact).collect()
}

/// One agent: sends its events in pieces, in order or not, some twice.
pub(super) async fn run(world: Arc<World>, agent: usize, mut random: Random, start: Timestamp) {
    let events = events(agent, &mut random, start);
    world.shared.sent.lock().extend(events.iter().map(|fact| (fact.id, fact.clone())));
    let mut pieces: Vec<Vec<NewRecord>> = Vec::new();
    let mut rest = events.as_slice();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + random.below(rest.len().min(5)));
        pieces.push(piece.to_vec());
        rest = after;
    }
    match random.below(4) {
        0 => random.shuffle(&mut pieces),
        1 if pieces.len() > 1 => {
            let at = random.below(pieces.len() - 1);
            pieces.swap(at, at + 1);
        }
        _ => {}
    }
    for piece in pieces {
        sleep(Duration::from_millis(random.below(PAUSE_MS_MAX) as u64)).await;
        if random.below(5) == 0 {
            // Twice at once.
            let again = tokio::task::spawn_local(insist(Arc::clone(&world), piece.clone(), random.next_u64()));
            insist(Arc::clone(&world), piece, random.next_u64()).await;
            drop(again.await);
        } else {
            insist(Arc::clone(&world), piece, random.next_u64()).await;
        }
    }
}

/// Publishes until every event has a verdict, each time under the same ids, to whichever process takes events.
async fn insist(world: Arc<World>, facts: Vec<NewRecord>, seed: u64) {
    let mut random = Random::new(seed);
    loop {
        let process = random.below(world.shared.processes);
        let target =
            world.processes.lock()[process].as_ref().map(|process| (process.publisher.clone(), Arc::clone(&process.life)));
        // A process that takes no events at the moment is not waited for: the order in which tokio wakes who waits is random.
        if let Some((publisher, life)) = target.filter(|(publisher, _)| publisher.is_open() && publisher.lease().is_held()) {
            let death = async {
                while !life.is_dead() {
                    sleep(DEATH_CHECK).await;
                }
            };
            let answer = tokio::select! {
                biased;
                answer = publisher.publish(facts.clone()) => answer,
                () = death => Err(PublishError::Unknown),
            };
            if let Ok(verdicts) = answer {
                let mut verdict_of = world.shared.verdicts.lock();
                for (fact, verdict) in facts.iter().zip(verdicts) {
                    verdict_of.push((fact.id, verdict));
                }
                return;
            }
        }
        sleep(Duration::from_millis(5 + random.below(40) as u64)).await;
    }
}

/// Whether the verdict says that the log holds the event, and where.
pub(super) fn position(verdict: &Verdict) -> Option<crate::core::id::Seq> {
    match verdict {
        Verdict::Accepted { seq } | Verdict::Duplicate { seq } => Some(*seq),
        Verdict::Refused(_) => None,
    }
}
