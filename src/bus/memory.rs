//! `MemoryBus` is the bus inside one process: each subscriber has a queue, and `publish` pushes to the matching queues.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, stream};

use super::queue::{SubscriberQueue, lock};
use super::{Bus, BusError, Subscription};
use crate::subject::{Pattern, Subject};

/// The bus inside one process.
#[derive(Default)]
pub struct MemoryBus {
    routes: Arc<Mutex<Routes>>,
}

#[derive(Default)]
struct Routes {
    subscribers: BTreeMap<u64, (Pattern, Arc<Mutex<SubscriberQueue>>)>,
    /// Numbers are never reused, so that a late unsubscribe cannot remove a newer subscriber.
    last_number: u64,
}

/// Removes the subscriber when dropped.
struct UnsubscribeOnDrop {
    number: u64,
    routes: Arc<Mutex<Routes>>,
    queue: Arc<Mutex<SubscriberQueue>>,
}

impl Drop for UnsubscribeOnDrop {
    fn drop(&mut self) {
        lock(&self.routes).subscribers.remove(&self.number);
    }
}

impl Drop for MemoryBus {
    fn drop(&mut self) {
        let subscribers = std::mem::take(&mut lock(&self.routes).subscribers);
        for (_, queue) in subscribers.into_values() {
            let waker = lock(&queue).close();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Bus for MemoryBus {
    fn publish(&self, subject: Subject, payload: Arc<[u8]>) -> BoxFuture<'static, Result<(), BusError>> {
        // One lock for all queues: all subscribers get the messages of all publishers in the same order.
        let routes = lock(&self.routes);
        let matching = routes.subscribers.values().filter(|(pattern, _)| pattern.matches(&subject));
        let wakers: Vec<_> = matching.filter_map(|(_, queue)| lock(queue).push(&subject, &payload)).collect();
        drop(routes);
        // Woken after the lock is released: a waker is foreign code and may call this bus.
        wakers.into_iter().for_each(Waker::wake);
        ready(Ok(())).boxed()
    }

    fn subscribe(&self, pattern: Pattern, queue_len_max: usize) -> BoxFuture<'static, Result<Subscription, BusError>> {
        let queue = Arc::new(Mutex::new(SubscriberQueue::new(queue_len_max)));
        let mut routes = lock(&self.routes);
        routes.last_number += 1;
        let number = routes.last_number;
        routes.subscribers.insert(number, (pattern, Arc::clone(&queue)));
        drop(routes);
        let subscriber = UnsubscribeOnDrop { number, routes: Arc::clone(&self.routes), queue };
        let deliveries = stream::poll_fn(move |context| lock(&subscriber.queue).poll(context));
        ready(Ok(Subscription::new(deliveries.boxed()))).boxed()
    }

    fn listeners(&self) -> Vec<Pattern> {
        lock(&self.routes).subscribers.values().map(|(pattern, _)| pattern.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Delivery;

    fn message(text: &str) -> Delivery {
        Delivery::Message { subject: "a".parse().unwrap(), payload: text.as_bytes().into() }
    }

    fn publish<const N: usize>(bus: &MemoryBus, texts: [&str; N]) {
        for text in texts {
            bus.publish("a".parse().unwrap(), text.as_bytes().into()).now_or_never().unwrap().unwrap();
        }
    }

    fn subscribe(bus: &MemoryBus, queue_len_max: usize) -> Subscription {
        bus.subscribe("a".parse().unwrap(), queue_len_max).now_or_never().unwrap().unwrap()
    }

    /// All deliveries that are ready.
    fn drain(subscription: &mut Subscription) -> Vec<Delivery> {
        std::iter::from_fn(|| subscription.next().now_or_never().flatten()).collect()
    }

    #[test]
    fn each_gap_is_reported_once_and_at_its_place() {
        let bus = MemoryBus::default();
        let mut subscription = subscribe(&bus, 2);
        publish(&bus, ["1", "2", "3", "4"]);
        assert_eq!(subscription.next().now_or_never(), Some(Some(message("1"))));
        publish(&bus, ["5", "6"]);
        let expected = [message("2"), Delivery::Lagged { missed: 2 }, message("5"), Delivery::Lagged { missed: 1 }];
        assert_eq!(drain(&mut subscription), expected);
        publish(&bus, ["7"]);
        assert_eq!(drain(&mut subscription), [message("7")]);
    }

    #[test]
    fn a_queue_holds_at_least_one_message() {
        let bus = MemoryBus::default();
        let mut subscription = subscribe(&bus, 0);
        publish(&bus, ["1", "2"]);
        assert_eq!(drain(&mut subscription), [message("1"), Delivery::Lagged { missed: 1 }]);
    }

    #[test]
    fn queued_messages_are_delivered_after_the_bus_is_dropped() {
        let bus = MemoryBus::default();
        let mut subscription = subscribe(&bus, 1);
        publish(&bus, ["1", "2"]);
        drop(bus);
        assert_eq!(subscription.next().now_or_never(), Some(Some(message("1"))));
        assert_eq!(subscription.next().now_or_never(), Some(Some(Delivery::Lagged { missed: 1 })));
        assert_eq!(subscription.next().now_or_never(), Some(None));
        assert_eq!(subscription.next().now_or_never(), Some(None));
    }

    #[test]
    fn nothing_is_kept_for_a_dropped_subscription() {
        let bus = MemoryBus::default();
        drop(subscribe(&bus, 8));
        drop(bus.subscribe("a".parse().unwrap(), 8));
        let payload: Arc<[u8]> = [1].into();
        bus.publish("a".parse().unwrap(), Arc::clone(&payload)).now_or_never().unwrap().unwrap();
        assert_eq!(Arc::strong_count(&payload), 1);
    }
}
