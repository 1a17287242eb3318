//! Conversions of the events about trained parts of the model.

use std::sync::Arc;

use super::{Cow, Refusal, Seq, borrowed, domain, owned, parse, parse_optional, wire};

impl<'a> From<&'a domain::ModelTrained> for wire::ModelTrained<'a> {
    fn from(event: &'a domain::ModelTrained) -> Self {
        let metric =
            |metric: &'a domain::ModelMetric| wire::ModelMetric { name: text!(metric.name), value: metric.value, n: metric.n };
        Self {
            version: text!(event.version),
            parent: event.parent.as_ref().map(|parent| text!(parent)),
            seed: event.seed,
            through_seq: event.through_seq.0,
            intents_end: event.intents_end,
            embedding_model: borrowed(event.embedding_model.as_ref()),
            examples: event.examples,
            skipped: event.skipped,
            settings: event.settings.iter().map(|(name, value)| (text!(name), text!(value))).collect(),
            metrics: event.metrics.iter().map(metric).collect(),
            digest: text!(event.digest),
            size: event.size,
            accepted: event.accepted,
            reason: text!(event.reason),
            curve: (!event.curve.is_empty()).then(|| event.curve.iter().map(Into::into).collect()),
        }
    }
}

impl From<&domain::CurvePoint> for wire::CurvePoint<'_> {
    fn from(point: &domain::CurvePoint) -> Self {
        let domain::CurvePoint { stage, epoch, loss, validation } = *point;
        Self { stage: Cow::Borrowed(stage.name()), epoch, loss, validation }
    }
}

impl TryFrom<wire::CurvePoint<'_>> for domain::CurvePoint {
    type Error = Refusal;

    fn try_from(wire: wire::CurvePoint<'_>) -> Result<Self, Refusal> {
        let stage = parse("curve.stage", &wire.stage)?;
        Ok(Self { stage, epoch: wire.epoch, loss: wire.loss, validation: wire.validation })
    }
}

impl TryFrom<wire::ModelTrained<'_>> for domain::ModelTrained {
    type Error = Refusal;

    fn try_from(wire: wire::ModelTrained<'_>) -> Result<Self, Refusal> {
        let metric = |metric: wire::ModelMetric<'_>| domain::ModelMetric {
            name: metric.name.into_owned(),
            value: metric.value,
            n: metric.n,
        };
        Ok(Self {
            version: parse("version", &wire.version)?,
            parent: parse_optional("parent", wire.parent)?,
            seed: wire.seed,
            through_seq: Seq(wire.through_seq),
            intents_end: wire.intents_end,
            embedding_model: owned(wire.embedding_model),
            examples: wire.examples,
            skipped: wire.skipped,
            settings: wire.settings.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
            metrics: wire.metrics.into_iter().map(metric).collect(),
            digest: wire.digest.into_owned(),
            size: wire.size,
            accepted: wire.accepted,
            reason: wire.reason.into_owned(),
            curve: wire.curve.into_iter().flatten().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }
}

impl<'a> From<&'a domain::ModelParameters> for wire::ModelParameters<'a> {
    fn from(event: &'a domain::ModelParameters) -> Self {
        let bytes = wire::WireBytes(Arc::clone(&event.bytes));
        Self { version: text!(event.version), piece: event.piece, pieces: event.pieces, bytes }
    }
}

impl TryFrom<wire::ModelParameters<'_>> for domain::ModelParameters {
    type Error = Refusal;

    fn try_from(wire: wire::ModelParameters<'_>) -> Result<Self, Refusal> {
        if wire.piece >= wire.pieces {
            return Err(Refusal::invalid("data.piece", format!("is {}, but there are {} pieces", wire.piece, wire.pieces)));
        }
        let version = parse("version", &wire.version)?;
        Ok(Self { version, piece: wire.piece, pieces: wire.pieces, bytes: wire.bytes.0 })
    }
}

impl<'a> From<&'a domain::ModelPromoted> for wire::ModelPromoted<'a> {
    fn from(event: &'a domain::ModelPromoted) -> Self {
        Self { version: text!(event.version), reason: text!(event.reason) }
    }
}

impl TryFrom<wire::ModelPromoted<'_>> for domain::ModelPromoted {
    type Error = Refusal;

    fn try_from(wire: wire::ModelPromoted<'_>) -> Result<Self, Refusal> {
        Ok(Self { version: parse("version", &wire.version)?, reason: wire.reason.into_owned() })
    }
}

impl<'a> From<&'a domain::ModelRolledBack> for wire::ModelRolledBack<'a> {
    fn from(event: &'a domain::ModelRolledBack) -> Self {
        Self { part: Cow::Borrowed(event.part.name()), to: event.to.as_ref().map(|to| text!(to)), reason: text!(event.reason) }
    }
}

impl TryFrom<wire::ModelRolledBack<'_>> for domain::ModelRolledBack {
    type Error = Refusal;

    fn try_from(wire: wire::ModelRolledBack<'_>) -> Result<Self, Refusal> {
        Ok(Self { part: parse("part", &wire.part)?, to: parse_optional("to", wire.to)?, reason: wire.reason.into_owned() })
    }
}
