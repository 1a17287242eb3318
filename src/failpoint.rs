//! Failpoints are named points in the code at which tests make an actor panic. Without the feature `testing` they do nothing.

#[cfg(feature = "testing")]
mod armed {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

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
        let mut points = POINTS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = points.get_mut(point) else { return };
        *left -= 1;
        if *left == 0 {
            points.remove(point);
            drop(points);
            panic!("failpoint '{point}'");
        }
    }
}

#[cfg(feature = "testing")]
pub(crate) use armed::pass;
#[cfg(feature = "testing")]
pub use armed::{arm, is_armed};

#[cfg(not(feature = "testing"))]
pub(crate) const fn pass(_point: &str) {}
