//! The words of a user in the input of a span: plain text, a list of messages, or an object with a member for the question.

use serde_json::Value;

/// How deep an input is looked into.
const DEPTH_MAX: usize = 5;
/// Members that hold a question or the messages, the most telling first.
const QUESTIONS: [&str; 14] = [
    "messages",
    "input",
    "query",
    "question",
    "prompt",
    "task",
    "user_input",
    "user_message",
    "request",
    "goal",
    "text",
    "message",
    "content",
    "kwargs",
];

/// Returns the last thing that a user said in `input`.
pub(crate) fn last_said(input: &str) -> Option<String> {
    let trimmed = input.trim();
    if !trimmed.starts_with(['{', '[', '"']) {
        return Some(trimmed.to_owned()).filter(|text| !text.is_empty());
    }
    match serde_json::from_str(trimmed) {
        Ok(value) => in_value(&value, DEPTH_MAX),
        // Text that happens to begin with a bracket.
        Err(_) => Some(trimmed.to_owned()),
    }
}

fn in_value(value: &Value, depth: usize) -> Option<String> {
    if depth == 0 {
        return None;
    }
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(items) => in_list(items, depth),
        Value::Object(object) => {
            QUESTIONS.iter().filter_map(|name| object.get(*name)).find_map(|value| in_value(value, depth - 1))
        }
        _ => None,
    }
}

/// The last message of a user; lists without roles are arguments, of which the first may be the question.
fn in_list(items: &[Value], depth: usize) -> Option<String> {
    let has_roles = items.iter().any(|item| role(item).is_some());
    if has_roles {
        let users = items.iter().rev().filter(|item| matches!(role(item), Some("user" | "human")));
        return users.into_iter().find_map(|message| said(message, depth));
    }
    items.iter().find_map(|item| in_value(item, depth - 1))
}

/// The role of a message in the forms of OpenAI, LangChain (`type`, or the last word of `id`) and pairs.
fn role(message: &Value) -> Option<&str> {
    let known = |role: &&str| matches!(*role, "user" | "human" | "assistant" | "ai" | "system" | "tool" | "developer");
    let given = message.get("role").or_else(|| message.get("type")).and_then(Value::as_str).filter(known);
    let in_pair = || message.as_array().filter(|pair| pair.len() == 2)?.first()?.as_str().filter(known);
    let class = || match message.get("id")?.as_array()?.last()?.as_str()? {
        "HumanMessage" => Some("human"),
        "AIMessage" => Some("ai"),
        "SystemMessage" => Some("system"),
        "ToolMessage" => Some("tool"),
        _ => None,
    };
    given.or_else(in_pair).or_else(class)
}

fn said(message: &Value, depth: usize) -> Option<String> {
    let content = ["content", "parts"].iter().find_map(|name| message.get(*name));
    let content = content.or_else(|| message.get("kwargs")?.get("content")).or_else(|| message.as_array()?.get(1))?;
    match content {
        Value::Array(parts) => {
            let text = |part: &Value| {
                let text = part.get("text").or_else(|| part.get("content")).unwrap_or(part);
                text.as_str().map(str::to_owned)
            };
            let texts: Vec<String> = parts.iter().filter_map(text).collect();
            Some(texts.join("\n")).filter(|text| !text.trim().is_empty())
        }
        other => in_value(other, depth - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_user_are_found_in_every_form() {
        for input in [
            "book a flight",
            r#""book a flight""#,
            r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"x"},{"role":"user","content":"book a flight"}]"#,
            r#"[{"role":"user","parts":[{"type":"text","content":"book a flight"}]}]"#,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"book a flight"}]}]}"#,
            r#"{"messages":[["human","book a flight"]]}"#,
            r#"{"input":{"question":"book a flight","k":3}}"#,
            r#"{"messages":[[{"id":["langchain","schema","HumanMessage"],"kwargs":{"content":"book a flight"}}]]}"#,
            r#"{"args":[],"kwargs":{"query":"book a flight"}}"#,
            r#"{"messages":[{"type":"human","content":"book a flight"}]}"#,
        ] {
            assert_eq!(last_said(input).as_deref(), Some("book a flight"), "{input}");
        }
        assert_eq!(last_said(r#"{"k": 3}"#), None);
        assert_eq!(last_said(r#"[{"role":"system","content":"x"}]"#), None);
        assert_eq!(last_said("[draft] the plan").as_deref(), Some("[draft] the plan"));
        assert_eq!(last_said(&format!("{}1{}", "[".repeat(100), "]".repeat(100))), None);
    }
}
