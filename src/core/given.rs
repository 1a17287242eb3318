//! Histories for tests, told in lines. Each line becomes one record, folded into a state.
//!
//! ```text
//!  tool fs:read path depth?                   registers a tool with a required and an optional parameter
//!  remove fs:read
//!  run ok back up: fs:read 100ms, zip:pack < fs:read, net:send < zip:pack + fs:read
//!  run failed back up: fs:read, zip:pack!     a trace; "!" marks a step that failed, "<" the steps it used
//!  declare backup: fs:read, zip:pack < fs:read
//!  template nightly: fs:read > zip:pack, zip:pack > net:send
//!  retire 0                                   the capability at a position; "restore 0" takes it back
//!  merge 0 1                                  the first one into the second; "split 0" takes it back
//! ```
//!
//! A step is named by its callee, with `#2` where a callee is called again. `[backup]` calls the capability of that name.

use std::sync::Arc;

use crate::event::{
    CapabilityDeclared, CapabilityMerged, CapabilityRetired, DeclaredStructure, EmbeddingComputed, Event, Json, NewRecord,
    Record, StructureEdge, StructureNode, TemplateLoaded, ToolAnnotations, ToolRegistered, ToolRemoved, TraceCompleted,
    TraceStep,
};
use crate::graph::Node;
use crate::graph::edge::EdgeKind;
use crate::id::{Callee, RecordId, Seq, StepId};
use crate::state::State;
use crate::time::Timestamp;

/// A state with the records that were folded into it.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) state: State,
    seq: u64,
}

/// One step of a line.
struct Step {
    id: StepId,
    callee: Callee,
    depends_on: Vec<StepId>,
    success: bool,
    duration_ms: Option<u64>,
}

