//! The catalogue: tools, capabilities, edges and the state as lists and numbers, as functions of a view. HTTP and the NATS service
//! give the same answers.

mod dto;
mod executions;
mod trace;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::handles::Mentions;
use super::{AskError, Asker};
use crate::core::event::Kind;
use crate::core::graph::Node;
use crate::core::graph::edge::EdgeKind;
use crate::core::graph::measures::Measures;
use crate::core::id::CapabilityId;
use crate::core::state::{FOLD, State};
pub(crate) use dto::{AnnotationsDto, CapabilityDto, EdgeDto, LatencyDto, MeasuredDto, ToolDto};
pub(crate) use executions::{ExecutionDto, ExecutionsQuery, executions};
pub(crate) use trace::{TraceDto, TraceQuery, trace};

const PAGE_DEFAULT: usize = 100;
pub(crate) const PAGE_MAX: usize = 1_000;
const EDGES_MAX: usize = 100_000;
/// Nodes whose measures are listed, the highest ranks first.
const MEASURED_MAX: usize = 20_000;

/// A question without an answer, by the field that is to blame.
pub(crate) struct Refused {
    pub(crate) field: &'static str,
    pub(crate) problem: String,
    /// The question makes sense, and nothing is known about what it names.
    pub(crate) is_unknown: bool,
}

impl Refused {
    pub(crate) fn invalid(field: &'static str, problem: impl ToString) -> Self {
        Self { field, problem: problem.to_string(), is_unknown: false }
    }

    pub(crate) fn unknown(field: &'static str, problem: impl ToString) -> Self {
        Self { field, problem: problem.to_string(), is_unknown: true }
    }
}

impl From<AskError> for Refused {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Invalid { field, problem } => Self::invalid(field, problem),
            AskError::Embed(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a question cannot be embedded");
                Self::invalid("intent", "cannot be embedded")
            }
        }
    }
}

/// A question asked as a JSON object, or as nothing.
pub(crate) fn question<Q: DeserializeOwned>(value: &Value) -> Result<Q, Refused> {
    let members = if value.is_null() { json!({}) } else { value.clone() };
    serde_json::from_value(members).map_err(|error| Refused::invalid("question", error))
}

/// Which part of a list: `limit` entries after the one named `after`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    pub(crate) after: Option<String>,
    pub(crate) limit: Option<usize>,
}

impl Page {
    pub(crate) fn limit(&self, max: usize) -> Result<usize, Refused> {
        match self.limit.unwrap_or(PAGE_DEFAULT) {
            limit if (1..=max).contains(&limit) => Ok(limit),
            limit => Err(Refused::invalid("limit", format!("is {limit}, it must be from 1 to {max}"))),
        }
    }

    /// The entries of this page of a list sorted by id, and the id to ask on from.
    fn cut<T>(&self, items: impl Iterator<Item = T>, id: impl Fn(&T) -> String) -> Result<(Vec<T>, Option<String>), Refused> {
        let limit = self.limit(PAGE_MAX)?;
        let mut rest = items.skip_while(|item| self.after.as_ref().is_some_and(|after| id(item) <= *after));
        let page: Vec<T> = rest.by_ref().take(limit).collect();
        let next = if rest.next().is_some() { page.last().map(&id) } else { None };
        Ok((page, next))
    }
}

pub(crate) fn tools(view: &State, page: &Page) -> Result<Value, Refused> {
    let (tools, next) = page.cut(view.tools.iter(), |tool| tool.id.to_string())?;
    let tools: Vec<ToolDto<'_>> = tools.into_iter().map(Into::into).collect();
    Ok(json!({"tools": tools, "next": next, "based_on_seq": view.applied().0}))
}

pub(crate) fn capabilities(view: &State, page: &Page) -> Result<Value, Refused> {
    let (capabilities, next) = page.cut(view.capabilities.iter(), |capability| capability.id.to_string())?;
    let mentions = Mentions::new(view);
    let capabilities: Vec<CapabilityDto<'_>> =
        capabilities.into_iter().map(|found| CapabilityDto::new(found, &mentions)).collect();
    let handles = mentions.handles();
    Ok(json!({"capabilities": capabilities, "handles": handles, "next": next, "based_on_seq": view.applied().0}))
}

