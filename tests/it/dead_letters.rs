use pml::clock::Clock;
use pml::log::{DeadLetter, DeadLetters, NewDeadLetter};
use pml::log::{RedbLog, RedbOptions};
use serde_json::json;
use tempfile::TempDir;

use crate::run::{started, step};
use crate::server::Server;

fn open(home: &TempDir, dead_letters_max: usize) -> RedbLog {
    let options = RedbOptions { dead_letters_max, ..crate::log_contract::options() };
    RedbLog::open(home.path(), options, Clock::system()).expect("the directory is ours")
}

pub(crate) fn letter(name: &str) -> NewDeadLetter {
    NewDeadLetter {
        reason: "unknown_kind".to_owned(),
        field: "type".to_owned(),
        message: format!("no such kind: {name}"),
        origin: "http".to_owned(),
        // Not text: the original bytes come back whatever they were.
        bytes: [name.as_bytes(), &[0, 0xff]].concat(),
        cut_from: None,
    }
}

pub(crate) async fn store<const N: usize>(log: &dyn DeadLetters, names: [&str; N]) {
    log.store(names.map(letter).into()).await.expect("the log takes letters");
}

pub(crate) async fn list(log: &dyn DeadLetters, after: u64, limit: usize) -> Vec<DeadLetter> {
    log.list(after, limit).await.expect("the log can be read").letters
}

pub(crate) fn letters(listed: &[DeadLetter]) -> Vec<NewDeadLetter> {
    listed.iter().map(|dead| dead.letter.clone()).collect()
}

/// What every store of dead letters does; it is empty and keeps at least five.
pub(crate) async fn lists_page_by_page_and_removes(dead: &dyn DeadLetters) {
    assert_eq!(list(dead, 0, 10).await, []);
    store(dead, ["a", "b"]).await;
    store(dead, ["c", "d", "e"]).await;
    let all = list(dead, 0, 10).await;
    assert_eq!(letters(&all), ["a", "b", "c", "d", "e"].map(letter));
    assert!(all.windows(2).all(|pair| pair[0].number < pair[1].number && pair[0].at < pair[1].at));
    assert_eq!(list(dead, 0, 2).await, all[..2]);
    assert_eq!(list(dead, all[1].number, 2).await, all[2..4]);
    assert_eq!(list(dead, all[3].number, 2).await, all[4..]);
    assert_eq!(list(dead, all[4].number, 2).await, []);
    for _ in 0..2 {
        dead.remove(vec![all[0].number, all[2].number, all[3].number, 999]).await.unwrap();
        assert_eq!(list(dead, 0, 10).await, [all[1].clone(), all[4].clone()]);
    }
    // A number is never given to another letter, also if the last one is gone.
    dead.remove(vec![all[4].number]).await.unwrap();
    store(dead, ["f"]).await;
    assert!(list(dead, all[1].number, 10).await[0].number > all[4].number);
}

/// At a limit of three.
pub(crate) async fn the_oldest_give_way(dead: &dyn DeadLetters) {
    store(dead, ["a", "b"]).await;
    store(dead, ["c", "d"]).await;
    assert_eq!(letters(&list(dead, 0, 10).await), ["b", "c", "d"].map(letter));
    store(dead, ["e", "f", "g", "h", "i"]).await;
    assert_eq!(letters(&list(dead, 0, 10).await), ["g", "h", "i"].map(letter));
}

#[tokio::test]
async fn stored_letters_are_listed_page_by_page_and_removed_ones_are_gone() {
    let home = TempDir::new().unwrap();
    lists_page_by_page_and_removes(&open(&home, 100)).await;
}

/// Two people redrive the same letters; between their removals a new letter comes. It must not answer to an old number.
#[tokio::test]
async fn a_number_is_never_given_to_another_letter() {
    let home = TempDir::new().unwrap();
    let log = open(&home, 100);
    store(&log, ["a", "b"]).await;
    let numbers: Vec<_> = list(&log, 0, 10).await.iter().map(|dead| dead.number).collect();
    log.remove(numbers.clone()).await.unwrap();
    drop(log);
    let log = open(&home, 100);
    store(&log, ["c"]).await;
    log.remove(numbers).await.unwrap();
    assert_eq!(letters(&list(&log, 0, 10).await), [letter("c")]);
}

#[tokio::test]
async fn the_oldest_letters_give_way_at_the_limit() {
    let home = TempDir::new().unwrap();
    the_oldest_give_way(&open(&home, 3)).await;
}

