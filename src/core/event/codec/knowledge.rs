//! Conversions of the events about tools, capabilities, feedback and templates.

use super::{Cow, EdgeKind, RecordId, Refusal, borrowed, domain, json, json_text, owned, parse, parse_optional, wire};
use crate::id::ToolId;

impl<'a> From<&'a domain::ToolRegistered> for wire::ToolRegistered<'a> {
    fn from(event: &'a domain::ToolRegistered) -> Self {
        Self {
            tool: text!(event.tool),
            server: Some(Cow::Borrowed(event.tool.server())),
            name: Some(text!(event.name)),
            description: text!(event.description),
            input_schema: json_text(event.input_schema.as_ref()),
            output_schema: json_text(event.output_schema.as_ref()),
            annotations: event.annotations.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<wire::ToolRegistered<'_>> for domain::ToolRegistered {
    type Error = Refusal;

    fn try_from(wire: wire::ToolRegistered<'_>) -> Result<Self, Refusal> {
        let tool: ToolId = parse("tool", &wire.tool)?;
        if let Some(server) = wire.server
            && server != tool.server()
        {
            return Err(Refusal::invalid("data.server", format!("'{server}' is not the server of tool '{tool}'")));
        }
        Ok(Self {
            name: owned(wire.name).unwrap_or_else(|| tool.name().to_owned()),
            tool,
            description: wire.description.into_owned(),
            input_schema: json(wire.input_schema),
            output_schema: json(wire.output_schema),
            annotations: wire.annotations.map(Into::into),
        })
    }
}

impl<'a> From<&'a domain::ToolAnnotations> for wire::ToolAnnotations<'a> {
    fn from(annotations: &'a domain::ToolAnnotations) -> Self {
        Self {
            title: borrowed(annotations.title.as_ref()),
            read_only_hint: annotations.read_only,
            destructive_hint: annotations.destructive,
            idempotent_hint: annotations.idempotent,
            open_world_hint: annotations.open_world,
        }
    }
}

impl From<wire::ToolAnnotations<'_>> for domain::ToolAnnotations {
    fn from(wire: wire::ToolAnnotations<'_>) -> Self {
        Self {
            title: owned(wire.title),
            read_only: wire.read_only_hint,
            destructive: wire.destructive_hint,
            idempotent: wire.idempotent_hint,
            open_world: wire.open_world_hint,
        }
    }
}

impl<'a> From<&'a domain::ToolRemoved> for wire::ToolRemoved<'a> {
    fn from(event: &'a domain::ToolRemoved) -> Self {
        Self { tool: text!(event.tool) }
    }
}

impl TryFrom<wire::ToolRemoved<'_>> for domain::ToolRemoved {
    type Error = Refusal;

    fn try_from(wire: wire::ToolRemoved<'_>) -> Result<Self, Refusal> {
        Ok(Self { tool: parse("tool", &wire.tool)? })
    }
}

impl<'a> From<&'a domain::ToolQuarantined> for wire::ToolQuarantined<'a> {
    fn from(event: &'a domain::ToolQuarantined) -> Self {
        Self((&event.listed).into())
    }
}

impl TryFrom<wire::ToolQuarantined<'_>> for domain::ToolQuarantined {
    type Error = Refusal;

    fn try_from(wire: wire::ToolQuarantined<'_>) -> Result<Self, Refusal> {
        Ok(Self { listed: wire.0.try_into()? })
    }
}

impl<'a> From<&'a domain::ToolApproved> for wire::ToolApproved<'a> {
    fn from(event: &'a domain::ToolApproved) -> Self {
        Self { tool: text!(event.tool), definition: text!(event.definition) }
    }
}

impl TryFrom<wire::ToolApproved<'_>> for domain::ToolApproved {
    type Error = Refusal;

    fn try_from(wire: wire::ToolApproved<'_>) -> Result<Self, Refusal> {
        Ok(Self { tool: parse("tool", &wire.tool)?, definition: wire.definition.into_owned() })
    }
}

impl<'a> From<&'a domain::ToolOutputInferred> for wire::ToolOutputInferred<'a> {
    fn from(event: &'a domain::ToolOutputInferred) -> Self {
        Self { tool: text!(event.tool), output_schema: wire::JsonText(text!(event.output_schema)) }
    }
}

impl TryFrom<wire::ToolOutputInferred<'_>> for domain::ToolOutputInferred {
    type Error = Refusal;

    fn try_from(wire: wire::ToolOutputInferred<'_>) -> Result<Self, Refusal> {
        // Absent and null are the same in JSON, so a record with null could not be read again.
        if wire.output_schema.0 == "null" {
            return Err(Refusal::invalid("data.output_schema", "must be a JSON Schema, not null"));
        }
        let output_schema = crate::event::Json::from_valid(wire.output_schema.0.into_owned());
        Ok(Self { tool: parse("tool", &wire.tool)?, output_schema })
    }
}

