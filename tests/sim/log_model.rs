//! The adapters of the log beside a model: random appends, reads, finds, follows, failures and crashes, from seeds.
//!
//! The model is two ordered maps. After every group of calls the log must hold what the model holds: what was acknowledged, nothing
//! that was refused, and of calls without an answer each fact once or not at all.

mod adapter;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use pml::clock::Clock;
use pml::core::event::{NewRecord, Record};
use pml::core::id::{RecordId, Seq};
use pml::core::invariant::positions_increase;
use pml::log::contract::fact;
use pml::log::{AppendError, Appended, EventLog};
use pml::sim::ModelLog;
use pml_model::random::Random;

use crate::faulty_proxy::FaultyProxy;
use crate::nats_server::NatsServer;
use crate::setting;
use adapter::{Adapter, DELAY, JetStreamAdapter, MemoryAdapter, RedbAdapter};

const STEPS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(30);

/// What a log must hold.
#[derive(Default)]
struct Model {
    records: BTreeMap<Seq, Arc<NewRecord>>,
    positions: BTreeMap<RecordId, Seq>,
}

impl Model {
    fn last(&self) -> Seq {
        self.records.last_key_value().map_or(Seq::ZERO, |(seq, _)| *seq)
    }

    /// Adds a record that the log says it holds.
    fn add(&mut self, seq: Seq, fact: &Arc<NewRecord>) {
        let known = *self.positions.entry(fact.id).or_insert(seq);
        assert_eq!(known, seq, "{} stands at two positions", fact.id);
        let held = self.records.entry(seq).or_insert_with(|| Arc::clone(fact));
        assert_eq!(held.id, fact.id, "two records at {seq}");
    }
}

type Answer = Result<Vec<Appended>, AppendError>;

/// The facts of a call and its answer to come; `None` if it was given up.
type Call = (Vec<Arc<NewRecord>>, Option<BoxFuture<'static, Answer>>);

/// One seeded run of an adapter.
struct Run<A> {
    adapter: A,
    log: Arc<dyn EventLog>,
    model: Model,
    random: Random,
    /// Facts made so far.
    facts: u64,
    counts: Counts,
    /// Records after those of the calls that are being settled.
    later: Vec<(Seq, Arc<NewRecord>)>,
}

/// How often things happened in all runs.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    appended: u64,
    duplicates: u64,
    refused: u64,
    unknown: u64,
    crashes: u64,
    failures: u64,
    /// The longest time after a failure until the log took facts again.
    recovery_ms_max: u64,
}

impl<A: Adapter> Run<A> {
    async fn new(mut adapter: A, seed: u64) -> Self {
        let log = adapter.open().await;
        Self {
            adapter,
            log,
            model: Model::default(),
            random: Random::new(seed),
            facts: 0,
            counts: Counts::default(),
            later: Vec::new(),
        }
    }

    async fn go(mut self) -> Counts {
        for _ in 0..STEPS {
            match self.random.below(10) {
                0..=4 => self.append().await,
                5 => self.read().await,
                6 => self.find().await,
                7 => self.follow().await,
                8 => self.crash().await,
                _ => self.fail().await,
            }
        }
        self.check().await;
        self.counts
    }

    /// The facts of one call: new ones, and some that were appended before.
    fn call(&mut self) -> Vec<Arc<NewRecord>> {
        let len = self.random.below(6);
        (0..len)
            .map(|_| {
                if self.facts > 0 && self.random.below(5) == 0 {
                    return fact(self.random.next_u64() % self.facts);
                }
                self.facts += 1;
                fact(self.facts - 1)
            })
            .collect()
    }

    /// Makes calls that wait together. With `gives_up`, some are given up before they are answered.
    fn begin(&mut self, gives_up: bool) -> Vec<Call> {
        let count = 1 + self.random.below(4);
        (0..count)
            .map(|_| {
                let facts = self.call();
                let answer = self.log.append(facts.clone());
                let is_awaited = !gives_up || self.random.below(6) > 0;
                (facts, is_awaited.then_some(answer))
            })
            .collect()
    }

    async fn append(&mut self) {
        let calls = self.begin(A::WRITES_WHAT_IS_GIVEN_UP);
        self.settle(calls).await;
    }

