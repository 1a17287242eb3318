//! Questions: from a request through embedding and ranking to an answer. HTTP, NATS and the command line all use this module and give
//! the same answer. Answers come from the newest index or view and never wait for an actor. They compute, and an embedding model may
//! take milliseconds: call them on a thread that may block.

mod answer;
pub(crate) mod catalogue;
mod explain;
pub(crate) mod handles;
pub(crate) mod models;
mod named;
pub(crate) mod past;
mod predict;
pub(crate) mod quality;
pub(crate) mod related;
mod request;
mod score;
pub mod skills;
mod speculate;
mod stream_predictor;
mod suggest;
pub(crate) mod trained;

use std::sync::Arc;

use crate::config::{Config, Graph};
use crate::core::event::EmbeddingComputed;
use crate::core::graph::measures::Measures;
use crate::core::graph::measures::tool_vectors;
use crate::core::graph::{Node, NodeKind};
use crate::core::rank::discover::{DiscoverOptions, ItemFilter, discover};
use crate::core::rank::search::search_tools;
use crate::core::rank::{Clause, Index, Question};
use crate::core::state::State;
use crate::core::text::clauses;
use crate::core::vectors::{TextHash, Vectors};
use crate::embed::{self, EmbedError, Embedder, SharedEmbedder};
use crate::views::{Latest, Views};
use score::UntrainedTargets;
use suggest::SharedPlanner;

pub use answer::{DiscoverAnswer, SearchToolsAnswer};
pub use explain::{ExplainAnswer, ExplainRequest};
pub use predict::{PredictAnswer, PredictMode, PredictRequest};
pub use request::{DiscoverRequest, Filter, ItemType, SearchCapabilitiesRequest, SearchToolsRequest};
pub use score::{ScoreAnswer, ScoreRequest};
pub use speculate::{PlannedTask, SpeculateAnswer, SpeculateRequest};
pub use stream_predictor::{StreamPredictor, StreamedPrediction};
pub use suggest::{SuggestAnswer, SuggestRequest};

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

/// `Asker` answers questions from the newest view, index and measures.
#[derive(Clone)]
pub struct Asker {
    views: Views,
    indexed: Latest<Index>,
    measures: Latest<Measures>,
    planner: SharedPlanner,
    /// The configured embedder and the built-in one: while another model takes over, the vectors that serve may be the latter's.
    embedders: Arc<[SharedEmbedder]>,
    untrained: UntrainedTargets,
    intent_bytes_max: usize,
}

impl Asker {
    pub(crate) fn new(
        views: Views,
        indexed: Latest<Index>,
        measures: Latest<Measures>,
        configured: SharedEmbedder,
        intent_bytes_max: usize,
    ) -> Self {
        let (planner, embedders) = (SharedPlanner::default(), [configured, embed::builtin()].into());
        Self { views, indexed, measures, planner, embedders, untrained: UntrainedTargets::default(), intent_bytes_max }
    }

    /// An asker for a fixed state, such as that of a log no server holds. Missing vectors are computed and not recorded.
    pub fn from_state(mut state: State, config: &Config) -> Result<Self, EmbedError> {
        let embedder = embed::open(&config.embedding)?;
        embed_lacking(&mut state, &*embedder, config.embedding.batch_texts_max)?;
        let state = Arc::new(state);
        let measures = measures_of(&state, &config.graph);
        Ok(Self::of_state(state, measures, &embedder, config.limits.intent_bytes_max))
    }

    /// An asker for a fixed state that has all vectors. What only some questions need, such as the index with its fitted weights, is
    /// made for the first that needs it.
    fn of_state(state: Arc<State>, measures: Latest<Measures>, embedder: &SharedEmbedder, intent_bytes_max: usize) -> Self {
        let views = Views::fixed(Arc::clone(&state));
        let indexed = Latest::computed(move || Arc::new(Index::default().update(state).calibrated()));
        Self::new(views, indexed, measures, Arc::clone(embedder), intent_bytes_max)
    }

    /// One list of tools and capabilities: ranked by an intent, or found by name.
    pub fn discover(&self, request: DiscoverRequest) -> Result<DiscoverAnswer, AskError> {
        let wanted = request.wanted()?;
        if let Some(name) = &request.name {
            let measures = request.include_related.then(|| self.measures.current());
            return Ok(named::find(&self.views.current(), name, wanted, request.offset, measures.as_deref()));
        }
        self.answer(request.intent, move |asker, index, question| {
            let mut found = discover(index, &question, DiscoverOptions { limit: wanted.limit + request.offset, ..wanted });
            found.hits.drain(..request.offset.min(found.hits.len()));
            let measures = request.include_related.then(|| asker.measures.current());
            let answer = DiscoverAnswer::new(index.state(), &question.intent, wanted.only, &found, measures.as_deref());
            Ok(answer.beginning_at(request.offset))
        })
    }

