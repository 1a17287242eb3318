//! An allocator that counts: how many bytes the process holds, held at most, and has asked for. For tests that bound memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What this thread has asked for. Neither making nor dropping it allocates.
    static ASKED_HERE: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with counters. They belong to the process: measure one thing at a time.
pub struct Meter;

/// The memory that a piece of work took.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Most bytes held at a time, beyond those held before.
    pub peak: usize,
    /// Bytes asked for in total, a measure of work that does not depend on the machine.
    pub asked: usize,
}

/// Runs `work` and counts the memory it takes on all threads.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Usage) {
    let (held, asked) = (HELD.load(Relaxed), ASKED.load(Relaxed));
    PEAK.store(held, Relaxed);
    let result = work();
    let usage = Usage { peak: PEAK.load(Relaxed).saturating_sub(held), asked: ASKED.load(Relaxed).wrapping_sub(asked) };
    (result, usage)
}

/// Runs `work`, which is done by this thread alone, and counts the bytes it asks for. Threads that others have left behind do not count.
pub fn asked_here<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ASKED_HERE.get();
    let result = work();
    (result, ASKED_HERE.get().wrapping_sub(before))
}

fn add(bytes: usize) {
    ASKED_HERE.set(ASKED_HERE.get().wrapping_add(bytes));
    ASKED.fetch_add(bytes, Relaxed);
    let held = HELD.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    PEAK.fetch_max(held, Relaxed);
}

#[expect(unsafe_code, reason = "every method passes its arguments on to the system's allocator as they are")]
// SAFETY: the system's allocator does the work; the counters allocate nothing.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD.fetch_sub(layout.size(), Relaxed);
        add(size);
        unsafe { System.realloc(pointer, layout, size) }
    }
}
