//! The agents of the demo: they run the shipped traces again and again, step by step, so that the page and the prediction stream have
//! something to show.

use std::time::Duration;

use super::publish;
use crate::cli::CommandError;
use crate::core::event::Event;
use crate::core::id::SessionId;
use crate::dataset::TraceLine;
use crate::runtime::Runtime;

/// Agents that work at the same time.
const AGENTS: usize = 3;
/// The time from one event of an agent to its next.
const PACE: Duration = Duration::from_millis(800);
/// One step of so many fails.
const FAILING: usize = 23;
/// How many traces an agent goes on by: prime, so that the traces come in another order than they were learnt in.
const STRIDE: usize = 331;

/// Runs executions until the future is dropped or publishing fails.
pub(super) async fn run(runtime: &Runtime, traces: &[TraceLine]) -> Result<(), CommandError> {
    let agents = (0..AGENTS).map(|agent| async move {
        tokio::time::sleep(PACE * u32::try_from(agent).unwrap_or(0) / u32::try_from(AGENTS).unwrap_or(1)).await;
        for round in 0_usize.. {
            let at = (agent + round * AGENTS) * STRIDE;
            execute(runtime, &traces[at % traces.len()], agent, at).await?;
        }
        Ok(())
    });
    futures_util::future::try_join_all(agents).await.map(|_: Vec<()>| ())
}

/// Publishes one execution of a trace, an event at a time.
async fn execute(runtime: &Runtime, trace: &TraceLine, agent: usize, number: usize) -> Result<(), CommandError> {
    let session: SessionId = format!("demo-agent-{agent}").parse().map_err(anyhow::Error::from)?;
    let renamed = trace.renamed(runtime.clock.fresh_id().to_string());
    let facts = renamed.events(runtime.clock.now()).map_err(|problem| anyhow::anyhow!(problem))?;
    let mut has_failed = false;
    for (at, mut fact) in facts.into_iter().enumerate() {
        fact.time = runtime.clock.now();
        match &mut fact.event {
            Event::ExecutionStarted(started) => started.session = Some(session.clone()),
            Event::StepFinished(step) => {
                step.duration_ms = Some(40 + (number * 37 + at * 101) as u64 % 900);
                if (number + at).is_multiple_of(FAILING) {
                    (step.success, step.error_kind, has_failed) = (false, Some("timeout".to_owned()), true);
                }
            }
            Event::ExecutionFinished(finished) => finished.success &= !has_failed,
            _ => {}
        }
        publish(runtime, fact).await?;
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}
