//! Programs that try to get out, or to use more than they may. Each ends within its limit with an error that says why.

use pml_code::sandbox::{Limits, RunError};
use serde_json::json;

use super::running::{limits, returned, run, run_with};

/// Runs programs that must fail, and compares the text of the error.
async fn check(cases: &[(&str, &str)]) {
    check_within(limits(), cases).await;
}

async fn check_within(limits: Limits, cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let error =
            run_with(source, json!({}), limits).await.result.map(|value| value.get().to_owned()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{source}\n{error}");
    }
}

#[tokio::test]
async fn code_cannot_be_made_from_text() {
    let refused = "TypeError: code cannot be made from text in the sandbox";
    check(&[
        ("return eval('1');", refused),
        ("return (0, eval)('1');", refused),
        ("return globalThis['ev' + 'al']('1');", refused),
        ("return new Function('return 1')();", refused),
        ("return (() => {}).constructor('return 1')();", refused),
        ("return (async () => {}).constructor('return 1')();", refused),
        ("return (function* () {}).constructor('return 1')();", refused),
        ("return (async function* () {}).constructor('return 1')();", refused),
        ("return tools.fs.read.constructor('return 1')();", refused),
        ("return Reflect.construct(Function, ['return 1'])();", refused),
        ("return [].map.constructor('return 1')();", refused),
        ("return class { static {} }.constructor('return 1')();", refused),
        ("Object.defineProperty(Function.prototype, 'constructor', { value: 1 });", "TypeError: "),
    ])
    .await;
}

#[tokio::test]
async fn nothing_of_the_outside_is_there() {
    let names = "['process', 'require', 'module', 'Deno', 'Bun', 'fetch', 'XMLHttpRequest', 'WebSocket', 'Worker', 'std', 'os', 'scriptArgs', 'print', 'WebAssembly', 'setTimeout', 'tools']";
    let found = returned(&format!("return {names}.filter((name) => typeof globalThis[name] !== 'undefined');")).await;
    assert_eq!(found, json!([]));
    let outcome = run("const fs = await import('fs');").await;
    let error = outcome.result.unwrap_err().to_string();
    assert!(error.contains("could not load") || error.contains("import") || error.contains("module"), "{error}");
    check(&[("import.meta.url;", "SyntaxError: "), ("await import('/etc/passwd');", "ReferenceError: ")]).await;
}

#[tokio::test]
async fn prototype_tricks_stay_in_the_program() {
    let tricks = [
        // The functions of the sandbox were taken before the program could replace them.
        "JSON.stringify = () => '\"forged\"'; JSON.parse = () => 'forged';",
        "Promise.prototype.then = function () { return 'forged'; };",
        "Object.prototype.toJSON = undefined; Array.prototype.push = () => 0; Map.prototype.get = () => 0;",
        "Object.prototype.callee = 'evil:tool'; Object.prototype.id = 7; Object.prototype.resolve = () => {};",
        "String.prototype.toString = () => 'evil'; Error.prepareStackTrace = () => 'program.ts:9:9'; Error.stackTraceLimit = 0;",
        "Object.prototype.__proto__ === null; globalThis.console = null as any;",
        "try { (tools as any).fs = 1; } catch {} try { delete (tools as any).fs; } catch {} try { Object.setPrototypeOf(tools, {}); } catch {}",
    ];
    for trick in tricks {
        let source = format!("try {{ {trick} }} catch {{}}\nconst got = await tools.fs.read({{ path: 'a' }});\nreturn got;");
        let got = returned(&source).await;
        assert_eq!(got, json!({"callee": "fs:read", "arguments": {"path": "a"}}), "{trick}");
    }
    assert_eq!(returned("return [await tools, String(typeof tools.then), Object.keys(tools)].length;").await, json!(3));
}

#[tokio::test]
async fn time_is_limited() {
    let time = "the program ran longer than 1000 ms (code.time_ms)";
    let short = Limits { time_ms: 1_000, ..limits() };
    check_within(
        short,
        &[
            ("for (;;) {}", time),
            ("while (true) { try { for (;;) {} } catch {} finally { continue; } }", time),
            ("for (;;) await null;", time),
            ("const spin = () => { Promise.resolve().then(spin); }; spin();", time),
            ("/^(a+)+$/.test('a'.repeat(40) + 'b'); for (;;) {}", time),
        ],
    )
    .await;
    let error =
        run_with("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);", json!({}), short).await.result.unwrap_err();
    assert!(matches!(error, RunError::Thrown { .. } | RunError::Time(_)), "{error}");
}

#[tokio::test]
async fn memory_is_limited() {
    let memory = "the program needs more memory than 16777216 bytes (code.memory_bytes)";
    check(&[
        ("const all = []; for (;;) all.push(new Array(1000).fill(1));", memory),
        // The parts of a sum of strings are shared until somebody looks at it.
        ("let s = 'x'; for (;;) s += s;", "InternalError: string too long"),
        ("let s = 'x'; for (;;) { s += s; s.charCodeAt(s.length - 1); s.indexOf('y'); }", memory),
        ("return 'x'.repeat(1e8).length;", memory),
        ("return new Uint8Array(1e9).length;", memory),
        ("const all = []; for (let i = 0; ; i++) all.push({ i, next: all });", memory),
    ])
    .await;
}

#[tokio::test]
async fn the_stack_is_limited() {
    let stack = "the program calls itself too deep for a stack of 262144 bytes (code.stack_bytes)";
    check(&[
        ("const f = (): number => 1 + f(); f();", stack),
        ("let deep: any = []; for (let i = 0; i < 100000; i++) deep = [deep]; return deep;", stack),
        ("const o: any = { get x() { return this.x; } }; o.x;", stack),
    ])
    .await;
}

#[tokio::test]
async fn calls_are_counted() {
    let calls = "the program made more than 50 calls (code.calls_max)";
    check(&[
        ("for (let i = 0; i < 1e6; i++) await tools.s.x({ i });", calls),
        ("for (let i = 0; i < 1e6; i++) tools.s.x({ i });", calls),
        ("for (;;) { try { await tools.s.x({}); } catch {} }", calls),
        ("await Promise.all(Array.from({ length: 1e5 }, (_, i) => tools.s.x({ i })));", calls),
    ])
    .await;
}

#[tokio::test]
async fn output_is_limited() {
    let output = "the program wrote and returned more than 10000 bytes (code.output_bytes)";
    check(&[
        ("for (;;) console.log('x'.repeat(100));", output),
        ("console.log('x'.repeat(1e6));", output),
        ("return 'x'.repeat(1e6);", output),
        ("console.log('x'.repeat(6000)); return 'x'.repeat(6000);", output),
    ])
    .await;
    let outcome = run("for (;;) console.log('x'.repeat(99));").await;
    assert_eq!(outcome.console.len(), limits().output_bytes, "what fits is returned");
    let patient = Limits { memory_bytes: 64 << 20, ..limits() };
    let outcome = run_with("await tools.s.x({ text: 'x'.repeat(5e6) });", json!({}), patient).await;
    let error = outcome.result.unwrap_err().to_string();
    assert!(error.starts_with("s:x: the arguments have 5000011 bytes, the limit is 4194304"), "{error}");
}

#[tokio::test]
async fn a_promise_that_never_settles_ends_the_run() {
    let never = "the program waits for a promise that nothing will settle";
    check(&[
        ("await new Promise(() => {});", never),
        ("await tools.s.x({}); await Promise.race([]);", never),
        ("let go: any; const gate = new Promise((r) => (go = r)); await gate; go();", never),
    ])
    .await;
}
