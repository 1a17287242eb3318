//! The child process: takes one program, runs it, says how it ended.

use std::io::{self, Read, Write};

use super::engine::{self, Uptime};
use super::protocol::{self, ToChild, ToParent};

/// The main function of the child process. It reads one program and the answers to its calls from `input` and writes calls and the
/// outcome to `output`. `uptime` is the clock of the time limit.
pub fn serve_child(mut input: impl Read, mut output: impl Write, uptime: Uptime) -> io::Result<()> {
    let ToChild::Run { launch, limits } = protocol::read(&mut input)? else {
        return Err(io::Error::other("an answer came before the program"));
    };
    let outcome = engine::run(&launch, limits, uptime, |calls| {
        for call in calls {
            protocol::write(&mut output, &ToParent::Call(call)).ok()?;
        }
        output.flush().ok()?;
        match protocol::read(&mut input).ok()? {
            ToChild::Answer(answer) => Some(answer),
            ToChild::Run { .. } => None,
        }
    });
    protocol::write(&mut output, &ToParent::Done(outcome))?;
    output.flush()
}
