//! What pml stores: records, blocks, runs of ids, dead letters, backups, journals of runs, the file of ids of a stream.

use std::sync::Arc;

use futures_util::StreamExt;
use pml::clock::Clock;
use pml::core::event::stored;
use pml::core::id::{RecordId, Seq};
use pml::execute::fuzzing::read_journal;
use pml::history::backup::{Decoder, encode_log};
use pml::log::{MemoryLog, SharedLog, fuzzing, use_id_index, write_id_index};
use pml_fuzzer::{Form, Target};
use tempfile::TempDir;

use super::{JSON_TREE_MULTIPLE, target};
use crate::samples;

/// The first `N` bytes, padded with zeros, and the rest.
fn key<const N: usize>(input: &[u8]) -> ([u8; N], &[u8]) {
    let (head, body) = input.split_at(input.len().min(N));
    let mut key = [0; N];
    key[..head.len()].copy_from_slice(head);
    (key, body)
}

pub(super) fn record() -> Target {
    target("stored", Form::Bytes, samples::stored(), &[], |input| {
        let record = stored::decode(Seq(1), input).map_err(|corrupt| corrupt.to_string())?;
        let again = stored::encode(&record.fact, record.recorded_at);
        let back = stored::decode(Seq(1), &again).expect("it can be read again");
        // As bytes, because a number that is none differs from itself.
        assert_eq!(stored::encode(&back.fact, back.recorded_at), again, "a record comes back as it was");
        Ok(())
    })
}

pub(super) fn block() -> Target {
    let records = samples::stored();
    let block = |records: &[Vec<u8>]| {
        let mut bytes = 9_u64.to_le_bytes().to_vec();
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(u16::try_from(records.len()).unwrap().to_le_bytes());
        for record in records {
            bytes.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
            bytes.extend(record);
        }
        bytes
    };
    target("block", Form::Bytes, records.chunks(3).map(block).collect(), &[], |input| {
        let (last, body) = key(input);
        fuzzing::read_block(Seq(u64::from_le_bytes(last)), body).map(drop)
    })
}

pub(super) fn id_run() -> Target {
    let mut sample = 0_u128.to_le_bytes().to_vec();
    sample.extend(5_u128.to_le_bytes());
    sample.extend(u128::MAX.to_le_bytes());
    for id in [1_u128, 5, 9] {
        sample.extend(id.to_le_bytes());
        sample.extend(7_u64.to_le_bytes());
    }
    target("id_run", Form::Bytes, vec![sample], &[], |input| {
        let (first, rest) = key(input);
        let (id, body) = key(rest);
        fuzzing::read_id_run(u128::from_le_bytes(first), body, u128::from_le_bytes(id)).map(drop)
    })
}

pub(super) fn letter() -> Target {
    // Number, time, five texts with their lengths, and how long the bytes were.
    let mut sample = 3_u64.to_le_bytes().to_vec();
    sample.push(14);
    for text in ["unknown_step", "data.step", "no such step", "http", "{}"] {
        sample.push(u8::try_from(text.len()).unwrap());
        sample.extend(text.bytes());
    }
    let cut = [sample.as_slice(), &[1, 200, 1]].concat();
    target("letter", Form::Bytes, vec![sample, cut], &[], |input| {
        let (number, body) = key(input);
        fuzzing::read_letter(u64::from_le_bytes(number), body)
    })
}

pub(super) fn backup() -> Target {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let log: SharedLog = Arc::new(MemoryLog::new(Clock::system()));
    let facts = samples::records().into_iter().map(|record| record.fact).take(24).collect();
    let pieces = runtime.block_on(async {
        log.append(facts).await.unwrap();
        encode_log(log).map(Result::unwrap).collect::<Vec<Vec<u8>>>().await
    });
    let mut target = target("backup", Form::Bytes, vec![pieces.concat()], &[], |input| {
        let decoder = Decoder::begin(input).map_err(|error| error.to_string())?;
        decoder.collect::<Result<Vec<_>, _>>().map(drop).map_err(|error| error.to_string())
    });
    target.memory_multiple = 96;
    target
}

pub(super) fn journal() -> Target {
    let words = &["run", "began", "ahead", "finished", "called", "waits", "failed", "program", "tasks", "$a", "s1", "fs:read"];
    let first = r#"{"run":{"run":"run-1","intent":"x","workflow":{"tasks":[]},"created_us":1,"approve":[]}}"#;
    let mut target = target("journal", Form::JsonLines, vec![first.into()], words, read_journal);
    // A program is read as TypeScript.
    (target.memory_fixed, target.memory_multiple) = (16 << 20, 2 * JSON_TREE_MULTIPLE);
    target
}

/// The input is a list of changes of the file, of a position of three bytes and a value each: the file is longer than an input.
pub(super) fn stream_ids() -> Target {
    const IDS: u64 = 2_000;
    let id = |number: u64| RecordId::from_parts(samples::noon().plus_millis(number), number.into());
    let home = TempDir::new().unwrap();
    write_id_index(home.path(), &(1..=IDS).map(id).collect::<Vec<_>>()).unwrap();
    let path = std::fs::read_dir(home.path()).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read(&path).unwrap();
    let inputs = (0..32_u8).map(|at| vec![at, at.wrapping_mul(37), 0, at, 1, at, 0, 255]).chain([Vec::new()]).collect();
    let mut target = target("stream_ids", Form::Bytes, inputs, &[], move |input| {
        let mut changed = file.clone();
        for change in input.as_chunks::<4>().0 {
            let at = usize::from(change[0]) | usize::from(change[1]) << 8 | usize::from(change[2]) << 16;
            changed[at % file.len()] = change[3];
        }
        std::fs::write(&path, changed).unwrap();
        let (complete_to, found) = use_id_index(home.path(), id(IDS / 2), id(IDS + 1))?;
        match (complete_to, found) {
            (Seq(0), None) => Err("begun anew".to_owned()),
            (_, Some(Seq(seq))) if seq == IDS / 2 => Ok(()),
            other => panic!("the index says {other:?}"),
        }
    });
    // The file and the pages that are kept of it.
    target.memory_fixed = 64 << 20;
    target
}
