//! The values inside a JSON value.

use serde_json::Value;

/// Values read from one call; the rest is ignored.
const LEAVES_MAX: usize = 1_000;

/// Returns the texts and numbers of a JSON value, in order.
pub(super) fn leaves(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    if found.len() >= LEAVES_MAX {
        return;
    }
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Number(number) => found.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => members.values().for_each(|member| collect(member, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_numbers_are_found_at_every_depth_up_to_the_limit() {
        assert_eq!(leaves(&json!({"a": ["x", {"b": 7}], "c": null, "d": true, "e": "y"})), ["x", "7", "y"]);
        assert_eq!(leaves(&json!(vec!["x"; 5_000])).len(), LEAVES_MAX);
    }
}
