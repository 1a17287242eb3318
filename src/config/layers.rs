//! Layers of settings: files and environment variables as TOML tables, merged one over the other.

use std::path::Path;

use toml::{Table, Value};

use super::ConfigError;

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
