//! Subjects and patterns of the bus. They are built and parsed only in this file.
//!
//! A subject is a list of tokens separated by dots: `pml.default.log.step.finished`. In a pattern, `*` stands for one token and `>`,
//! at the end, for one or more. The rules are those of NATS, so that every bus can use the same subjects.
//!
//! Text from outside (a session id may hold any printable character) is encoded byte by byte: `a.b` becomes `a=2Eb`. Different
//! texts give different tokens.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::core::event::Kind;
use crate::core::id::{ExecutionId, SessionId};

/// Longest workspace name, in bytes.
pub const WORKSPACE_LEN_MAX: usize = 64;

const ONE: &str = "*";
const REST: &str = ">";

/// Why a text is not a subject or not a pattern. `Display` is the whole explanation; the caller adds the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSubject {
    #[error("'{0}' has an empty part; parts are separated by single dots")]
    EmptyToken(String),
    #[error("contains {0:?}; subjects hold no spaces and no control characters")]
    Character(char),
    #[error("'{0}' has a wildcard; only patterns may")]
    Wildcard(String),
    #[error("'{0}' has a wildcard inside a part; '*' and '>' stand alone")]
    PartialWildcard(String),
    #[error("'{0}' goes on after '>'")]
    AfterRest(String),
}

/// The subject of a message; it has no wildcards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<str>);

impl Subject {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Subject {
    /// The subject `<self>.<kind>`.
    #[must_use]
    pub fn with_kind(&self, kind: Kind) -> Self {
        Self(format!("{self}.{kind}").into())
    }

    /// Whether a message with this prefix would be stored as an event, a record or a dead letter of some workspace.
    pub fn is_stored(&self) -> bool {
        let mut tokens = self.0.split('.');
        tokens.next() == Some("pml") && tokens.nth(1).is_none_or(|class| ["in", "log", "dead"].contains(&class))
    }
}

impl FromStr for Subject {
    type Err = InvalidSubject;

