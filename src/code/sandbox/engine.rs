//! Runs one program in an interpreter of its own: quickjs-ng with limits on memory, stack and time, and no way out but asking for calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Exception, Function, Object, Promise, Runtime};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::limits::{Limits, MESSAGE_BYTES_MAX, RunError};
use super::protocol::{Answer, CallRequest, Launch, Outcome};
use crate::structure::Position;

const BOOTSTRAP: &str = include_str!("bootstrap.js");
/// The name of the program in stack traces.
const FILE: &str = "program.ts";
/// Lines before the first line of the program.
const LINES_BEFORE: u32 = 1;

/// Time since some start; only differences count.
pub type Uptime = Rc<dyn Fn() -> Duration>;

/// What the interpreter and the functions it calls share.
struct Shared {
    limits: Limits,
    uptime: Uptime,
    started: Duration,
    /// Time spent waiting for answers.
    waited: Cell<Duration>,
    /// A limit that was reached; nothing of the program runs after that.
    broken: RefCell<Option<RunError>>,
    calls: RefCell<Vec<CallRequest>>,
    call_count: Cell<usize>,
    call_bytes: Cell<usize>,
    console: RefCell<String>,
}

/// The second argument of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallOptions {
    #[serde(default)]
    retries: u32,
    timeout_ms: Option<u64>,
}

impl Shared {
    fn stop(&self, error: RunError) {
        self.broken.borrow_mut().get_or_insert(error);
    }

    fn must_stop(&self) -> bool {
        let own_time = (self.uptime)().saturating_sub(self.started).saturating_sub(self.waited.get());
        if own_time > self.limits.time() {
            self.stop(RunError::Time(self.limits.time_ms));
        }
        self.broken.borrow().is_some()
    }

    fn call(&self, id: u64, callee: String, arguments: String, options: &CallOptions, stack: &str) -> Result<(), String> {
        self.call_count.set(self.call_count.get() + 1);
        self.call_bytes.set(self.call_bytes.get() + arguments.len());
        if self.call_count.get() > self.limits.calls_max {
            self.stop(RunError::Calls(self.limits.calls_max));
        }
        if self.call_bytes.get() > self.limits.memory_bytes {
            self.stop(RunError::Memory(self.limits.memory_bytes));
        }
        if self.must_stop() {
            return Err("the program is being stopped".to_owned());
        }
        if arguments.len() > MESSAGE_BYTES_MAX {
            return Err(format!("{callee}: the arguments have {} bytes, the limit is {MESSAGE_BYTES_MAX}", arguments.len()));
        }
        let arguments = RawValue::from_string(arguments).map_err(|error| error.to_string())?;
        let CallOptions { retries, timeout_ms } = *options;
        self.calls.borrow_mut().push(CallRequest { id, callee, arguments, retries, timeout_ms, position: position(stack) });
        Ok(())
    }

    fn print(&self, text: &str) {
        let mut console = self.console.borrow_mut();
        if console.len() + text.len() > self.limits.output_bytes {
            self.stop(RunError::Output(self.limits.output_bytes));
        } else if self.broken.borrow().is_none() {
            console.push_str(text);
        }
    }
}

/// Runs a program. `exchange` passes calls on and waits for the next answer; `None` means that nobody listens any more.
pub fn run(
    launch: &Launch,
    limits: Limits,
    uptime: Uptime,
    mut exchange: impl FnMut(Vec<CallRequest>) -> Option<Answer>,
) -> Outcome {
    let shared = Rc::new(Shared {
        limits,
        started: uptime(),
        uptime,
        waited: Cell::new(Duration::ZERO),
        broken: RefCell::new(None),
        calls: RefCell::new(Vec::new()),
        call_count: Cell::new(0),
        call_bytes: Cell::new(0),
        console: RefCell::new(String::new()),
    });
    let result = run_shared(launch, &shared, &mut exchange);
    let result = match shared.broken.borrow_mut().take() {
        Some(error) => Err(error),
        None => result,
    };
    Outcome { result, console: shared.console.take() }
}

