//! Questions: from a request through embedding and ranking to an answer. HTTP, the command line and NATS all ask here, so that
//! everybody gets the same answer. Answers come from the newest index; asking never waits for an actor. It computes, and a model may
//! take milliseconds: ask on a thread that may block.

mod answer;
mod explain;
mod foresight;
pub(crate) mod models;
mod predict;
mod request;

use std::sync::Arc;

use crate::actors::graph_sync::Views;
use crate::actors::index::Indexed;
use crate::actors::measures::Measured;
use crate::actors::measures::tool_vectors;
use crate::config::Config;
use crate::core::event::EmbeddingComputed;
use crate::core::graph::measures::Measures;
use crate::core::graph::{Node, NodeKind};
use crate::core::predict::corpus::Corpus;
use crate::core::rank::discover::{DiscoverOptions, ItemFilter, discover};
use crate::core::rank::search::search_tools;
use crate::core::rank::{Clause, Index, Question};
use crate::core::state::State;
use crate::core::text::clauses;
use crate::embed::{self, EmbedError, Embedder, SharedEmbedder};

pub use answer::{DiscoverAnswer, SearchToolsAnswer};
pub use explain::{ExplainAnswer, ExplainRequest};
pub use foresight::{Foreseen, Foresight};
pub use predict::{AskedMode, PredictAnswer, PredictRequest};
pub use request::{DiscoverRequest, Filter, ItemType, SearchCapabilitiesRequest, SearchToolsRequest};

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("{field}: {problem}")]
    Invalid { field: &'static str, problem: String },
    #[error("the question cannot be embedded")]
    Embed(#[from] EmbedError),
}

impl AskError {
    fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { field, problem: problem.into() }
    }
}

#[derive(Clone)]
pub struct Asker {
    views: Views,
    indexed: Indexed,
    measures: Measured,
    /// The configured embedder and the built-in one: while another model takes over, the vectors that serve may be the latter's.
    embedders: Arc<[SharedEmbedder]>,
    intent_bytes_max: usize,
}

impl Asker {
    pub(crate) fn new(
        views: Views,
        indexed: Indexed,
        measures: Measured,
        configured: SharedEmbedder,
        intent_bytes_max: usize,
    ) -> Self {
        Self { views, indexed, measures, embedders: [configured, embed::builtin()].into(), intent_bytes_max }
    }

    /// For a state at rest, such as that of a log no server holds. Vectors it lacks are computed and not recorded.
    pub fn of_state(mut state: State, config: &Config) -> Result<Self, EmbedError> {
        let embedder = embed::open(&config.embedding)?;
        embed_lacking(&mut state, &*embedder, config.embedding.batch_texts_max)?;
        state.predictor.corpus = Corpus::rebuilt(&state.tools, &state.memory, &state.vectors);
        let index = Index::default().update(Arc::new(state)).calibrated();
        let vectors = tool_vectors(index.state());
        let measures = Measures::compute(index.state(), None, (&config.graph).into(), &vectors);
        let (views, indexed) = (Views::fixed(Arc::clone(index.state())), Indexed::fixed(index));
        Ok(Self::new(views, indexed, Measured::fixed(measures), embedder, config.limits.intent_bytes_max))
    }

    /// One ranked list of tools and capabilities.
    pub fn discover(&self, request: DiscoverRequest) -> Result<DiscoverAnswer, AskError> {
        let wanted = request.wanted()?;
        self.answer(request.intent, move |asker, index, question| {
            let found = discover(index, &question, wanted);
            let measures = request.include_related.then(|| asker.measures.current());
            Ok(DiscoverAnswer::new(index.state(), &question.intent, wanted.only, &found, measures.as_deref()))
        })
    }

    /// Deprecated: tools only, ranked with the graph where tools are in use.
    pub fn search_tools(&self, request: SearchToolsRequest) -> Result<SearchToolsAnswer, AskError> {
        tracing::warn!("search_tools is deprecated; use discover");
        let limit = request.limit()?;
        self.answer(request.query, move |asker, index, question| {
            // The measures first: the index's state must know every node that they do, or it is simply not in the context.
            let measures = asker.measures.current();
            let context = request::context(index.state(), &request.context_tools)?;
            let found = search_tools(index, &measures, &question, &context, limit);
            Ok(SearchToolsAnswer::new(index.state(), &question.intent, &found, &measures, request.include_related))
        })
    }

