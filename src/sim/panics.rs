//! Panics on the thread of a simulation, which supervisors would only report.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// The messages of panics since the run of this thread began; `None` while there is none.
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Notes the panics of this thread from now on, in place of printing them. Other threads are left alone.
pub(super) fn listen() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let otherwise = take_hook();
        set_hook(Box::new(move |panic| {
            let note = |heard: &RefCell<Option<Vec<String>>>| heard.borrow_mut().as_mut().map(|heard| heard.push(text(panic)));
            if HEARD.try_with(note).ok().flatten().is_none() {
                otherwise(panic);
            }
        }));
    });
    HEARD.set(Some(Vec::new()));
}

/// Stops listening and returns what was heard.
pub(super) fn heard() -> Vec<String> {
    HEARD.take().unwrap_or_default()
}

fn text(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("?");
    match panic.location() {
        Some(place) if !message.starts_with(crate::failpoint::PANIC) => {
            format!("{message}, in {}:{}", place.file(), place.line())
        }
        _ => message.to_owned(),
    }
}
