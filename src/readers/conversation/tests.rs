use super::*;

struct Session {
    conversation: Conversation,
    out: Output,
}

impl Session {
    fn new(options: Options) -> Self {
        Self { conversation: Conversation::new("agent", Arc::new(options)), out: Output::default() }
    }

    fn say(&mut self, words: &str) -> &mut Self {
        self.conversation.request(None, words, None, &mut self.out);
        self
    }

    fn call(&mut self, id: &str, arguments: &str) -> &mut Self {
        let tool = "fs:read".parse().unwrap();
        self.conversation.call(Call { id, tool, arguments: Some(arguments), time: None }, &mut self.out);
        self
    }

    fn answer(&mut self, call: &str, text: &str) -> &mut Self {
        self.conversation.answer(Answer { call, text, outcome: Outcome::of_text(text), time: None });
        self
    }

    fn runs(&mut self) -> Vec<String> {
        self.conversation.finish(&mut self.out);
        let shown =
            |run: &Run| format!("{}: {} {} {}", run.intent, run.steps.len(), run.ending.success, run.ending.basis.name());
        self.out.runs.iter().map(shown).collect()
    }
}

#[test]
fn a_run_ends_where_the_next_request_begins() {
    let mut session = Session::new(Options::default());
    session
        .say("read the file")
        .call("a", "{}")
        .answer("a", "text")
        .say("now write it")
        .call("b", "{}")
        .answer("b", "Error: full");
    assert_eq!(session.runs(), ["read the file: 1 true last call", "now write it: 1 false open"]);
}

#[test]
fn what_the_user_says_next_decides() {
    let mut session = Session::new(Options::default());
    session.say("fix the test").call("a", "{}").answer("a", "done").say("no, that failed");
    session.call("b", "{}").answer("b", "Error: x").say("thanks, it works");
    assert_eq!(session.runs(), ["fix the test: 1 false said by the user", "fix the test: 1 true said by the user"]);
    assert_eq!(session.out.without_calls, 1, "nothing was called after the thanks");
}

#[test]
fn a_short_yes_continues_the_run() {
    let mut session = Session::new(Options::default());
    session.say("clean up").call("a", "{}").answer("a", "shall I?").say("yes").call("b", "{}").answer("b", "done");
    assert_eq!(session.runs(), ["clean up: 2 true open"]);
}

#[test]
fn an_interrupted_or_unanswered_run_has_failed() {
    let mut session = Session::new(Options::default());
    session.say("one").call("a", "{}").answer("a", "x");
    session.conversation.interrupt(&mut session.out);
    session.say("two").call("b", "{}").say("three").call("c", "{}").answer("c", "x");
    assert_eq!(session.runs(), ["one: 1 false interrupted", "two: 1 false a call was never answered", "three: 1 true open"]);
    assert_eq!(session.out.runs[1].steps[0].error_kind.as_deref(), Some("unanswered"));
}

#[test]
fn values_flow_from_results_to_arguments() {
    let mut session = Session::new(Options::default());
    session.say("mail the report").call("a", "{}").answer("a", r#"{"file": "/srv/data/report.pdf"}"#);
    session.call("b", r#"{"attach": "/srv/data/report.pdf"}"#).answer("b", "sent");
    session.runs();
    let steps = &session.out.runs[0].steps;
    assert_eq!(steps[1].depends_on, [steps[0].id.clone()]);
    assert!(steps[0].depends_on.is_empty());
}

#[test]
fn a_long_run_is_continued_by_another() {
    let mut session = Session::new(Options { steps_max: 2, ..Options::default() });
    session.say("much work");
    for id in ["a", "b", "c"] {
        session.call(id, "{}").answer(id, "x");
    }
    assert_eq!(session.runs(), ["much work: 2 true last call", "much work: 1 true open"]);
    let runs = &session.out.runs;
    assert_eq!(runs[1].parent.as_ref(), Some(&runs[0].execution));
    assert_ne!(runs[1].execution, runs[0].execution);
}

#[test]
fn repeated_calls_strange_ids_and_calls_without_a_request_do_no_harm() {
    let mut session = Session::new(Options::default());
    session.call("early", "{}").say("go to work").call("a", "{}").call("a", "{}").answer("a", "x").answer("a", "y");
    session.call("not an id", "{}").answer("not an id", "x").answer("never called", "x");
    assert_eq!(session.runs(), ["go to work: 2 true open"]);
    assert_eq!(session.out.runs[0].steps[1].id.as_str(), "call-2");
    assert_eq!(session.out.without_request, 1);
}

#[test]
fn texts_are_redacted_and_cut() {
    let mut session = Session::new(Options::default());
    let long = format!(r#"{{"api_key": "abcdef123456", "content": "{}"}}"#, "x".repeat(5_000));
    session.say("deploy with password=hunter2hunter2").call("a", &long);
    session.answer("a", &format!("Error: token=abcdef123456abcdef {}", "y ".repeat(500)));
    let numbers = format!("[{}1]", "1,".repeat(ARGUMENTS_LEN_MAX));
    session.call("b", &numbers).answer("b", "x");
    session.runs();
    let run = &session.out.runs[0];
    let shown = format!("{run:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("abcdef123456"), "{shown}");
    assert!(run.steps[0].arguments.as_ref().unwrap().as_str().len() < 700);
    assert!(run.steps[0].error.as_ref().unwrap().len() < LINE_LEN_MAX + 30);
    assert_eq!(run.steps[1].arguments, None, "too long without long strings");
}

#[test]
fn excluded_tools_are_left_out() {
    let mut session = Session::new(Options { excluded_tools: vec!["fs:*".into()], ..Options::default() });
    session.say("read the file").call("a", "{}").answer("a", "text");
    assert_eq!(session.runs(), [""; 0]);
}

#[test]
fn arguments_are_in_the_form_of_the_log_and_escapes_hide_no_secret() {
    let clean = |arguments: &str| clean_arguments(arguments, &Redactor::builtin()).map(|json| json.as_str().to_owned());
    assert_eq!(clean(r#"{ "b" : 1, "a" : "\u0041" }"#).as_deref(), Some(r#"{"a":"A","b":1}"#));
    let secret = r#"{"url":"postgres:\/\/ann:hunter2@db\/x","\u0070assword":"swordfish"}"#;
    assert_eq!(clean(secret).as_deref(), Some(r#"{"password":"[redacted]","url":"postgres://ann:[redacted]@db/x"}"#));
}
