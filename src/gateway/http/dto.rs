//! The JSON types of HTTP responses, with the conversions from domain types.

use schemars::JsonSchema;
use serde::Serialize;

use crate::log::DeadLetter;
use crate::publisher::Verdict;

/// The response to published events.
#[derive(Serialize, JsonSchema)]
pub(super) struct PublishAnswer {
    accepted: usize,
    duplicate: usize,
    refused: usize,
    /// One per event, in the order they were sent.
    results: Vec<PublishResult>,
}

/// The response to a whole run: its id, and the results of its events.
#[derive(Serialize, JsonSchema)]
pub(super) struct RunAnswer {
    pub(super) execution: String,
    /// Members of the document that were ignored, since it has none of that name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ignored: Vec<String>,
    #[serde(flatten)]
    pub(super) events: PublishAnswer,
}

#[derive(Serialize, JsonSchema)]
struct PublishResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<RefusalDto>>,
    /// Members that were ignored because this kind of event has none of that name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
struct RefusalDto {
    reason: &'static str,
    field: String,
    message: String,
}

impl PublishAnswer {
    /// `given` holds the id of each event and what was ignored of it.
    pub(super) fn new(given: Vec<(Option<String>, Vec<String>)>, verdicts: Vec<Verdict>) -> Self {
        let count = |status: &str, results: &[PublishResult]| results.iter().filter(|result| result.status == status).count();
        let results: Vec<PublishResult> =
            given.into_iter().zip(verdicts).map(|((id, ignored), verdict)| publish_result(id, ignored, &verdict)).collect();
        Self {
            accepted: count("accepted", &results),
            duplicate: count("duplicate", &results),
            refused: count("refused", &results),
            results,
        }
    }
}

fn publish_result(id: Option<String>, ignored: Vec<String>, verdict: &Verdict) -> PublishResult {
    let (status, seq, error) = match verdict {
        Verdict::Accepted { seq } => ("accepted", Some(seq.0), None),
        Verdict::Duplicate { seq } => ("duplicate", Some(seq.0), None),
        Verdict::Refused(refusal) => {
            let (reason, field) = (refusal.reason(), refusal.field().to_owned());
            ("refused", None, Some(Box::new(RefusalDto { reason, field, message: refusal.to_string() })))
        }
    };
    PublishResult { id, status, seq, error, ignored }
}

/// A dead letter.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadLetter")]
pub(crate) struct DeadLetterDto {
    number: u64,
    at: String,
    reason: String,
    field: String,
    message: String,
    origin: String,
    /// The event as received, with secrets redacted; bytes that are not UTF-8 are shown as replacement characters.
    event: String,
    /// Bytes of the whole event, if it was cut. A cut event cannot be sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_from: Option<u64>,
}

impl From<DeadLetter> for DeadLetterDto {
    fn from(DeadLetter { number, at, letter }: DeadLetter) -> Self {
        Self {
            number,
            at: at.to_string(),
            reason: letter.reason,
            field: letter.field,
            message: letter.message,
            origin: letter.origin,
            event: String::from_utf8_lossy(&letter.bytes).into_owned(),
            cut_from: letter.cut_from,
        }
    }
}