impl<'a> From<&'a domain::CapabilityDeclared> for wire::CapabilityDeclared<'a> {
    fn from(event: &'a domain::CapabilityDeclared) -> Self {
        let node = |node: &'a domain::StructureNode| wire::StructureNode { id: text!(node.id), tool: node.callee.text() };
        let edge = |edge: &'a domain::StructureEdge| wire::StructureEdge {
            from: text!(edge.from),
            to: text!(edge.to),
            kind: match edge.kind {
                EdgeKind::Provides => wire::StructureEdgeKind::Provides,
                EdgeKind::Conditional => wire::StructureEdgeKind::Conditional,
                EdgeKind::Contains => wire::StructureEdgeKind::Contains,
                // A structure has no other kinds: the wire cannot express them.
                EdgeKind::Sequence | EdgeKind::Dependency | EdgeKind::Alternative => wire::StructureEdgeKind::Sequence,
            },
        };
        Self {
            name: text!(event.name),
            description: text!(event.description),
            structure: wire::DeclaredStructure {
                nodes: event.structure.nodes.iter().map(node).collect(),
                edges: event.structure.edges.iter().map(edge).collect(),
            },
            code: borrowed(event.code.as_ref()),
            parameters_schema: json_text(event.parameters_schema.as_ref()),
        }
    }
}

impl TryFrom<wire::CapabilityDeclared<'_>> for domain::CapabilityDeclared {
    type Error = Refusal;

    fn try_from(wire: wire::CapabilityDeclared<'_>) -> Result<Self, Refusal> {
        let node = |node: wire::StructureNode<'_>| {
            Ok(domain::StructureNode {
                id: parse("structure.nodes.id", &node.id)?,
                callee: parse("structure.nodes.tool", &node.tool)?,
            })
        };
        let edge = |edge: wire::StructureEdge<'_>| {
            Ok(domain::StructureEdge {
                from: parse("structure.edges.from", &edge.from)?,
                to: parse("structure.edges.to", &edge.to)?,
                kind: match edge.kind {
                    wire::StructureEdgeKind::Sequence => EdgeKind::Sequence,
                    wire::StructureEdgeKind::Provides => EdgeKind::Provides,
                    wire::StructureEdgeKind::Conditional => EdgeKind::Conditional,
                    wire::StructureEdgeKind::Contains => EdgeKind::Contains,
                },
            })
        };
        Ok(Self {
            name: wire.name.into_owned(),
            description: wire.description.into_owned(),
            structure: domain::DeclaredStructure {
                nodes: wire.structure.nodes.into_iter().map(node).collect::<Result<_, Refusal>>()?,
                edges: wire.structure.edges.into_iter().map(edge).collect::<Result<_, Refusal>>()?,
            },
            code: owned(wire.code),
            parameters_schema: json(wire.parameters_schema),
        })
    }
}

impl From<&domain::FeedbackGiven> for wire::FeedbackGiven<'_> {
    fn from(event: &domain::FeedbackGiven) -> Self {
        let (prediction, suggestion) = match event.target {
            domain::FeedbackTarget::Prediction(id) => (Some(id.to_string().into()), None),
            domain::FeedbackTarget::Suggestion(id) => (None, Some(id.to_string().into())),
        };
        let verdict = match event.verdict {
            domain::FeedbackVerdict::Accepted => wire::FeedbackVerdict::Accepted,
            domain::FeedbackVerdict::Ignored => wire::FeedbackVerdict::Ignored,
            domain::FeedbackVerdict::Rejected => wire::FeedbackVerdict::Rejected,
        };
        Self { prediction, suggestion, verdict }
    }
}

impl TryFrom<wire::FeedbackGiven<'_>> for domain::FeedbackGiven {
    type Error = Refusal;

    fn try_from(wire: wire::FeedbackGiven<'_>) -> Result<Self, Refusal> {
        let prediction: Option<RecordId> = parse_optional("prediction", wire.prediction)?;
        let suggestion: Option<RecordId> = parse_optional("suggestion", wire.suggestion)?;
        let target = match (prediction, suggestion) {
            (Some(id), None) => domain::FeedbackTarget::Prediction(id),
            (None, Some(id)) => domain::FeedbackTarget::Suggestion(id),
            (None, None) => return Err(Refusal::Missing { field: "data.prediction".to_owned() }),
            (Some(_), Some(_)) => return Err(Refusal::invalid("data.suggestion", "give prediction or suggestion, not both")),
        };
        let verdict = match wire.verdict {
            wire::FeedbackVerdict::Accepted => domain::FeedbackVerdict::Accepted,
            wire::FeedbackVerdict::Ignored => domain::FeedbackVerdict::Ignored,
            wire::FeedbackVerdict::Rejected => domain::FeedbackVerdict::Rejected,
        };
        Ok(Self { target, verdict })
    }
}

impl<'a> From<&'a domain::TemplateLoaded> for wire::TemplateLoaded<'a> {
    fn from(event: &'a domain::TemplateLoaded) -> Self {
        Self {
            name: text!(event.name),
            description: text!(event.description),
            edges: event.edges.iter().map(|(from, to)| (text!(from), text!(to))).collect(),
            checksum: text!(event.checksum),
        }
    }
}

impl TryFrom<wire::TemplateLoaded<'_>> for domain::TemplateLoaded {
    type Error = Refusal;

    fn try_from(wire: wire::TemplateLoaded<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            name: wire.name.into_owned(),
            description: wire.description.into_owned(),
            edges: wire
                .edges
                .iter()
                .map(|(from, to)| Ok((parse("edges", from)?, parse("edges", to)?)))
                .collect::<Result<_, Refusal>>()?,
            checksum: wire.checksum.into_owned(),
        })
    }
}
