use super::*;
use crate::core::event::{Event, NewRecord, ToolRemoved};
use crate::core::time::Timestamp;

fn encoded(number: u128) -> EncodedMessage {
    let at = Timestamp::from_micros(0);
    let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
    let id = RecordId::from_parts(at, number);
    EncodedMessage::new(Arc::new(NewRecord { id, time: at, source: "test".into(), causation: None, envelope: None, event }), at)
}

fn message(seq: u64, fact: &EncodedMessage, subject: &str) -> StreamMessage {
    StreamMessage::new(Seq(seq), subject.into(), Some(&fact.headers()), fact.payload.clone())
}

fn cache() -> StreamCache {
    StreamCache::new(Seq::ZERO, Seq::ZERO, IdIndex::open(None, 1, Seq::ZERO).unwrap(), Clock::system()).unwrap()
}

const HERE: &str = "pml.a.log.tool.removed";

#[test]
fn a_foreign_message_leaves_a_hole_that_no_reader_waits_for() {
    let (cache, facts) = (cache(), [1, 2, 3].map(encoded));
    cache.add_delivered(vec![message(1, &facts[0], HERE)]).unwrap();
    cache.add_outcomes([(&facts[2], Some(Seq(3)))].into_iter());
    assert_eq!((cache.followed(), cache.try_read(Seq(1), 10)), (Seq(1), None), "position 2 has not been delivered");
    cache.add_delivered(vec![message(2, &facts[1], "pml.a.log.tool.registered")]).unwrap();
    assert_eq!((cache.followed(), *cache.tail().borrow()), (Seq(3), Seq(3)));
    let read = cache.try_read(Seq::ZERO, 10).unwrap();
    assert_eq!(read.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((cache.find(facts[1].id()).unwrap(), cache.foreign().count), (None, 1));
    cache.add_delivered(vec![message(4, &facts[1], "pml.a.log.hello")]).unwrap();
    assert_eq!((cache.followed(), *cache.tail().borrow()), (Seq(4), Seq(3)), "the tail is a record");
}

#[test]
fn a_fact_belongs_to_the_append_that_sent_it_first() {
    let (cache, facts) = (cache(), [1, 2].map(encoded));
    let twice = [facts[0].clone(), facts[0].clone()];
    assert_eq!(cache.add_unless_stored(&twice).unwrap(), [KnownBefore::Nothing, KnownBefore::InFlight]);
    assert_eq!(cache.add_unless_stored(&facts).unwrap(), [KnownBefore::InFlight, KnownBefore::Nothing]);
    cache.add_delivered(vec![message(1, &facts[0], HERE)]).unwrap();
    assert_eq!(cache.add_unless_stored(&facts).unwrap(), [KnownBefore::Stored(Seq(1)), KnownBefore::InFlight]);
}

/// An append of a fact that the stream is just delivering repeats it, whatever the moment.
#[test]
fn a_fact_that_is_being_delivered_is_never_unknown() {
    const FACTS: u64 = 1_000;
    let facts: Vec<_> = (1..=FACTS).map(|number| encoded(number.into())).collect();
    for _ in 0..20 {
        let cache = cache();
        cache.add_in_flight(facts.iter());
        let messages = (1..).zip(&facts).map(|(seq, fact)| message(seq, fact, HERE)).collect();
        std::thread::scope(|scope| {
            let delivering = scope.spawn(|| cache.add_delivered(messages).unwrap());
            while !delivering.is_finished() {
                let known = cache.add_unless_stored(&facts[..1]).unwrap()[0];
                assert_ne!(known, KnownBefore::Nothing);
            }
        });
        assert_eq!(cache.lock().in_flight.len(), 0);
    }
}

#[test]
fn facts_whose_append_failed_are_not_kept_in_flight() {
    let (cache, facts) = (cache(), [1, 2].map(encoded));
    cache.add_in_flight(facts.iter());
    cache.forget_in_flight(facts[..1].iter());
    assert_eq!(cache.lock().in_flight.len(), 1);
    cache.add_delivered(vec![message(1, &facts[0], HERE), message(2, &facts[1], HERE)]).unwrap();
    assert_eq!((cache.lock().in_flight.len(), cache.followed()), (0, Seq(2)), "and are delivered by the stream all the same");
}

#[test]
fn ids_are_known_in_memory_and_in_the_index_alike() {
    let (cache, facts) = (cache(), [1, 2].map(encoded));
    let ids = facts.each_ref().map(EncodedMessage::id);
    cache.add_delivered(vec![message(1, &facts[0], HERE)]).unwrap();
    assert_eq!(cache.find_all(&ids).unwrap(), [Some(Seq(1)), None]);
    cache.index_ids().unwrap();
    assert!(cache.lock().positions.is_empty());
    assert_eq!(cache.find_all(&ids).unwrap(), [Some(Seq(1)), None]);
    assert_eq!(cache.add_unless_stored(&facts).unwrap(), [KnownBefore::Stored(Seq(1)), KnownBefore::Nothing]);
    cache.add_delivered(vec![message(2, &facts[0], HERE), message(3, &facts[1], HERE)]).unwrap();
    cache.close_index().unwrap();
    assert_eq!(cache.find_all(&ids).unwrap(), [Some(Seq(1)), Some(Seq(3))], "the first position of a repeated id stands");
}
