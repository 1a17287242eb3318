//! Reading finds all data flow: what programs are seen to hand from call to call is a part of what reading them told.
//!
//! Programs are made at random. Every call answers with a text that nobody else has; a later call whose arguments contain that text
//! has received it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use pml_code::sandbox::{Answer, CallRequest, Limits, engine};
use pml_code::structure::Reading;
use pml_core::graph::edge::EdgeKind;
use proptest::prelude::*;
use serde_json::json;

use super::running::{plain, raw};

const PRELUDE: &str = r"
const same = (x: any) => x;
const pair = (a: any, b: any) => ({ a, b: [b] });
async function helper(x: any, ...more: any[]) { const r = await tools.s.helper({ x, more }); return { r, x }; }
async function twice(f: (x: any) => Promise<any>, x: any) { return [await f(x), await f(x)]; }
class Box { held: any; constructor(x: any) { this.held = x; } async send() { return tools.s.send({ held: this.held }); } }
const bag: any = {}; const list: any[] = [];
let v0: any = 'start', v1: any = 1, v2: any = null, v3: any = {}, v4: any = [];
";

/// Makes a program from a row of numbers.
struct Maker<'a> {
    choices: std::slice::Iter<'a, u8>,
    text: String,
    calls: usize,
}

impl Maker<'_> {
    fn pick(&mut self, among: u8) -> u8 {
        self.choices.next().map_or(0, |choice| choice % among)
    }

    fn variable(&mut self) -> String {
        format!("v{}", self.pick(5))
    }

    fn expression(&mut self, depth: u8) -> String {
        if depth == 0 {
            return self.variable();
        }
        let choice = self.pick(22);
        let one = self.expression(depth - 1);
        match choice {
            0..=3 => one,
            4 => format!("({one})?.text"),
            5 => format!("`<${{JSON.stringify({one})}}>`"),
            6 => format!("({{ p: {one}, q: {} }}).p", self.variable()),
            7 => format!("[{one}, {}][1]", self.variable()),
            8 => format!("same({one})"),
            9 => format!("pair({one}, {}).b[0]", self.variable()),
            10 => format!("({one} ?? {})", self.variable()),
            11 => format!("({one} ? {} : {})", self.variable(), self.variable()),
            12 => format!("JSON.parse(JSON.stringify({one} ?? null))"),
            13 => format!("[{one}, {}].map((x: any) => ({{ x }})).filter((y) => y)", self.variable()),
            14 => format!("Object.values({{ ...({one} as any), k: {} }})", self.variable()),
            15 => format!("[{one}, {}].reduce((all: any, x: any) => [...all, x], [])", self.variable()),
            16 => format!("('t' + JSON.stringify({one})).slice(1).split(',')"),
            17 => format!("({one})?.items?.[0]"),
            18 => "bag.x".to_owned(),
            19 => "list[0]".to_owned(),
            20 => format!("new Map([['k', {one}]]).get('k')"),
            _ => format!("(({{ a, ...rest }}: any) => rest)({{ a: {one}, b: {} }})", self.variable()),
        }
    }

    fn call(&mut self) -> String {
        self.calls += 1;
        let (number, one, other) = (self.calls, self.expression(2), self.expression(1));
        match self.pick(4) {
            0 => format!("tools.s.t{number}({{ a: {one}, b: {{ c: {other} }} }})"),
            1 => format!("tools['s'].t{number}({{ ...pair({one}, {other}) }})"),
            2 => format!("tools.s.t{number}({{ list: [{one}, {other}] }})"),
            _ => format!("tools.s.t{number}({{ a: {one} }})"),
        }
    }

    fn statements(&mut self, depth: u8) {
        for _ in 0..=self.pick(3) {
            self.statement(depth);
        }
    }

    fn block(&mut self, head: &str, depth: u8, tail: &str) {
        self.text += head;
        self.statements(depth - 1);
        self.text += tail;
    }

    fn statement(&mut self, depth: u8) {
        let target = self.variable();
        let choice = if depth == 0 { self.pick(12) } else { self.pick(20) };
        let line = match choice {
            0..=2 => format!("{target} = await {};", self.call()),
            3 => format!("{target} = {};", self.expression(2)),
            4 => format!("bag.x = {}; list.push({});", self.expression(1), self.variable()),
            5 => format!("{target} = await Promise.all([{}, {}]);", self.call(), self.call()),
            6 => format!(
                "{target} = await Promise.all([{}, 1].map(async (e: any) => {{ const r = await {}; return [r, e]; }}));",
                self.expression(1),
                self.call()
            ),
            7 => format!("{target} = await helper({}, {});", self.expression(1), self.variable()),
            8 => format!("const p = {}; {target} = (await p)?.text;", self.call()).replace("const p", "var p"),
            9 => format!("{target} = await {}.then((x: any) => same(x)).catch((e: any) => e.message);", self.call()),
            10 => format!("{target} = await new Box({}).send();", self.expression(1)),
            11 => {
                format!("[{target}, {{ z: {} }}] = [{}, {{ z: {} }}];", self.variable(), self.expression(1), self.expression(1))
            }
            12 => {
                let test = self.variable();
                self.block(&format!("if ({test}) {{\n"), depth, "} else {\n");
                return self.block("", depth, "}\n");
            }
            13 => {
                let (one, other) = (self.expression(1), self.variable());
                return self.block(&format!("for (const e of [{one}, {other}]) {{ {target} = e;\n"), depth, "}\n");
            }
            14 => {
                let call = self.call();
                self.block(
                    &format!("try {{ {target} = await {call}; if ({target}?.odd) throw new Error(JSON.stringify({target}));\n"),
                    depth,
                    "",
                );
                return self.block(&format!("}} catch (e: any) {{ {target} = e.message;\n"), depth, "}\n");
            }
            15 => {
                let call = self.call();
                return self.block(
                    &format!("for (let i = 0; i < 2; i++) {{ {target} = await {call};\nif (i) break;\n"),
                    depth,
                    "}\n",
                );
            }
            16 => {
                let call = self.call();
                format!(
                    "await twice(async (x: any) => {{ {target} = [x, await {call}]; return {target}; }}, {});",
                    self.variable()
                )
            }
            17 => {
                let test = self.variable();
                self.block(&format!("switch (typeof {test}) {{ case 'string':\n"), depth, "break; default:\n");
                return self.block("", depth, "}\n");
            }
            18 => {
                self.block("await (async () => {\n", depth, "");
                format!("if ({}) return; {target} = await {}; }})();", self.variable(), self.call())
            }
            _ => {
                let value = self.expression(1);
                return self.block(&format!("do {{ {target} = [{value}];\n"), depth, "} while (false);\n");
            }
        };
        writeln!(self.text, "{line}").unwrap();
    }
}

