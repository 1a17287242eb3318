//! A whole process on a log in memory that holds the samples, for the targets that ask one.

use std::sync::Arc;

use pml::clock::Clock;
use pml::config::Config;
use pml::log::{MemoryLog, RedbLog, RedbOptions, SharedLog};
use pml::runtime::Runtime;
use tempfile::TempDir;

use crate::samples;

/// The process, its settings, and what it needs for as long as it lives.
pub(super) struct Process {
    pub(super) system: actix_rt::SystemRunner,
    pub(super) config: Config,
    pub(super) runtime: Runtime,
    _home: TempDir,
}

impl Process {
    pub(super) fn start() -> Self {
        let (system, home) = (actix_rt::System::new(), TempDir::new().unwrap());
        let settings = [("TEMPLATES__PATH", ""), ("TRAINER__ENABLED", "false"), ("HTTP__LISTEN", "127.0.0.1:0")];
        let mut config = Config::load(None, settings.map(|(name, value)| (format!("PML__{name}"), value.to_owned()))).unwrap();
        home.path().clone_into(&mut config.data_dir);
        let log: SharedLog = Arc::new(MemoryLog::new(Clock::system()));
        let options = RedbOptions {
            group_records_max: 100,
            queue_appends_max: 1_000,
            dead_letters_max: 5,
            dead_bytes_max: 1 << 20,
            free_bytes_min: 0,
            older: None,
        };
        let dead = Arc::new(RedbLog::open(home.path(), options, Clock::system()).unwrap());
        let runtime = system.block_on(async {
            let facts = samples::records().into_iter().map(|record| record.fact).collect();
            log.append(facts).await.unwrap();
            Runtime::start_on(&config, Clock::system(), log, dead).await.unwrap()
        });
        Self { system, config, runtime, _home: home }
    }
}
