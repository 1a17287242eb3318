//! The server is killed again and again while agents publish. Whatever was acknowledged is there afterwards, once, and the state is
//! the fold of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pml::core::id::{RecordId, Seq};
use pml::core::state::State;
use pml::core::time::Timestamp;
use pml::log::{EventLog, TrimmedLog};
use serde_json::{Value, json};

use crate::log_contract::redb;
use crate::run::whole;
use crate::server::{Answer, Server, eventually, pml};

const SEED: u64 = 0x5eed_0001;
const KILLS: usize = 40;
const PUBLISHERS: u64 = 3;
/// A life lasts up to this long, counted from when it takes requests.
const LIFE_MS_MAX: u64 = 120;

/// Xorshift (Marsaglia 2003), 64 bits.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Where the server of the moment listens.
type Url = Arc<Mutex<String>>;

/// One agent: publishes run after run, sends again under the same ids what was not acknowledged, and remembers what was.
struct Agent {
    number: u64,
    url: Url,
    http: ureq::Agent,
    acknowledged: BTreeMap<String, u64>,
    /// Requests of all agents that were acknowledged.
    answers: Arc<AtomicUsize>,
    sent_again: usize,
}

impl Agent {
    fn new(number: u64, url: Url, answers: Arc<AtomicUsize>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(10)));
        Self { number, url, http: config.build().into(), acknowledged: BTreeMap::new(), answers, sent_again: 0 }
    }

    fn publish_until(mut self, over: &AtomicBool) -> Self {
        let mut run = 0;
        while !over.load(Ordering::Relaxed) {
            let events = self.events(run);
            // While the killing goes on there is no deadline: on a busy machine, many a life is too short for an answer.
            let mut known = self.publish(&events);
            while known.is_none() && !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
                known = self.publish(&events);
            }
            known.unwrap_or_else(|| eventually("the last acknowledgement", || self.publish(&events)));
            run += 1;
        }
        self
    }

    /// A run whose ids follow from who publishes it and when.
    fn events(&self, run: u64) -> Value {
        let execution = format!("e-{}-{run}", self.number);
        let mut events = whole(&execution);
        for (at, event) in events.as_array_mut().unwrap().iter_mut().enumerate() {
            let id = RecordId::derived(Timestamp::from_micros(0), &[&execution, &at.to_string()]);
            event["id"] = json!(id.to_string());
        }
        events
    }

    /// One attempt; `None` if nobody knows what became of it.
    fn publish(&mut self, events: &Value) -> Option<()> {
        let url = self.url.lock().unwrap().clone();
        let request = self.http.post(format!("{url}/v1/events")).header("content-type", "application/json");
        let Ok(answer) = Answer::read(request.send(events.to_string())) else {
            self.sent_again += 1;
            return None;
        };
        if answer.status == 202 {
            self.note(&answer);
            return Some(());
        }
        assert!(matches!(answer.status, 408 | 429 | 503), "{answer:?}");
        self.sent_again += 1;
        None
    }

    fn note(&mut self, answer: &Answer) {
        for result in answer.json()["results"].as_array().unwrap() {
            assert!(result["status"] == "accepted" || result["status"] == "duplicate", "{answer:?}");
            let (id, seq) = (result["id"].as_str().unwrap().to_owned(), result["seq"].as_u64().unwrap());
            assert_eq!(self.acknowledged.insert(id, seq), None, "acknowledged twice");
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// Publishes under fire and returns what was acknowledged, with its positions.
#[expect(clippy::print_stdout, reason = "the test harness shows it when the test fails")]
fn publish_and_kill(server: &mut Server, seed: u64) -> BTreeMap<String, u64> {
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let url: Url = Arc::new(Mutex::new(server.url().to_owned()));
    let (over, answers) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let agents: Vec<Agent> = std::thread::scope(|scope| {
        let publish = |number| Agent::new(number, Arc::clone(&url), Arc::clone(&answers)).publish_until(&over);
        let publishing: Vec<_> = (0..PUBLISHERS).map(|number| scope.spawn(move || publish(number))).collect();
        for life in 0..KILLS {
            let before = answers.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(random.below(LIFE_MS_MAX)));
            // Most lives end at any moment; now and then one lasts until something was acknowledged in it.
            if life % 4 == 0 {
                eventually("an acknowledgement", || (answers.load(Ordering::Relaxed) > before).then_some(()));
            }
            server.restart();
            url.lock().unwrap().replace_range(.., server.url());
        }
        over.store(true, Ordering::Relaxed);
        publishing.into_iter().map(|agent| agent.join().expect("an agent failed")).collect()
    });
    let again: usize = agents.iter().map(|agent| agent.sent_again).sum();
    let acknowledged: BTreeMap<String, u64> = agents.into_iter().flat_map(|agent| agent.acknowledged).collect();
    println!("{KILLS} kills, {} events acknowledged, {again} requests sent again", acknowledged.len());
    assert!(again >= KILLS / 2, "hardly any request was hit by a kill: {again}");
    acknowledged
}

fn check_present_once(acknowledged: &BTreeMap<String, u64>, records: &[Value]) {
    let mut positions: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for record in records {
        positions.entry(record["id"].as_str().unwrap()).or_default().push(record["seq"].as_u64().unwrap());
    }
    for (id, seq) in acknowledged {
        assert_eq!(positions.get(id.as_str()), Some(&vec![*seq]), "event {id}");
    }
    let repeated: Vec<_> = positions.iter().filter(|(_, at)| at.len() > 1).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
}

fn check_closed_once(records: &[Value]) {
    let of_kind = |kind: &str| -> Vec<&str> {
        records
            .iter()
            .filter(|record| record["type"] == kind)
            .map(|record| record["data"]["execution"].as_str().unwrap())
            .collect()
    };
    let closed = of_kind("pml.trace.completed");
    let distinct: BTreeSet<&str> = closed.iter().copied().collect();
    assert_eq!(closed.len(), distinct.len(), "an execution was closed twice");
    assert_eq!(distinct, of_kind("pml.execution.started").into_iter().collect());
}

/// The digest of a fold of the directory's log up to `seq`, by a program that was not there when it was written.
pub(crate) fn clean_digest(directory: &std::path::Path, seq: u64) -> String {
    let log = redb(directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let records = runtime.block_on(log.read(Seq::ZERO, usize::try_from(seq).unwrap())).unwrap();
    let mut state = State::default();
    for record in &records {
        state.apply(record);
    }
    assert_eq!(state.applied(), Seq(seq));
    state.digest().to_string()
}

#[test]
fn what_was_acknowledged_survives_being_killed_once_and_the_state_is_the_fold_of_the_log() {
    check_killed_server(&mut Server::start());
}

#[test]
fn a_server_that_is_killed_while_it_moves_records_to_the_archive_loses_nothing() {
    let mut server = Server::with(&[("LOG__HOT_RECORDS", "64")]);
    check_killed_server(&mut server);
    let days = std::fs::read_dir(server.data().join("archive")).unwrap();
    let days = days.filter(|day| day.as_ref().unwrap().file_name().to_string_lossy().starts_with("day="));
    let files: usize = days.map(|day| std::fs::read_dir(day.unwrap().path()).unwrap().count()).sum();
    assert!(files > 5, "records were moved {files} times only");
    assert!(redb(&server.data()).trimmed_to() > Seq::ZERO);
}

fn check_killed_server(server: &mut Server) {
    let acknowledged = publish_and_kill(server, SEED);
    assert!(acknowledged.len() > KILLS, "only {} events were acknowledged", acknowledged.len());
    server.restart();
    let state = server.settled_state();
    let records = server.records();
    check_present_once(&acknowledged, &records);
    check_closed_once(&records);
    assert_eq!(state["duplicates"], json!(0), "the log itself holds no id twice");
    server.kill9();
    let (digest, applied) = (state["digest"].as_str().unwrap(), state["applied_seq"].as_u64().unwrap());
    assert_eq!(clean_digest(&server.data(), applied), digest, "the server's state is not the fold of its log");
    let verified = pml().args(["log", "verify", "--json", "--data"]).arg(server.data()).output().unwrap();
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(0), "{report}");
    assert_eq!((report["digest"].as_str().unwrap(), &report["problems"]), (digest, &json!([])));
}