fn program(choices: &[u8]) -> String {
    let mut maker = Maker { choices: choices.iter(), text: PRELUDE.to_owned(), calls: 0 };
    for _ in 0..5 {
        maker.statement(2);
    }
    maker.text
}

/// The data flow that a run shows, as places of calls in the source.
fn observed(source: &str, reading: &Reading) -> BTreeSet<(usize, usize)> {
    let limits =
        Limits { memory_bytes: 64 << 20, stack_bytes: 256 << 10, time_ms: 10_000, calls_max: 300, output_bytes: 1 << 20 };
    let place = |call: &CallRequest| {
        let position = call.position.unwrap_or_else(|| panic!("{} has no place", call.callee));
        let at =
            reading.call_at(position.offset(source)).unwrap_or_else(|| panic!("{} at {position} was not read", call.callee));
        assert_eq!(reading.calls[at].callee.to_string(), call.callee, "at {position} of\n{source}");
        reading.calls[at].span.start
    };
    let mut places: Vec<usize> = Vec::new();
    let mut flow = BTreeSet::new();
    let mut open = Vec::new();
    let outcome = engine::run(&plain(&reading.javascript), limits, Rc::new(|| Duration::ZERO), |calls| {
        for call in calls {
            let to = place(&call);
            let from = |(at, place): (usize, &usize)| call.arguments.get().contains(&format!("@{at}@")).then_some((*place, to));
            flow.extend(places.iter().enumerate().filter_map(from));
            open.push((call.id, places.len()));
            places.push(to);
        }
        let (id, number) = open.remove(0);
        let tag = format!("@{number}@");
        let result =
            if number % 6 == 5 { Err(tag) } else { Ok(raw(&json!({"text": tag, "items": [tag], "odd": number % 3 == 2}))) };
        Some(Answer { id, result })
    });
    assert!(!places.is_empty() || outcome.result.is_ok(), "{:?}\n{source}", outcome.result);
    flow
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_finds_all_data_flow_that_a_run_shows(choices in proptest::collection::vec(any::<u8>(), 40..250)) {
        let source = program(&choices);
        let reading = pml_code::read(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let place = |at: usize| reading.calls[at].span.start;
        let provides = reading.edges.iter().filter(|edge| edge.kind == EdgeKind::Provides);
        let told: BTreeSet<(usize, usize)> = provides.map(|edge| (place(edge.from), place(edge.to))).collect();
        for (from, to) in observed(&source, &reading) {
            prop_assert!(told.contains(&(from, to)), "{} -> {} was not found in\n{source}", &source[from..][..20], &source[to..][..20]);
        }
    }
}

#[test]
fn random_programs_do_hand_results_on() {
    let choices: Vec<u8> = (0..200_u32).map(|at| u8::try_from((at * at * 31 + at * 7) % 251).unwrap()).collect();
    let flows: usize = (0..20)
        .map(|from| {
            let source = program(&choices[from * 5..]);
            observed(&source, &pml_code::read(&source).unwrap()).len()
        })
        .sum();
    assert!(flows >= 20, "{flows} flows: the property would hold of anything");
}
