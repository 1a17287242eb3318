use std::path::Path;
use std::sync::Arc;

use pml::archive::{ArchiveStore, ArchivedRecords};
use pml::clock::Clock;
use pml::log::{MemoryLog, RedbLog, RedbOptions, SharedLog, contract};
use tempfile::TempDir;

pub(crate) fn redb(directory: &Path) -> RedbLog {
    redb_with(directory, &ArchiveStore::from(directory.join("archive").as_path()))
}

/// The log in `directory`, with its older records in `archive`.
pub(crate) fn redb_with(directory: &Path, archive: &ArchiveStore) -> RedbLog {
    let older = Arc::new(ArchivedRecords::new(archive));
    RedbLog::open(directory, RedbOptions { older: Some(older), ..options() }, Clock::system()).expect("the directory is ours")
}

pub(crate) fn options() -> RedbOptions {
    RedbOptions {
        group_records_max: 100,
        queue_appends_max: 1_000,
        dead_letters_max: 5,
        dead_bytes_max: 1 << 20,
        older: None,
        free_bytes_min: 0,
    }
}

/// One test per promise. The directory lives as long as the test.
macro_rules! promises {
    ($open:expr, $($promise:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let home = TempDir::new().unwrap();
            contract::$promise($open(&home)).await;
        })*
    };
}

macro_rules! all_promises {
    ($open:expr) => {
        promises!(
            $open,
            positions_strictly_increase,
            calls_keep_their_order_whatever_is_polled_first,
            facts_of_one_call_keep_their_order,
            calls_of_any_size_that_wait_together_are_answered_each_for_itself,
            a_repeated_id_is_answered_with_its_first_position,
            an_id_repeated_within_one_call_is_written_once,
            an_id_repeated_in_calls_that_wait_together_is_written_once,
            an_append_of_nothing_changes_nothing,
            what_was_appended_is_readable_at_once_and_the_tail_has_reached_it,
            reading_goes_page_by_page,
            reading_nothing_or_beyond_the_tail_gives_nothing,
            find_returns_the_positions_of_known_ids_only,
            dropping_the_future_does_not_undo_the_append,
            concurrent_appenders_each_keep_their_order,
            waiters_for_the_tail_are_woken,
            a_caller_that_reads_back_writes_every_fact_once_and_in_order,
        );
    };
}

mod memory_log {
    use super::*;

    fn open(_home: &TempDir) -> SharedLog {
        Arc::new(MemoryLog::new(Clock::system()))
    }

    all_promises!(open);
}

mod redb_log {
    use super::*;
    use pml::log::{AppendError, EventLog, OpenError};

    fn open(home: &TempDir) -> SharedLog {
        Arc::new(redb(home.path()))
    }

    fn reopen(home: &TempDir) -> impl AsyncFn() -> SharedLog {
        async || open(home)
    }

    all_promises!(open);
    promises!(
        reopen,
        everything_is_there_after_reopening,
        a_repeated_id_is_known_after_reopening,
        an_append_nobody_waits_for_is_there_after_reopening,
    );

    #[test]
    fn a_log_in_use_cannot_be_opened_again() {
        let home = TempDir::new().unwrap();
        let _held = redb(home.path());
        assert!(matches!(RedbLog::open(home.path(), options(), Clock::system()), Err(OpenError::InUse { .. })));
    }

    #[test]
    fn a_file_of_a_newer_format_is_refused_as_such_and_left_alone() {
        const EVENTS: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("events");
        const META: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
        let home = TempDir::new().unwrap();
        let transaction_of = |database: &redb::Database| database.begin_write().unwrap();
        let database = redb::Database::create(home.path().join("log.redb")).unwrap();
        let transaction = transaction_of(&database);
        transaction.open_table(META).unwrap().insert("format", 5).unwrap();
        transaction.open_table(EVENTS).unwrap().insert("a", "b").unwrap();
        transaction.commit().unwrap();
        drop(database);
        let refused = RedbLog::open(home.path(), options(), Clock::system()).err();
        assert!(matches!(refused, Some(OpenError::NewerFormat { found: 5, known: 4, .. })), "{refused:?}");
        let database = redb::Database::create(home.path().join("log.redb")).unwrap();
        assert_eq!(transaction_of(&database).list_tables().unwrap().count(), 2);
    }

    #[tokio::test]
    async fn an_append_refused_as_busy_is_not_written_and_all_others_are() {
        let home = TempDir::new().unwrap();
        let options = RedbOptions { group_records_max: 1, queue_appends_max: 2, ..options() };
        let log = RedbLog::open(home.path(), options, Clock::system()).unwrap();
        let calls: Vec<_> = (0..500).map(|number| (number, log.append(vec![contract::fact(number)]))).collect();
        let mut refused = 0;
        for (number, call) in calls {
            let written = match call.await {
                Ok(_) => true,
                Err(AppendError::Busy) => false,
                Err(other) => panic!("{number}: {other}"),
            };
            refused += u64::from(!written);
            assert_eq!(log.find(contract::fact(number).id).await.unwrap().is_some(), written, "{number}");
        }
        assert!((1..500).contains(&refused), "{refused} of 500 were refused");
    }
}
