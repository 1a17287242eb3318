//! The frozen forms of events: what `schemas/` promises to producers and what lies in logs on disk may only change on purpose.
//!
//! Schemas and stored forms are generated; samples and `asyncapi.yaml` are written by hand. After a wanted change of the generated
//! ones: `PML_BLESS=1 cargo test --features testing --test it golden`. A stored form of a released version never changes: logs
//! written with it exist.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use pml::core::event::{Event, Kind, NewRecord, cloud, schema, stored};
use pml::core::id::Seq;
use pml::core::time::Timestamp;
use serde_json::{Value, json};

const REGENERATE: &str = "if this is wanted, run: PML_BLESS=1 cargo test --features testing --test it golden";

/// When the samples were taken into the log.
const RECORDED_AT: Timestamp = Timestamp::from_micros(1_769_860_900_000_000);

/// No sample leaves its time out, so nothing may depend on this.
const NOW: Timestamp = Timestamp::from_micros(0);

fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas")
}

fn read(name: &str) -> String {
    fs::read_to_string(schemas().join(name)).unwrap_or_else(|error| panic!("schemas/{name}: {error}; {REGENERATE}"))
}

fn sample_name(kind: Kind, version: u8) -> String {
    format!("event/v{version}/{kind}.json")
}

fn sample(kind: Kind, version: u8) -> Value {
    let name = sample_name(kind, version);
    serde_json::from_str(&read(&name)).unwrap_or_else(|error| panic!("schemas/{name}: {error}"))
}

fn decode(sample: &Value) -> NewRecord {
    cloud::from_structured(sample.to_string().as_bytes(), NOW).unwrap_or_else(|refusal| panic!("{refusal}: {sample}"))
}

fn current(kind: Kind) -> NewRecord {
    decode(&sample(kind, kind.version()))
}

/// Lines of 32 bytes, so that a difference shows where it is.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

fn stored_name(kind: Kind) -> String {
    stored_name_of(kind, kind.version())
}

fn stored_name_of(kind: Kind, version: u8) -> String {
    format!("event/v{version}/{kind}.stored.hex")
}

/// Versions that are no longer written, but lie in logs. Their stored forms are frozen.
const OLD_STORED: [(Kind, u8); 1] = [(Kind::ModelTrained, 1)];

/// Every generated file with its content.
fn generated() -> Vec<(String, String)> {
    let printed = |kind| format!("{:#}\n", schema::for_kind(kind));
    let schemas = Kind::ALL.into_iter().map(|kind| (schema::file_name(kind), printed(kind)));
    let stored = |kind| (stored_name(kind), hex(&stored::encode(&current(kind), RECORDED_AT)));
    schemas.chain(Kind::ALL.into_iter().map(stored)).collect()
}

fn bless_if_asked() {
    static BLESSED: Once = Once::new();
    if std::env::var_os("PML_BLESS").is_some() {
        BLESSED.call_once(|| {
            for (name, content) in generated() {
                fs::write(schemas().join(name), content).unwrap();
            }
        });
    }
}

