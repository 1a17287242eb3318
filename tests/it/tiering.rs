//! Tiering: records move from the log to the archive, and nobody who reads, asks or publishes notices.

use std::path::Path;
use std::sync::Arc;

use pml::archive::{Archive, ArchiveStore, ArchivedRecords, HotLimits, TieredRecords, TieringError, tier_in_pages};
use pml::clock::Clock;
use pml::config::AppendMode;
use pml::core::event::Record;
use pml::core::id::Seq;
use pml::core::state::State;
use pml::core::time::Timestamp;
use pml::failpoint;
use pml::history::backup::{Decoder, encode_log};
use pml::log::{EventLog, JetStreamLog, MemoryLog, SharedLog, StreamOptions, TrimmedLog, contract};
use pml::nats::Nats;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::crash::Random;
use crate::log_contract::redb_with;
use crate::nats_server::{NatsServer, log_settings, settings};
use crate::object_server::ObjectServer;
use crate::run::whole;
use crate::server::{Server, eventually, pml, server_variable};

/// Failpoints belong to the process: tests that move records do so one at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// Records between two runs, and how many of them stay; the rest are several pages.
const RECORDS: u64 = 600;
const HOT: u64 = 100;
const PAGE: usize = 200;

/// A log that records are moved from, and their archive.
struct Place {
    home: TempDir,
    server: Option<NatsServer>,
    /// The object store of the archive; without one it is a directory.
    objects: Option<ObjectServer>,
}

impl Place {
    fn directory() -> Self {
        Self { home: TempDir::new().unwrap(), server: None, objects: None }
    }

    fn stream() -> Self {
        Self { server: Some(NatsServer::start()), ..Self::directory() }
    }

    /// A directory whose archive is in an object store.
    fn with_objects() -> Self {
        Self { objects: Some(ObjectServer::start()), ..Self::directory() }
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    async fn open(&self) -> Arc<dyn TrimmedLog> {
        match &self.server {
            None => Arc::new(redb_with(self.home(), &self.archive())),
            Some(_) => self.open_stream(Some(self.home())).await,
        }
    }

    async fn open_stream(&self, directory: Option<&Path>) -> Arc<dyn TrimmedLog> {
        let mut settings = settings(&[self.server.as_ref().expect("it is a stream").url()]);
        settings.append = AppendMode::Pipelined;
        let nats = Nats::connect(&settings, crate::nats_server::subjects()).await.unwrap();
        let dead = pml::config::Dead { letters_max: 5, letter_bytes_max: 1 << 16, bytes_max: 1 << 20 };
        let log = pml::config::Log { hot_records: 1, ..log_settings() };
        nats.provision(&dead, &log).await.unwrap();
        let options = StreamOptions {
            directory: directory.map(Path::to_owned),
            older: Some(Arc::new(ArchivedRecords::new(self.archive()))),
            queue_appends_max: 1_000,
        };
        Arc::new(JetStreamLog::open(nats, options, Clock::system()).await.unwrap())
    }

    /// The archive, as a process opens it that knows nothing of it.
    fn archive(&self) -> ArchiveStore {
        let directory = self.home().join("archive");
        match &self.objects {
            Some(objects) => ArchiveStore::at(objects.place("tiering"), &directory),
            None => ArchiveStore::from(directory.as_path()),
        }
    }

    async fn tier(&self, log: &dyn TrimmedLog, limits: HotLimits) -> Result<Option<TieredRecords>, TieringError> {
        tier(log, &self.archive(), limits, Clock::system().now()).await
    }
}

/// Moves records in small pages.
async fn tier(
    log: &dyn TrimmedLog,
    archive: &ArchiveStore,
    limits: HotLimits,
    now: Timestamp,
) -> Result<Option<TieredRecords>, TieringError> {
    tier_in_pages(log, archive, limits, now, PAGE).await
}

async fn fill(log: &dyn EventLog, numbers: std::ops::Range<u64>) {
    for from in numbers.clone().step_by(500) {
        log.append((from..numbers.end.min(from + 500)).map(contract::fact).collect()).await.unwrap();
    }
}

/// All records, read in pages of different sizes.
async fn read_all(log: &dyn EventLog, random: &mut Random) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map_or(Seq::ZERO, |record| record.seq);
        let page = log.read(after, 1 + usize::try_from(random.below(180)).unwrap()).await.unwrap();
        if page.is_empty() {
            return records;
        }
        records.extend(page);
    }
}

