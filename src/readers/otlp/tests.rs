use super::*;
use crate::span::Role;

fn nested(field: u64, inside: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    protobuf::put_bytes(&mut message, field, inside);
    message
}

fn attribute(name: &str, any: &[u8]) -> Vec<u8> {
    [nested(1, name.as_bytes()), nested(2, any)].concat()
}

fn text(value: &str) -> Vec<u8> {
    nested(1, value.as_bytes())
}

/// A span of a tool, as the protocol's field numbers say.
fn span(trace: &[u8], id: &[u8]) -> Vec<u8> {
    let mut span = [nested(1, trace), nested(2, id), nested(4, &[9; 8]), nested(5, b"execute_tool find")].concat();
    for (field, nanos) in [(7_u8, 1_772_800_000_000_000_000_u64), (8, 1_772_800_001_500_000_000)] {
        span.push(field << 3 | 1);
        span.extend(nanos.to_le_bytes());
    }
    let list = nested(
        5,
        &[
            nested(1, &text("a")),
            nested(1, &{
                let mut n = Vec::new();
                protobuf::put_number(&mut n, 3, 7);
                n
            }),
        ]
        .concat(),
    );
    let map = nested(6, &nested(1, &attribute("city", &text("Rome"))));
    span.extend(nested(9, &attribute("gen_ai.operation.name", &text("execute_tool"))));
    span.extend(nested(9, &attribute("gen_ai.tool.call.arguments", &map)));
    span.extend(nested(9, &attribute("gen_ai.tool.call.result", &list)));
    span.extend(nested(11, &[nested(2, b"exception"), nested(3, &attribute("exception.message", &text("boom")))].concat()));
    let mut status = nested(2, b"");
    protobuf::put_number(&mut status, 3, 2);
    span.extend(nested(15, &status));
    span
}

fn request(spans: &[Vec<u8>]) -> Vec<u8> {
    let resource = nested(1, &nested(1, &attribute("service.name", &text("travel"))));
    let scope: Vec<u8> = spans.iter().flat_map(|span| nested(2, span)).collect();
    nested(1, &[resource, nested(2, &scope)].concat())
}

#[test]
fn a_request_in_protobuf_is_read() {
    let mut spans = Vec::new();
    let body = request(&[span(&[0xab; 16], &[1; 8]), span(&[0; 16], &[1; 8]), span(&[1; 16], b"")]);
    let decoded = decode_protobuf(&body, &Redactor::builtin(), &mut |span| spans.push(span));
    assert_eq!(decoded, Ok(Decoded { accepted: 1, rejected: 2 }), "spans without ids are rejected");
    let span = &spans[0];
    assert_eq!((span.trace.as_str(), span.id.as_str()), ("ab".repeat(16).as_str(), "0101010101010101"));
    assert_eq!(span.role, Role::Tool("travel:find".parse().unwrap()));
    assert_eq!(span.arguments.as_deref(), Some(r#"{"city":"Rome"}"#));
    assert_eq!(span.result.as_deref(), Some(r#"["a",7]"#));
    assert_eq!((span.status, span.error.as_deref()), (Status::Error, Some("boom")));
    assert_eq!(span.end.unwrap().millis_since(span.start.unwrap()), 1_500);
}

#[test]
fn protobuf_and_json_give_the_same_span() {
    let json = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"travel"}}]},"scopeSpans":[{"spans":[
        {"traceId":"ABABABABABABABABABABABABABABABAB","spanId":"0101010101010101","parentSpanId":"0909090909090909","name":"execute_tool find",
         "startTimeUnixNano":"1772800000000000000","endTimeUnixNano":1772800001500000000,"status":{"code":2},
         "attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},
            {"key":"gen_ai.tool.call.arguments","value":{"kvlistValue":{"values":[{"key":"city","value":{"stringValue":"Rome"}}]}}},
            {"key":"gen_ai.tool.call.result","value":{"arrayValue":{"values":[{"stringValue":"a"},{"intValue":"7"}]}}}],
         "events":[{"name":"exception","attributes":[{"key":"exception.message","value":{"stringValue":"boom"}}]}]}]}]}]}"#;
    let (mut from_json, mut from_protobuf) = (Vec::new(), Vec::new());
    let redactor = Redactor::builtin();
    decode_json(json.as_bytes(), &redactor, &mut |span| from_json.push(span)).unwrap();
    decode_protobuf(&request(&[span(&[0xab; 16], &[1; 8])]), &redactor, &mut |span| from_protobuf.push(span)).unwrap();
    assert_eq!(from_json, from_protobuf);
}

#[test]
fn what_is_no_request_is_refused() {
    let redactor = Redactor::builtin();
    let mut none = |_: Span| panic!("there is no span");
    assert_eq!(decode_protobuf(&[0xff; 20], &redactor, &mut none), Err(DecodeError::Protobuf));
    for text in ["[", "[]", "", "7", r#"{"resourceSpans": 7}"#] {
        assert_eq!(decode_json(text.as_bytes(), &redactor, &mut none), Err(DecodeError::Json), "{text}");
    }
    assert_eq!(decode_json(b" {}", &redactor, &mut none), Ok(Decoded::default()), "a request may hold nothing");
    assert_eq!(decode_protobuf(b"", &redactor, &mut none), Ok(Decoded::default()));
    let mut cut = request(&[span(&[1; 16], &[1; 8])]);
    cut.truncate(cut.len() - 3);
    assert_eq!(decode_protobuf(&cut, &redactor, &mut none), Err(DecodeError::Protobuf));
}

#[test]
fn values_in_values_are_read_to_a_limit() {
    let mut any = text("deep");
    for _ in 0..100_000 {
        any = nested(5, &nested(1, &any));
        if any.len() > 20_000 {
            break;
        }
    }
    let value = any_value(&any, DEPTH_MAX).unwrap();
    assert!(value.to_string().len() < 100);
}

#[test]
fn answers_follow_the_protocol() {
    assert_eq!((response_protobuf(0, ""), response_json(0, "")), (Vec::new(), "{}".to_owned()));
    let partial = response_protobuf(3, "no ids");
    let fields: Vec<_> = Fields::of(&partial).collect();
    let Ok((1, Value::Bytes(inside))) = fields[0] else { panic!("{fields:?}") };
    let inside: Vec<_> = Fields::of(inside).collect();
    assert_eq!(inside, [Ok((1, Value::Varint(3))), Ok((2, Value::Bytes(b"no ids")))]);
    assert_eq!(response_json(3, "no ids"), r#"{"partialSuccess":{"errorMessage":"no ids","rejectedSpans":"3"}}"#);
}
