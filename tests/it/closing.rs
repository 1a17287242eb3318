//! When executions are closed that nobody closes properly. The clock is the test's.

use std::time::Duration;

use pml::clock::Clock;
use pml::core::event::{Event, TraceCompleted};
use pml::core::time::Timestamp;
use pml::core::trace::UNFINISHED;
use pml::publisher::Verdict;
use serde_json::json;

use crate::embedded::Embedded;
use crate::run::{finished, started, step, step_started, whole};
use crate::server::PATIENCE;

const HOUR_MS: u64 = 3_600_000;

async fn start() -> Embedded {
    let hour = HOUR_MS.to_string();
    let settings = [("TRACE__ABANDON_MS", hour.as_str()), ("TRACE__LATE_MS", hour.as_str())];
    Embedded::start(Clock::manual(Timestamp::from_micros(1_700_000_000_000_000)), &settings).await
}

async fn trace_of(pml: &Embedded, execution: &str) -> Option<TraceCompleted> {
    pml.records().await.into_iter().find_map(|record| match record.event() {
        Event::TraceCompleted(trace) if trace.execution.as_str() == execution => Some(trace.clone()),
        _ => None,
    })
}

/// Waits for a trace; the clock goes on by seconds, as a clock does.
async fn closed(pml: &Embedded, execution: &str) -> TraceCompleted {
    let closing = async {
        loop {
            if let Some(trace) = trace_of(pml, execution).await {
                return trace;
            }
            pml.clock.advance_ms(1_000);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closing).await.unwrap_or_else(|_| panic!("'{execution}' was not closed"))
}

/// Everything published before has been heard by the trace actor: it has closed a run that was published after it.
async fn heard(pml: &Embedded, marker: &str) {
    pml.accept(&whole(marker)).await;
    closed(pml, marker).await;
}

#[actix_rt::test]
async fn more_runs_than_may_be_open_wait_for_the_closing_of_those_that_are_over() {
    let pml = Embedded::start(Clock::system(), &[("LIMITS__OPEN_EXECUTIONS_MAX", "8"), ("TRACE__SETTLE_MS", "1")]).await;
    let events: Vec<_> = (0..50).flat_map(|run| whole(&format!("e{run}")).as_array().unwrap().clone()).collect();
    tokio::time::timeout(PATIENCE, pml.accept(&json!(events))).await.expect("closings let the next ones in");
    pml.stop().await;
}

#[actix_rt::test]
async fn an_execution_nobody_finishes_is_abandoned_an_hour_after_its_last_event() {
    let pml = start().await;
    pml.accept(&json!([started("silent"), step("silent", "s1", "fs:read", &[]), started("slow")])).await;
    heard(&pml, "marker-1").await;
    pml.clock.advance_ms(HOUR_MS / 2);
    pml.accept(&json!([step("slow", "s1", "fs:read", &[])])).await;
    heard(&pml, "marker-2").await;
    pml.clock.advance_ms(HOUR_MS / 2);
    let trace = closed(&pml, "silent").await;
    assert_eq!((trace.abandoned, trace.success, trace.steps.len()), (true, false, 1));
    assert_eq!(trace_of(&pml, "slow").await, None, "its last event is half an hour old");
    pml.accept(&json!([finished("slow")])).await;
    let trace = closed(&pml, "slow").await;
    assert_eq!((trace.abandoned, trace.success, trace.steps.len()), (false, true, 1));
    pml.stop().await;
}

#[actix_rt::test]
async fn a_finished_execution_waits_for_a_step_that_was_started_but_not_for_ever() {
    let pml = start().await;
    for execution in ["never", "late"] {
        pml.accept(&json!([
            started(execution),
            step_started(execution, "s1", "fs:read"),
            step(execution, "s2", "fs:write", &["s1"]),
            finished(execution)
        ]))
        .await;
    }
    heard(&pml, "marker").await;
    for execution in ["never", "late"] {
        assert_eq!(trace_of(&pml, execution).await, None, "{execution}");
    }
    pml.accept(&json!([step("late", "s1", "fs:read", &[])])).await;
    let trace = closed(&pml, "late").await;
    let outcomes = |trace: &TraceCompleted| -> Vec<_> {
        trace.steps.iter().map(|step| (step.step.to_string(), step.success, step.error_kind.clone())).collect()
    };
    assert_eq!(outcomes(&trace), [("s1".to_owned(), true, None), ("s2".to_owned(), true, None)]);
    assert_eq!(trace_of(&pml, "never").await, None, "its step may still come");
    pml.clock.advance_ms(HOUR_MS);
    let trace = closed(&pml, "never").await;
    assert_eq!((trace.abandoned, trace.success), (false, true));
    let unfinished = Some(UNFINISHED.to_owned());
    assert_eq!(outcomes(&trace), [("s1".to_owned(), false, unfinished), ("s2".to_owned(), true, None)]);
    pml.stop().await;
}

#[actix_rt::test]
async fn executions_that_end_together_are_closed_in_the_order_they_ended() {
    let pml = start().await;
    let names: Vec<String> = (0..50).map(|number| format!("e{number}")).collect();
    let events: Vec<serde_json::Value> =
        names.iter().flat_map(|name| [started(name), step(name, "s1", "fs:read", &[]), finished(name)]).collect();
    pml.accept(&json!(events)).await;
    closed(&pml, "e49").await;
    let records = pml.records().await;
    let order = records.iter().filter_map(|record| match record.event() {
        Event::TraceCompleted(trace) => Some(trace.execution.to_string()),
        _ => None,
    });
    assert_eq!(order.collect::<Vec<_>>(), names);
}

#[actix_rt::test]
async fn a_clock_set_back_ends_every_wait_and_one_that_was_ahead_leaves_no_stamps_from_the_future() {
    let pml = start().await;
    let began = pml.clock.now();
    pml.accept(&whole("before")).await;
    closed(&pml, "before").await;

    pml.clock.set_wall(Timestamp::from_micros(began.micros() - 3_600_000_000));
    let events = pml.facts(&json!([started("known"), step("unknown", "s1", "fs:read", &[]), finished("known")]));
    let answering = pml.runtime.publisher.publish(events);
    let passing = async {
        loop {
            pml.clock.advance_ms(100);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let verdicts = tokio::select! {
        verdicts = tokio::time::timeout(PATIENCE, answering) => verdicts.expect("the step stops waiting").unwrap(),
        () = passing => unreachable!("the clock goes on"),
    };
    assert!(matches!(&verdicts[1], Verdict::Refused(refusal) if refusal.reason() == "unknown_execution"), "{verdicts:?}");
    closed(&pml, "known").await;

    pml.clock.set_wall(Timestamp::from_micros(began.micros() + 365 * 86_400_000_000));
    pml.accept(&whole("ahead")).await;
    closed(&pml, "ahead").await;
    pml.clock.set_wall(began);
    pml.accept(&whole("after")).await;
    closed(&pml, "after").await;
    let last = pml.records().await.pop().unwrap();
    let latest = began.plus_millis(HOUR_MS);
    assert!(last.recorded_at < latest && last.fact.time < latest, "{} {}", last.recorded_at, last.fact.time);
    pml.stop().await;
}
