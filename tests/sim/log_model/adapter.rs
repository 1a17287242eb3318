//! How each adapter is opened, crashed, broken and repaired.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use pml::clock::Clock;
use pml::config::{self, AppendMode};
use pml::log::faulty::{FaultyLog, seeded};
use pml::log::{EventLog, Faults, JetStreamLog, MemoryLog, RedbLog, RedbOptions, StreamOptions};
use pml::nats::Nats;
use pml::subject::Subjects;
use pml_model::random::Random;
use tempfile::TempDir;

use crate::faulty_proxy::FaultyProxy;
use crate::nats_server::{NatsServer, settings};

const SECTOR: usize = 512;

/// A way to store a log.
pub(super) trait Adapter {
    /// Whether calls are answered before the present breakdown ends.
    fn answers_while_broken(&self) -> bool {
        true
    }

    /// Whether a call that is given up is certainly written while nothing is broken.
    const WRITES_WHAT_IS_GIVEN_UP: bool = true;

    async fn open(&mut self) -> Arc<dyn EventLog>;

    /// A log in the place of one that is gone.
    fn nothing(&self) -> Arc<dyn EventLog> {
        Arc::new(MemoryLog::new(Clock::system()))
    }

    /// Ends the process that holds the log, as a crash would, and opens the log again.
    async fn crash(&mut self, log: Arc<dyn EventLog>, random: &mut Random) -> Arc<dyn EventLog>;

    fn break_down(&mut self, random: &mut Random);

    fn repair(&mut self);
}

/// The log in memory, behind errors before, within and after the write.
pub(super) struct MemoryAdapter {
    kept: Arc<dyn EventLog>,
    seed: u64,
}

impl MemoryAdapter {
    pub(super) fn new(seed: u64) -> Self {
        Self { kept: Arc::new(MemoryLog::new(Clock::system())), seed }
    }
}

impl Adapter for MemoryAdapter {
    /// Any call may fail.
    const WRITES_WHAT_IS_GIVEN_UP: bool = false;

    async fn open(&mut self) -> Arc<dyn EventLog> {
        Arc::new(FaultyLog::new(Arc::clone(&self.kept), seeded(self.seed)))
    }

    async fn crash(&mut self, log: Arc<dyn EventLog>, _random: &mut Random) -> Arc<dyn EventLog> {
        // Memory does not survive: the same log, with other errors.
        drop(log);
        self.seed = self.seed.wrapping_add(1_000);
        self.open().await
    }

    fn break_down(&mut self, _random: &mut Random) {}

    fn repair(&mut self) {}
}

/// The log in a file, on a disk that fails and loses its power.
pub(super) struct RedbAdapter {
    home: TempDir,
    disk: Faults,
}

impl RedbAdapter {
    pub(super) fn new(_seed: u64) -> Self {
        Self { home: TempDir::new().unwrap(), disk: Faults::with_power() }
    }
}

impl Adapter for RedbAdapter {
    async fn open(&mut self) -> Arc<dyn EventLog> {
        let options = RedbOptions {
            group_records_max: 8,
            queue_appends_max: 100,
            dead_letters_max: 5,
            dead_bytes_max: 1 << 20,
            free_bytes_min: 0,
            older: None,
        };
        Arc::new(RedbLog::open_with_faults(self.home.path(), options, Clock::system(), self.disk.clone()).unwrap())
    }

    async fn crash(&mut self, log: Arc<dyn EventLog>, random: &mut Random) -> Arc<dyn EventLog> {
        // Some of what is under way may still be written.
        for _ in 0..random.below(4) {
            tokio::task::yield_now().await;
        }
        if random.below(2) == 0 {
            self.disk.fail(ErrorKind::NotConnected, random.next_u64() % 12);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.disk.cut_power();
        drop(log);
        let path = self.home.path().join(RedbLog::FILE_NAME);
        let kept = |len: usize| match random.below(3) {
            0 => 0,
            1 => len,
            _ => random.below(len / SECTOR + 1) * SECTOR,
        };
        self.disk.restore_power(&path, kept).unwrap();
        self.open().await
    }

    fn break_down(&mut self, random: &mut Random) {
        let error = if random.below(2) == 0 { ErrorKind::StorageFull } else { ErrorKind::Other };
        self.disk.fail(error, random.next_u64() % 20);
    }

    fn repair(&mut self) {
        self.disk.heal();
    }
}

/// What goes wrong between the log and the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NetworkFault {
    /// The answers never come, until the connection is cut.
    Swallow,
    Cut,
    /// Messages come late.
    Delay,
    /// Messages come twice.
    Repeat,
}

