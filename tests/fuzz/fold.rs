//! The fold under generated records: events of every kind with few ids, so that they meet in odd orders, and with changed values.

use std::sync::Arc;

use pml::core::event::{Record, cloud};
use pml::core::id::Seq;
use pml::core::state::State;
use pml::snapshot::{About, Origin, encode_state, restore};
use pml_fuzzer::{Form, Mutator, asked_here};
use pml_model::random::Random;
use serde_json::{Value, json};

use crate::{ALONE, samples, seed, setting};

/// Sequences in CI.
const SEQUENCES: u64 = 48;
const RECORDS_MAX: usize = 400;
/// One of so many sequences goes through a snapshot in the middle.
const SNAPSHOT_EVERY: u64 = 12;
/// Memory that is asked for per byte of records, and besides: what the fold may cost at most, whatever the records are.
const ASKED_MULTIPLE: usize = 4_000;
const ASKED_FIXED: usize = 4 << 20;

/// A sequence of records that the log could hold: each is read by the codec from an event that may be odd.
fn sequence(random: &mut Random, len: usize) -> Vec<Record> {
    let kinds: Vec<Value> = samples::events().iter().map(|event| serde_json::from_slice(event).unwrap()).collect();
    let mutator = Mutator { form: Form::Json, words: &["e1", "s1", "fs:t1", "success", "head-000000000001"] };
    let mut records: Vec<Record> = Vec::new();
    while records.len() < len {
        let mut event = kinds[random.below(kinds.len())].clone();
        rename(&mut event["data"], random);
        if random.below(4) == 0 {
            let changed = mutator.input(&[event["data"].to_string().into_bytes()], random);
            event["data"] = serde_json::from_slice(&changed).unwrap_or(Value::Null);
        }
        // Some ids come again: the log never holds one twice, but a record may be delivered again.
        let id = if random.below(40) == 0 { 1 + random.below(records.len() + 1) } else { records.len() + 1 };
        event["id"] = json!(pml::core::id::RecordId::from_parts(samples::noon(), id as u128).to_string());
        let Ok(fact) = cloud::from_structured(event.to_string().as_bytes(), samples::noon()) else { continue };
        let seq = Seq(records.last().map_or(0, |record| record.seq.0) + 1 + random.below(3) as u64 / 2);
        records.push(Record { seq, recorded_at: samples::noon(), fact: Arc::new(fact) });
    }
    records
}

/// Gives the things that events refer to a few names, so that they refer to each other.
fn rename(data: &mut Value, random: &mut Random) {
    let mut few = |prefix: &str, count: usize| json!(format!("{prefix}{}", random.below(count)));
    let names: [(&str, &str, usize); 8] = [
        ("execution", "e", 6),
        ("parent", "e", 6),
        ("step", "s", 8),
        ("session", "c", 3),
        ("version", "head-00000000000", 3),
        ("prediction", "01KG9YS9WQE2PQQ3WT3HP8K8Y", 5),
        ("tool", "fs:t", 6),
        ("model", "m", 2),
    ];
    let Some(members) = data.as_object_mut() else { return };
    for (name, prefix, count) in names {
        if members.contains_key(name) {
            members.insert(name.to_owned(), few(prefix, count));
        }
    }
    if let Some(on) = members.get_mut("depends_on").and_then(Value::as_array_mut) {
        for step in on {
            *step = few("s", 8);
        }
    }
    for step in members.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        step["tool"] = few("fs:t", 6);
    }
}

fn fold(state: &mut State, records: &[Record]) {
    for record in records {
        state.apply(record);
    }
}

/// The digest must not depend on where readers took views, nor on a snapshot in between.
fn check_batching(records: &[Record], random: &mut Random, through_snapshot: bool) {
    let mut whole = State::default();
    fold(&mut whole, records);
    let (mut state, mut rest, mut views) = (State::default(), records, Vec::new());
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(1 + random.below(rest.len()));
        fold(&mut state, batch);
        views.push((state.clone(), state.digest()));
        // What was read is delivered again now and then.
        if random.below(3) == 0 {
            fold(&mut state, &batch[random.below(batch.len())..]);
        }
        rest = after;
        if through_snapshot && !rest.is_empty() {
            let log = Origin { first_id: "a".to_owned(), last_id: "b".to_owned() };
            let about = About { log, config_hash: String::new(), taken_at: samples::noon() };
            state = restore(&encode_state(&state, &about, || ()).into_fetched()).expect("a snapshot of pml can be read");
        }
    }
    assert_eq!(state.digest(), whole.digest(), "the same records, in other batches");
    for (view, digest) in views {
        assert_eq!(view.digest(), digest, "a view stays as it was");
    }
}

fn bytes(records: &[Record]) -> usize {
    records.iter().map(|record| pml::core::event::stored::encode(&record.fact, record.recorded_at).len()).sum()
}

#[test]
#[expect(clippy::print_stdout, reason = "shown with --nocapture: how much was folded")]
fn any_valid_records_fold_the_same_in_any_batching_at_a_bounded_cost() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let first = seed();
    let sequences = setting("PML_FUZZ_SECONDS").map_or(SEQUENCES, |seconds| SEQUENCES * (1 + seconds / 2));
    let (mut folded, mut dearest) = (0, 0.0_f64);
    for number in 0..sequences {
        let mut random = Random::new(first.wrapping_mul(1_000_003).wrapping_add(number));
        let len = 1 + random.below(RECORDS_MAX);
        let records = sequence(&mut random, len);
        let ((), asked) = asked_here(|| fold(&mut State::default(), &records));
        let len = bytes(&records);
        assert!(
            asked <= ASKED_FIXED + ASKED_MULTIPLE * len,
            "sequence {number} of seed {first}: {asked} bytes of memory asked for to fold {len} bytes",
        );
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let multiple = asked as f64 / len as f64;
        dearest = dearest.max(multiple);
        folded += records.len();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check_batching(&records, &mut random, number % SNAPSHOT_EVERY == 0);
        }));
        assert!(checked.is_ok(), "sequence {number} of seed {first}");
    }
    println!("seed {first}: {sequences} sequences, {folded} records; at most {dearest:.0} bytes asked for per byte");
}

/// Memory that is asked for is a measure of work that a busy machine does not change.
#[test]
fn the_cost_of_folding_grows_like_the_records() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let records = sequence(&mut Random::new(7), 4_000);
    let cost = |records: &[Record]| asked_here(|| fold(&mut State::default(), records)).1;
    let (quarter, whole) = (cost(&records[..1_000]), cost(&records));
    assert!(whole < quarter * 8, "1,000 records ask for {quarter} bytes, 4,000 for {whole}");
}
