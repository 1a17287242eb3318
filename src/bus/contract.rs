//! The contract of [`Bus`](super::Bus) as tests. [`upholds_the_contract`] runs them all; each gets its own bus and its own
//! workspace, so that adapters may share one server.
//!
//! No test assumes that delivery is instant, and none waits to show that no message arrives: it publishes a last message and checks
//! what arrived before it.

use std::sync::Arc;
use std::time::Duration;

use super::{Delivery, SharedBus, Subscription};
use crate::clock::entropy;
use crate::core::id::SessionId;
use crate::subject::{Pattern, Subject, Subjects, Workspace};

/// Far more than any adapter needs on a busy machine; only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(10);
const QUEUE_LEN: usize = 1_024;
const BURST: u64 = 200;

/// How exactly an adapter counts missed messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagCount {
    /// As the contract says.
    Exact,
    /// Gaps are reported, but their size is a guess, because the client library drops messages itself.
    Approximate,
}

/// Runs every test of the contract, each on a bus made by `make`.
pub async fn upholds_the_contract(make: impl AsyncFn() -> SharedBus, lag: LagCount) {
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
    let subjects = TestSubjects::new();
    let mut all = subjects.subscribe(&bus, ">").await;
    let mut one = subjects.subscribe(&bus, "*.x").await;
    let mut exact = subjects.subscribe(&bus, "a.x").await;
    for name in ["a.x", "b.x", "a.x.y", "c", "end", "end.x", "a.x"] {
        subjects.publish(&bus, name, name).await;
    }
    assert_eq!(texts(&mut all, 7).await, ["a.x", "b.x", "a.x.y", "c", "end", "end.x", "a.x"]);
    assert_eq!(texts(&mut one, 4).await, ["a.x", "b.x", "end.x", "a.x"]);
    assert_eq!(texts(&mut exact, 2).await, ["a.x", "a.x"]);
}

pub async fn messages_of_one_publisher_keep_their_order(bus: SharedBus) {
    let subjects = TestSubjects::new();
    let mut subscription = subjects.subscribe(&bus, ">").await;
    let sent: Vec<_> = (0..BURST).map(|number| number.to_string()).collect();
    for (at, text) in sent.iter().enumerate() {
        subjects.publish(&bus, ["a", "b", "c.d"][at % 3], text).await;
    }
    assert_eq!(texts(&mut subscription, sent.len()).await, sent);
}

pub async fn every_matching_subscription_gets_its_own_copy(bus: SharedBus) {
    let subjects = TestSubjects::new();
    let mut first = subjects.subscribe(&bus, "a").await;
    let mut second = subjects.subscribe(&bus, "a").await;
    subjects.publish(&bus, "a", "1").await;
    let expected = Delivery::Message { subject: subjects.subject("a"), payload: b"1".as_slice().into() };
    assert_eq!(next(&mut first).await, Some(expected.clone()));
    assert_eq!(next(&mut second).await, Some(expected));
}

pub async fn workspaces_and_sessions_do_not_hear_each_other(bus: SharedBus) {
    let (ours, theirs) = (TestSubjects::new(), TestSubjects::new());
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
    let subjects = TestSubjects::new();
    assert_eq!(bus.listeners(), []);
    let first = subjects.subscribe(&bus, "a").await;
    let second = subjects.subscribe(&bus, "b.>").await;
    assert_eq!(bus.listeners().len(), 2);
    drop(first);
    let [left] = bus.listeners().try_into().expect("one is left");
    assert!(left.matches(&subjects.subject("b.c")) && !left.matches(&subjects.subject("a")));
    drop(second);
    assert_eq!(bus.listeners(), []);
}

pub async fn nothing_is_kept_for_those_who_come_later(bus: SharedBus) {
    let subjects = TestSubjects::new();
    let mut early = subjects.subscribe(&bus, "a").await;
    subjects.publish(&bus, "a", "1").await;
    assert_eq!(texts(&mut early, 1).await, ["1"]);
    let mut late = subjects.subscribe(&bus, "a").await;
    subjects.publish(&bus, "a", "2").await;
    assert_eq!(texts(&mut late, 1).await, ["2"]);
}