    /// Deprecated: capabilities only.
    pub fn search_capabilities(&self, request: SearchCapabilitiesRequest) -> Result<DiscoverAnswer, AskError> {
        tracing::warn!("search_capabilities is deprecated; use discover");
        let wanted = request.wanted()?;
        self.answer(request.intent, move |_, index, question| {
            let found = discover(index, &question, wanted);
            let answer = DiscoverAnswer::new(index.state(), &question.intent, wanted.only, &found, None);
            Ok(answer.deprecated("use discover with filter.type = \"capability\""))
        })
    }

    /// Checks the intent, embeds it and works the answer out.
    fn answer<T>(
        &self,
        intent: String,
        work: impl FnOnce(&Self, &Index, Question) -> Result<T, AskError>,
    ) -> Result<T, AskError> {
        let intent = self.checked(&intent)?;
        if intent.is_empty() {
            return Err(AskError::invalid("intent", "is blank; say what is to be done"));
        }
        let index = self.indexed.current();
        let question = self.question(index.model(), intent)?;
        work(self, &index, question)
    }

    fn checked(&self, intent: &str) -> Result<String, AskError> {
        let (intent, max) = (intent.trim(), self.intent_bytes_max);
        if intent.len() > max {
            let problem = format!("is {} bytes long, the limit is {max} (limits.intent_bytes_max)", intent.len());
            return Err(AskError::invalid("intent", problem));
        }
        Ok(intent.to_owned())
    }

    /// With vectors of `model`, the one that serves.
    fn question(&self, model: Option<&Arc<str>>, intent: String) -> Result<Question, AskError> {
        let serves = |embedder: &&SharedEmbedder| model.is_some_and(|model| **model == *embedder.model().as_str());
        // No embedder of the model that serves: words and popularity still answer.
        let embedder = self.embedders.iter().find(serves);
        Ok(question(embedder.map(|embedder| &**embedder), intent)?)
    }
}

/// Gives a state the vectors that it lacks, which no log will hold.
pub fn embed_lacking(state: &mut State, embedder: &dyn Embedder, batch_texts_max: usize) -> Result<(), EmbedError> {
    loop {
        let lacking = state.vectors.lacking(embedder.model().as_str(), batch_texts_max);
        let texts: Vec<&str> = lacking.iter().map(|(_, text)| &**text).collect();
        if texts.is_empty() {
            return Ok(());
        }
        let model = embedder.model().to_string();
        for ((hash, _), vector) in lacking.iter().zip(embedder.embed(&texts)?) {
            state.embedded(&EmbeddingComputed { text_hash: hash.to_string(), model: model.clone(), vector });
        }
    }
}

/// An intent with its clauses and, where there is an embedder, their vectors.
pub fn question(embedder: Option<&dyn Embedder>, intent: String) -> Result<Question, EmbedError> {
    let parts: Vec<String> = clauses(&intent).into_iter().map(str::to_owned).collect();
    let texts: Vec<&str> = std::iter::once(intent.as_str()).chain(parts.iter().map(String::as_str)).collect();
    let mut vectors = match embedder {
        Some(embedder) => embedder.embed(&texts)?.into_iter().map(known).collect(),
        None => vec![None; texts.len()],
    }
    .into_iter();
    let vector = vectors.next().flatten();
    let clauses = parts.into_iter().zip(vectors).map(|(text, vector)| Clause { text, vector }).collect();
    Ok(Question { intent, vector, clauses })
}

/// All zeros is what a model says about a text it knows nothing of.
fn known(vector: Vec<f32>) -> Option<Vec<f32>> {
    vector.iter().any(|value| *value != 0.0).then_some(vector)
}

/// Whether a tool is offered: related tools that were withdrawn are of no use.
fn is_offered(state: &State, node: Node) -> bool {
    matches!(node.kind(), NodeKind::Tool(position) if !state.tools.at(position).removed)
}

/// What a question may be limited to, by name.
fn only_name(only: ItemFilter) -> &'static str {
    match only {
        ItemFilter::All => "all",
        ItemFilter::Tools => "tool",
        ItemFilter::Capabilities => "capability",
    }
}

fn limited(limit: Option<usize>, default: usize, max: usize) -> Result<usize, AskError> {
    match limit.unwrap_or(default) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        limit => Err(AskError::invalid("limit", format!("is {limit}, it must be from 1 to {max}"))),
    }
}

/// What is wanted by default: everything, cut to the limit.
fn wanted(only: ItemFilter, score_min: f64, limit: usize) -> Result<DiscoverOptions, AskError> {
    if !(0.0..=1.0).contains(&score_min) {
        return Err(AskError::invalid("min_score", format!("is {score_min}, it must be from 0 to 1")));
    }
    Ok(DiscoverOptions { only, score_min, limit })
}