/// One capability; null if it is not known.
pub(crate) fn capability(view: &State, id: CapabilityId) -> Value {
    json!(view.capabilities.get(id).map(|found| CapabilityDto::new(found, &Mentions::new(view))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphQuery {
    limit: Option<usize>,
    /// Only edges of this kind.
    kind: Option<String>,
    /// Also the rank, the community and the level of the nodes.
    #[serde(default)]
    measures: bool,
    /// A moment of the past; HTTP only.
    pub(crate) at: Option<String>,
}

impl Asker {
    /// The graph, by the newest view and measures.
    pub(crate) fn graph(&self, query: &GraphQuery) -> Result<Value, Refused> {
        // The measures are read first, because the view must contain every node that they do.
        let measures = self.measures.current();
        graph(&self.views.current(), &measures, query)
    }
}

/// The strongest edges first: by weight, then by observations, then by ends. The measures are not newer than the view.
pub(crate) fn graph(view: &State, measures: &Measures, query: &GraphQuery) -> Result<Value, Refused> {
    let limit = Page { after: None, limit: query.limit.or(Some(PAGE_MAX)) }.limit(EDGES_MAX)?;
    if let Some(kind) = query.kind.as_deref().filter(|kind| EdgeKind::ALL.iter().all(|known| known.name() != *kind)) {
        let known = EdgeKind::ALL.map(EdgeKind::name).join(", ");
        return Err(Refused::invalid("kind", format!("'{kind}' is not a kind of edges; there are {known}")));
    }
    let wanted = |name: &str| query.kind.as_deref().is_none_or(|kind| kind == name);
    let counted =
        view.graph.edges().filter(|((_, _, kind), _)| wanted(kind.name())).map(|(key, edge)| EdgeDto::new(view, *key, edge));
    let membership = view
        .capabilities
        .iter()
        .filter(|_| wanted("contains"))
        .flat_map(|capability| capability.members.iter().map(move |member| EdgeDto::contains(view, capability, *member)));
    let mut edges: Vec<EdgeDto> = counted.chain(membership).collect();
    let total = edges.len();
    edges.sort_by(|a, b| {
        let stronger = b.weight.total_cmp(&a.weight).then(b.observations.cmp(&a.observations));
        stronger.then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to)))
    });
    edges.truncate(limit);
    let mentions = Mentions::new(view);
    edges.iter().flat_map(|edge| edge.ends).for_each(|end| drop(mentions.node(end)));
    let nodes = query.measures.then(|| measured_nodes(measures, &mentions));
    Ok(json!({
        "nodes": view.tools.len() + view.capabilities.len(),
        "measured": nodes,
        "total_edges": total,
        "edges": edges,
        "handles": mentions.handles(),
        "based_on_seq": view.applied().0,
    }))
}

/// The nodes that the measures know, the highest ranks first.
fn measured_nodes(measures: &Measures, mentions: &Mentions<'_>) -> Vec<MeasuredDto> {
    let State { tools, capabilities, .. } = mentions.state;
    let all = (0..).take(tools.len()).map(Node::tool).chain((0..).take(capabilities.len()).map(Node::capability));
    let mut known: Vec<(Node, Node)> = all.filter_map(|node| Some((node, measures.community(node)?))).collect();
    known.sort_by(|(a, _), (b, _)| measures.pagerank(*b).total_cmp(&measures.pagerank(*a)).then(a.cmp(b)));
    known.truncate(MEASURED_MAX);
    known.into_iter().map(|(node, community)| MeasuredDto::new(mentions, node, community, measures.pagerank(node))).collect()
}

/// Position, digest and sizes of the view. The digest reads the whole state: ask for it, do not poll it.
pub(crate) fn state(view: &State) -> Value {
    let (embedded, texts) = view.vectors.coverage();
    let kinds: Value = Kind::ALL.iter().map(|kind| (kind.name().to_owned(), json!(view.count(*kind)))).collect();
    json!({
        "applied_seq": view.applied().0,
        "digest": view.digest().to_string(),
        "fold": FOLD,
        "events": kinds,
        "duplicates": view.duplicates(),
        "late": view.late(),
        "tools": view.tools.registered(),
        "tools_unregistered": view.tools.len() - view.tools.registered(),
        "capabilities": view.capabilities.len(),
        "edges": view.graph.edge_count(),
        "open_executions": view.executions.len(),
        "traces": view.executions.traces_len(),
        "templates": view.templates.len(),
        "intents": view.memory.len(),
        "texts": texts,
        "texts_embedded": embedded,
        "embedding_model": view.vectors.model().map(|model| &**model),
    })
}
