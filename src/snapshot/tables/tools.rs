//! The table `tools` holds every tool that the log mentions, in the order of the log. The row number is the tool's position.

use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, BooleanArray, LargeStringArray, ListArray, RecordBatch, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};

use super::super::columns::{Columns, TableRows, number_lists, optional_texts, optional_times, text_at, texts, time_at};
use super::super::error::Unreadable;
use crate::core::event::{Event, Json, Kind, ToolAnnotations, ToolRegistered, codec};
use crate::core::graph::Node;
use crate::core::state::State;
use crate::core::tool::latency::{BUCKETS, Latency};
use crate::core::tool::{Tool, Tools};

pub(in super::super) const TOOLS: &str = "tools";

pub(super) fn tools(state: &State) -> Vec<RecordBatch> {
    let rows = || state.tools.rows();
    let said = |get: fn(&ToolRegistered) -> Option<&str>| {
        optional_texts(rows().map(move |tool| tool.registration.as_ref().and_then(|registration| get(registration))))
    };
    let hint = |get: fn(&ToolAnnotations) -> Option<bool>| -> BooleanArray {
        rows().map(|tool| tool.registration.as_ref()?.annotations.as_ref().and_then(get)).collect()
    };
    let annotated = |tool: &Tool| tool.registration.as_ref().is_some_and(|registration| registration.annotations.is_some());
    let count = |get: fn(&Tool) -> u64| UInt64Array::from_iter_values(rows().map(get));
    let columns = Columns::default()
        .with("node", UInt32Array::from_iter_values((0..).take(rows().len()).map(|at| Node::tool(at).to_bits())))
        .with("tool", texts(rows().map(|tool| tool.id.as_str())))
        .with("server", texts(rows().map(|tool| tool.id.server())))
        .with_optional("name", said(|registration| Some(&registration.name)))
        .with_optional("description", said(|registration| Some(&registration.description)))
        .with_optional("input_schema", said(|registration| registration.input_schema.as_ref().map(Json::as_str)))
        .with_optional("output_schema", said(|registration| registration.output_schema.as_ref().map(Json::as_str)))
        .with("annotated", rows().map(|tool| Some(annotated(tool))).collect::<BooleanArray>())
        .with_optional("title", said(|registration| registration.annotations.as_ref()?.title.as_deref()))
        .with_optional("read_only", hint(|hints| hints.read_only))
        .with_optional("destructive", hint(|hints| hints.destructive))
        .with_optional("idempotent", hint(|hints| hints.idempotent))
        .with_optional("open_world", hint(|hints| hints.open_world))
        .with("removed", rows().map(|tool| Some(tool.removed)).collect::<BooleanArray>())
        .with("upstream", rows().map(|tool| Some(tool.upstream)).collect::<BooleanArray>())
        .with_optional("quarantined_as", optional_texts(rows().map(|tool| tool.listed.as_deref().map(definition_json))))
        .with_optional("inferred_output", optional_texts(rows().map(|tool| tool.inferred_output.as_ref().map(Json::as_str))))
        .with("calls", count(|tool| tool.calls))
        .with("successes", count(|tool| tool.successes))
        .with("duration_total_ms", count(|tool| tool.duration_total_ms))
        .with("timed_calls", count(|tool| tool.timed_calls))
        .with("latency", number_lists::<UInt32Type>(rows().map(|tool| *tool.latency.counts())))
        .with_optional("last_used", optional_times(rows().map(|tool| tool.last_used)));
    vec![columns.batch()]
}

pub(in super::super) fn read_tools(rows: &TableRows) -> Result<Tools, Unreadable> {
    let text = |name| rows.column::<LargeStringArray>(name);
    let flag = |name| rows.column::<BooleanArray>(name);
    let count = |name| rows.column::<UInt64Array>(name);
    let (ids, names, descriptions) = (text("tool")?, text("name")?, text("description")?);
    let (input, output, titles) = (text("input_schema")?, text("output_schema")?, text("title")?);
    let (annotated, removed) = (flag("annotated")?, flag("removed")?);
    let hints = [flag("read_only")?, flag("destructive")?, flag("idempotent")?, flag("open_world")?];
    let upstream = flag("upstream")?;
    let (listed, inferred) = (text("quarantined_as")?, text("inferred_output")?);
    let (calls, successes) = (count("calls")?, count("successes")?);
    let (durations, timed) = (count("duration_total_ms")?, count("timed_calls")?);
    let latencies = rows.column::<ListArray>("latency")?;
    let last_used = rows.column::<TimestampMicrosecondArray>("last_used")?;
    let json = |column, row| text_at(column, row).map(Json::from_valid);
    let tool = |row: usize| {
        let id: crate::core::id::ToolId = ids.value(row).parse().map_err(|problem| rows.unreadable("tool", problem))?;
        let annotations = annotated.value(row).then(|| {
            let [read_only, destructive, idempotent, open_world] =
                hints.map(|column| column.is_valid(row).then(|| column.value(row)));
            let title = text_at(titles, row).map(str::to_owned);
            ToolAnnotations { title, read_only, destructive, idempotent, open_world }
        });
        let registration = text_at(names, row).map(|name| ToolRegistered {
            tool: id.clone(),
            name: name.to_owned(),
            description: text_at(descriptions, row).unwrap_or_default().to_owned(),
            input_schema: json(input, row),
            output_schema: json(output, row),
            annotations,
        });
        Ok(Tool {
            id,
            registration: registration.map(Arc::new),
            removed: removed.value(row),
            upstream: upstream.value(row),
            listed: text_at(listed, row).map(read_definition).transpose()?.map(Arc::new),
            inferred_output: json(inferred, row),
            calls: calls.value(row),
            successes: successes.value(row),
            duration_total_ms: durations.value(row),
            timed_calls: timed.value(row),
            latency: latency_at(latencies, row).ok_or_else(|| rows.unreadable("latency", "holds no histogram"))?,
            last_used: time_at(last_used, row),
        })
    };
    let tools: Vec<Tool> = (0..rows.len()).map(tool).collect::<Result<_, Unreadable>>()?;
    Ok(Tools::from_rows(tools))
}

/// The histogram of a row; `None` if it has another number of buckets.
fn latency_at(column: &ListArray, row: usize) -> Option<Latency> {
    let counts = column.value(row);
    let counts: &[u32] = counts.as_any().downcast_ref::<UInt32Array>()?.values();
    <[u32; BUCKETS]>::try_from(counts).ok().map(Latency::from_counts)
}

/// A definition as JSON, in the form of the data of `tool.registered`.
fn definition_json(definition: &ToolRegistered) -> String {
    let mut json = Vec::new();
    codec::write_json(&Event::ToolRegistered(definition.clone()), &mut json);
    String::from_utf8(json).expect("JSON is text")
}

fn read_definition(json: &str) -> Result<ToolRegistered, Unreadable> {
    let kind = Kind::ToolRegistered;
    match codec::from_json(kind, kind.version(), json) {
        Ok(Event::ToolRegistered(definition)) => Ok(definition),
        Ok(_) | Err(_) => {
            Err(Unreadable { table: TOOLS, column: "quarantined_as", problem: "holds no definition of a tool".to_owned() })
        }
    }
}
