//! What a program can do, and what becomes of the process.

use std::cell::Cell;
use std::time::Duration;

use pml_code::sandbox::{ChildCommand, RunError, Sandbox};
use pml_code::structure::Position;
use serde_json::json;

use super::running::{answer, command, limits, plain, returned, run, run_with};

#[tokio::test]
async fn a_program_calls_tools_and_returns_a_value() {
    let source = "const a: any = await tools.fs.read({ path: args.path });\nconst b = await capabilities['send mail']({ a });\nreturn [a.callee, b.callee, b.arguments.a.arguments];";
    let outcome = run_with(source, json!({"path": "x"}), limits()).await;
    assert_eq!(outcome.result.unwrap().get(), r#"["fs:read","capability:send mail",{"path":"x"}]"#);
    assert_eq!(returned("").await, json!(null));
}

#[tokio::test]
async fn the_console_is_returned_also_after_a_failure() {
    let outcome = run("console.log('a', 1, { b: [2] });\nconsole.error(new Error('c'));\n\n  throw new TypeError('no');").await;
    assert_eq!(outcome.console, "a 1 {\"b\":[2]}\nError: c\n");
    let position = Some(Position { line: 4, column: 13 });
    assert_eq!(outcome.result.unwrap_err(), RunError::Thrown { message: "TypeError: no".to_owned(), position });
}

#[tokio::test]
async fn an_error_of_a_call_can_be_caught() {
    let caught = returned("try { await tools.s.fail({}); } catch (error) { return error.message; }").await;
    assert_eq!(caught, json!("s:fail is out of order"));
    let error = run("await tools.s.fail({});").await.result.unwrap_err();
    assert_eq!(error.to_string(), "ToolError: s:fail is out of order");
    let error = run("await tools.s.read('x');").await.result.unwrap_err();
    assert!(error.to_string().starts_with("TypeError: s:read takes one object with its arguments"), "{error}");
}

#[tokio::test]
async fn a_call_may_ask_for_retries_and_a_time_limit() {
    let sandbox = Sandbox::start(&command(), limits()).unwrap();
    let source = "await tools.s.x({}, { retries: 2, timeout_ms: 50 }); await tools.s.x({});";
    let asked = std::cell::RefCell::new(Vec::new());
    let outcome = sandbox.run(plain(source), async |call| {
        asked.borrow_mut().push((call.retries, call.timeout_ms));
        answer(call).await
    });
    outcome.await.result.unwrap();
    assert_eq!(asked.into_inner(), [(2, Some(50)), (0, None)]);
    let error = run("await tools.s.x({}, { retry: 2 });").await.result.unwrap_err().to_string();
    assert!(error.starts_with("s:x: its second argument is not { retries, timeout_ms }: unknown field `retry`"), "{error}");
}

#[tokio::test]
async fn a_run_can_be_repeated_exactly() {
    let source = "const d = new Date(); return [Math.random(), Math.random(), Date.now(), +d, Date(), d instanceof Date, d.constructor.now(), new Date(5).getTime(), typeof performance];";
    let once = returned(source).await;
    assert_eq!(once, returned(source).await);
    assert_eq!((&once[2], &once[3], &once[6]), (&json!(1_000_000_000_000_u64), &json!(1_000_000_000_000_u64), &once[2]));
    assert_eq!((&once[5], &once[7], &once[8]), (&json!(true), &json!(5), &json!("undefined")));
    assert_ne!(once[0], once[1]);
}

#[tokio::test]
async fn calls_that_do_not_wait_for_each_other_are_under_way_together() {
    let reading = pml_code::read("await Promise.all([1, 2, 3].map((n) => tools.s.x({ n })));").unwrap();
    let (open, most) = (Cell::new(0), Cell::new(0));
    let sandbox = Sandbox::start(&command(), limits()).unwrap();
    let outcome = sandbox.run(plain(&reading.javascript), async |call| {
        open.set(open.get() + 1);
        most.set(most.get().max(open.get()));
        // All three have been asked for before the first is answered.
        while most.get() < 3 {
            tokio::task::yield_now().await;
        }
        open.set(open.get() - 1);
        answer(call).await
    });
    outcome.await.result.unwrap();
    assert_eq!(most.get(), 3);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_made_and_answered() {
    let calls = Cell::new(0);
    let sandbox = Sandbox::start(&command(), limits()).unwrap();
    let outcome = sandbox.run(plain("tools.s.log({}); return 1;"), async |call| {
        calls.set(calls.get() + 1);
        answer(call).await
    });
    assert_eq!(outcome.await.result.unwrap().get(), "1");
    assert_eq!(calls.get(), 1);
}

#[tokio::test]
async fn the_time_of_calls_is_not_the_time_of_the_program() {
    let limits = pml_code::sandbox::Limits { time_ms: 1_000, ..limits() };
    let sandbox = Sandbox::start(&command(), limits).unwrap();
    let outcome = sandbox.run(plain("await tools.s.slow({}); return 1;"), async |call| {
        tokio::time::sleep(Duration::from_millis(1_800)).await;
        answer(call).await
    });
    assert_eq!(outcome.await.result.unwrap().get(), "1");
}

#[tokio::test]
async fn every_call_says_where_the_program_makes_it() {
    let source = "const x: string = 'a';\nasync function read(path: string) { return await tools.fs.read({ path }); }\nawait read(x);\nawait tools.zip.pack({ f: await read('b') });\nawait Promise.all(['c'].map(tools.mail.send));";
    let reading = pml_code::read(source).unwrap();
    let found = std::cell::RefCell::new(Vec::new());
    let sandbox = Sandbox::start(&command(), limits()).unwrap();
    let outcome = sandbox.run(plain(&reading.javascript), async |call| {
        let at = reading.call_at(call.position.unwrap().offset(source)).unwrap();
        assert_eq!(reading.calls[at].callee.to_string(), call.callee);
        found.borrow_mut().push(call.callee.clone());
        answer(call).await
    });
    let error = outcome.await.result.unwrap_err().to_string();
    assert!(error.contains("mail:send takes one object"), "{error}");
    assert_eq!(found.into_inner(), ["fs:read", "fs:read", "zip:pack"]);
}

#[tokio::test]
async fn the_child_has_no_environment_and_is_gone_after_its_run() {
    let sandbox = Sandbox::start(&command(), limits()).unwrap();
    let id = sandbox.process_id().unwrap();
    let environment = std::cell::RefCell::new(None);
    let outcome = sandbox.run(plain("await tools.s.x({});"), async |call| {
        environment.replace(Some(std::fs::read(format!("/proc/{id}/environ")).unwrap()));
        answer(call).await
    });
    outcome.await.result.unwrap();
    assert_eq!(environment.into_inner().unwrap(), b"");
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "it was waited for");
}

#[tokio::test]
async fn a_child_that_dies_hangs_or_talks_nonsense_is_an_error_and_nothing_more() {
    let start = |program: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(Into::into).collect();
        Sandbox::start(
            &ChildCommand { program: program.into(), arguments },
            pml_code::sandbox::Limits { time_ms: 100, ..limits() },
        )
    };
    let run = async |program: &str, arguments: &[&str]| {
        let sandbox = start(program, arguments).unwrap();
        sandbox.run(plain("return 1"), answer).await.result.unwrap_err().to_string()
    };
    assert_eq!(run("/bin/sh", &["-c", "kill -9 $$"]).await, "the sandbox ended without a result (signal: 9 (SIGKILL))");
    assert_eq!(run("/bin/sh", &["-c", "exit 3"]).await, "the sandbox ended without a result (exit status: 3)");
    assert_eq!(run("/bin/sh", &["-c", "while :; do :; done"]).await, "the program ran longer than 100 ms (code.time_ms)");
    let nonsense = run("/bin/sh", &["-c", "printf 'aaaaaaaa'"]).await;
    assert_eq!(nonsense, "the sandbox sent a message that makes no sense: it has 1633771873 bytes");
    let error = start("/does/not/exist", &[]).err().unwrap().to_string();
    assert!(error.starts_with("the sandbox could not be started: "), "{error}");
}

#[tokio::test]
async fn a_run_that_is_given_up_takes_its_process_with_it() {
    let sandbox = Sandbox::start(&command(), limits()).unwrap();
    let id = sandbox.process_id().unwrap();
    let run = sandbox.run(plain("await tools.s.x({});"), |_| std::future::pending());
    assert!(tokio::time::timeout(Duration::from_millis(50), run).await.is_err());
    // The runtime waits for killed processes in the background.
    for _ in 0..500 {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the process still runs");
}
