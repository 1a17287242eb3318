//! The abstract values of a reading: from which calls a value may come, and what it may refer to.
//!
//! Every type here is a join semilattice: `join` only adds, and there are finitely many calls, sites and variables in a program, so a loop
//! that is read until nothing changes ends.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value as Json;

/// A call, by its position among the calls of the program.
pub(super) type CallId = usize;
/// A variable: one binding in one calling context.
pub(super) type Variable = u32;
/// An object, by the place in the source that makes it and the calling context.
pub(super) type ObjectId = u32;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Call(CallId),
    /// A field of `args`; empty for `args` as a whole.
    Input(String),
}

/// What a value may refer to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pointer {
    Arguments,
    Tools,
    Server(String),
    Tool(String, String),
    /// A member of `tools` whose name is not known.
    ComputedTool,
    Capabilities,
    Capability(String),
    Function(u32),
    Class(u32),
    Object(ObjectId),
    /// A global object or function of the language.
    Global(String),
    /// The function that fulfils the promise that the object stands for.
    Resolver(ObjectId),
}

impl Pointer {
    /// Leads to a tool or capability.
    pub(super) const fn is_way_out(&self) -> bool {
        matches!(
            self,
            Self::Tools | Self::Server(_) | Self::Tool(..) | Self::ComputedTool | Self::Capabilities | Self::Capability(_)
        )
    }
}

/// Whether a value is one that stands in the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Known {
    /// Not assigned yet.
    #[default]
    Nothing,
    Exactly(Json, Range<usize>),
    Unknown,
}

/// All that is known about a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Value {
    pub(super) origins: BTreeSet<Origin>,
    pub(super) pointers: BTreeSet<Pointer>,
    pub(super) known: Known,
    /// Calls that have ended when the value is awaited.
    pub(super) pending: BTreeSet<CallId>,
}

impl Value {
    pub(super) fn unknown() -> Self {
        Self { known: Known::Unknown, ..Self::default() }
    }

    pub(super) fn pointing(pointer: Pointer) -> Self {
        Self { pointers: [pointer].into(), ..Self::unknown() }
    }

    pub(super) fn literal(value: Json, span: Range<usize>) -> Self {
        Self { known: Known::Exactly(value, span), ..Self::default() }
    }

    pub(super) fn from_origins(origins: BTreeSet<Origin>) -> Self {
        Self { origins, ..Self::unknown() }
    }

    pub(super) fn text(&self) -> Option<String> {
        match &self.known {
            Known::Exactly(Json::String(text), _) if self.pointers.is_empty() && self.origins.is_empty() => Some(text.clone()),
            Known::Exactly(Json::Number(number), _) if self.pointers.is_empty() => Some(number.to_string()),
            _ => None,
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.origins.extend(other.origins.iter().cloned());
        self.pointers.extend(other.pointers.iter().cloned());
        self.pending.extend(&other.pending);
        match (&self.known, &other.known) {
            (_, Known::Nothing) | (Known::Unknown, _) => {}
            (Known::Nothing, known) => self.known = known.clone(),
            (mine, theirs) if mine == theirs => {}
            _ => self.known = Known::Unknown,
        }
    }

    pub(super) fn joined(mut self, other: &Self) -> Self {
        self.join(other);
        self
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.pointers.iter().filter_map(|pointer| if let Pointer::Object(id) = pointer { Some(*id) } else { None })
    }

    pub(super) fn calls(&self) -> BTreeSet<CallId> {
        self.origins.iter().filter_map(|origin| if let Origin::Call(id) = origin { Some(*id) } else { None }).collect()
    }
}

/// The contents of an object or array.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Object {
    pub(super) fields: BTreeMap<String, Value>,
    /// What may stand under names or indices that are not known.
    pub(super) rest: Value,
    pub(super) is_array: bool,
    /// A promise made by `new Promise`; what it is fulfilled with is its rest.
    pub(super) is_promise: bool,
}

impl Object {
    fn join(&mut self, other: &Self) {
        self.is_array |= other.is_array;
        self.is_promise |= other.is_promise;
        self.rest.join(&other.rest);
        for (name, value) in &other.fields {
            self.fields.entry(name.clone()).or_default().join(value);
        }
    }
}

/// What is known at one place of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) variables: BTreeMap<Variable, Value>,
    pub(super) heap: BTreeMap<ObjectId, Object>,
    /// The calls that have ended last.
    pub(super) frontier: BTreeSet<CallId>,
    /// The calls that nobody has waited for yet.
    pub(super) open: BTreeSet<CallId>,
}

impl State {
    pub(super) fn join(&mut self, other: &Self) {
        for (variable, value) in &other.variables {
            self.variables.entry(*variable).or_default().join(value);
        }
        for (id, object) in &other.heap {
            self.heap.entry(*id).or_default().join(object);
        }
        self.frontier.extend(&other.frontier);
        self.open.extend(&other.open);
    }

    /// The value of the member `name`, or of any member.
    pub(super) fn member(&self, of: &Value, name: Option<&str>) -> Value {
        let mut found = Value::from_origins(of.origins.clone());
        for object in of.objects().filter_map(|id| self.heap.get(&id)) {
            found.join(&object.rest);
            match name {
                Some(name) => found.join(object.fields.get(name).unwrap_or(&Value::unknown())),
                None => object.fields.values().for_each(|value| found.join(value)),
            }
        }
        if let (Some(name), 1, true) = (name, of.pointers.len(), of.origins.is_empty()) {
            // One object, nothing else: what is known about its member is known.
            let only = of.objects().next().and_then(|id| self.heap.get(&id)).filter(|object| object.rest == Value::default());
            if let Some(value) = only.and_then(|object| object.fields.get(name)) {
                found.known = value.known.clone();
            }
        }
        found
    }

    /// Everything that is part of the value, at any depth.
    pub(super) fn deep(&self, value: &Value) -> Value {
        let mut all = value.clone();
        let mut open: Vec<ObjectId> = value.objects().collect();
        let mut seen: BTreeSet<ObjectId> = open.iter().copied().collect();
        while let Some(object) = open.pop().and_then(|id| self.heap.get(&id)) {
            for part in object.fields.values().chain([&object.rest]) {
                all.join(part);
                open.extend(part.objects().filter(|id| seen.insert(*id)));
            }
        }
        if all.pointers.contains(&Pointer::Arguments) {
            all.origins.insert(Origin::Input(String::new()));
        }
        all
    }

    /// The value as JSON, if all of it stands in the source.
    pub(super) fn json(&self, value: &Value, depth: usize) -> Option<Json> {
        if !value.origins.is_empty() || depth == 0 {
            return None;
        }
        if let Known::Exactly(json, _) = &value.known {
            return value.pointers.is_empty().then(|| json.clone());
        }
        let object = match value.pointers.first() {
            Some(Pointer::Object(id)) if value.pointers.len() == 1 => self.heap.get(id)?,
            _ => return None,
        };
        if object.rest != Value::default() {
            return None;
        }
        if object.is_array {
            let element = |at: usize| self.json(object.fields.get(&at.to_string())?, depth - 1);
            return (0..object.fields.len()).map(element).collect::<Option<Vec<_>>>().map(Json::Array);
        }
        let field = |(name, value): (&String, &Value)| Some((name.clone(), self.json(value, depth - 1)?));
        object.fields.iter().map(field).collect::<Option<serde_json::Map<_, _>>>().map(Json::Object)
    }
}
