//! `pml sandbox`: the child process in which a program runs (`code::sandbox`).

use std::process::ExitCode;
use std::rc::Rc;

use crate::clock::{Clock, Uptime};
use crate::code::sandbox::serve_child;

pub(super) fn run() -> ExitCode {
    let clock = Clock::system();
    let uptime = Rc::new(move || clock.uptime().since(Uptime::ZERO));
    // Whoever started it sees that the pipe is closed; there is nobody else to tell.
    match serve_child(std::io::stdin().lock(), std::io::stdout().lock(), uptime) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
