//! What every bus must do, as checks. [`upholds_the_contract`] runs them all; each gets a bus of its own and a workspace nobody else
//! uses, so that adapters may share one server.
//!
//! No check assumes that delivery is instant, and none waits to see that nothing comes: it publishes a last message and looks at what
//! came before it.

use std::sync::Arc;
use std::time::Duration;

use super::{Delivery, SharedBus, Subscription};
use crate::clock::entropy;
use crate::core::id::SessionId;
use crate::subject::{Pattern, Subject, Subjects, Workspace};

/// Far more than any adapter needs on a busy machine; only a failing check waits this long.
const PATIENCE: Duration = Duration::from_secs(10);
const QUEUE_LEN: usize = 1_024;
const BURST: u64 = 200;

/// How exact the count of missed messages is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// As the contract says.
    Exact,
    /// The adapter's client library drops on its own: gaps are reported, their size may be a guess.
    Told,
}

pub async fn upholds_the_contract(make: impl AsyncFn() -> SharedBus, lag: Lag) {
    patterns_select_subjects(make().await).await;
    messages_of_one_publisher_keep_their_order(make().await).await;
    every_matching_subscription_gets_its_own_copy(make().await).await;
    workspaces_and_sessions_do_not_hear_each_other(make().await).await;
    nothing_is_kept_for_those_who_come_later(make().await).await;
    a_slow_subscriber_is_told_what_it_missed(make().await, lag).await;
    dropping_a_subscription_leaves_the_others_alone(make().await).await;
    whoever_listens_is_listed(make().await).await;
    a_waiting_subscriber_is_woken(make().await).await;
    subscriptions_end_when_the_bus_is_gone(make().await).await;
}

pub async fn patterns_select_subjects(bus: SharedBus) {
    let place = Place::new();
    let mut all = place.subscribe(&bus, ">").await;
    let mut one = place.subscribe(&bus, "*.x").await;
    let mut exact = place.subscribe(&bus, "a.x").await;
    for name in ["a.x", "b.x", "a.x.y", "c", "end", "end.x", "a.x"] {
        place.publish(&bus, name, name).await;
    }
    assert_eq!(texts(&mut all, 7).await, ["a.x", "b.x", "a.x.y", "c", "end", "end.x", "a.x"]);
    assert_eq!(texts(&mut one, 4).await, ["a.x", "b.x", "end.x", "a.x"]);
    assert_eq!(texts(&mut exact, 2).await, ["a.x", "a.x"]);
}

pub async fn messages_of_one_publisher_keep_their_order(bus: SharedBus) {
    let place = Place::new();
    let mut subscription = place.subscribe(&bus, ">").await;
    let sent: Vec<_> = (0..BURST).map(|number| number.to_string()).collect();
    for (at, text) in sent.iter().enumerate() {
        place.publish(&bus, ["a", "b", "c.d"][at % 3], text).await;
    }
    assert_eq!(texts(&mut subscription, sent.len()).await, sent);
}

pub async fn every_matching_subscription_gets_its_own_copy(bus: SharedBus) {
    let place = Place::new();
    let mut first = place.subscribe(&bus, "a").await;
    let mut second = place.subscribe(&bus, "a").await;
    place.publish(&bus, "a", "1").await;
    let expected = Delivery::Message { subject: place.subject("a"), payload: b"1".as_slice().into() };
    assert_eq!(next(&mut first).await, Some(expected.clone()));
    assert_eq!(next(&mut second).await, Some(expected));
}

pub async fn workspaces_and_sessions_do_not_hear_each_other(bus: SharedBus) {
    let (ours, theirs) = (Place::new(), Place::new());
    let session = |text: &str| text.parse::<SessionId>().expect("a plain session id");
    let predictions = |text: &str| ours.0.predict(&session(text));
    let mut notices = subscribe(&bus, ours.0.all_notices(), QUEUE_LEN).await;
    let mut dotted = subscribe(&bus, predictions("s.1").into(), QUEUE_LEN).await;
    let mut starred = subscribe(&bus, predictions("*").into(), QUEUE_LEN).await;
    for subject in [theirs.0.notify("a"), predictions("s"), predictions("s=2E1"), predictions(">")] {
        publish(&bus, subject, "not for us").await;
    }
    publish(&bus, predictions("s.1"), "dotted").await;
    publish(&bus, predictions("*"), "starred").await;
    publish(&bus, ours.0.notify("a"), "notice").await;
    assert_eq!(texts(&mut dotted, 1).await, ["dotted"]);
    assert_eq!(texts(&mut starred, 1).await, ["starred"]);
    assert_eq!(texts(&mut notices, 1).await, ["notice"]);
}

pub async fn whoever_listens_is_listed(bus: SharedBus) {
    let place = Place::new();
    assert_eq!(bus.listeners(), []);
    let first = place.subscribe(&bus, "a").await;
    let second = place.subscribe(&bus, "b.>").await;
    assert_eq!(bus.listeners().len(), 2);
    drop(first);
    let [left] = bus.listeners().try_into().expect("one is left");
    assert!(left.matches(&place.subject("b.c")) && !left.matches(&place.subject("a")));
    drop(second);
    assert_eq!(bus.listeners(), []);
}

