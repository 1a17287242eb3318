//! The child process of the sandbox as a program of its own, for the tests and measurements of this crate.

use std::rc::Rc;
use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "the clock of the time limit; only differences count")]
fn main() -> std::io::Result<()> {
    let start = Instant::now();
    pml_code::sandbox::serve_child(std::io::stdin().lock(), std::io::stdout().lock(), Rc::new(move || start.elapsed()))
}