    /// Deprecated: tools only, ranked with the graph where tools are in use.
    pub fn search_tools(&self, request: SearchToolsRequest) -> Result<SearchToolsAnswer, AskError> {
        tracing::warn!("search_tools is deprecated; use discover");
        let limit = request.limit()?;
        self.answer(request.query, move |asker, index, question| {
            // The measures first, so that the index is at least as new: a node it did not know would be missing from the context.
            let measures = asker.measures.current();
            let context = request::context_nodes(index.state(), &request.context_tools)?;
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

    /// Checks the intent, embeds it and computes the answer.
    fn answer<T>(
        &self,
        intent: String,
        work: impl FnOnce(&Self, &Arc<Index>, Question) -> Result<T, AskError>,
    ) -> Result<T, AskError> {
        let intent = self.checked_intent(&intent)?;
        if intent.is_empty() {
            return Err(AskError::invalid("intent", "is blank; say what is to be done"));
        }
        let index = self.indexed.current();
        let question = self.question(&index.state().vectors, intent)?;
        work(self, &index, question)
    }

    /// Trims the intent and checks its length.
    fn checked_intent(&self, intent: &str) -> Result<String, AskError> {
        let (intent, max) = (intent.trim(), self.intent_bytes_max);
        if intent.len() > max {
            let problem = format!("is {} bytes long, the limit is {max} (limits.intent_bytes_max)", intent.len());
            return Err(AskError::invalid("intent", problem));
        }
        Ok(intent.to_owned())
    }

    /// A question with the vectors of the model that is served; those that `vectors` has are not computed again.
    fn question(&self, vectors: &Vectors, intent: String) -> Result<Question, AskError> {
        let model = vectors.model();
        let serves = |embedder: &&SharedEmbedder| model.is_some_and(|model| **model == *embedder.model().as_str());
        // Without an embedder of that model, words and popularity still answer.
        let embedder = self.embedders.iter().find(serves);
        Ok(question_with(embedder.map(|embedder| &**embedder), vectors, intent)?)
    }
}

/// The measures of a state's graph, computed from scratch for the first reader.
fn measures_of(state: &Arc<State>, graph: &Graph) -> Latest<Measures> {
    let (state, graph) = (Arc::clone(state), graph.clone());
    Latest::computed(move || Arc::new(Measures::compute(&state, None, (&graph).into(), &tool_vectors(&state))))
}

/// Computes the vectors that a state lacks and adds them; no log records them.
pub fn embed_lacking(state: &mut State, embedder: &dyn Embedder, batch_texts_max: usize) -> Result<(), EmbedError> {
    loop {
        let lacking = state.vectors.lacking(embedder.model().as_str(), batch_texts_max);
        let texts: Vec<&str> = lacking.iter().map(|(_, text)| &**text).collect();
        if texts.is_empty() {
            return Ok(());
        }
        let model = embedder.model().to_string();
        for ((hash, _), vector) in lacking.iter().zip(embedder.embed(&texts)?) {
            state.apply_embedding(&EmbeddingComputed { text_hash: hash.to_string(), model: model.clone(), vector });
        }
    }
}

/// Builds a question: an intent with its clauses and, if there is an embedder, their vectors.
pub fn question(embedder: Option<&dyn Embedder>, intent: String) -> Result<Question, EmbedError> {
    question_with(embedder, &Vectors::default(), intent)
}

/// The same; vectors that `known` has, of the same model, are not computed.
fn question_with(embedder: Option<&dyn Embedder>, known: &Vectors, intent: String) -> Result<Question, EmbedError> {
    let parts: Vec<String> = clauses(&intent).into_iter().map(str::to_owned).collect();
    let texts: Vec<&str> = std::iter::once(intent.as_str()).chain(parts.iter().map(String::as_str)).collect();
    let vectors = embedder.map(|embedder| embed_unknown(embedder, known, &texts)).transpose()?;
    let mut vectors = vectors.unwrap_or_else(|| vec![None; texts.len()]).into_iter();
    let vector = vectors.next().flatten();
    let clauses = parts.into_iter().zip(vectors).map(|(text, vector)| Clause { text, vector }).collect();
    Ok(Question { intent, vector, clauses })
}

/// The vectors of texts: those that `known` has, and computed ones; `None` for a text that the model knows nothing about.
fn embed_unknown(embedder: &dyn Embedder, known: &Vectors, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
    let find = |text: &&str| known.get(TextHash::compute(text)).map(|vector| vector.to_vec());
    let mut vectors: Vec<Option<Vec<f32>>> = texts.iter().map(find).collect();
    let unknown: Vec<&str> = texts.iter().zip(&vectors).filter(|(_, vector)| vector.is_none()).map(|(text, _)| *text).collect();
    if !unknown.is_empty() {
        let computed = embedder.embed(&unknown)?;
        vectors.iter_mut().filter(|vector| vector.is_none()).zip(computed).for_each(|(vector, new)| *vector = Some(new));
    }
    Ok(vectors.into_iter().map(|vector| vector.and_then(non_zero)).collect())
}

/// Drops a vector of zeros, which a model gives a text it knows nothing about.
fn non_zero(vector: Vec<f32>) -> Option<Vec<f32>> {
    vector.iter().any(|value| *value != 0.0).then_some(vector)
}

/// Whether a node is a tool that was not removed.
fn is_offered(state: &State, node: Node) -> bool {
    matches!(node.kind(), NodeKind::Tool(position) if state.tools.at(position).is_offered())
}

/// The wire name of a filter.
fn only_name(only: ItemFilter) -> &'static str {
    match only {
        ItemFilter::All => "all",
        ItemFilter::Tools => "tool",
        ItemFilter::Capabilities => "capability",
    }
}

/// The limit of a request, checked to be from 1 to `max`.
fn checked_limit(limit: Option<usize>, default: usize, max: usize) -> Result<usize, AskError> {
    match limit.unwrap_or(default) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        limit => Err(AskError::invalid("limit", format!("is {limit}, it must be from 1 to {max}"))),
    }
}

/// The filter of a request, with `score_min` checked to be from 0 to 1.
fn checked_filter(only: ItemFilter, score_min: f64, limit: usize) -> Result<DiscoverOptions, AskError> {
    if !(0.0..=1.0).contains(&score_min) {
        return Err(AskError::invalid("min_score", format!("is {score_min}, it must be from 0 to 1")));
    }
    Ok(DiscoverOptions { only, score_min, limit })
}
