//! `SubscriberQueue` is the bounded queue of one subscriber. Each gap of dropped messages is reported once, at its position.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Delivery;
use crate::subject::Subject;

/// The messages that wait for one subscriber.
pub(super) struct SubscriberQueue {
    waiting: VecDeque<QueuedMessage>,
    len_max: usize,
    /// Messages dropped after the newest queued one.
    missed: u64,
    closed: bool,
    waker: Option<Waker>,
}

struct QueuedMessage {
    /// Messages dropped just before this one.
    missed_before: u64,
    subject: Subject,
    payload: Arc<[u8]>,
}

impl SubscriberQueue {
    /// A queue of `len_max` messages, at least one.
    pub(super) fn new(len_max: usize) -> Self {
        Self { waiting: VecDeque::new(), len_max: len_max.max(1), missed: 0, closed: false, waker: None }
    }

    /// Ends the subscription after the queued messages. Returns the waker of the subscriber, if it waits.
    pub(super) fn close(&mut self) -> Option<Waker> {
        self.closed = true;
        self.waker.take()
    }

    /// Adds a message, or counts it as missed if the queue is full. Returns the waker of the subscriber, if it waits.
    pub(super) fn push(&mut self, subject: &Subject, payload: &Arc<[u8]>) -> Option<Waker> {
        if self.waiting.len() >= self.len_max {
            self.missed += 1;
        } else {
            let missed_before = std::mem::take(&mut self.missed);
            self.waiting.push_back(QueuedMessage { missed_before, subject: subject.clone(), payload: Arc::clone(payload) });
        }
        self.waker.take()
    }

    fn pop(&mut self) -> Option<Delivery> {
        let missed = match self.waiting.front_mut() {
            Some(waiting) => &mut waiting.missed_before,
            None => &mut self.missed,
        };
        if *missed > 0 {
            return Some(Delivery::Lagged { missed: std::mem::take(missed) });
        }
        self.waiting.pop_front().map(|QueuedMessage { subject, payload, .. }| Delivery::Message { subject, payload })
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Delivery>> {
        match self.pop() {
            None if !self.closed => {
                self.waker = Some(context.waker().clone());
                Poll::Pending
            }
            delivery => Poll::Ready(delivery),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
