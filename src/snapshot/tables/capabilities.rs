//! The table `capabilities` holds the capabilities in the order of the log; the row number is the capability's position. `members`
//! holds the tools and capabilities that each one calls.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, BooleanArray, LargeStringArray, ListArray, RecordBatch, UInt32Array, UInt64Array};

use super::super::columns::{Columns, TableRows, number_lists, optional_texts, text_at, text_lists, texts};
use super::super::error::Unreadable;
use crate::core::capability::decided::Decisions;
use crate::core::capability::{Capabilities, Capability, Status, Structure};
use crate::core::event::Json;
use crate::core::graph::Node;
use crate::core::id::{Callee, Seq};
use crate::core::state::State;

pub(in super::super) const CAPABILITIES: &str = "capabilities";
pub(in super::super) const MEMBERS: &str = "members";

pub(super) fn capabilities(state: &State) -> Vec<RecordBatch> {
    let rows = || state.capabilities.rows();
    let count = |get: fn(&Capability) -> u64| UInt64Array::from_iter_values(rows().map(get));
    let flow = |get: fn(&(u16, u16)) -> u16| {
        number_lists::<UInt16Type>(rows().map(move |row| row.structure.flow.iter().map(get).collect::<Vec<_>>()))
    };
    let columns = Columns::default()
        .with("node", UInt32Array::from_iter_values((0..).take(rows().len()).map(|at| Node::capability(at).to_bits())))
        .with("capability", texts(rows().map(|row| row.id.to_string())))
        .with("handle", texts(rows().map(|row| &*row.handle)))
        .with("name", texts(rows().map(|row| &row.name)))
        .with("description", texts(rows().map(|row| &row.description)))
        .with("status", texts(rows().map(|row| row.status.name())))
        .with("level", UInt32Array::from_iter_values(rows().map(|row| row.level)))
        .with("usage", count(|row| row.usage))
        .with("successes", count(|row| row.successes))
        .with("duration_total_ms", count(|row| row.duration_total_ms))
        .with_optional("code", optional_texts(rows().map(|row| row.code.as_deref())))
        .with_optional("parameters_schema", optional_texts(rows().map(|row| row.parameters_schema.as_ref().map(Json::as_str))))
        .with_optional("own_name", optional_texts(rows().map(|row| row.decided.own_name.as_deref())))
        .with_optional("own_status", optional_texts(rows().map(|row| row.decided.own_status.map(Status::name))))
        .with_optional("merged_into", rows().map(|row| row.decided.merged_into).collect::<UInt32Array>())
        .with("retired", rows().map(|row| Some(row.decided.retired)).collect::<BooleanArray>())
        .with("first_seq", count(|row| row.first_seq.0))
        .with("last_seq", count(|row| row.last_seq.0))
        .with("calls", text_lists(rows().map(|row| row.structure.calls.iter().map(Callee::text))))
        .with("flow_from", flow(|(from, _)| *from))
        .with("flow_to", flow(|(_, to)| *to))
        .with("intents", text_lists(rows().map(|row| row.intents.iter())));
    vec![columns.batch()]
}

pub(super) fn members(state: &State) -> Vec<RecordBatch> {
    let members = || {
        (0..)
            .zip(state.capabilities.rows())
            .flat_map(|(position, row)| row.members.iter().map(move |member| (Node::capability(position), row.id, *member)))
    };
    let columns = Columns::default()
        .with("capability_node", UInt32Array::from_iter_values(members().map(|(node, _, _)| node.to_bits())))
        .with("capability", texts(members().map(|(_, id, _)| id.to_string())))
        .with("member_node", UInt32Array::from_iter_values(members().map(|(_, _, member)| member.to_bits())))
        .with("member", texts(members().map(|(_, _, member)| state.callee(member).to_string())));
    vec![columns.batch()]
}

/// The columns of `members` that a restore needs.
pub(in super::super) const MEMBER_NODES: [&str; 2] = ["capability_node", "member_node"];