pub async fn nothing_is_kept_for_those_who_come_later(bus: SharedBus) {
    let place = Place::new();
    let mut early = place.subscribe(&bus, "a").await;
    place.publish(&bus, "a", "1").await;
    assert_eq!(texts(&mut early, 1).await, ["1"]);
    let mut late = place.subscribe(&bus, "a").await;
    place.publish(&bus, "a", "2").await;
    assert_eq!(texts(&mut late, 1).await, ["2"]);
}

pub async fn a_slow_subscriber_is_told_what_it_missed(bus: SharedBus, lag: Lag) {
    let place = Place::new();
    let mut slow = subscribe(&bus, place.subject("a").into(), 4).await;
    let mut quick = place.subscribe(&bus, "a").await;
    let sent: Vec<_> = (0..BURST).map(|number| number.to_string()).collect();
    for text in &sent {
        place.publish(&bus, "a", text).await;
    }
    assert_eq!(texts(&mut quick, sent.len()).await, sent, "others are unaffected");
    // Room for one: the gap lies between messages that wait.
    assert_eq!(texts(&mut slow, 1).await, ["0"]);
    place.publish(&bus, "a", &BURST.to_string()).await;
    texts(&mut quick, 1).await;
    let mut accounted = 1;
    let mut told = 0;
    while accounted <= BURST && (lag == Lag::Exact || told == 0) {
        match next(&mut slow).await.expect("the bus is there") {
            Delivery::Message { payload, .. } if lag == Lag::Exact => {
                assert_eq!(text(&payload), accounted.to_string(), "the gap is where it was reported, and as long");
                accounted += 1;
            }
            Delivery::Message { .. } => accounted += 1,
            Delivery::Lagged { missed } => {
                assert!(missed > 0, "a gap has a length");
                told += 1;
                accounted += missed;
            }
        }
    }
    assert!(told > 0, "a queue of 4 held {BURST} messages");
    if lag == Lag::Exact {
        assert_eq!((accounted, told), (BURST + 1, 1), "one gap, reported once");
        place.publish(&bus, "a", "after").await;
        assert_eq!(texts(&mut slow, 1).await, ["after"]);
    }
}

pub async fn dropping_a_subscription_leaves_the_others_alone(bus: SharedBus) {
    let place = Place::new();
    let mut kept = place.subscribe(&bus, "a").await;
    let dropped = place.subscribe(&bus, "a").await;
    place.publish(&bus, "a", "1").await;
    drop(dropped);
    let mut again = place.subscribe(&bus, "a").await;
    place.publish(&bus, "a", "2").await;
    assert_eq!(texts(&mut kept, 2).await, ["1", "2"]);
    assert_eq!(texts(&mut again, 1).await, ["2"], "a new subscription inherits nothing");
}

pub async fn a_waiting_subscriber_is_woken(bus: SharedBus) {
    let place = Place::new();
    let mut subscription = place.subscribe(&bus, "a").await;
    // A task of its own, so that nothing but the bus polls it again.
    let waiter = tokio::spawn(async move { subscription.next().await });
    tokio::task::yield_now().await;
    place.publish(&bus, "a", "1").await;
    let received = tokio::time::timeout(PATIENCE, waiter).await.expect("woken in time").expect("the waiter ended well");
    assert!(matches!(received, Some(Delivery::Message { .. })), "{received:?}");
}

pub async fn subscriptions_end_when_the_bus_is_gone(bus: SharedBus) {
    let mut subscription = Place::new().subscribe(&bus, "a").await;
    let waiter = tokio::spawn(async move { subscription.next().await });
    tokio::task::yield_now().await;
    drop(bus);
    let ended = tokio::time::timeout(PATIENCE, waiter).await.expect("woken in time").expect("the waiter ended well");
    assert_eq!(ended, None);
}

/// A corner of the bus that is empty.
struct Place(Subjects);

impl Place {
    fn new() -> Self {
        let name = format!("contract-{:032x}", entropy());
        Self(Subjects::new(name.parse::<Workspace>().expect("a plain name")))
    }

    fn subject(&self, name: &str) -> Subject {
        self.0.notify(name)
    }

    async fn publish(&self, bus: &SharedBus, name: &str, text: &str) {
        publish(bus, self.subject(name), text).await;
    }

    async fn subscribe(&self, bus: &SharedBus, tail: &str) -> Subscription {
        let here = self.0.all_notices().to_string();
        let pattern = here.replace('>', tail).parse().expect("the check's own pattern");
        subscribe(bus, pattern, QUEUE_LEN).await
    }
}

async fn publish(bus: &SharedBus, subject: Subject, text: &str) {
    bus.publish(subject, text.as_bytes().into()).await.expect("the bus takes the message");
}

async fn subscribe(bus: &SharedBus, pattern: Pattern, queue_len_max: usize) -> Subscription {
    bus.subscribe(pattern, queue_len_max).await.expect("the bus takes the subscription")
}

async fn next(subscription: &mut Subscription) -> Option<Delivery> {
    tokio::time::timeout(PATIENCE, subscription.next()).await.expect("a delivery comes in time")
}

/// The next `count` messages as text.
async fn texts(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut texts = Vec::with_capacity(count);
    while texts.len() < count {
        match next(subscription).await {
            Some(Delivery::Message { payload, .. }) => texts.push(text(&payload)),
            other => panic!("after {texts:?} came {other:?}"),
        }
    }
    texts
}

fn text(payload: &Arc<[u8]>) -> String {
    String::from_utf8(payload.to_vec()).expect("the check's own text")
}