fn ids(records: &[Record]) -> Vec<(Seq, String)> {
    records.iter().map(|record| (record.seq, record.fact.id.to_string())).collect()
}

fn digest(records: &[Record]) -> String {
    let mut state = State::default();
    for record in records {
        state.apply(record);
    }
    state.digest().to_string()
}

fn expected(numbers: std::ops::Range<u64>) -> Vec<(Seq, String)> {
    numbers.map(|number| (Seq(number + 1), contract::fact(number).id.to_string())).collect()
}

async fn check_with_and_without(place: Place, seed: u64) {
    let mut random = Random(seed);
    let (plain, tiered) = (MemoryLog::new(Clock::system()), place.open().await);
    let mut end = 0;
    for _ in 0..6 {
        let next = end + 1 + random.below(300);
        for log in [&plain as &dyn EventLog, &*tiered as &dyn EventLog] {
            fill(log, end..next).await;
        }
        end = next;
        place.tier(&*tiered, HotLimits { records: 1 + random.below(160), days: 0 }).await.unwrap();
        let (one, other) = (read_all(&plain, &mut random).await, read_all(&*tiered, &mut random).await);
        assert_eq!(ids(&one), ids(&other), "seed {seed}");
        assert_eq!(digest(&one), digest(&other), "seed {seed}");
        for _ in 0..20 {
            let (after, limit) = (Seq(random.below(end + 2)), usize::try_from(random.below(60)).unwrap());
            let (one, other) = (plain.read(after, limit).await.unwrap(), tiered.read(after, limit).await.unwrap());
            assert_eq!(ids(&one), ids(&other), "seed {seed}: {limit} records after {after}");
            let again = contract::fact(random.below(end));
            let (one, other) =
                (plain.append(vec![Arc::clone(&again)]).await.unwrap(), tiered.append(vec![Arc::clone(&again)]).await.unwrap());
            assert_eq!((one, plain.find(again.id).await.unwrap()), (other, tiered.find(again.id).await.unwrap()));
        }
    }
    assert!(tiered.trimmed_to() > Seq::ZERO);
    check_backup(tiered, &expected(0..end)).await;
}

