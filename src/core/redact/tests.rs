use proptest::prelude::*;

use super::*;

fn check(given: &str, expected: &str) {
    let redactor = Redactor::builtin();
    let clean = redactor.text(given).unwrap_or_else(|| given.to_owned());
    assert_eq!(clean, expected, "{given}");
    assert_eq!(redactor.text(&clean), None, "redaction is idempotent: {clean}");
}

fn check_json(given: &str, expected: &str) {
    let redactor = Redactor::builtin();
    let json = Json::from_valid(given);
    let clean = redactor.json(&json, 2_048).unwrap_or(json);
    assert_eq!(clean.as_str(), expected, "{given}");
    assert!(redactor.json(&clean, 2_048).is_none(), "redaction is idempotent: {clean}");
}

#[test]
fn members_with_the_name_of_a_secret_lose_their_value_at_any_depth() {
    check_json(r#"{"Password":"x","user":"ann"}"#, r#"{"Password":"[redacted]","user":"ann"}"#);
    check_json(r#"{"headers":[{"x-api-key":{"a":1}}]}"#, r#"{"headers":[{"x-api-key":"[redacted]"}]}"#);
    check_json(
        r#"{"auth":"x","jwt":"y","key":"z","pass":"p","pwd":1}"#,
        r#"{"auth":"[redacted]","jwt":"[redacted]","key":"[redacted]","pass":"[redacted]","pwd":"[redacted]"}"#,
    );
    check_json(r#"{"auth":{"password":"x","user":"ann"}}"#, r#"{"auth":{"password":"[redacted]","user":"ann"}}"#);
    check_json(r#"["Bearer abc"]"#, r#"["Bearer [redacted]"]"#);
    check_json(r#"[{"name":"Authorization","value":"x y"}]"#, r#"[{"name":"Authorization","value":"[redacted]"}]"#);
    check_json(r#"["curl","--token","x"]"#, r#"["curl","--token","[redacted]"]"#);
    check_json(r#"{"ghp_0123456789abcdefghij0123":1}"#, r#"{"[redacted]":1}"#);
}

#[test]
fn json_in_strings_is_looked_into() {
    check_json(
        r#"{"body":"{\"password\":\"x\",\"user\":\"ann\"}"}"#,
        r#"{"body":"{\"password\":\"[redacted]\",\"user\":\"ann\"}"}"#,
    );
    check_json(
        r#"{"body":"{\"url\":\"postgres:\\/\\/ann:pw@db\"}"}"#,
        r#"{"body":"{\"url\":\"postgres://ann:[redacted]@db\"}"}"#,
    );
    check(r#"{"url":"postgres:\/\/ann:pw@db"}"#, r#"{"url":"postgres://ann:[redacted]@db"}"#);
    check(r#"{"a":"{\"b\":\"{\\\"token\\\":\\\"x\\\"}\"}"}"#, r#"{"a":"{\"b\":\"{\\\"token\\\":\\\"[redacted]\\\"}\"}"}"#);
    check(
        r#"got {"token": "x1", "n": 1} and {\"token\": \"x2\"}"#,
        r#"got {"token": "[redacted]", "n": 1} and {\"token\": \"[redacted]\"}"#,
    );
}

#[test]
fn harmless_members_stay() {
    for json in [
        r#"{"author":"ann","keyboard":"x","max_tokens":100,"passengers":["ann"],"primary_key":"id"}"#,
        r#"{"has_password":true,"password":null,"secret":"","token_count":7,"usage":{"prompt_tokens":5}}"#,
        r#"{"properties":{"password":{"description":"of the user","type":"string"},"token":{}},"required":["password"]}"#,
        r#"{"auth":{"user":"ann"},"key":7,"pass":true,"token_type":"bearer"}"#,
    ] {
        check_json(json, json);
    }
}

#[test]
fn a_schema_keeps_its_structure_and_loses_the_secrets_it_gives_as_values() {
    check_json(
        r#"{"properties":{"api_key":{"anyOf":[{"default":"a","type":"string"}],"default":"b","enum":["c"],"examples":["d"]}}}"#,
        r#"{"properties":{"api_key":{"anyOf":[{"default":"[redacted]","type":"string"}],"default":"[redacted]","enum":["[redacted]"],"examples":["[redacted]"]}}}"#,
    );
    check_json(r#"{"properties":{"n":{"default":"password=x"}}}"#, r#"{"properties":{"n":{"default":"password=[redacted]"}}}"#);
}

#[test]
fn what_follows_the_name_of_a_secret_in_text_is_redacted() {
    check("password=hunter2", "password=[redacted]");
    check("login with pwd: x", "login with pwd: [redacted]");
    check("api_key=\"a b\" next", "api_key=\"[redacted]\" next");
    check("mysql --password hunter -h db", "mysql --password [redacted] -h db");
    check("Authorization: Bearer x", "Authorization: Bearer [redacted]");
    check("curl -H 'Authorization: Token a b' http://h", "curl -H 'Authorization: Token [redacted]' http://h");
    check("Cookie: a=1; b=2\nHost: h", "Cookie: [redacted]\nHost: h");
    check("AWS_SECRET_ACCESS_KEY=ab/c,d\nHOME=/root", "AWS_SECRET_ACCESS_KEY=[redacted]\nHOME=/root");
    check("AccountName=a;AccountKey=Zm9v==;x", "AccountName=a;AccountKey=[redacted];x");
    check("https://h/p?token=abc&n=1", "https://h/p?token=[redacted]&n=1");
    check("https://h/p?sig=9aF3kQ7xZ2mV8bT4&n=1", "https://h/p?sig=[redacted]&n=1");
    check("the secret is 'open sesame'", "the secret is 'open sesame'");
    check("my token is 9f8e7d6c5b4a39281706", "my token is [redacted]");
    check("Bearer abc", "Bearer [redacted]");
    check("send Bearer a1b2c3d4 along", "send Bearer [redacted] along");
    check("Basic dXNlcjpwYXNz", "Basic [redacted]");
}

#[test]
fn a_secret_beside_a_secret_is_redacted_at_once() {
    check("password--eyJhbGciOi.eyJzdWIiOiIxPASSWORD=--", "password--[redacted]=[redacted]");
    check("password: -----ENDBearer ghp_0123456789abcdefghij0123", "password: [redacted] [redacted]");
    check("Basic password-----ENDghp_0123456789abcdefghij0123=password: ", "Basic [redacted][redacted] ");
}

#[test]
fn addresses_keys_and_tokens_are_redacted_where_they_stand() {
    check("postgres://ann:pw@db:5432/x", "postgres://ann:[redacted]@db:5432/x");
    check(
        "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx",
        "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nx",
    );
    check("-----BEGIN PRIVATE KEY-----\nMII", "-----BEGIN PRIVATE KEY-----[redacted]");
    check("see ghp_0123456789abcdefghij0123.", "see [redacted].");
    check("see hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh.", "see [redacted].");
    check("see hf_AutoModelForTokenClassification.", "see hf_AutoModelForTokenClassification.");
    check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[redacted]");
    check("bot 123456789:AAabcdefghijklmnopqrstuvwxyz0123456 ok", "bot [redacted] ok");
}

#[test]
fn prose_and_code_about_secrets_stay() {
    for text in [
        "password: the one you chose, token: The API token to use",
        "Reset my password and send a token to the author",
        "a basic understanding, the bearer of news, basic auth, Bearer token",
        "token = next_token()\npassword = os.environ[\"PASSWORD\"]",
        "connect(password=password, api_key=api_key, token=${TOKEN}, secret=<secret>)",
        "sorted(items, key=len); max_tokens=100; key: value",
        "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
        "http://localhost:8080/@scope and ann@example.com",
        "risk-adjusted task-oriented sk-learn-compatible-estimators",
        "passenger=ann author=bob",
    ] {
        check(text, text);
    }
}

#[test]
fn long_strings_are_cut_at_a_character_and_say_so() {
    let cut_at_8 = |given: &str| Redactor::builtin().json(&Json::from_valid(given), 8).unwrap();
    assert_eq!(cut_at_8(r#"{"text":"0123456789"}"#).as_str(), r#"{"text":"01234567[cut 2 bytes]"}"#);
    assert_eq!(cut_at_8("\"1234567\u{e9}9\"").as_str(), r#""1234567[cut 3 bytes]""#);
}

#[test]
fn bytes_are_redacted_as_json_or_as_text() {
    let clean = |given: &[u8]| String::from_utf8_lossy(&Redactor::builtin().bytes(given)).into_owned();
    assert_eq!(clean(br#"{"data": {"password": "x"}}"#), r#"{"data":{"password":"[redacted]"}}"#);
    assert_eq!(clean(br#"{"data": {"password": "x"}"#), r#"{"data": {"password": "[redacted]"}"#);
    assert_eq!(clean(br#"{"a": "ghp_0123456789abcdefghij0123", "a": 1}"#), r#"{"a":1}"#);
    assert_eq!(clean(b"\xff token=x"), "\u{fffd} token=[redacted]");
    assert_eq!(Redactor::builtin().bytes(b"\xff\x00 {"), b"\xff\x00 {");
}

#[test]
fn further_patterns_are_replaced_and_checked() {
    let redactor = Redactor::with_extra(&["ACME-[0-9]{4}".to_owned()]).unwrap();
    assert_eq!(redactor.text("ACME-1234 and pwd=x"), Some("[redacted] and pwd=[redacted]".to_owned()));
    assert_eq!(redactor.json(&Json::from_valid(r#"["ACME-1234"]"#), 99).unwrap().as_str(), r#"["[redacted]"]"#);
    let refused = |pattern: &str| Redactor::with_extra(&[pattern.to_owned()]).unwrap_err().to_string();
    assert_eq!(refused("("), "'(' is not a regular expression");
    assert_eq!(refused("a*"), "'a*' matches the empty text");
}

/// Pieces that shapes are made of, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "password",
        "token",
        "key",
        "Authorization",
        "Bearer ",
        "Basic ",
        "=",
        ": ",
        ":",
        "\"",
        "'",
        "\\\"",
        "\\",
        " ",
        "\n",
        "&",
        ";",
        "--",
        "://",
        "@",
        "a",
        "x1",
        "ghp_0123456789abcdefghij0123",
        "9f8e7d6c5b4a39281706",
        "-----BEGIN PRIVATE KEY-----",
        "-----END",
        "{",
        "}",
        "[",
        "]",
        "[redacted]",
        "is ",
        "\u{e9}",
        "eyJhbGciOi.eyJzdWIiOiIx",
        ",",
        "PASSWORD=",
        "<",
        ">",
        "$",
        "(",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn redacting_twice_is_redacting_once(text in pieces()) {
        let redactor = Redactor::builtin();
        let once = redactor.text(&text).unwrap_or(text);
        prop_assert_eq!(redactor.text(&once), None, "{}", once);
        let bytes = redactor.bytes(once.as_bytes());
        prop_assert_eq!(redactor.bytes(&bytes), bytes);
    }
}
