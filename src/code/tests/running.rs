//! One run in the real child process.

use pml_code::sandbox::{CallRequest, ChildCommand, Launch, Limits, Outcome, Sandbox};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(crate) fn command() -> ChildCommand {
    ChildCommand { program: env!("CARGO_BIN_EXE_pml-sandbox").into(), arguments: Vec::new() }
}

pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

pub(crate) fn launch(javascript: &str, arguments: &Value) -> Launch {
    Launch { javascript: javascript.to_owned(), arguments: raw(arguments), clock_ms: 1_000_000_000_000, seed: 7 }
}

/// Without arguments.
pub(crate) fn plain(javascript: &str) -> Launch {
    launch(javascript, &json!({}))
}

/// Limits that a test reaches in a moment, but for the time: other tests run beside it.
pub(crate) fn limits() -> Limits {
    Limits { memory_bytes: 16 << 20, stack_bytes: 256 << 10, time_ms: 30_000, calls_max: 50, output_bytes: 10_000 }
}

/// A tool for every name: `fail` fails, the others give their name and arguments back.
pub(crate) async fn answer(call: CallRequest) -> Result<Box<RawValue>, String> {
    if call.callee.ends_with(":fail") {
        return Err(format!("{} is out of order", call.callee));
    }
    let arguments: Value = serde_json::from_str(call.arguments.get()).unwrap();
    Ok(raw(&json!({"callee": call.callee, "arguments": arguments})))
}

pub(crate) async fn run_with(source: &str, arguments: Value, limits: Limits) -> Outcome {
    let reading = pml_code::read(source).unwrap();
    let sandbox = Sandbox::start(&command(), limits).unwrap();
    sandbox.run(launch(&reading.javascript, &arguments), answer).await
}

pub(crate) async fn run(source: &str) -> Outcome {
    run_with(source, json!({}), limits()).await
}

/// What a program returns.
pub(crate) async fn returned(source: &str) -> Value {
    serde_json::from_str(run(source).await.result.unwrap().get()).unwrap()
}
