//! What runs teach, as given / when / then on the fold.

use std::sync::Arc;

use pml::core::capability::{Capabilities, Capability, Status};
use pml::core::event::{CapabilityDeclared, Event, ExecutionStarted, Kind};
use pml::core::graph::Node;
use pml::core::graph::edge::EdgeKind;
use pml::core::id::{Callee, CapabilityId};
use pml::core::rank::Index;
use pml::core::state::Notice;

use crate::given::{
    Call, History, declared, failed, finished, finished_program, ok, registered, started, step_finished, template,
};

const READ_AND_PACK: [Call<'_>; 2] = [ok("read", "fs:read", &[]), ok("pack", "zip:pack", &["read"])];

fn learned(notices: &[Notice]) -> Vec<CapabilityId> {
    let learned = |notice: &Notice| match notice {
        Notice::CapabilityLearned { capability } => Some(*capability),
        Notice::EdgePromoted { .. } | Notice::ModelPromoted { .. } | Notice::ModelRolledBack { .. } => None,
    };
    notices.iter().filter_map(learned).collect()
}

#[test]
fn a_flawless_run_teaches_one_capability() {
    let mut history = History::default();
    let notices = history.run("e1", &READ_AND_PACK, true);
    let capability = history.only_capability();
    assert_eq!(learned(&notices), [capability.id]);
    assert_eq!((capability.name.as_str(), capability.status), ("fs:read > zip:pack", Status::Learned));
    assert_eq!((capability.usage, capability.successes, capability.level), (1, 1, 0));
    assert_eq!(capability.intents.iter().map(|intent| &**intent).collect::<Vec<_>>(), ["do e1"]);
    assert_eq!(capability.members.len(), 2);
}

#[test]
fn the_same_procedure_under_other_names_and_in_another_order_strengthens_it() {
    let mut history = History::default();
    history.run(
        "e1",
        &[ok("a", "in:x", &[]), ok("b", "l:x", &["a"]), ok("c", "r:x", &["a"]), ok("d", "out:x", &["b", "c"])],
        true,
    );
    let notices = history.run(
        "e2",
        &[ok("z", "in:x", &[]), ok("y", "r:x", &["z"]), ok("x", "l:x", &["z"]), ok("w", "out:x", &["y", "x"])],
        true,
    );
    assert_eq!(learned(&notices), []);
    let capability = history.only_capability();
    assert_eq!((capability.usage, capability.successes), (2, 2));
    assert_eq!(capability.intents.iter().map(|intent| &**intent).collect::<Vec<_>>(), ["do e1", "do e2"]);
}

#[test]
fn the_same_tools_with_other_data_flow_are_another_procedure() {
    let mut history = History::default();
    history.run("e1", &READ_AND_PACK, true);
    let notices = history.run("e2", &[ok("read", "fs:read", &[]), ok("pack", "zip:pack", &[])], true);
    assert_eq!(learned(&notices).len(), 1);
    assert_eq!(history.state.capabilities.len(), 2);
}

#[test]
fn a_failed_run_of_a_known_structure_counts_against_it() {
    let mut history = History::default();
    history.run("e1", &READ_AND_PACK, true);
    history.run("e2", &[ok("read", "fs:read", &[]), failed("pack", "zip:pack", &["read"])], false);
    let capability = history.only_capability();
    assert_eq!((capability.usage, capability.successes), (2, 1));
    assert!((capability.success_rate() - 0.5).abs() < 1e-12);
    assert_eq!(capability.intents.len(), 1, "what it failed at is not what it is for");
}

#[test]
fn a_run_that_was_not_flawless_teaches_no_unknown_structure() {
    let half = [ok("read", "fs:read", &[]), failed("pack", "zip:pack", &["read"])];
    for (calls, success) in [(half, false), (half, true), (READ_AND_PACK, false)] {
        let mut history = History::default();
        assert_eq!(history.run("e1", &calls, success), []);
        assert!(history.state.capabilities.is_empty(), "{calls:?} {success}");
    }
}

#[test]
fn a_run_without_steps_teaches_nothing_but_is_counted() {
    let mut history = History::default();
    assert_eq!(history.run("e1", &[], true), []);
    assert!(history.state.capabilities.is_empty() && history.state.tools.is_empty());
    assert_eq!((history.state.count(Kind::TraceCompleted), history.state.executions.traces_len()), (1, 1));
}

#[test]
fn a_step_that_calls_a_capability_makes_a_parent_one_level_up() {
    let mut history = History::default();
    let child = learned(&history.run("e1", &READ_AND_PACK, true))[0];
    let call = format!("capability:{child}");
    let parent = learned(&history.run("e2", &[ok("archive", &call, &[]), ok("mail", "mail:send", &["archive"])], true))[0];
    let grandparent = learned(&history.run("e3", &[ok("all", &format!("capability:{parent}"), &[])], true))[0];
    let capabilities = &history.state.capabilities;
    let level = |id| capabilities.get(id).unwrap().level;
    assert_eq!((level(child), level(parent), level(grandparent)), (0, 1, 2));
    let parents: Vec<Callee> =
        capabilities.get(child).unwrap().parents.iter().map(|node| history.state.callee(*node)).collect();
    assert_eq!(parents, [Callee::Capability(parent)]);
    assert_eq!(capabilities.get(child).unwrap().usage, 2, "its own run and the call");
    assert_eq!(history.state.tools.len(), 3, "a capability is not a tool");
}

#[test]
fn levels_rise_when_a_called_stub_turns_out_to_call_others() {
    let ids = {
        let mut history = History::default();
        let child = learned(&history.run("e1", &READ_AND_PACK, true))[0];
        (child, learned(&history.run("e2", &[ok("a", &format!("capability:{child}"), &[])], true))[0])
    };
    let (child, middle) = ids;
    let mut history = History::default();
    let top = learned(&history.run("e1", &[ok("a", &format!("capability:{middle}"), &[])], true))[0];
    assert_eq!(history.state.capabilities.get(middle).unwrap().status, Status::Stub);
    assert_eq!(history.state.capabilities.get(top).unwrap().level, 1);
    let notices = history.run("e2", &[ok("a", &format!("capability:{child}"), &[])], true);
    assert_eq!(learned(&notices), [middle], "a stub that ran is news");
    assert_eq!(history.state.capabilities.get(top).unwrap().level, 2);
}

#[test]
fn data_flow_provides_and_mere_neighbours_follow() {
    let mut history = History::default();
    history.run("e1", &[ok("1", "a:x", &[]), ok("2", "b:x", &["1"]), ok("3", "c:x", &[]), ok("4", "d:x", &["1", "3"])], true);
    let expected = [
        "a:x -provides-> b:x (inferred)",
        "a:x -provides-> d:x (inferred)",
        "b:x -sequence-> c:x (inferred)",
        "c:x -provides-> d:x (inferred)",
    ];
    assert_eq!(history.edges(), expected);
}

#[test]
fn a_pair_counts_once_per_run() {
    let mut history = History::default();
    history.run("e1", &[ok("1", "a:x", &[]), ok("2", "b:x", &["1"]), ok("3", "a:x", &[]), ok("4", "b:x", &["3"])], true);
    let provides = history.state.graph.edges().find(|((_, _, kind), _)| *kind == EdgeKind::Provides).unwrap().1;
    assert_eq!((provides.observations, provides.successes), (1, 1));
}

#[test]
fn the_third_success_promotes_an_edge_and_says_so_once() {
    let mut history = History::default();
    let promotion =
        Notice::EdgePromoted { from: "fs:read".parse().unwrap(), to: "zip:pack".parse().unwrap(), kind: EdgeKind::Provides };
    let outcomes = [true, false, true, true, true];
    let promoted: Vec<bool> = (outcomes.iter().enumerate())
        .map(|(at, &success)| history.run(&format!("e{at}"), &READ_AND_PACK, success).contains(&promotion))
        .collect();
    assert_eq!(promoted, [false, false, false, true, false]);
    assert_eq!(history.edges(), ["fs:read -provides-> zip:pack (observed)"]);
}

#[test]
fn a_failed_run_never_lifts_a_declared_edge() {
    let mut history = History::default();
    history.append(declared("archive", &["fs:read", "zip:pack"]));
    assert_eq!(history.edges(), ["fs:read -provides-> zip:pack (template)"]);
    for at in 0..4 {
        history.run(&format!("e{at}"), &READ_AND_PACK, false);
    }
    assert_eq!(history.edges(), ["fs:read -provides-> zip:pack (template)"]);
    history.run("e9", &READ_AND_PACK, true);
    assert_eq!(history.edges(), ["fs:read -provides-> zip:pack (inferred)"]);
}

#[test]
fn runs_of_a_declared_capability_count_for_it_and_leave_its_name() {
    let mut history = History::default();
    history.append(declared("archive", &["fs:read", "zip:pack"]));
    assert_eq!(history.run("e1", &READ_AND_PACK, true), []);
    let capability = history.only_capability();
    assert_eq!((capability.name.as_str(), capability.status, capability.usage), ("archive", Status::Approved, 1));
}

/// A declared chain with a program.
fn declared_program(name: &str, tools: &[&str], code: &str) -> Event {
    match declared(name, tools) {
        Event::CapabilityDeclared(declared) => {
            Event::CapabilityDeclared(CapabilityDeclared { code: Some(code.to_owned()), ..declared })
        }
        other => other,
    }
}

#[test]
fn a_run_of_a_program_counts_for_the_capability_that_has_it() {
    let mut history = History::default();
    history.append(declared_program("archive", &["fs:read", "zip:pack"], "loop"));
    let run = |history: &mut History, execution: &str, tools: &[&str], code: &str, success: bool| {
        history.append(started(execution));
        for (at, tool) in tools.iter().enumerate() {
            history.append(step_finished(execution, &format!("s{at}"), tool, &[], true));
        }
        history.append(finished_program(execution, success, code));
        history.close(execution)
    };
    // A loop repeats calls and a branch leaves some out.
    assert_eq!(run(&mut history, "e1", &["fs:read", "fs:read", "zip:pack"], "loop", true), []);
    assert_eq!(run(&mut history, "e2", &["fs:read"], "loop", false), []);
    // It may call nothing but capabilities, which are executions of their own.
    assert_eq!(run(&mut history, "e3", &[], "loop", true), []);
    let capability = history.only_capability();
    assert_eq!((capability.name.as_str(), capability.usage, capability.successes), ("archive", 3, 2));
    assert_eq!(capability.intents.iter().map(|intent| &**intent).collect::<Vec<_>>(), ["do e1", "do e3"]);
    // With another program it is another matter, also for the old one.
    history.append(declared_program("archive", &["fs:read", "zip:pack"], "newer"));
    assert_eq!(learned(&run(&mut history, "e4", &["fs:read"], "loop", true)).len(), 1);
    run(&mut history, "e5", &["fs:read"], "newer", true);
    let rows: Vec<Capability> = history.state.capabilities.rows().cloned().collect();
    assert_eq!(rows.iter().map(|row| row.usage).collect::<Vec<_>>(), [4, 1]);
    let restored = Capabilities::from_rows(rows.clone());
    assert_eq!(restored.that_ran("newer"), Some(rows[0].id), "a snapshot knows the programs, too");
}

#[test]
fn a_run_that_names_its_capability_counts_for_it_whatever_it_called() {
    let mut history = History::default();
    history.append(declared_program("archive", &["fs:read", "zip:pack"], "loop"));
    let id = history.only_capability().id;
    let run = |history: &mut History, execution: &str, code: &str, success: bool| {
        history.append(started(execution));
        history.append(step_finished(execution, "s1", "fs:read", &[], success));
        history.append(finished_program(execution, success, code));
    };
    for (execution, success) in [("e1", true), ("e2", false)] {
        run(&mut history, execution, &format!("capability:{id}"), success);
        // Another run gives it another program between the end of this one and its trace.
        history.append(declared_program("archive", &["fs:read", "zip:pack"], &format!("after {execution}")));
        assert_eq!(history.close(execution), []);
    }
    let capability = history.only_capability();
    assert_eq!((capability.usage, capability.successes, capability.code.as_deref()), (2, 1, Some("after e2")));
    // An unknown one counts for none, and is no program of the capability that is learnt from the calls.
    run(&mut history, "e3", "capability:00112233445566778899aabbccddeeff", true);
    assert_eq!(learned(&history.close("e3")).len(), 1);
    let programs = history.state.capabilities.rows().map(|row| row.code.as_deref());
    assert_eq!(programs.collect::<Vec<_>>(), [Some("after e2"), None]);
}

#[test]
fn a_declaration_names_what_was_learned() {
    let mut history = History::default();
    history.run("e1", &READ_AND_PACK, true);
    history.append(declared("archive", &["fs:read", "zip:pack"]));
    let capability = history.only_capability();
    assert_eq!((capability.name.as_str(), capability.status, capability.usage), ("archive", Status::Approved, 1));
}

#[test]
fn a_template_declares_its_edges_and_its_next_version_takes_them_back() {
    let mut history = History::default();
    history.append(template("archive", &[("fs:list", "fs:read"), ("fs:read", "zip:pack")]));
    history.append(template("mail", &[("fs:read", "zip:pack")]));
    let both = ["fs:list -dependency-> fs:read (template)", "fs:read -dependency-> zip:pack (template)"];
    assert_eq!(history.edges(), both);
    history.append(template("archive", &[("fs:list", "zip:pack")]));
    let turned = ["fs:list -dependency-> zip:pack (template)", "fs:read -dependency-> zip:pack (template)"];
    assert_eq!(history.edges(), turned, "the other template still names the second edge");
    history.append(template("mail", &[]));
    assert_eq!(history.edges(), ["fs:list -dependency-> zip:pack (template)"]);
    assert_eq!(history.state.templates.len(), 2);
    assert_eq!(history.state.tools.len(), 3, "tools a template named stay known");
}

#[test]
fn a_tool_called_before_it_is_registered_is_a_stub_until_then() {
    let mut history = History::default();
    history.run("e1", &READ_AND_PACK, true);
    let id = "zip:pack".parse().unwrap();
    let stub = history.state.tools.get(&id).unwrap();
    assert!(stub.is_stub());
    assert_eq!((stub.calls, stub.successes, stub.duration_total_ms), (1, 1, 7));
    history.append(registered("zip:pack", "Pack files"));
    let tool = history.state.tools.get(&id).unwrap();
    assert_eq!(tool.registration.as_ref().unwrap().description, "Pack files");
    assert_eq!((tool.calls, history.state.tools.len()), (1, 2));
}

#[test]
fn what_comes_after_the_trace_is_only_counted_as_late() {
    let mut history = History::default();
    history.run("e1", &READ_AND_PACK, true);
    let known = |history: &History| {
        let state = &history.state;
        let executions = state.executions.len();
        format!("{:?}", (&state.tools, &state.graph, &state.transitions, &state.capabilities, executions))
    };
    let before = known(&history);
    let trace = history.state.executions.trace(&"e1".parse().unwrap()).unwrap();
    let late = [
        started("e1"),
        step_finished("e1", "mail", "mail:send", &[], true),
        finished("e1", false),
        pml::core::event::Event::TraceCompleted(trace),
    ];
    for (count, event) in (1..).zip(late) {
        assert_eq!(history.append(event), []);
        assert_eq!((known(&history), history.state.late()), (before.clone(), count));
    }
}

#[test]
fn what_a_failed_run_did_counts_half_in_the_memory_of_an_intent() {
    let mut history = History::default();
    let runs = [("e1", "zip:pack", true), ("e2", "mail:send", false)];
    for (execution, second, success) in runs {
        let Event::ExecutionStarted(started) = started(execution) else { unreachable!() };
        history.append(Event::ExecutionStarted(ExecutionStarted { intent: "pack it".to_owned(), ..started }));
        history.append(step_finished(execution, "s1", "fs:read", &[], true));
        history.append(step_finished(execution, "s2", second, &["s1"], true));
        history.append(finished(execution, success));
        history.close(execution);
    }
    let index = Index::default().update(Arc::new(history.state));
    let share = |tool: &str| {
        let node = Node::tool(index.state().tools.position(&tool.parse().unwrap()).unwrap());
        index.intents().shares(0).iter().find(|(used, _)| *used == node).unwrap().1
    };
    let shares = ["fs:read", "zip:pack", "mail:send"].map(share);
    for (share, expected) in shares.into_iter().zip([1.0, 2.0 / 3.0, 1.0 / 3.0]) {
        assert!((share - expected).abs() < 1e-6, "{shares:?}");
    }
}