#[tokio::test]
async fn letters_survive_reopening() {
    let home = TempDir::new().unwrap();
    let log = open(&home, 3);
    store(&log, ["a", "b", "c"]).await;
    let before = list(&log, 0, 10).await;
    drop(log);
    let log = open(&home, 3);
    assert_eq!(list(&log, 0, 10).await, before);
    store(&log, ["d"]).await;
    assert_eq!(letters(&list(&log, 0, 10).await), ["b", "c", "d"].map(letter));
}

fn long(number: usize) -> NewDeadLetter {
    NewDeadLetter { bytes: vec![b'x'; 60_000], ..letter(&number.to_string()) }
}

/// At a limit of a mebibyte.
pub(crate) async fn the_oldest_give_way_to_bytes(dead: &dyn DeadLetters) {
    for number in 0..40 {
        dead.store(vec![long(number)]).await.unwrap();
    }
    let kept = pages(dead).await.concat();
    assert!((15..=17).contains(&kept.len()), "{} letters of 60,000 bytes are kept", kept.len());
    assert_eq!(kept.last().map(|dead| &dead.letter), Some(&long(39)));
    let numbers = kept.iter().map(|dead| dead.number).collect();
    dead.remove(numbers).await.unwrap();
    store(dead, ["a"]).await;
    assert_eq!(letters(&list(dead, 0, 10).await), [letter("a")], "what was removed is not counted");
}

/// With room for several mebibytes.
pub(crate) async fn long_letters_make_short_pages(dead: &dyn DeadLetters) {
    for number in 0..40 {
        dead.store(vec![long(number)]).await.unwrap();
    }
    let pages = pages(dead).await;
    assert!(pages.len() > 1 && pages.iter().all(|page| page.len() <= 20), "{} pages", pages.len());
    let all: Vec<_> = pages.concat().into_iter().map(|dead| dead.letter).collect();
    assert_eq!(all, (0..40).map(long).collect::<Vec<_>>());
}

async fn pages(dead: &dyn DeadLetters) -> Vec<Vec<DeadLetter>> {
    let (mut pages, mut after) = (Vec::new(), Some(0));
    while let Some(number) = after {
        let page = dead.list(number, 1_000).await.unwrap();
        pages.push(page.letters);
        after = page.next;
    }
    pages
}

#[tokio::test]
async fn letters_are_bounded_by_bytes() {
    let home = TempDir::new().unwrap();
    the_oldest_give_way_to_bytes(&open(&home, 1_000)).await;
}

#[tokio::test]
async fn pages_of_long_letters_are_short() {
    let home = TempDir::new().unwrap();
    let options = RedbOptions {
        group_records_max: 100,
        queue_appends_max: 100,
        dead_letters_max: 1_000,
        dead_bytes_max: 10 << 20,
        older: None,
        free_bytes_min: 0,
    };
    long_letters_make_short_pages(&RedbLog::open(home.path(), options, Clock::system()).unwrap()).await;
}

/// Sixty posts of four megabytes once made a file of 272 MB.
#[test]
fn a_long_event_is_kept_in_part_and_cannot_be_sent_again() {
    let server = Server::start();
    let body = format!("{{\"specversion\": \"{}", "x".repeat(4_000_000));
    for _ in 0..10 {
        assert_eq!(server.post_as("application/json", &body).status, 400);
    }
    let size = std::fs::metadata(server.data().join(RedbLog::FILE_NAME)).unwrap().len();
    assert!(size < 8 << 20, "the file has {size} bytes");
    let dead = server.ask("/v1/dead");
    let letters = dead["dead"].as_array().unwrap();
    assert_eq!((letters.len(), &letters[0]["cut_from"]), (10, &json!(body.len())));
    let shown = letters[0]["event"].as_str().unwrap();
    assert!(shown.len() < 66_000 && shown.ends_with(&format!("[cut {} bytes]", body.len() - 65_536)), "{}", shown.len());
    let named = server.question("/v1/dead/redrive", &json!({"numbers": [letters[3]["number"]]}));
    assert_eq!(named.status, 400);
    assert!(named.text.contains("4 was cut from 4000017 bytes and cannot be sent again"), "{named:?}");
    assert_eq!(server.post(&step("e1", "s1", "fs:read", &[])).statuses(), ["refused"]);
    server.accept(&started("e1"));
    assert_eq!(server.redrive()["accepted"], 1, "what is whole is found after what was cut");
    assert_eq!(server.ask("/v1/dead")["dead"].as_array().unwrap().len(), 10);
}