pub async fn a_slow_subscriber_is_told_what_it_missed(bus: SharedBus, lag: LagCount) {
    let subjects = TestSubjects::new();
    let mut slow = subscribe(&bus, subjects.subject("a").into(), 4).await;
    let mut quick = subjects.subscribe(&bus, "a").await;
    let sent: Vec<_> = (0..BURST).map(|number| number.to_string()).collect();
    for text in &sent {
        subjects.publish(&bus, "a", text).await;
    }
    assert_eq!(texts(&mut quick, sent.len()).await, sent, "others are unaffected");
    // Room for one more, so that the gap is between queued messages.
    assert_eq!(texts(&mut slow, 1).await, ["0"]);
    subjects.publish(&bus, "a", &BURST.to_string()).await;
    texts(&mut quick, 1).await;
    let mut accounted = 1;
    let mut gaps = 0;
    while accounted <= BURST && (lag == LagCount::Exact || gaps == 0) {
        match next(&mut slow).await.expect("the bus is there") {
            Delivery::Message { payload, .. } if lag == LagCount::Exact => {
                assert_eq!(text(&payload), accounted.to_string(), "the gap is where it was reported, and as long");
                accounted += 1;
            }
            Delivery::Message { .. } => accounted += 1,
            Delivery::Lagged { missed } => {
                assert!(missed > 0, "a gap has a length");
                gaps += 1;
                accounted += missed;
            }
        }
    }
    assert!(gaps > 0, "a queue of 4 held {BURST} messages");
    if lag == LagCount::Exact {
        assert_eq!((accounted, gaps), (BURST + 1, 1), "one gap, reported once");
        subjects.publish(&bus, "a", "after").await;
        assert_eq!(texts(&mut slow, 1).await, ["after"]);
    }
}

pub async fn dropping_a_subscription_leaves_the_others_alone(bus: SharedBus) {
    let subjects = TestSubjects::new();
    let mut kept = subjects.subscribe(&bus, "a").await;
    let dropped = subjects.subscribe(&bus, "a").await;
    subjects.publish(&bus, "a", "1").await;
    drop(dropped);
    let mut again = subjects.subscribe(&bus, "a").await;
    subjects.publish(&bus, "a", "2").await;
    assert_eq!(texts(&mut kept, 2).await, ["1", "2"]);
    assert_eq!(texts(&mut again, 1).await, ["2"], "a new subscription inherits nothing");
}

pub async fn a_waiting_subscriber_is_woken(bus: SharedBus) {
    let subjects = TestSubjects::new();
    let mut subscription = subjects.subscribe(&bus, "a").await;
    // In a separate task, so that only the bus can cause it to be polled again.
    let waiter = tokio::spawn(async move { subscription.next().await });
    tokio::task::yield_now().await;
    subjects.publish(&bus, "a", "1").await;
    let received = tokio::time::timeout(PATIENCE, waiter).await.expect("woken in time").expect("the waiter ended well");
    assert!(matches!(received, Some(Delivery::Message { .. })), "{received:?}");
}

pub async fn subscriptions_end_when_the_bus_is_gone(bus: SharedBus) {
    let mut subscription = TestSubjects::new().subscribe(&bus, "a").await;
    let waiter = tokio::spawn(async move { subscription.next().await });
    tokio::task::yield_now().await;
    drop(bus);
    let ended = tokio::time::timeout(PATIENCE, waiter).await.expect("woken in time").expect("the waiter ended well");
    assert_eq!(ended, None);
}

/// Subjects of a workspace that only one test uses.
struct TestSubjects(Subjects);

impl TestSubjects {
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
        let all = self.0.all_notices().to_string();
        let pattern = all.replace('>', tail).parse().expect("the test's own pattern");
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
    String::from_utf8(payload.to_vec()).expect("the test's own text")
}
