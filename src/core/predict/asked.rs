//! Ids of predictions that somebody asked for. Such a prediction is not recorded, since reading must not write; its id says itself what
//! feedback on it is about: the outcome that came first. The rest of the id is a hash of the question, so that the same question has the
//! same id while the answer is the same.

use crate::graph::transition::Symbol;
use crate::hash::fnv1a;
use crate::id::{Callee, RecordId};

/// Marks such an id, between the outcome and the hash. Ids with a time have a date of the first weeks of 1970 where the outcome stands.
const MARK: u128 = 0x5041 << 64;
const MARK_MASK: u128 = 0xffff << 64;
const OUTCOME_SHIFT: u32 = 80;

/// The id of the prediction that ranks `first` first.
pub fn prediction_id(first: Symbol, intent: &str, context: &[Callee]) -> RecordId {
    let mut text = intent.trim().to_owned();
    for callee in context {
        text.push('\n');
        text.push_str(&callee.text());
    }
    let bits = (u128::from(first.to_bits()) << OUTCOME_SHIFT) | MARK | u128::from(fnv1a(text.as_bytes()));
    RecordId::from_bits(bits)
}

/// The outcome that came first in the prediction with this id; `None` if it is no such id.
pub fn first_outcome(id: RecordId) -> Option<Symbol> {
    let bits = id.to_bits();
    let outcome = u32::try_from(bits >> OUTCOME_SHIFT).ok()?;
    (bits & MARK_MASK == MARK).then(|| Symbol::from_bits(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;
    use crate::time::Timestamp;

    #[test]
    fn an_id_says_which_outcome_came_first_and_prints_like_others() {
        let context: Vec<Callee> = vec!["fs:read".parse().unwrap()];
        for first in [Symbol::END, Symbol::call(Node::tool(0)), Symbol::call(Node::capability(70_000))] {
            let id = prediction_id(first, "pack the reports", &context);
            assert_eq!(first_outcome(id), Some(first));
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_ne!(id, prediction_id(first, "pack the reports", &[]));
        }
    }

    #[test]
    fn ids_of_records_are_not_taken_for_such_ids() {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        assert_eq!(first_outcome(RecordId::derived(at, &["prediction.served", "x"])), None);
        assert_eq!(first_outcome(RecordId::derived(Timestamp::from_micros(0), &["prediction.served", "x"])), None);
    }
}