    fn from_str(text: &str) -> Result<Self, InvalidSubject> {
        check_characters(text)?;
        if text.contains(ONE) || text.contains(REST) {
            return Err(InvalidSubject::Wildcard(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A set of subjects. A subject is a pattern that matches only itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(Arc<str>);

impl Pattern {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the subject is in the set.
    pub fn matches(&self, subject: &Subject) -> bool {
        let mut tokens = subject.0.split('.');
        for wanted in self.0.split('.') {
            match (wanted, tokens.next()) {
                (REST, Some(_)) => return true,
                (ONE, Some(_)) => {}
                (wanted, Some(token)) if wanted == token => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }
}

impl From<Subject> for Pattern {
    fn from(subject: Subject) -> Self {
        Self(subject.0)
    }
}

impl FromStr for Pattern {
    type Err = InvalidSubject;

    fn from_str(text: &str) -> Result<Self, InvalidSubject> {
        check_characters(text)?;
        let mut tokens = text.split('.').peekable();
        while let Some(token) = tokens.next() {
            if token == REST && tokens.peek().is_some() {
                return Err(InvalidSubject::AfterRest(text.to_owned()));
            }
            if token.len() > 1 && (token.contains(ONE) || token.contains(REST)) {
                return Err(InvalidSubject::PartialWildcard(text.to_owned()));
            }
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_characters(text: &str) -> Result<(), InvalidSubject> {
    if let Some(found) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Err(InvalidSubject::Character(found));
    }
    if text.split('.').any(str::is_empty) {
        return Err(InvalidSubject::EmptyToken(text.to_owned()));
    }
    Ok(())
}

/// Why a text is not a workspace. `Display` is the whole explanation; the caller adds the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWorkspace {
    #[error("is empty")]
    Empty,
    #[error("is {len} bytes long, the limit is {WORKSPACE_LEN_MAX}")]
    TooLong { len: usize },
    #[error("contains {0:?}; workspaces are letters, digits, '_' and '-'")]
    Character(char),
}

/// The name that separates installations on the same bus; one process serves one workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workspace(Arc<str>);

impl Workspace {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self("default".into())
    }
}

impl FromStr for Workspace {
    type Err = InvalidWorkspace;

    fn from_str(text: &str) -> Result<Self, InvalidWorkspace> {
        if text.is_empty() {
            return Err(InvalidWorkspace::Empty);
        }
        if let Some(found) = text.chars().find(|&c| !is_plain(c)) {
            return Err(InvalidWorkspace::Character(found));
        }
        if text.len() > WORKSPACE_LEN_MAX {
            return Err(InvalidWorkspace::TooLong { len: text.len() });
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The subjects of one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects {
    workspace: Workspace,
}

impl Subjects {
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Subject of events from agents.
    pub fn input(&self, kind: Kind) -> Subject {
        self.subject("in", kind.name())
    }

    /// Subject of records of the log.
    pub fn log(&self, kind: Kind) -> Subject {
        self.subject("log", kind.name())
    }

    /// Subject of dead letters, by reason.
    pub fn dead(&self, reason: &str) -> Subject {
        self.subject("dead", &encoded_path(reason))
    }

    /// Subject of the predictions for one session.
    pub fn predict(&self, session: &SessionId) -> Subject {
        self.subject("predict", &encoded_token(session.as_str()))
    }

    /// Subject of the predictions for an execution without a session.
    pub fn predict_execution(&self, execution: &ExecutionId) -> Subject {
        self.subject("predict", &encoded_token(execution.as_str()))
    }

    /// Pattern of all predictions.
    pub fn all_predictions(&self) -> Pattern {
        self.all("predict")
    }

    /// Subject of notices, such as a capability that was learnt.
    pub fn notify(&self, what: &str) -> Subject {
        self.subject("notify", &encoded_path(what))
    }

    /// Subject of a question, such as `discover`.
    pub fn question(&self, question: &str) -> Subject {
        self.subject("q", &encoded_path(question))
    }

    /// Subject of a request to run something, such as `execute`.
    pub fn run(&self, request: &str) -> Subject {
        self.subject("run", &encoded_path(request))
    }

    /// Where the holder of a lease answers while it is connected.
    pub(crate) fn lease(&self, what: &str, holder: &str) -> Subject {
        self.subject("lease", &format!("{}.{}", encoded_token(what), encoded_token(holder)))
    }

    /// Where every process answers which roles it runs.
    pub(crate) fn processes(&self) -> Subject {
        self.subject("process", "list")
    }

    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Pattern of all subjects of one class, such as `log`.
    pub(crate) fn all(&self, class: &str) -> Pattern {
        Pattern(format!("pml.{}.{class}.{REST}", self.workspace).into())
    }

    /// Pattern of all notices.
    pub fn all_notices(&self) -> Pattern {
        Pattern(format!("pml.{}.notify.{REST}", self.workspace).into())
    }

    /// Builds a subject; `rest` consists of valid tokens: a kind's name or encoded text.
    fn subject(&self, class: &str, rest: &str) -> Subject {
        Subject(format!("pml.{}.{class}.{rest}", self.workspace).into())
    }
}

/// The kind that a subject of the class `in` or `log` names, whether or not there is one of this name.
pub(crate) fn kind_of_subject(subject: &str) -> &str {
    subject.splitn(4, '.').nth(3).unwrap_or_default()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Encodes a text as one token. `=` is encoded too, so that different texts give different tokens; the empty text becomes `=`,
/// because a token cannot be empty.
fn encoded_token(text: &str) -> String {
    use fmt::Write;
    if text.is_empty() {
        return "=".to_owned();
    }
    text.bytes().fold(String::with_capacity(text.len()), |mut token, byte| {
        if is_plain(byte.into()) {
            token.push(byte.into());
        } else {
            write!(token, "={byte:02X}").expect("writing to memory cannot fail");
        }
        token
    })
}

/// Encodes a text as several tokens, separated by its dots.
fn encoded_path(text: &str) -> String {
    text.split('.').map(encoded_token).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects() -> Subjects {
        Subjects::new("acme".parse().unwrap())
    }

    fn session(text: &str) -> SessionId {
        text.parse().unwrap()
    }

    fn check(pattern: &str, subject: &str, expected: bool) {
        let pattern: Pattern = pattern.parse().unwrap();
        assert_eq!(pattern.matches(&subject.parse().unwrap()), expected, "{pattern} {subject}");
    }

    #[test]
    fn a_star_matches_one_token_and_an_angle_one_or_more() {
        check("a.b", "a.b", true);
        check("a.b", "a", false);
        check("a.b", "a.b.c", false);
        check("a.*", "a.b", true);
        check("a.*", "a.b.c", false);
        check("*.b", "a.b", true);
        check("a.*.c", "a.b.c", true);
        check("a.>", "a.b", true);
        check("a.>", "a.b.c", true);
        check("a.>", "a", false);
        check("*.>", "a", false);
        check(">", "a", true);
    }

    #[test]
    fn malformed_subjects_and_patterns_are_refused() {
        let empty = |text: &str| InvalidSubject::EmptyToken(text.to_owned());
        for text in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(text.parse::<Subject>(), Err(empty(text)), "{text:?}");
            assert_eq!(text.parse::<Pattern>(), Err(empty(text)), "{text:?}");
        }
        for (text, found) in [("a b", ' '), ("a\t", '\t'), ("a.\u{7}", '\u{7}'), ("a\u{a0}b", '\u{a0}')] {
            assert_eq!(text.parse::<Subject>(), Err(InvalidSubject::Character(found)), "{text:?}");
            assert_eq!(text.parse::<Pattern>(), Err(InvalidSubject::Character(found)), "{text:?}");
        }
        for text in ["*", "a.*", "a.>", "a*b", "a>"] {
            assert_eq!(text.parse::<Subject>(), Err(InvalidSubject::Wildcard(text.into())), "{text:?}");
        }
        for text in ["a*", "a.**", "a.>>", "*b.c"] {
            assert_eq!(text.parse::<Pattern>(), Err(InvalidSubject::PartialWildcard(text.into())), "{text:?}");
        }
        assert_eq!("a.>.b".parse::<Pattern>(), Err(InvalidSubject::AfterRest("a.>.b".into())));
    }

    #[test]
    fn workspaces_are_short_plain_words() {
        assert_eq!("Team_1-x".parse::<Workspace>().unwrap().as_str(), "Team_1-x");
        assert_eq!("".parse::<Workspace>(), Err(InvalidWorkspace::Empty));
        assert_eq!("a.b".parse::<Workspace>(), Err(InvalidWorkspace::Character('.')));
        assert_eq!("x".repeat(65).parse::<Workspace>(), Err(InvalidWorkspace::TooLong { len: 65 }));
        assert_eq!(Workspace::default(), "default".parse().unwrap());
    }

    #[test]
    fn subjects_carry_their_workspace_and_class() {
        let subjects = subjects();
        assert_eq!(subjects.input(Kind::StepFinished).as_str(), "pml.acme.in.step.finished");
        assert_eq!(subjects.log(Kind::TraceCompleted).as_str(), "pml.acme.log.trace.completed");
        assert_eq!(subjects.dead("unknown_kind").as_str(), "pml.acme.dead.unknown_kind");
        assert_eq!(subjects.predict(&session("s-1")).as_str(), "pml.acme.predict.s-1");
        assert_eq!(subjects.predict_execution(&"e.1".parse().unwrap()).as_str(), "pml.acme.predict.e=2E1");
        assert!(subjects.all_predictions().matches(&subjects.predict(&session("*"))));
        assert_eq!(subjects.notify("capability.learned").as_str(), "pml.acme.notify.capability.learned");
        assert_eq!(subjects.question("discover").as_str(), "pml.acme.q.discover");
        assert_eq!(subjects.all_notices().as_str(), "pml.acme.notify.>");
        assert!(subjects.all_notices().matches(&subjects.notify("model")));
        assert!(!subjects.all_notices().matches(&Subjects::new(Workspace::default()).notify("model")));
    }

    #[test]
    fn prefixes_whose_messages_pml_would_store_are_recognised() {
        let prefix = |text: &str| text.parse::<Subject>().unwrap();
        assert_eq!(prefix("again.yesterday").with_kind(Kind::StepFinished).as_str(), "again.yesterday.step.finished");
        for stored in ["pml", "pml.default", "pml.default.in", "pml.default.log", "pml.x.dead.y"] {
            assert!(prefix(stored).is_stored(), "{stored}");
        }
        for free in ["again", "pml-again", "pml.default.again", "pml.default.login"] {
            assert!(!prefix(free).is_stored(), "{free}");
        }
    }

    #[test]
    fn different_sessions_never_share_a_subject() {
        let texts = ["a.b", "a=2Eb", "a=2eb", "a", "A", "a*", "a>", "*", ">", ".", "=", "==", "a.b.c", "\\"];
        let mut seen = std::collections::BTreeSet::new();
        for text in texts {
            let subject = subjects().predict(&session(text));
            assert_eq!(subject.as_str().parse(), Ok(subject.clone()), "{text} gives a valid subject");
            assert_eq!(subject.as_str().split('.').count(), 4, "{text} is one token");
            assert!(seen.insert(subject), "{text} is taken");
        }
    }

    #[test]
    fn any_text_gives_a_valid_subject() {
        for text in ["", ".", "two words", "a..b", "\u{e9}", "*"] {
            let subject = subjects().notify(text);
            assert_eq!(subject.as_str().parse(), Ok(subject.clone()), "{text:?}");
        }
    }
}
