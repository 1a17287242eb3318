//! The order of the requests of one sender. Requests are sent without waiting for the answers to those before them, and any of them may be
//! refused or lost: `RequestOrder` keeps the later ones from being taken then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The order of some requests. If one of them is not taken, or has no answer, none after it is taken: their sender sends all of them
/// again, in a new order.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestOrder(Arc<OrderState>);

#[derive(Debug, Default)]
struct OrderState {
    /// How many places were given.
    given: AtomicU64,
    /// How many requests were taken.
    taken: AtomicU64,
    broken: AtomicBool,
}

impl RequestOrder {
    /// Returns the place after those returned before.
    pub(crate) fn next_place(&self) -> RequestPlace {
        let number = self.0.given.fetch_add(1, Ordering::Relaxed);
        RequestPlace { order: Arc::clone(&self.0), number, answered: false }
    }
}

/// The place of one request in its order. The order is broken if the place is dropped before the request is answered.
#[derive(Debug)]
pub(crate) struct RequestPlace {
    order: Arc<OrderState>,
    number: u64,
    answered: bool,
}

impl RequestPlace {
    /// Returns whether the request may be taken: all before it were, and none of them failed.
    pub(crate) fn take(&self) -> bool {
        let next = self.number + 1;
        !self.order.broken.load(Ordering::Acquire)
            && self.order.taken.compare_exchange(self.number, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the request: every event of it has its verdict.
    pub(crate) fn answer(mut self) {
        self.answered = true;
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        if !self.answered {
            self.order.broken.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_in_order_until_one_fails() {
        let order = RequestOrder::default();
        let [first, second, third, fourth] = std::array::from_fn(|_| order.next_place());
        assert!(first.take() && second.take());
        first.answer();
        assert!(third.take(), "an answered request breaks nothing");
        drop(second);
        assert!(!fourth.take(), "the second one has failed");
        third.answer();
        assert!(!order.next_place().take(), "and nothing mends the order");
    }

    #[test]
    fn a_request_that_overtakes_another_is_not_taken() {
        let order = RequestOrder::default();
        let (first, second) = (order.next_place(), order.next_place());
        assert!(!second.take());
        drop(second);
        assert!(!first.take(), "its sender sends both again");
    }
}