pub(in super::super) fn read_capabilities(rows: &TableRows, members: &TableRows) -> Result<Capabilities, Unreadable> {
    let text = |name| rows.column::<LargeStringArray>(name);
    let count = |name| rows.column::<UInt64Array>(name);
    let (ids, names, descriptions, statuses) = (text("capability")?, text("name")?, text("description")?, text("status")?);
    let handles = text("handle")?;
    let (codes, schemas) = (text("code")?, text("parameters_schema")?);
    let levels = rows.column::<UInt32Array>("level")?;
    let (usage, successes, durations) = (count("usage")?, count("successes")?, count("duration_total_ms")?);
    let (first, last) = (count("first_seq")?, count("last_seq")?);
    let structures = StructureColumns::from_rows(rows)?;
    let intents = rows.column::<ListArray>("intents")?;
    let decisions = DecisionColumns::from_rows(rows)?;
    let mut capabilities = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let remembered = intents.value(row);
        let remembered = remembered.as_string::<i64>();
        capabilities.push(Capability {
            id: ids.value(row).parse().map_err(|problem| rows.unreadable("capability", problem))?,
            handle: handles.value(row).into(),
            name: names.value(row).to_owned(),
            description: descriptions.value(row).to_owned(),
            status: status(rows, "status", statuses.value(row))?,
            structure: Arc::new(structures.at(row)?),
            members: Vec::new(),
            parents: std::collections::BTreeSet::new(),
            level: levels.value(row),
            usage: usage.value(row),
            successes: successes.value(row),
            duration_total_ms: durations.value(row),
            code: text_at(codes, row).map(str::to_owned),
            parameters_schema: text_at(schemas, row).map(Json::from_valid),
            decided: decisions.at(row)?,
            intents: remembered.iter().flatten().map(Arc::from).collect(),
            first_seq: Seq(first.value(row)),
            last_seq: Seq(last.value(row)),
        });
    }
    fill_members(&mut capabilities, members)?;
    Ok(Capabilities::from_rows(capabilities))
}

fn status(rows: &TableRows, column: &'static str, name: &str) -> Result<Status, Unreadable> {
    let found = Status::ALL.into_iter().find(|status| status.name() == name);
    found.ok_or_else(|| rows.unreadable(column, format!("holds '{name}'")))
}

/// The columns of what people decided.
struct DecisionColumns<'a> {
    rows: &'a TableRows,
    own_names: &'a LargeStringArray,
    own_statuses: &'a LargeStringArray,
    merged_into: &'a UInt32Array,
    retired: &'a BooleanArray,
}

impl<'a> DecisionColumns<'a> {
    fn from_rows(rows: &'a TableRows) -> Result<Self, Unreadable> {
        Ok(Self {
            rows,
            own_names: rows.column("own_name")?,
            own_statuses: rows.column("own_status")?,
            merged_into: rows.column("merged_into")?,
            retired: rows.column("retired")?,
        })
    }

    fn at(&self, row: usize) -> Result<Decisions, Unreadable> {
        let merged_into = self.merged_into.is_valid(row).then(|| self.merged_into.value(row));
        if merged_into.is_some_and(|into| into as usize >= self.rows.len()) {
            return Err(self.rows.unreadable("merged_into", format!("names no capability in row {row}")));
        }
        Ok(Decisions {
            own_name: text_at(self.own_names, row).map(str::to_owned),
            own_status: text_at(self.own_statuses, row).map(|name| status(self.rows, "own_status", name)).transpose()?,
            merged_into,
            retired: self.retired.value(row),
        })
    }
}

/// The columns that a capability's structure is read from.
struct StructureColumns<'a> {
    rows: &'a TableRows,
    calls: &'a ListArray,
    from: &'a ListArray,
    to: &'a ListArray,
}

impl<'a> StructureColumns<'a> {
    fn from_rows(rows: &'a TableRows) -> Result<Self, Unreadable> {
        Ok(Self { rows, calls: rows.column("calls")?, from: rows.column("flow_from")?, to: rows.column("flow_to")? })
    }

    fn at(&self, row: usize) -> Result<Structure, Unreadable> {
        let calls = self.calls.value(row);
        let calls = calls.as_string::<i64>().iter().flatten();
        let callee = |text: &str| text.parse::<Callee>().map_err(|problem| self.rows.unreadable("calls", problem));
        let (from, to) = (self.from.value(row), self.to.value(row));
        let (from, to) = (from.as_primitive::<UInt16Type>().values(), to.as_primitive::<UInt16Type>().values());
        Ok(Structure {
            calls: calls.map(callee).collect::<Result<_, _>>()?,
            flow: from.iter().copied().zip(to.iter().copied()).collect(),
        })
    }
}

/// Adds the members to their capabilities. The rows are sorted by capability and then by node, like the members in the state.
fn fill_members(capabilities: &mut [Capability], members: &TableRows) -> Result<(), Unreadable> {
    let [of, nodes] = MEMBER_NODES.map(|name| members.column::<UInt32Array>(name));
    let (of, nodes) = (of?, nodes?);
    let known = capabilities.len();
    for row in 0..members.len() {
        let (node, position) = (Node::from_bits(nodes.value(row)), of.value(row) >> 1);
        let holds = |kind| match kind {
            crate::core::graph::NodeKind::Capability(child) => (child as usize) < known,
            crate::core::graph::NodeKind::Tool(_) => true,
        };
        let capability = capabilities.get_mut(position as usize).filter(|_| holds(node.kind()));
        let unknown = || members.unreadable("capability_node", format!("names no capability in row {row}"));
        capability.ok_or_else(unknown)?.members.push(node);
    }
    Ok(())
}
