//! Work done in idle time: with processor time that nobody else wants.
//!
//! A thread of the scheduling class for idle time makes way at once for any other thread that wakes up on its core. A thread of low priority
//! does not: it keeps the core until the end of a time slice, which a question about the present would wait for. But where no core is ever
//! idle, such a thread waits for seconds, so work that it has not begun soon is done by the caller.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// How long idle time is waited for.
const PATIENCE: Duration = Duration::from_millis(50);

/// `IdleTime` runs pieces of one task in idle time, and once there was none, the rest of them on the thread of the caller.
#[derive(Default)]
pub(crate) struct IdleTime {
    is_missing: bool,
}

impl IdleTime {
    /// Does a piece of work and waits for its result. A panic of the work is one of the caller.
    pub(crate) fn run<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> T {
        if self.is_missing {
            return work();
        }
        let offered = Arc::new(Mutex::new(Some(work)));
        let (begun, beginning) = mpsc::channel::<()>();
        let idle = thread::Builder::new().name("pml-idle".to_owned()).spawn({
            let offered = Arc::clone(&offered);
            move || {
                let work = if enter_idle_class() { take(&offered) } else { None };
                drop(begun);
                work.map(|work| work())
            }
        });
        // Ends when the thread has the work, or will never have it.
        beginning.recv_timeout(PATIENCE).ok();
        match (take(&offered), idle) {
            (None, Ok(idle)) => idle.join().unwrap_or_else(|panic| resume_unwind(panic)).expect("the thread did what it took"),
            (Some(work), _) => {
                self.is_missing = true;
                work()
            }
            (None, Err(_)) => unreachable!("a thread that was not started took nothing"),
        }
    }
}

fn take<W>(offered: &Mutex<Option<W>>) -> Option<W> {
    offered.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Puts this thread into the class for idle time and says whether it is there. Other systems than Linux have none.
#[cfg(target_os = "linux")]
fn enter_idle_class() -> bool {
    use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
    let class = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    thread_priority::set_thread_priority_and_policy(thread_priority::thread_native_id(), ThreadPriority::Min, class).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn enter_idle_class() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn work_is_done_once_by_either_thread() {
        let mut idle = IdleTime::default();
        let results: Vec<u32> = (0..20).map(|number| idle.run(move || number * 2)).collect();
        assert_eq!(results, (0..20).map(|number| number * 2).collect::<Vec<_>>());
        let caller = thread::current().id();
        assert_eq!(IdleTime { is_missing: true }.run(|| thread::current().id()), caller);
    }

    #[test]
    fn a_panic_of_the_work_reaches_the_caller() {
        let panicked = catch_unwind(|| IdleTime::default().run(|| panic!("a defect")));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"a defect"));
    }
}
