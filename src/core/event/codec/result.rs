//! Conversions of the events that pml itself writes: traces, embeddings, predictions, forks.

use super::{Callee, Cow, DONE, Refusal, Seq, Timestamp, borrowed, domain, owned, parse, parse_all, parse_optional, wire};

impl<'a> From<&'a domain::TraceCompleted> for wire::TraceCompleted<'a> {
    fn from(event: &'a domain::TraceCompleted) -> Self {
        let step = |step: &'a domain::TraceStep| wire::TraceStep {
            step: text!(step.step),
            tool: step.tool.text(),
            depends_on: step.depends_on.iter().map(|on| text!(on)).collect(),
            success: step.success,
            duration_ms: step.duration_ms,
            error_kind: borrowed(step.error_kind.as_ref()),
        };
        Self {
            execution: text!(event.execution),
            session: event.session.as_ref().map(|session| text!(session)),
            agent: borrowed(event.agent.as_ref()),
            intent: text!(event.intent),
            steps: event.steps.iter().map(step).collect(),
            success: event.success,
            started_us: event.started.micros(),
            ended_us: event.ended.micros(),
            abandoned: event.abandoned,
            code: borrowed(event.code.as_ref()),
        }
    }
}

impl TryFrom<wire::TraceCompleted<'_>> for domain::TraceCompleted {
    type Error = Refusal;

    fn try_from(wire: wire::TraceCompleted<'_>) -> Result<Self, Refusal> {
        let step = |step: wire::TraceStep<'_>| {
            Ok(domain::TraceStep {
                step: parse("steps.step", &step.step)?,
                tool: parse("steps.tool", &step.tool)?,
                depends_on: parse_all("steps.depends_on", &step.depends_on)?,
                success: step.success,
                duration_ms: step.duration_ms,
                error_kind: owned(step.error_kind),
            })
        };
        Ok(Self {
            execution: parse("execution", &wire.execution)?,
            session: parse_optional("session", wire.session)?,
            agent: owned(wire.agent),
            intent: wire.intent.into_owned(),
            steps: wire.steps.into_iter().map(step).collect::<Result<_, Refusal>>()?,
            success: wire.success,
            started: Timestamp::from_micros(wire.started_us),
            ended: Timestamp::from_micros(wire.ended_us),
            abandoned: wire.abandoned,
            code: owned(wire.code),
        })
    }
}

impl<'a> From<&'a domain::EmbeddingComputed> for wire::EmbeddingComputed<'a> {
    fn from(event: &'a domain::EmbeddingComputed) -> Self {
        Self {
            text_hash: text!(event.text_hash),
            model: text!(event.model),
            dim: u32::try_from(event.vector.len()).expect("embedding dimensions are small"),
            vector: event.vector.clone(),
        }
    }
}

impl TryFrom<wire::EmbeddingComputed<'_>> for domain::EmbeddingComputed {
    type Error = Refusal;

    fn try_from(wire: wire::EmbeddingComputed<'_>) -> Result<Self, Refusal> {
        if wire.vector.len() != wire.dim as usize {
            return Err(Refusal::invalid("data.dim", format!("is {}, but the vector has {}", wire.dim, wire.vector.len())));
        }
        Ok(Self { text_hash: wire.text_hash.into_owned(), model: wire.model.into_owned(), vector: wire.vector })
    }
}

impl<'a> From<&'a domain::PredictionServed> for wire::PredictionServed<'a> {
    fn from(event: &'a domain::PredictionServed) -> Self {
        let ranked = |ranked: &'a domain::RankedOutcome| wire::RankedOutcome {
            item: match &ranked.outcome {
                domain::Outcome::Call(callee) => callee.text(),
                domain::Outcome::Done => Cow::Borrowed(DONE),
            },
            p: ranked.probability,
        };
        Self {
            prediction: event.prediction.to_string().into(),
            execution: event.execution.as_ref().map(|execution| text!(execution)),
            based_on_seq: event.based_on_seq.0,
            model: text!(event.model),
            ranked: event.ranked.iter().map(ranked).collect(),
            threshold: event.threshold,
        }
    }
}

impl TryFrom<wire::PredictionServed<'_>> for domain::PredictionServed {
    type Error = Refusal;

    fn try_from(wire: wire::PredictionServed<'_>) -> Result<Self, Refusal> {
        let ranked = |ranked: wire::RankedOutcome<'_>| {
            let outcome = match &*ranked.item {
                DONE => domain::Outcome::Done,
                callee => domain::Outcome::Call(parse::<Callee>("ranked.item", callee)?),
            };
            Ok(domain::RankedOutcome { outcome, probability: ranked.p })
        };
        Ok(Self {
            prediction: parse("prediction", &wire.prediction)?,
            execution: parse_optional("execution", wire.execution)?,
            based_on_seq: Seq(wire.based_on_seq),
            model: wire.model.into_owned(),
            ranked: wire.ranked.into_iter().map(ranked).collect::<Result<_, Refusal>>()?,
            threshold: wire.threshold,
        })
    }
}

impl<'a> From<&'a domain::LogForked> for wire::LogForked<'a> {
    fn from(event: &'a domain::LogForked) -> Self {
        Self {
            parent_seq: event.parent_seq.0,
            parent_digest: text!(event.parent_digest),
            settings: event.settings.iter().map(|(key, value)| (text!(key), text!(value))).collect(),
        }
    }
}

impl TryFrom<wire::LogForked<'_>> for domain::LogForked {
    type Error = Refusal;

    fn try_from(wire: wire::LogForked<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            parent_seq: Seq(wire.parent_seq),
            parent_digest: wire.parent_digest.into_owned(),
            settings: wire.settings.into_iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect(),
        })
    }
}