/// Longest delay of a message.
pub(super) const DELAY: Duration = Duration::from_millis(4);

/// The log on a real server, behind a proxy; each seed has a workspace of its own.
pub(super) struct JetStreamAdapter {
    settings: config::Nats,
    workspace: String,
    proxy: Arc<FaultyProxy>,
    fault: Option<NetworkFault>,
    /// The proxy is in trouble all the time, and nothing else goes wrong.
    always_troubled: bool,
}

impl JetStreamAdapter {
    pub(super) fn new(server: &NatsServer, seed: u64) -> Self {
        Self::behind(Arc::new(FaultyProxy::start(server)), format!("w{seed}"), seed)
    }

    /// A log behind a proxy that is in trouble all the time, while nothing else goes wrong.
    pub(super) fn always_troubled(proxy: &Arc<FaultyProxy>, seed: u64) -> Self {
        Self { always_troubled: true, ..Self::behind(Arc::clone(proxy), format!("troubled{seed}"), seed) }
    }

    fn behind(proxy: Arc<FaultyProxy>, workspace: String, seed: u64) -> Self {
        let mut settings = settings(&[proxy.url()]);
        settings.append = if seed.is_multiple_of(2) { AppendMode::Atomic } else { AppendMode::Pipelined };
        Self { settings, workspace, proxy, fault: None, always_troubled: false }
    }

    async fn connect(&self) -> Nats {
        Nats::connect(&self.settings, Subjects::new(self.workspace.parse().unwrap())).await.unwrap()
    }

    /// Writes a message into the stream that is no record.
    pub(super) async fn publish_foreign(&self) {
        let client = async_nats::connect(self.proxy.url()).await.unwrap();
        let subject = format!("pml.{}.log.tool.removed", self.workspace);
        async_nats::jetstream::new(client).publish(subject, "foreign".into()).await.unwrap().await.unwrap();
    }
}

impl Adapter for JetStreamAdapter {
    fn answers_while_broken(&self) -> bool {
        !matches!(self.fault, Some(NetworkFault::Swallow | NetworkFault::Cut))
    }

    async fn open(&mut self) -> Arc<dyn EventLog> {
        let nats = self.connect().await;
        let dead = config::Dead { letters_max: 5, letter_bytes_max: 1 << 16, bytes_max: 1 << 20 };
        nats.provision(&dead, &config::Config::load(None, []).unwrap().log).await.unwrap();
        let options = StreamOptions { queue_appends_max: 1_000, ..StreamOptions::default() };
        Arc::new(JetStreamLog::open(nats, options, Clock::system()).await.unwrap())
    }

    async fn crash(&mut self, log: Arc<dyn EventLog>, random: &mut Random) -> Arc<dyn EventLog> {
        if random.below(2) == 0 {
            tokio::task::yield_now().await;
        }
        // The queue is written or given up; its callers hear which.
        tokio::task::spawn_blocking(move || drop(log)).await.unwrap();
        self.open().await
    }

    fn break_down(&mut self, random: &mut Random) {
        if self.always_troubled {
            return;
        }
        let faults = [NetworkFault::Swallow, NetworkFault::Cut, NetworkFault::Delay, NetworkFault::Repeat];
        let fault = faults[random.below(faults.len())];
        self.fault = Some(fault);
        match fault {
            NetworkFault::Swallow => self.proxy.swallow_answers(),
            NetworkFault::Cut => {}
            NetworkFault::Delay => self.proxy.delay(DELAY),
            NetworkFault::Repeat => self.proxy.repeat(true),
        }
    }

    fn repair(&mut self) {
        match self.fault.take() {
            Some(NetworkFault::Swallow | NetworkFault::Cut) => self.proxy.cut(),
            Some(NetworkFault::Delay) => self.proxy.delay(Duration::ZERO),
            Some(NetworkFault::Repeat) => self.proxy.repeat(false),
            None => {}
        }
    }
}