    /// Awaits the answers, then compares them and what became of the calls without one with the model.
    async fn settle(&mut self, calls: Vec<Call>) {
        let (mut settled, mut unknown, mut given_up) = (Vec::new(), Vec::new(), Vec::new());
        for (facts, answer) in calls {
            let Some(answer) = answer else {
                given_up.extend(facts);
                continue;
            };
            match tokio::time::timeout(PATIENCE, answer).await.expect("an append is answered") {
                Ok(appended) => settled.push((facts, appended)),
                Err(AppendError::Indeterminate(_)) => {
                    self.counts.unknown += 1;
                    unknown.extend(facts);
                }
                Err(AppendError::Busy | AppendError::Determinate(_) | AppendError::Closed) => self.counts.refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        let before = self.model.last();
        let mut new = Vec::new();
        for (facts, appended) in settled {
            assert_eq!(facts.len(), appended.len(), "one answer per fact");
            for (fact, Appended { seq, duplicate }) in facts.iter().zip(appended) {
                if duplicate {
                    self.counts.duplicates += 1;
                    // A call before this one may have written it without an answer.
                    assert!(self.model.positions.get(&fact.id).is_none_or(|known| *known == seq), "{} moved", fact.id);
                } else {
                    self.counts.appended += 1;
                    assert!(!self.model.positions.contains_key(&fact.id), "{} was written again", fact.id);
                    new.push(seq);
                }
                self.model.add(seq, fact);
            }
        }
        assert_eq!(positions_increase(before, new), Ok(()));
        // A call that nobody waits for is written all the same.
        for fact in &given_up {
            let seq = self.found(fact.id).await;
            self.model.add(seq, fact);
        }
        for fact in unknown {
            if let Some(seq) = self.log.find(fact.id).await.expect("the log answers") {
                assert!(seq > before || self.model.positions.contains_key(&fact.id), "{} was written in the past", fact.id);
                self.model.add(seq, &fact);
            }
        }
        for (seq, fact) in std::mem::take(&mut self.later) {
            self.model.add(seq, &fact);
        }
        if self.random.below(4) == 0 {
            self.check().await;
        }
    }

    /// Waits until the log takes facts again: one more is appended until it is answered.
    async fn wait_good(&mut self) {
        let next = fact(self.facts);
        self.facts += 1;
        let (mut errors, mut last_error) = (0, None);
        let taken = async {
            loop {
                match self.log.append(vec![Arc::clone(&next)]).await {
                    Ok(appended) => return appended[0].seq,
                    Err(error) => (errors, last_error) = (errors + 1, Some(error)),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let clock = Clock::system();
        let repaired = clock.uptime();
        let taken = tokio::time::timeout(PATIENCE, taken).await;
        self.counts.recovery_ms_max = self.counts.recovery_ms_max.max(clock.uptime().millis_since(repaired));
        let seq = taken.unwrap_or_else(|_| panic!("the log does not recover: {errors} errors, the last one: {last_error:?}"));
        self.later.push((seq, next));
    }

    /// Waits until the log holds a record.
    async fn found(&self, id: RecordId) -> Seq {
        let found = async {
            loop {
                if let Some(seq) = self.log.find(id).await.expect("the log answers") {
                    return seq;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, found).await.expect("what was given up is written")
    }

    async fn read(&mut self) {
        let after = Seq(self.random.next_u64() % (self.model.last().0 + 3));
        let limit = [0, 1, 2, 7, usize::MAX][self.random.below(5)];
        let records = self.log.read(after, limit).await.expect("the log can be read");
        let expected = self.model.records.range(after.next()..).take(limit);
        let expected: Vec<_> = expected.map(|(seq, fact)| (*seq, fact.id)).collect();
        assert_eq!(records.iter().map(|record| (record.seq, record.fact.id)).collect::<Vec<_>>(), expected, "after {after}");
    }

    async fn find(&mut self) {
        for _ in 0..3 {
            let id = fact(self.random.next_u64() % (self.facts + 2)).id;
            assert_eq!(self.log.find(id).await.expect("the log answers"), self.model.positions.get(&id).copied(), "{id}");
        }
    }

    /// A follower is woken by an append.
    async fn follow(&mut self) {
        let mut tail = self.log.tail();
        let before = *tail.borrow_and_update();
        assert_eq!(before, self.model.last(), "the tail is the last record");
        self.append().await;
        let last = self.model.last();
        if last > before {
            let moved = tokio::time::timeout(PATIENCE, tail.wait_for(|tail| *tail >= last)).await;
            moved.expect("followers are woken").expect("the log is there");
        }
    }

    /// The process ends with calls under way, and another one opens the log.
    async fn crash(&mut self) {
        self.counts.crashes += 1;
        let calls = self.begin(false);
        self.log = self.adapter.crash(std::mem::replace(&mut self.log, self.adapter.nothing()), &mut self.random).await;
        self.settle(calls).await;
        self.check().await;
    }

    /// Writes fail for a while.
    async fn fail(&mut self) {
        self.counts.failures += 1;
        self.adapter.break_down(&mut self.random);
        let calls = self.begin(false);
        // Long enough for the fault to be met: the calls are awaited before it ends.
        let mut answered = Vec::new();
        for (facts, answer) in calls {
            answered.push(match answer {
                Some(answer) if self.adapter.answers_while_broken() => {
                    let answer = tokio::time::timeout(PATIENCE, answer).await.expect("an append is answered");
                    (facts, Some(Box::pin(std::future::ready(answer)) as BoxFuture<'static, Answer>))
                }
                other => (facts, other),
            });
        }
        self.adapter.repair();
        self.wait_good().await;
        self.settle(answered).await;
    }

    /// The whole log against the whole model.
    async fn check(&mut self) {
        let records = self.log.read(Seq::ZERO, usize::MAX).await.expect("the log can be read");
        let found: BTreeMap<Seq, Arc<NewRecord>> = records.into_iter().map(|record| (record.seq, record.fact)).collect();
        let positions =
            |held: &BTreeMap<Seq, Arc<NewRecord>>| held.iter().map(|(seq, fact)| (seq.0, fact.id.to_string())).collect();
        let (found_at, expected): (BTreeSet<_>, BTreeSet<_>) = (positions(&found), positions(&self.model.records));
        let (more, fewer): (Vec<_>, Vec<_>) =
            (found_at.difference(&expected).collect(), expected.difference(&found_at).collect());
        assert!(more.is_empty() && fewer.is_empty(), "the log holds {more:?} besides the model, and lacks {fewer:?}");
        assert!(found == self.model.records, "records are as they were appended");
        assert_eq!(*self.log.tail().borrow(), self.model.last());
    }
}

/// Runs seeds on an adapter and says which one failed.
#[expect(clippy::print_stdout, reason = "shown when the test fails, and with --nocapture")]
fn check_seeds<A: Adapter>(name: &str, share: u64, adapter: impl Fn(u64) -> A) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let seeds = setting("PML_MODEL_SEEDS").unwrap_or(share);
    let first = setting("PML_SIM_SEED").unwrap_or(0);
    let mut total = Counts::default();
    for seed in first..first + seeds {
        println!("{name}: PML_SIM_SEED={seed} PML_MODEL_SEEDS=1");
        let counts = runtime.block_on(async { Run::new(adapter(seed), seed).await.go().await });
        total.appended += counts.appended;
        total.duplicates += counts.duplicates;
        total.refused += counts.refused;
        total.unknown += counts.unknown;
        total.crashes += counts.crashes;
        total.failures += counts.failures;
        total.recovery_ms_max = total.recovery_ms_max.max(counts.recovery_ms_max);
    }
    println!("{name}: {seeds} seeds, {total:?}");
}

#[test]
fn the_log_in_memory_is_its_model() {
    check_seeds("memory", 100, MemoryAdapter::new);
}

#[test]
fn the_log_in_a_file_is_its_model_through_failing_disks_and_lost_power() {
    check_seeds("redb", 12, RedbAdapter::new);
}

#[test]
fn the_log_on_jetstream_is_its_model_through_cut_connections_and_restarts() {
    let server = NatsServer::start();
    check_seeds("jetstream", 1, |seed| JetStreamAdapter::new(&server, seed));
}

/// Whatever the server and the log say to each other comes late, and all of it that may be repeated comes twice.
#[test]
fn the_log_on_jetstream_is_its_model_while_messages_are_late_and_come_twice() {
    let server = NatsServer::start();
    let proxy = Arc::new(FaultyProxy::start(&server));
    proxy.delay(DELAY);
    proxy.repeat(true);
    check_seeds("late and twice", 2, |seed| JetStreamAdapter::always_troubled(&proxy, seed));
    let [publishes, deliveries] = proxy.repeated();
    assert!(publishes > 0 && deliveries > 0, "{publishes} publishes and {deliveries} messages of the server were repeated");
}

/// The simulator's stream and the real server get the same calls and must give the same answers, positions included.
#[test]
fn the_model_of_the_stream_and_the_real_server_agree() {
    const CALLS: usize = 150;
    let server = NatsServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for seed in 0..setting("PML_MODEL_SEEDS").unwrap_or(2) {
            let mut adapter = JetStreamAdapter::new(&server, 1_000 + seed);
            let (real, model) = (adapter.open().await, ModelLog::new(Clock::system()));
            let mut random = Random::new(seed);
            for call in 0..CALLS {
                let place = format!("seed {seed}, call {call}");
                match random.below(6) {
                    0..=2 => {
                        let facts: Vec<_> = (0..random.below(8)).map(|_| fact(random.below(2 * call + 2) as u64)).collect();
                        let (one, two) = (real.append(facts.clone()).await.unwrap(), model.append(facts).await.unwrap());
                        assert_eq!(one, two, "{place}");
                    }
                    3 => {
                        adapter.publish_foreign().await;
                        model.take_foreign();
                    }
                    4 => {
                        let (after, limit) = (Seq(random.below(2 * call + 2) as u64), random.below(20));
                        let key = |records: Vec<Record>| {
                            records.into_iter().map(|record| (record.seq, record.fact)).collect::<Vec<_>>()
                        };
                        let (one, two) = (real.read(after, limit).await.unwrap(), model.read(after, limit).await.unwrap());
                        assert_eq!(key(one), key(two), "{place}");
                    }
                    _ => {
                        let id = fact(random.below(2 * call + 2) as u64).id;
                        assert_eq!(real.find(id).await.unwrap(), model.find(id).await.unwrap(), "{place}");
                    }
                }
                assert_eq!(*real.tail().borrow(), *model.tail().borrow(), "{place}");
            }
        }
    });
}
