//! Events whose ids the log holds: the same event sent again is a duplicate, another event with the same id is a conflict.

use std::collections::BTreeMap;

use super::Item;
use crate::actors::ActorFailure;
use crate::core::event::{NewRecord, Record};
use crate::core::id::Seq;
use crate::core::refusal::Refusal;
use crate::log::SharedLog;
use crate::publisher::Verdict;

/// Records read at once. Events that are sent again were mostly neighbours the first time.
const READ_RECORDS: usize = 1_024;

/// The verdicts on events that repeat the ids of the records at these positions.
pub(super) async fn verdicts(log: &SharedLog, repeated: Vec<(Item, Seq)>) -> Result<Vec<(Item, Verdict)>, ActorFailure> {
    let records = read(log, repeated.iter().map(|(_, seq)| *seq).collect()).await?;
    let verdict = |(item, seq): (Item, Seq)| {
        let same = match (&item.content, records.get(&seq)) {
            (Ok(fact), Some(record)) => is_same(fact, &record.fact),
            _ => false,
        };
        let verdict = if same { Verdict::Duplicate { seq } } else { Verdict::Refused(Box::new(Refusal::Conflict { seq })) };
        (item, verdict)
    };
    Ok(repeated.into_iter().map(verdict).collect())
}

/// Whether both say the same. Times differ if the sender left them to pml, and a retry has a trace context of its own.
pub(super) fn is_same(sent: &NewRecord, recorded: &NewRecord) -> bool {
    sent.source == recorded.source && sent.causation == recorded.causation && sent.event == recorded.event
}

/// The records at `positions`, which the log holds.
async fn read(log: &SharedLog, mut positions: Vec<Seq>) -> Result<BTreeMap<Seq, Record>, ActorFailure> {
    positions.sort_unstable();
    let mut found = BTreeMap::new();
    let mut wanted = positions.into_iter().peekable();
    while let Some(first) = wanted.peek().copied() {
        let records = log.read(Seq(first.0 - 1), READ_RECORDS).await?;
        let Some(last) = records.last().map(|record| record.seq) else { break };
        for record in records {
            let is_wanted = wanted.peek() == Some(&record.seq);
            while wanted.next_if_eq(&record.seq).is_some() {}
            if is_wanted {
                found.insert(record.seq, record);
            }
        }
        // A position that holds no record would be asked for again.
        while wanted.next_if(|position| *position <= last).is_some() {}
    }
    Ok(found)
}