fn files_below(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut files_below(&path));
        } else {
            found.insert(path.strip_prefix(schemas()).unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn schemas_and_stored_forms_have_not_drifted() {
    bless_if_asked();
    for (name, content) in generated() {
        assert_eq!(read(&name), content, "schemas/{name} has drifted; {REGENERATE}");
    }
}

#[test]
fn every_kind_has_its_files_and_there_are_no_others() {
    bless_if_asked();
    let samples =
        Kind::ALL.into_iter().flat_map(|kind| kind.readable_versions().iter().map(move |&version| sample_name(kind, version)));
    let mut expected: BTreeSet<String> = samples.chain(generated().into_iter().map(|(name, _)| name)).collect();
    expected.insert("asyncapi.yaml".to_owned());
    expected.extend(OLD_STORED.map(|(kind, version)| stored_name_of(kind, version)));
    assert_eq!(files_below(&schemas()), expected);
}

#[test]
fn every_sample_is_valid_by_its_schema_and_further_members_are_what_agents_may_send() {
    for kind in Kind::ALL {
        let validator = jsonschema::draft202012::new(&schema::for_kind(kind)).unwrap();
        let mut data = sample(kind, kind.version())["data"].take();
        assert_eq!(validator.iter_errors(&data).map(|error| error.to_string()).collect::<Vec<_>>(), [""; 0], "{kind}");
        data["unheard_of"] = json!(1);
        assert_eq!(validator.is_valid(&data), kind.is_publishable(), "{kind} with a further member");
    }
}

#[test]
fn what_the_schema_requires_is_what_the_decoder_requires() {
    for kind in Kind::ALL {
        let given = sample(kind, kind.version());
        let validator = jsonschema::draft202012::new(&schema::for_kind(kind)).unwrap();
        for name in given["data"].as_object().unwrap().keys() {
            let mut without = given.clone();
            without["data"].as_object_mut().unwrap().remove(name);
            let decoded = cloud::from_structured(without.to_string().as_bytes(), NOW);
            // The one rule between members, told in the description of the schema.
            if kind == Kind::FeedbackGiven && name == "prediction" {
                assert_eq!(decoded.unwrap_err().field(), "data.prediction");
                continue;
            }
            assert_eq!(validator.is_valid(&without["data"]), decoded.is_ok(), "{kind} without {name}: {decoded:?}");
        }
    }
}

#[test]
fn every_sample_is_printed_as_it_was_read() {
    for kind in Kind::ALL {
        let given = sample(kind, kind.version());
        let fact = decode(&given);
        assert_eq!(fact.event.kind(), kind);
        assert_eq!(cloud::to_structured(&fact), given, "{kind}");
    }
}

#[test]
fn how_a_sample_is_laid_out_does_not_matter() {
    for kind in Kind::ALL {
        let laid_out = read(&sample_name(kind, kind.version()));
        assert_eq!(cloud::from_structured(laid_out.as_bytes(), NOW).unwrap(), current(kind), "{kind}");
    }
}

#[test]
fn every_sample_survives_binary_mode() {
    for kind in Kind::ALL {
        let fact = current(kind);
        let (headers, body) = cloud::to_binary(&fact);
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        assert_eq!(cloud::receive_binary(headers, &body, NOW.into()).unwrap().fact, fact, "{kind}");
    }
}

#[test]
fn a_version_0_tool_is_the_version_1_tool_it_became() {
    let old = sample(Kind::ToolRegistered, 0);
    let mut new = old.clone();
    new["dataschema"] = json!(Kind::ToolRegistered.schema_uri(1));
    let data = &old["data"];
    new["data"] = json!({
        "tool": "fs:read_file", "server": data["server_id"], "name": data["name"],
        "description": data["description"], "input_schema": data["input_schema"],
    });
    assert_eq!(decode(&old), decode(&new));
}

#[test]
fn every_stored_form_is_read_back_as_the_sample() {
    bless_if_asked();
    for kind in Kind::ALL {
        let record = stored::decode(Seq(118), &unhex(&read(&stored_name(kind)))).unwrap();
        assert_eq!((record.seq, record.recorded_at), (Seq(118), RECORDED_AT), "{kind}");
        assert_eq!(*record.fact, current(kind), "{kind}");
    }
}

#[test]
fn what_older_versions_stored_is_read_as_their_samples() {
    for (kind, version) in OLD_STORED {
        let bytes = unhex(&read(&stored_name_of(kind, version)));
        let record = stored::decode(Seq(118), &bytes).unwrap();
        assert_eq!(*record.fact, decode(&sample(kind, version)), "{kind} v{version}");
        for len in 0..bytes.len() {
            assert!(stored::decode(Seq(118), &bytes[..len]).is_err(), "{kind} v{version} cut to {len}");
        }
        let now = stored::encode(&record.fact, RECORDED_AT);
        assert_eq!(stored::decode(Seq(118), &now).unwrap(), record, "{kind} v{version} in today's form");
    }
    let without = decode(&sample(Kind::ModelTrained, 1)).event;
    assert!(matches!(&without, Event::ModelTrained(run) if run.curve.is_empty()), "{without:?}");
}

#[test]
fn a_stored_form_cut_short_is_corrupt_and_never_another_event() {
    for kind in Kind::ALL {
        let bytes = stored::encode(&current(kind), RECORDED_AT);
        for len in 0..bytes.len() {
            assert!(stored::decode(Seq(1), &bytes[..len]).is_err(), "{kind} cut to {len} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn samples_use_the_optional_members() {
    // A member no sample uses is a member whose form may drift unnoticed. `suggestion` excludes `prediction`.
    for kind in Kind::ALL {
        let schema = schema::for_kind(kind);
        let used = sample(kind, kind.version());
        let unused: Vec<&String> =
            schema["properties"].as_object().unwrap().keys().filter(|name| used["data"].get(name.as_str()).is_none()).collect();
        let expected: &[&str] = if kind == Kind::FeedbackGiven { &["suggestion"] } else { &[] };
        assert_eq!(unused, expected, "{kind}");
    }
    assert!(matches!(current(Kind::StepStarted).event, Event::StepStarted(step) if step.arguments.is_some()));
}

/// Every `$ref` in a YAML or JSON document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get("$ref") {
                found.push(target.clone());
            }
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn asyncapi_refers_to_what_exists_and_leaves_no_kind_out() {
    let document: Value = serde_saphyr::from_str(&read("asyncapi.yaml")).unwrap();
    let mut targets = Vec::new();
    references(&document, &mut targets);
    for target in &targets {
        match target.strip_prefix('#') {
            Some(pointer) => assert!(document.pointer(pointer).is_some(), "asyncapi.yaml: nothing at {target}"),
            None => assert!(schemas().join(target).is_file(), "asyncapi.yaml: no file {target}"),
        }
    }
    let names: BTreeSet<&str> = document["components"]["messages"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(|message| message["name"].as_str()?.strip_prefix("pml."))
        .collect();
    assert_eq!(names, Kind::ALL.into_iter().map(Kind::name).collect(), "messages");
    for kind in Kind::ALL {
        assert!(targets.contains(&format!("./{}", schema::file_name(kind))), "asyncapi.yaml: {kind} has no payload");
        let message = format!("#/channels/log/messages/{kind}");
        assert!(targets.contains(&message), "asyncapi.yaml: no operation carries {message}");
        let published = targets.contains(&format!("#/channels/in/messages/{kind}"));
        assert_eq!(published, kind.is_publishable(), "asyncapi.yaml: {kind} on the subject agents publish to");
    }
}
