//! Layers of settings: files and environment variables as TOML tables, merged one over the other.

use std::path::Path;

use toml::{Table, Value};

use super::{Config, ConfigError, DEFAULTS, ENV_PREFIX};
use crate::core::redact::Redactor;

/// Keys whose values are never shown.
const SECRETS: [(&str, &str); 3] = [("nats", "password"), ("nats", "token"), ("nats", "nkey_seed")];
pub(super) const HIDDEN: &str = "(hidden)";

/// The settings that the program brings.
pub(super) fn defaults() -> Table {
    DEFAULTS.parse().expect("the compiled-in defaults are TOML")
}

impl Config {
    /// Returns the settings that [`Self::load`] gives, as they would stand in a file, with secrets hidden.
    pub fn effective(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Table, ConfigError> {
        let environment: Vec<(String, String)> = environment.into_iter().collect();
        Self::load(file, environment.iter().cloned())?;
        let mut table = defaults();
        if let Some(path) = file {
            merge(&mut table, read(path)?);
        }
        let keys = environment.iter().filter_map(|(name, value)| nested(&name.strip_prefix(ENV_PREFIX)?.to_lowercase(), value));
        keys.for_each(|key| merge(&mut table, key));
        hide_secrets(&mut table);
        Ok(table)
    }
}

/// Returns the settings that differ from the defaults.
pub fn changed(settings: &Table) -> Table {
    fn difference(settings: &Table, defaults: &Table) -> Table {
        let differing = settings.iter().filter_map(|(key, value)| match (value, defaults.get(key)) {
            (Value::Table(value), Some(Value::Table(default))) => {
                let inner = difference(value, default);
                (!inner.is_empty()).then(|| (key.clone(), Value::Table(inner)))
            }
            (value, default) => (default != Some(value)).then(|| (key.clone(), value.clone())),
        });
        differing.collect()
    }
    difference(settings, &defaults())
}

/// Hides secrets by their keys, and those inside other texts, such as passwords in addresses, by their shapes.
pub(super) fn hide_secrets(settings: &mut Table) {
    fn clean(value: &mut Value) {
        match value {
            Value::String(text) => Redactor::builtin().clean(text),
            Value::Array(items) => items.iter_mut().for_each(clean),
            Value::Table(table) => table.iter_mut().for_each(|(_, value)| clean(value)),
            _ => {}
        }
    }
    settings.iter_mut().for_each(|(_, value)| clean(value));
    for (section, key) in SECRETS {
        match settings.get_mut(section).and_then(|section| section.get_mut(key)) {
            Some(Value::String(text)) if !text.is_empty() => HIDDEN.clone_into(text),
            _ => {}
        }
    }
}

/// Hides secrets inside texts by their shapes, and where the machine keeps its files, which no answer tells.
pub(super) fn hide_shapes(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) if text.starts_with('/') || text.starts_with("file:") => HIDDEN.clone_into(text),
        serde_json::Value::String(text) => Redactor::builtin().clean(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(hide_shapes),
        serde_json::Value::Object(members) => members.values_mut().for_each(hide_shapes),
        _ => {}
    }
}

/// Reads a TOML file.
pub(super) fn read(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    text.parse().map_err(|error: toml::de::Error| invalid(&path.display().to_string(), error.message()))
}

/// Creates the error for a source of settings that is not valid.
pub(super) fn invalid(origin: &str, problem: impl ToString) -> ConfigError {
    ConfigError::Invalid { origin: origin.to_owned(), problem: problem.to_string() }
}

/// Merges `overrides` into `base`; tables are merged key by key, other values replaced.
pub(super) fn merge(base: &mut Table, overrides: Table) {
    for (key, value) in overrides {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(overrides)) => merge(base, overrides),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Returns nested tables for `section__key` and a value. A value that is not TOML is a string. `None` if a part of the path is empty.
pub(super) fn nested(path: &str, value: &str) -> Option<Table> {
    let (first, rest) = path.split_once("__").map_or((path, None), |(first, rest)| (first, Some(rest)));
    if first.is_empty() {
        return None;
    }
    let inner = if let Some(rest) = rest {
        Value::Table(nested(rest, value)?)
    } else {
        let parsed: Option<Table> = format!("value = {value}").parse().ok();
        parsed.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(value.to_owned()))
    };
    Some(Table::from_iter([(first.to_owned(), inner)]))
}
