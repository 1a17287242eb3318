//! The targets: each decoder with its samples, its limits and the number of inputs that it gets in CI.

mod events;
mod mcp;
mod models;
mod process;
mod readers;
mod requests;
mod settings;
mod snapshots;
mod stored;

use std::time::Duration;

use pml::readers::Format;
use pml_fuzzer::{Form, Target};

/// Name, number of inputs in CI, and how the target is made.
type Entry = (&'static str, u64, fn() -> Target);

/// A new decoder is one more line here, with its function in one of the files of `targets/`. CI's inputs are the same ones every time;
/// `scripts/soak` has other ones each time, and many more.
pub(crate) fn all() -> Vec<Entry> {
    vec![
        ("cloudevents", 7_000, events::structured),
        ("batch", 3_000, events::batch),
        ("headers", 7_000, events::binary),
        ("recorded", 5_000, events::recorded),
        ("stream", 5_000, events::stream_message),
        ("run", 5_000, events::run_document),
        ("workflow", 5_000, events::workflow),
        ("ids", 14_000, events::ids),
        ("subjects", 14_000, events::subjects),
        ("stored", 20_000, stored::record),
        ("block", 10_000, stored::block),
        ("id_run", 10_000, stored::id_run),
        ("letter", 10_000, stored::letter),
        ("backup", 4_000, stored::backup),
        ("journal", 2_000, stored::journal),
        ("stream_ids", 150, stored::stream_ids),
        ("parameters", 1_000, models::parameters),
        ("manifest", 500, snapshots::manifest),
        ("tables", 120, snapshots::tables),
        ("parquet", 150, snapshots::parquet_bytes),
        ("archive", 200, snapshots::archive),
        ("config", 300, settings::configuration),
        ("servers", 2_000, settings::servers),
        ("templates", 700, settings::templates),
        ("typescript", 700, settings::typescript),
        ("http", 500, requests::http),
        ("mcp", 500, mcp::messages),
        ("upstream", 3_000, mcp::server_messages),
        ("tools", 2_000, mcp::tool_list),
        ("otlp_protobuf", 3_000, readers::otlp_protobuf),
        ("otlp_json", 1_500, readers::otlp_json),
        ("claude-code", 700, || readers::of_format(Format::ClaudeCode, "claude_code.jsonl")),
        ("codex", 700, || readers::of_format(Format::Codex, "codex.jsonl")),
        ("messages", 700, || readers::of_format(Format::Messages, "messages.jsonl")),
        ("mcpproxy", 700, || readers::of_format(Format::Mcpproxy, "mcpproxy.jsonl")),
        ("gateway-audit", 700, || readers::of_format(Format::GatewayAudit, "gateway_audit.jsonl")),
        ("otlp", 700, || readers::of_format(Format::Otlp, "otlp.jsonl")),
        ("jaeger", 700, || readers::of_format(Format::Jaeger, "jaeger.json")),
        ("spans", 700, || readers::of_format(Format::SpanRows, "spans.jsonl")),
        ("langfuse", 700, || readers::of_format(Format::Langfuse, "langfuse.json")),
        ("langsmith", 700, || readers::of_format(Format::Langsmith, "langsmith.jsonl")),
        ("hook", 2_000, readers::hook),
        ("skill", 2_000, readers::skill),
    ]
}

/// Memory per byte of JSON that is read as a tree: an object with one member takes four bytes as text and a node of a map in memory.
const JSON_TREE_MULTIPLE: usize = 1_024;

/// A target with limits that suit a decoder that copies what it reads a few times.
fn target(
    name: &'static str,
    form: Form,
    samples: Vec<Vec<u8>>,
    words: &'static [&'static str],
    read: impl FnMut(&[u8]) -> Result<(), String> + 'static,
) -> Target {
    let read = Box::new(read);
    Target { name, form, samples, words, memory_multiple: 64, memory_fixed: 64 << 10, time_max: Duration::from_secs(5), read }
}

#[test]
fn every_format_that_readers_know_is_a_target() {
    let targets = all();
    for format in Format::ALL {
        assert!(targets.iter().any(|(name, ..)| *name == format.name()), "'{}' is no target", format.name());
    }
}
