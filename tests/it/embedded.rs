//! pml inside the test's own process, where failpoints and the clock can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pml::clock::Clock;
use pml::config::Config;
use pml::core::event::{Event, NewRecord, Record, cloud};
use pml::core::id::{ExecutionId, RecordId, Seq};
use pml::core::state::State;
use pml::log::SharedLog;
use pml::publisher::{PublishError, Verdict};
use pml::runtime::Runtime;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use crate::log_contract::redb;
use crate::server::PATIENCE;

/// Failpoints belong to the process: one embedded pml at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

pub(crate) struct Embedded {
    pub(crate) runtime: Runtime,
    pub(crate) clock: Clock,
    _home: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Embedded {
    /// On a log of its own in a directory of its own. No templates: the first record is the test's.
    pub(crate) async fn start(clock: Clock, settings: &[(&str, &str)]) -> Self {
        let alone = ALONE.lock().await;
        let home = TempDir::new().unwrap();
        let mut config = config(settings);
        config.data_dir = home.path().to_owned();
        let runtime = Runtime::start(&config, clock.clone()).await.unwrap();
        Self { runtime, clock, _home: home, _alone: alone }
    }

    /// On this log, with the dead letters elsewhere.
    pub(crate) async fn start_on(log: SharedLog, settings: &[(&str, &str)]) -> Self {
        let alone = ALONE.lock().await;
        let (clock, home) = (Clock::system(), TempDir::new().unwrap());
        let dead = Arc::new(redb(home.path()));
        let runtime = Runtime::start_on(&config(settings), clock.clone(), log, dead).await.unwrap();
        Self { runtime, clock, _home: home, _alone: alone }
    }

    /// The events of `run`, as if they had come through a door.
    pub(crate) fn facts(&self, run: &Value) -> Vec<NewRecord> {
        let read = |event: &Value| cloud::from_structured(event.to_string().as_bytes(), self.clock.now()).unwrap();
        run.as_array().unwrap().iter().map(read).collect()
    }

    /// Publishes events that must all be accepted.
    pub(crate) async fn accept(&self, run: &Value) {
        let verdicts = self.runtime.publisher.publish(self.facts(run)).await.unwrap();
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Accepted { .. })), "{verdicts:?}");
    }

    /// Publishes until the outcome is known, each time under the same ids; answers how often it was not.
    pub(crate) async fn insist(&self, facts: &[NewRecord]) -> (Vec<Verdict>, usize) {
        let mut unknown = 0;
        loop {
            match self.runtime.publisher.publish(facts.to_vec()).await {
                Ok(verdicts) => return (verdicts, unknown),
                Err(PublishError::Unknown) => unknown += 1,
                Err(error @ (PublishError::Closed | PublishError::Unleased)) => panic!("{error}"),
                Err(PublishError::Busy | PublishError::NotReady | PublishError::Failing | PublishError::Full(_)) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    pub(crate) async fn records(&self) -> Vec<Record> {
        self.runtime.log.read(Seq::ZERO, usize::MAX).await.unwrap()
    }

    /// Nothing was lost and nothing was done twice: every fact of `published` is in the log once, every execution was closed once,
    /// and the state is the fold of the log.
    pub(crate) async fn check(&self, published: &BTreeSet<RecordId>) {
        let state = tokio::time::timeout(PATIENCE, self.runtime.settled()).await.expect("everything is closed in time");
        let records = self.records().await;
        let mut times_written: BTreeMap<RecordId, usize> = BTreeMap::new();
        let mut times_closed: BTreeMap<&ExecutionId, usize> = BTreeMap::new();
        let mut texts_embedded = BTreeMap::new();
        let mut clean = State::default();
        for record in &records {
            *times_written.entry(record.fact.id).or_default() += 1;
            clean.apply(record);
            match record.event() {
                Event::ExecutionStarted(started) => *times_closed.entry(&started.execution).or_default() += 0,
                Event::EmbeddingComputed(embedding) => *texts_embedded.entry(&embedding.text_hash).or_insert(0) += 1,
                Event::TraceCompleted(trace) => *times_closed.entry(&trace.execution).or_default() += 1,
                _ => {}
            }
        }
        for id in published {
            assert_eq!(times_written.get(id), Some(&1), "{id}");
        }
        assert!(times_closed.values().all(|times| *times == 1), "{times_closed:?}");
        assert!(texts_embedded.values().all(|times| *times == 1), "{texts_embedded:?}");
        let expected = published.len() + times_closed.len() + texts_embedded.len();
        assert_eq!(records.len(), expected, "nothing else was written");
        assert_eq!((state.applied(), state.digest()), (clean.applied(), clean.digest()));
        assert_eq!((clean.duplicates(), clean.late()), (0, 0));
    }

    pub(crate) async fn stop(self) {
        self.runtime.stop().await;
    }
}

fn config(settings: &[(&str, &str)]) -> Config {
    let quick = [("TEMPLATES__PATH", ""), ("TRACE__SETTLE_MS", "20"), ("TRAINER__ENABLED", "false")];
    let named = |(name, value): &(&str, &str)| (format!("PML__{name}"), (*value).to_owned());
    Config::load(None, quick.iter().chain(settings).map(named)).unwrap()
}