fn run_shared(
    launch: &Launch,
    shared: &Rc<Shared>,
    exchange: &mut impl FnMut(Vec<CallRequest>) -> Option<Answer>,
) -> Result<Box<RawValue>, RunError> {
    let start = |error: rquickjs::Error| RunError::Start(error.to_string());
    let runtime = Runtime::new().map_err(start)?;
    let context = Context::full(&runtime).map_err(start)?;
    runtime.set_memory_limit(shared.limits.memory_bytes);
    runtime.set_max_stack_size(shared.limits.stack_bytes);
    let watched = Rc::clone(shared);
    runtime.set_interrupt_handler(Some(Box::new(move || watched.must_stop())));
    context.with(|ctx| {
        let failed = |error: CaughtError<'_>| thrown(&error, &shared.limits);
        let (run, settle) = bootstrap(&ctx, shared, launch).catch(&ctx).map_err(failed)?;
        let mut options = EvalOptions::default();
        options.filename = Some(FILE.to_owned());
        let source = format!("(async function (tools, capabilities, args) {{ \"use strict\";\n{}\n}})", launch.javascript);
        let program: Function<'_> = ctx.eval_with_options(source, options).catch(&ctx).map_err(failed)?;
        let promise: Promise<'_> = run.call((program, launch.arguments.get())).catch(&ctx).map_err(failed)?;
        let mut open = 0;
        loop {
            while shared.broken.borrow().is_none() && ctx.execute_pending_job() {}
            if let Some(error) = shared.broken.borrow().clone() {
                return Err(error);
            }
            let calls = shared.calls.take();
            shared.call_bytes.set(0);
            open += calls.len();
            if open == 0 {
                break;
            }
            let before = (shared.uptime)();
            let answer = exchange(calls).ok_or_else(|| RunError::Died("nobody listens any more".to_owned()))?;
            shared.waited.set(shared.waited.get() + (shared.uptime)().saturating_sub(before));
            open -= 1;
            let (succeeded, text) = match &answer.result {
                Ok(value) => (true, value.get()),
                Err(error) => (false, error.as_str()),
            };
            settle.call::<_, ()>((answer.id, succeeded, text)).catch(&ctx).map_err(failed)?;
        }
        if promise.state() == PromiseState::Pending {
            return Err(RunError::NeverSettles);
        }
        let text: String = promise.finish().catch(&ctx).map_err(failed)?;
        if text.len() + shared.console.borrow().len() > shared.limits.output_bytes {
            return Err(RunError::Output(shared.limits.output_bytes));
        }
        RawValue::from_string(text).map_err(|error| RunError::Protocol(error.to_string()))
    })
}

/// Makes the names of the program; gives the functions that start it and that settle a call.
fn bootstrap<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, launch: &Launch) -> rquickjs::Result<(Function<'js>, Function<'js>)> {
    let start: Function<'js> = ctx.eval(BOOTSTRAP)?;
    let calling = Rc::clone(shared);
    let call = move |ctx: Ctx<'js>, id: u64, callee: String, arguments: String, options: String, stack: String| {
        let options: Result<CallOptions, _> = serde_json::from_str(&options);
        let asked = options.map_err(|error| format!("{callee}: its second argument is not {{ retries, timeout_ms }}: {error}"));
        let called = asked.and_then(|options| calling.call(id, callee, arguments, &options, &stack));
        called.map_err(|error| Exception::throw_message(&ctx, &error))
    };
    let printing = Rc::clone(shared);
    let print = move |text: String| printing.print(&text);
    let made: Object<'js> = {
        #[expect(clippy::cast_precision_loss, reason = "a time is far below 2^52 milliseconds")]
        let clock_ms = launch.clock_ms as f64;
        start.call((Function::new(ctx.clone(), call)?, Function::new(ctx.clone(), print)?, clock_ms, launch.seed))?
    };
    Ok((made.get("run")?, made.get("settle")?))
}

/// What an exception of the interpreter means.
fn thrown(error: &CaughtError<'_>, limits: &Limits) -> RunError {
    let (name, message, stack) = match error {
        CaughtError::Exception(exception) => {
            let name: Option<String> = exception.as_object().get("name").ok();
            (name, exception.message().unwrap_or_default(), exception.stack().unwrap_or_default())
        }
        CaughtError::Value(value) => {
            // The interpreter throws null where it has no memory left for an error.
            if value.is_null() {
                return RunError::Memory(limits.memory_bytes);
            }
            let text = value.as_string().and_then(|text| text.to_string().ok());
            (None, text.unwrap_or_else(|| format!("the program threw a value of type {}", value.type_of())), String::new())
        }
        CaughtError::Error(error) => (None, error.to_string(), String::new()),
    };
    match (name.as_deref(), message.as_str()) {
        (Some("InternalError"), text) if text.starts_with("out of memory") => RunError::Memory(limits.memory_bytes),
        (Some("RangeError"), "Maximum call stack size exceeded") => RunError::Stack(limits.stack_bytes),
        (name, message) => {
            let name = name.filter(|name| !name.is_empty() && *name != "Error").map(|name| format!("{name}: "));
            RunError::Thrown { message: format!("{}{message}", name.unwrap_or_default()), position: position(&stack) }
        }
    }
}

/// The first place of the program in a stack trace.
fn position(stack: &str) -> Option<Position> {
    let place = stack.split(FILE).nth(1)?;
    let mut numbers = place.strip_prefix(':')?.split(|character: char| !character.is_ascii_digit());
    let line: u32 = numbers.next()?.parse().ok()?;
    let column: u32 = numbers.next()?.parse().ok()?;
    Some(Position { line: line.checked_sub(LINES_BEFORE).filter(|line| *line > 0)?, column })
}
