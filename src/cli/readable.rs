//! Answers for people: capabilities by their handles.

use serde_json::{Map, Value};

/// The answer with the handles that it carries in the place of the ids of capabilities.
pub(super) fn readable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(Value::Object(handles)) = answer.get_mut("handles").map(Value::take) {
        replace(&mut answer, &handles);
    }
    answer
}

fn replace(value: &mut Value, handles: &Map<String, Value>) {
    match value {
        Value::String(text) => {
            if let Some(handle) = handles.get(text.as_str()).and_then(Value::as_str) {
                *text = format!("capability:{handle}");
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| replace(element, handles)),
        Value::Object(members) => members.values_mut().for_each(|member| replace(member, handles)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_of_capabilities_become_handles_wherever_they_stand() {
        let answer = json!({"handles": {"capability:01": "list-and-pack"}, "tool": "capability:01",
            "path": {"steps": ["fs:list", "capability:01", "capability:02"]}});
        let shown = readable(&answer);
        assert_eq!(shown["tool"], "capability:list-and-pack");
        assert_eq!(shown["path"]["steps"], json!(["fs:list", "capability:list-and-pack", "capability:02"]));
    }
}
