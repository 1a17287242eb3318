//! Settings on top of settings: files and variables as tables of TOML, one merged over the other.

use std::path::Path;

use toml::{Table, Value};

use super::ConfigError;

pub(super) fn read(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    text.parse().map_err(|error: toml::de::Error| invalid(&path.display().to_string(), error.message()))
}

pub(super) fn invalid(origin: &str, problem: impl ToString) -> ConfigError {
    ConfigError::Invalid { origin: origin.to_owned(), problem: problem.to_string() }
}

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

/// `section__key` and a value as nested tables. A value that is not TOML by itself is a string.
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
