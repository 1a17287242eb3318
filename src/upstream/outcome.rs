//! What a tool answered, as one JSON value.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// The answer as one value: its structured content; else its only text, parsed if it is JSON; else the text of all text blocks; else the
/// blocks themselves.
pub fn outcome_value(result: &CallToolResult) -> Value {
    if let Some(structured) = &result.structured_content {
        return structured.clone();
    }
    let texts: Vec<&str> = result.content.iter().filter_map(text).collect();
    match texts.as_slice() {
        texts if texts.len() < result.content.len() || texts.is_empty() => {
            serde_json::to_value(&result.content).unwrap_or_default()
        }
        [text] => parsed(text),
        texts => Value::String(texts.join("\n")),
    }
}

/// Text that is a JSON object or array as what it means; other text, numbers included, as it is.
fn parsed(text: &str) -> Value {
    let opens = text.trim_start().starts_with(['{', '[']);
    let value = opens.then(|| serde_json::from_str(text).ok()).flatten();
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(result: Value, expected: Value) {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        assert_eq!(outcome_value(&result), expected);
    }

    #[test]
    fn an_answer_is_its_structure_or_its_text() {
        let text = |text: &str| json!({"type": "text", "text": text});
        check(json!({"content": [text("x")], "structuredContent": {"a": 1}}), json!({"a": 1}));
        check(json!({"content": [text(" {\"a\": [1]}")]}), json!({"a": [1]}));
        check(json!({"content": [text("{not json")]}), json!("{not json"));
        check(json!({"content": [text("12")]}), json!("12"));
        check(json!({"content": [text("a"), text("b")]}), json!("a\nb"));
        check(json!({"content": []}), json!([]));
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        check(json!({"content": [text("a"), image]}), json!([text("a"), image]));
    }
}