async fn check_backup(log: Arc<dyn TrimmedLog>, expected: &[(Seq, String)]) {
    let shared: SharedLog = log;
    let mut bytes = Vec::new();
    let mut pieces = std::pin::pin!(encode_log(shared));
    while let Some(piece) = futures_util::StreamExt::next(&mut pieces).await {
        bytes.extend(piece.unwrap());
    }
    let restored = Decoder::begin(bytes.as_slice()).unwrap().collect::<Result<Vec<_>, _>>().unwrap().concat();
    assert_eq!(ids(&restored), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_and_without_tiering_everything_reads_the_same() {
    let _turn = TURN.lock().await;
    for seed in 1..=4 {
        check_with_and_without(Place::directory(), seed).await;
    }
    check_with_and_without(Place::stream(), 5).await;
    check_with_and_without(Place::with_objects(), 6).await;
}

/// Stops at every step of a run, after it, opens everything again and checks that nothing is lost or doubled.
async fn check_crashes(place: Place) {
    let limits = HotLimits { records: HOT, days: 0 };
    let mut end = 0;
    for (point, nth) in
        [("tiering.page", 1), ("tiering.page", 2), ("tiering.written", 1), ("tiering.compared", 1), ("tiering.trimmed", 1)]
    {
        let log = place.open().await;
        fill(&*log, end..end + RECORDS).await;
        end += RECORDS;
        failpoint::arm(point, nth);
        let (running, archive) = (Arc::clone(&log), place.archive());
        let run = tokio::spawn(async move { tier(&*running, &archive, limits, Clock::system().now()).await.map(drop) });
        assert!(run.await.is_err_and(|error| error.is_panic()), "{point} was not reached");
        drop(log);
        let mut random = Random(7);
        for _ in 0..2 {
            let log = place.open().await;
            assert_eq!(ids(&read_all(&*log, &mut random).await), expected(0..end), "after {point}");
            let again = log.append([0, end - 1].map(contract::fact).into()).await.unwrap();
            assert!(again.iter().all(|appended| appended.duplicate), "after {point}");
            let moved = place.tier(&*log, limits).await.unwrap();
            assert!(moved.is_none_or(|moved| moved.trimmed_to == Seq(end - HOT)), "{moved:?} after {point}");
            assert_eq!(log.trimmed_to(), Seq(end - HOT), "after {point}");
            assert_eq!(ids(&read_all(&*log, &mut random).await), expected(0..end), "after {point}");
            drop(log);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_may_be_stopped_at_every_step_on_redb() {
    let _turn = TURN.lock().await;
    check_crashes(Place::directory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_may_be_stopped_at_every_step_with_the_archive_in_an_object_store() {
    let _turn = TURN.lock().await;
    check_crashes(Place::with_objects()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_may_be_stopped_at_every_step_on_jetstream() {
    let _turn = TURN.lock().await;
    check_crashes(Place::stream()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_leave_the_log_by_age_a_whole_day_at_a_time() {
    const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;
    let _turn = TURN.lock().await;
    let place = Place::directory();
    let log = place.open().await;
    fill(&*log, 0..100).await;
    let last = log.read(Seq(99), 1).await.unwrap()[0].recorded_at;
    let midnight = Timestamp::from_micros((last.micros().div_euclid(DAY_US) + 1) * DAY_US);
    // The many records that may stay keep none that is too old.
    let limits = HotLimits { records: 1_000_000, days: 3 };
    let young = [last, midnight, midnight.plus_micros(3 * DAY_US - 1)];
    for moment in young {
        assert_eq!(
            tier(&*log, &place.archive(), limits, moment).await.unwrap(),
            None,
            "their day has not left the log: {moment}"
        );
    }
    let old = midnight.plus_micros(3 * DAY_US);
    let moved = tier(&*log, &place.archive(), limits, old).await.unwrap().expect("they are old");
    assert_eq!((moved.archived, moved.trimmed_to), (99, Seq(99)), "the last one stays");
    assert_eq!(ids(&log.read(Seq::ZERO, 1_000).await.unwrap()), expected(0..100));
}

/// What was archived from another log is never taken for the records of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_of_another_log_is_refused_and_nothing_is_removed() {
    let _turn = TURN.lock().await;
    let (one, other) = (Place::directory(), Place::directory());
    let limits = HotLimits { records: 10, days: 0 };
    let log = one.open().await;
    fill(&*log, 0..100).await;
    one.tier(&*log, limits).await.unwrap().unwrap();
    let log = other.open().await;
    fill(&*log, 1_000..1_200).await;
    let error = one.tier(&*log, limits).await.unwrap_err().to_string();
    assert!(error.contains("is not the archive of this log: record 90 differs"), "{error}");
    assert_eq!(log.trimmed_to(), Seq::ZERO);
}

/// Several processes share a stream: one moves records, the others go on reading, and a new one learns the ids of what is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_on_a_stream_notice_that_another_has_moved_records() {
    // More than the follower takes from an archive at once.
    const RECORDS: u64 = 10_000;
    let _turn = TURN.lock().await;
    let place = Place::stream();
    let mover = place.open().await;
    fill(&*mover, 0..RECORDS).await;
    let reader = place.open_stream(None).await;
    place.tier(&*mover, HotLimits { records: 1_000, days: 0 }).await.unwrap().unwrap();
    let trimmed_to = Seq(RECORDS - 1_000);
    assert_eq!((mover.trimmed_to(), reader.trimmed_to()), (trimmed_to, Seq::ZERO));
    assert_eq!(ids(&read_all(&*reader, &mut Random(3)).await), expected(0..RECORDS), "from the archive, though nobody told it");
    assert_eq!(reader.trimmed_to(), trimmed_to);
    let new = place.open_stream(None).await;
    let again = new.append([5, RECORDS - 1_001, RECORDS - 500].map(contract::fact).into()).await.unwrap();
    assert!(again.iter().all(|appended| appended.duplicate), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_covers_the_archive_and_the_log() {
    let _turn = TURN.lock().await;
    let place = Place::directory();
    let log = place.open().await;
    fill(&*log, 0..1_000).await;
    place.tier(&*log, HotLimits { records: 200, days: 0 }).await.unwrap().unwrap();
    drop(log);
    let verify = || {
        let output = pml().args(["log", "verify", "--json", "--data"]).arg(place.home()).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), report)
    };
    let (code, report) = verify();
    assert_eq!((code, report["records"].as_u64()), (Some(0), Some(1_000)), "{report}");
    let days = std::fs::read_dir(place.home().join("archive")).unwrap();
    let day = days.map(|day| day.unwrap().path()).find(|day| day.is_dir()).unwrap();
    let file = std::fs::read_dir(day).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    // Some columns repeat what others hold and are not read back, so one byte might change nothing.
    for byte in damaged[whole.len() / 4..whole.len() * 3 / 4].iter_mut().step_by(101) {
        *byte ^= 0x10;
    }
    std::fs::write(&file, damaged).unwrap();
    let (code, report) = verify();
    assert_eq!(code, Some(5), "{report}");
    assert!(report["problems"][0].as_str().is_some_and(|problem| problem.contains("archive")), "{report}");
    std::fs::remove_file(&file).unwrap();
    let (code, report) = verify();
    assert_eq!(code, Some(5), "{report}");
    assert!(report["problems"][0].as_str().is_some_and(|problem| problem.contains("set log.archive")), "{report}");
    std::fs::remove_dir_all(place.home().join("archive")).unwrap();
    let (code, report) = verify();
    assert_eq!(code, Some(5), "{report}");
    assert!(report["problems"][0].as_str().is_some_and(|problem| problem.contains("set log.archive")), "{report}");
    let served = pml().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(place.home()).output().unwrap();
    let said = String::from_utf8_lossy(&served.stderr);
    assert!(served.status.code() == Some(5) && said.contains("set log.archive"), "{said}");
}

/// The program with its archive in an object store: everything is there after a restart, and after a kill.
#[test]
fn a_server_keeps_its_archive_in_an_object_store() {
    let objects = ObjectServer::start();
    let mut settings = vec![("LOG__HOT_RECORDS", "32"), ("LOG__ARCHIVE", "s3://pml/served")];
    let variables = objects.variables();
    settings.extend(variables.iter().map(|(name, value)| (*name, value.as_str())));
    let mut server = Server::with(&settings);
    for run in 0..30 {
        server.accept(&whole(&format!("e{run}")));
    }
    let before = server.settled_state();
    let store = ArchiveStore::at(objects.place("served"), server.data().as_path());
    eventually("records in the object store", || Archive::open(&store).unwrap().last().filter(|(last, _)| last.0 > 64));
    server.kill9();
    server.restart();
    assert_eq!(server.settled_state()["digest"], before["digest"]);
    assert_eq!(server.records().len() as u64, before["applied_seq"].as_u64().unwrap());
    assert!(server.post(&whole("e1")).statuses().iter().all(|status| status == "refused"), "it is closed");
    let directory = server.data().join("archive");
    let left = || -> Vec<_> { std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect() };
    let is_empty = || left().iter().all(|name| name == ".lock");
    // A file that is being written when the process is killed stays until the next run.
    eventually("the files to be moved", || is_empty().then_some(()));
    server.kill9();
    let mut verify = pml();
    for (name, value) in &settings {
        verify.env(server_variable(name), value);
    }
    let verified = verify.args(["log", "verify", "--json", "--data"]).arg(server.data()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!((verified.status.code(), &report["problems"]), (Some(0), &serde_json::json!([])), "{report}");
    assert_eq!(report["digest"], before["digest"]);
    assert!(is_empty(), "no records are left in the data directory: {:?}", left());
}
