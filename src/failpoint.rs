//! Failpoints are named points in the code at which tests make an actor panic. Without the feature `testing` they do nothing.
//!
//! A test arms a point for all threads, or, in a simulation on one thread, decides at each point of that thread.

#[cfg(feature = "testing")]
mod armed {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    thread_local! {
        static DECIDES: RefCell<Option<Decision>> = const { RefCell::new(None) };
    }

    /// Decides whether a point that is passed panics.
    pub type Decision = Box<dyn FnMut(&str) -> bool>;

    /// How the message of a failpoint's panic begins.
    pub(crate) const PANIC: &str = "failpoint";

    /// Lets `decides` decide at each point that this thread passes; `None` ends that.
    pub fn decide_here(decides: Option<Decision>) {
        DECIDES.with(|cell| *cell.borrow_mut() = decides);
    }

    static POINTS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

    /// Makes the point panic once, when it is passed for the `nth` time from now (1 = the next time).
    pub fn arm(point: &str, nth: u32) {
        POINTS.lock().unwrap_or_else(PoisonError::into_inner).insert(point.to_owned(), nth);
    }

    /// Whether the point is still to panic.
    pub fn is_armed(point: &str) -> bool {
        POINTS.lock().unwrap_or_else(PoisonError::into_inner).contains_key(point)
    }

    /// Marks the point in the code; panics if it is armed and due.
    pub(crate) fn pass(point: &str) {
        let panics = DECIDES.with(|cell| cell.borrow_mut().as_mut().is_some_and(|decides| decides(point)));
        assert!(!panics, "{PANIC} '{point}'");
        let mut points = POINTS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = points.get_mut(point) else { return };
        *left -= 1;
        if *left == 0 {
            points.remove(point);
            drop(points);
            panic!("{PANIC} '{point}'");
        }
    }
}

#[cfg(feature = "testing")]
pub use armed::{Decision, arm, decide_here, is_armed};
#[cfg(feature = "testing")]
pub(crate) use armed::{PANIC, pass};

#[cfg(not(feature = "testing"))]
pub(crate) const fn pass(_point: &str) {}