impl History {
    /// The history of these lines; blank ones are skipped.
    pub(crate) fn new(lines: &str) -> Self {
        let mut history = Self::default();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            history.line(line);
        }
        history
    }

    /// Folds one line.
    pub(crate) fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        let event = match word {
            "tool" => registered(rest),
            "remove" => Event::ToolRemoved(ToolRemoved { tool: rest.parse().unwrap() }),
            "run" => self.trace(rest),
            "declare" => self.declared(rest),
            "template" => template(rest),
            "retire" | "restore" | "merge" | "split" => match self.decided(word, rest) {
                Some(event) => event,
                None => return,
            },
            _ => panic!("{line}"),
        };
        self.apply(event);
    }

    /// Folds one event.
    pub(crate) fn apply(&mut self, event: Event) {
        self.seq += 1;
        let time = Timestamp::from_micros(0).plus_millis(self.seq * 1_000);
        let id = RecordId::from_parts(time, self.seq.into());
        let fact = Arc::new(NewRecord { id, time, source: "urn:test".into(), causation: None, envelope: None, event });
        self.state.apply(&Record { seq: Seq(self.seq), recorded_at: time, fact });
    }

    /// Registers a tool with these hints about whether it only reads and whether it may be repeated.
    pub(crate) fn annotate(&mut self, tool: &str, read_only: Option<bool>, idempotent: Option<bool>) {
        let Event::ToolRegistered(mut registered) = registered(tool) else { unreachable!("it registers a tool") };
        registered.annotations = Some(ToolAnnotations { read_only, idempotent, ..ToolAnnotations::default() });
        self.apply(Event::ToolRegistered(registered));
    }

    /// Adds the vectors that are missing.
    pub(crate) fn embed(&mut self, vector: impl Fn(&str) -> Vec<f32>) {
        for (hash, text) in self.state.vectors.lacking("test", usize::MAX) {
            let (text_hash, vector) = (hash.to_string(), vector(&text));
            self.apply(Event::EmbeddingComputed(EmbeddingComputed { text_hash, model: "test".to_owned(), vector }));
        }
    }

    /// The node of a tool, or of a capability named in brackets.
    pub(crate) fn node(&self, name: &str) -> Node {
        self.state.find(&self.callee(name)).unwrap_or_else(|| panic!("{name} is not known"))
    }

    fn callee(&self, name: &str) -> Callee {
        let Some(name) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) else { return name.parse().unwrap() };
        let capability = self.state.capabilities.iter().find(|capability| capability.name == name);
        Callee::Capability(capability.unwrap_or_else(|| panic!("no capability is called {name}")).id)
    }

    /// The name of a node: the id of a tool, the name of a capability in brackets.
    pub(crate) fn name(&self, node: Node) -> String {
        match self.state.callee(node) {
            Callee::Tool(id) => id.to_string(),
            Callee::Capability(id) => format!("[{}]", self.state.capabilities.get(id).unwrap().name),
        }
    }

    fn steps(&self, text: &str) -> Vec<Step> {
        text.split(',').map(|step| self.step(step.trim())).collect()
    }

    fn step(&self, text: &str) -> Step {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let duration_ms = words.last().and_then(|word| word.strip_suffix("ms")?.parse().ok());
        if duration_ms.is_some() {
            words.pop();
        }
        let name = words[0].trim_end_matches('!');
        let callee = self.callee(name.split('#').next().unwrap());
        let depends_on = words[1..].iter().filter(|word| !["<", "+"].contains(word)).map(|word| step_id(word)).collect();
        Step { id: step_id(name), callee, depends_on, success: !words[0].ends_with('!'), duration_ms }
    }

    fn trace(&self, text: &str) -> Event {
        let (head, steps) = text.split_once(": ").unwrap();
        let (outcome, intent) = head.split_once(' ').unwrap();
        let steps = self.steps(steps).into_iter().map(|step| TraceStep {
            step: step.id,
            tool: step.callee,
            depends_on: step.depends_on,
            success: step.success,
            duration_ms: step.duration_ms,
            error_kind: None,
        });
        let at = Timestamp::from_micros(0).plus_millis(self.seq * 1_000);
        Event::TraceCompleted(TraceCompleted {
            execution: format!("e{}", self.seq).parse().unwrap(),
            session: None,
            agent: None,
            intent: intent.to_owned(),
            steps: steps.collect(),
            success: outcome == "ok",
            started: at,
            ended: at.plus_millis(500),
            abandoned: false,
            code: None,
        })
    }

    /// What a person decides about the capabilities at these positions, if there are such.
    fn decided(&self, word: &str, positions: &str) -> Option<Event> {
        let capability_at = |position: &str| self.state.capabilities.rows().nth(position.parse().unwrap()).map(|row| row.id);
        let mut named = positions.split_whitespace();
        let (capability, into) = (capability_at(named.next()?)?, named.next().map(capability_at));
        Some(match word {
            "merge" => Event::CapabilityMerged(CapabilityMerged { capability, into: Some(into??) }),
            "split" => Event::CapabilityMerged(CapabilityMerged { capability, into: None }),
            _ => Event::CapabilityRetired(CapabilityRetired { capability, retired: word == "retire" }),
        })
    }

    fn declared(&self, text: &str) -> Event {
        let (name, steps) = text.split_once(": ").unwrap();
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        for step in self.steps(steps) {
            let edge = |from| StructureEdge { from, to: step.id.clone(), kind: EdgeKind::Provides };
            edges.extend(step.depends_on.into_iter().map(edge));
            nodes.push(StructureNode { id: step.id, callee: step.callee });
        }
        Event::CapabilityDeclared(CapabilityDeclared {
            name: name.to_owned(),
            description: String::new(),
            structure: DeclaredStructure { nodes, edges },
            code: None,
            parameters_schema: None,
        })
    }
}

fn step_id(name: &str) -> StepId {
    name.trim_matches(['[', ']']).parse().unwrap()
}

fn registered(text: &str) -> Event {
    let mut words = text.split_whitespace();
    let tool = words.next().unwrap();
    let parameters: Vec<&str> = words.collect();
    let quoted = |name: &str| format!("\"{}\"", name.trim_end_matches('?'));
    let properties: Vec<String> = parameters.iter().map(|name| format!("{}:{{}}", quoted(name))).collect();
    let required: Vec<String> = parameters.iter().filter(|name| !name.ends_with('?')).map(|name| quoted(name)).collect();
    let schema = format!("{{\"properties\":{{{}}},\"required\":[{}]}}", properties.join(","), required.join(","));
    Event::ToolRegistered(ToolRegistered {
        tool: tool.parse().unwrap(),
        name: tool.to_owned(),
        description: String::new(),
        input_schema: Some(Json::from_valid(schema)),
        output_schema: None,
        annotations: None,
    })
}

fn template(text: &str) -> Event {
    let (name, edges) = text.split_once(": ").unwrap();
    let edge = |edge: &str| {
        let (from, to) = edge.split_once('>').unwrap();
        (from.trim().parse().unwrap(), to.trim().parse().unwrap())
    };
    Event::TemplateLoaded(TemplateLoaded {
        name: name.to_owned(),
        description: String::new(),
        edges: edges.split(',').map(edge).collect(),
        checksum: edges.to_owned(),
    })
}
