//! Learnt capabilities as Agent Skills: what `pml skills export` writes and the MCP gateway shows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::capability::{Capability, Structure};
use crate::core::id::Callee;
use crate::core::state::State;
use crate::readers::skill::{Learnt, LearntFailure, LearntStep, Skill};

/// Which capabilities become skills.
#[derive(Clone, Copy, Debug)]
pub struct SkillFilter {
    pub runs_min: u64,
    /// Least share of successful runs, from 0 to 1.
    pub success_min: f64,
}

impl Default for SkillFilter {
    fn default() -> Self {
        Self { runs_min: 3, success_min: 0.8 }
    }
}

/// Returns the capabilities of a state that ran often and well enough, as skills, the most run first. One call is no procedure.
pub fn skills(state: &State, filter: SkillFilter) -> Vec<Skill> {
    let is_wanted = |capability: &&Capability| {
        capability.is_offered()
            && capability.structure.calls.len() > 1
            && capability.usage >= filter.runs_min.max(1)
            && capability.success_rate() >= filter.success_min
    };
    let mut wanted: Vec<&Capability> = state.capabilities.iter().filter(is_wanted).collect();
    wanted.sort_by_key(|capability| (std::cmp::Reverse(capability.usage), capability.id));
    wanted.into_iter().map(|capability| learnt(state, capability).skill()).collect()
}

fn learnt(state: &State, capability: &Capability) -> Learnt {
    let description =
        if capability.description.is_empty() { capability.structure.summary() } else { capability.description.clone() };
    Learnt {
        id: capability.id.to_string(),
        // The handle never changes, so neither does the name of the folder.
        name: capability.handle.to_string(),
        description,
        steps: steps(state, &capability.structure),
        parameters: parameters(capability),
        intents: state.capabilities.intents(capability.id).iter().rev().map(ToString::to_string).collect(),
        failures: failures(state, &capability.structure),
        runs: capability.usage,
        successes: capability.successes,
    }
}

/// The calls, those that others depend on first.
fn steps(state: &State, structure: &Structure) -> Vec<LearntStep> {
    let depths = structure.depths();
    let mut order: Vec<usize> = (0..structure.calls.len()).collect();
    order.sort_by_key(|at| (depths[*at], *at));
    let number = |at: u16| order.iter().position(|of| *of == usize::from(at)).map(|place| place + 1);
    let step = |at: &usize| {
        let callee = &structure.calls[*at];
        let flow = structure.flow.iter().filter(|(_, to)| usize::from(*to) == *at);
        let mut uses: Vec<usize> = flow.filter_map(|(from, _)| number(*from)).collect();
        uses.sort_unstable();
        LearntStep { tool: callee.to_string(), purpose: purpose(state, callee), uses }
    };
    order.iter().map(step).collect()
}

/// The first sentence of a tool's description.
fn purpose(state: &State, callee: &Callee) -> String {
    let Callee::Tool(tool) = callee else { return String::new() };
    let registration = state.tools.get(tool).and_then(|tool| tool.registration.as_ref());
    let description = registration.map_or("", |registration| registration.description.as_str());
    description.split_once(". ").map_or(description, |(first, _)| first).to_owned()
}

fn parameters(capability: &Capability) -> BTreeMap<String, String> {
    let schema = capability.parameters_schema.as_ref().map(|schema| serde_json::from_str::<Value>(schema.as_str()));
    let Some(Ok(schema)) = schema else { return BTreeMap::new() };
    let described = |(name, member): (&String, &Value)| {
        let text = member["description"].as_str().or(member["type"].as_str()).unwrap_or("any value");
        (name.clone(), text.to_owned())
    };
    schema["properties"].as_object().map(|members| members.iter().map(described).collect()).unwrap_or_default()
}

/// The tools that have failed, in whatever run.
fn failures(state: &State, structure: &Structure) -> Vec<LearntFailure> {
    let mut found: Vec<LearntFailure> = Vec::new();
    for callee in &structure.calls {
        let Callee::Tool(id) = callee else { continue };
        let Some(tool) = state.tools.get(id).filter(|tool| tool.successes < tool.calls) else { continue };
        if !found.iter().any(|known| known.tool == id.as_str()) {
            let kind = format!("of {} calls in all runs", tool.calls);
            found.push(LearntFailure { tool: id.to_string(), kind, count: tool.calls - tool.successes, instead: None });
        }
    }
    found
}
