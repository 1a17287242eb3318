//! `score`: how likely an intent asks for each tool and capability, and how likely a path succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handles::{Handles, Mentions};
use super::request::named_callees;
use super::{AskError, Asker, ItemType, checked_limit};
use crate::core::event::whole;
use crate::core::graph::{Node, NodeKind};
use crate::core::id::{Callee, Seq};
use crate::core::predict::targets::{TargetScore, Targets};
use crate::core::state::State;

const LIMIT: usize = 10;
const LIMIT_MAX: usize = 1_000;

/// A question for scores.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreRequest {
    pub intent: String,
    /// Only tools or only capabilities.
    #[serde(default)]
    pub only: ItemType,
    /// Only capabilities of this level: 0 for those that contain tools only.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole::optional")]
    pub level: Option<usize>,
    /// The best `limit` capabilities of every level instead of one list.
    #[serde(default)]
    pub by_level: bool,
    /// Tools and capabilities in order, to predict whether they succeed for the intent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    pub limit: Option<usize>,
}

impl ScoreRequest {
    fn check(&self) -> Result<usize, AskError> {
        if self.only == ItemType::Tool && (self.level.is_some() || self.by_level) {
            let field = if self.by_level { "by_level" } else { "level" };
            return Err(AskError::invalid(field, "selects capabilities, so `only` cannot be tool"));
        }
        if self.by_level && self.level.is_some() {
            return Err(AskError::invalid("by_level", "asks for every level, so `level` cannot be given"));
        }
        checked_limit(self.limit, LIMIT, LIMIT_MAX)
    }
}

/// The answer to a [`ScoreRequest`].
#[derive(Serialize, JsonSchema)]
pub struct ScoreAnswer {
    intent: String,
    source: SourceDto,
    /// The likeliest first; empty with `by_level`.
    results: Vec<ScoreDto>,
    /// With `by_level`: the likeliest capabilities of each level, the lowest level first.
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<Vec<LevelDto>>,
    /// The path that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathDto>,
    /// The tools and capabilities that have a score.
    scored: CountsDto,
    /// Offered capabilities without a score: learnt after the training, or among those used least.
    unscored_capabilities: usize,
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
    /// The last record folded into the state that answered.
    based_on_seq: u64,
}

/// What the scores come from.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScoreSource")]
struct SourceDto {
    /// `trained`, `untrained`, or `none` if nothing can be scored.
    kind: &'static str,
    /// The trained version.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// What to know about scores that were not learnt.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

const UNTRAINED: &str = "no trained SHGAT serves: these scores are similarity, use and recency in fixed shares, good for the order \
                         only; pml train, or more traces, may change that";
const NO_SCORES: &str = "the intent or all tools are without a vector, so nothing can be compared";

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScoreCounts")]
struct CountsDto {
    tools: usize,
    capabilities: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScoreLevel")]
struct LevelDto {
    level: usize,
    results: Vec<ScoreDto>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Score")]
struct ScoreDto {
    /// A tool or `capability:<id>`.
    item: String,
    r#type: &'static str,
    /// The level of a capability; for a tool the lowest level of the capabilities that contain it, missing if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<usize>,
    /// The probability that the intent asks for it.
    score: f64,
    heads: HeadsDto,
    /// The handle and the name of a capability; `tools` are its callees.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
}

/// What each head adds to the logit of the score.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScoreHeads")]
struct HeadsDto {
    semantic: f64,
    structure: f64,
    temporal: f64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScoredPath")]
struct PathDto {
    /// The probability that the path succeeds: the mean of the scores, in which later ones count more.
    success: f64,
    scores: Vec<PathNodeDto>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScoredPathNode")]
struct PathNodeDto {
    item: String,
    score: f64,
    /// Whether the item has a score; one that has none counts as one half.
    known: bool,
}

/// The scores of the untrained network for the latest view that was asked, made by the first question that needs them.
#[derive(Clone, Default)]
pub(super) struct UntrainedTargets(Arc<Mutex<KeptTargets>>);

/// The scores, and the last record of the state that they belong to.
#[derive(Default)]
struct KeptTargets {
    at: Option<Seq>,
    targets: Option<Arc<Targets>>,
}

impl UntrainedTargets {
    fn of(&self, state: &State) -> Option<Arc<Targets>> {
        let mut kept = self.0.lock();
        if kept.at != Some(state.applied()) {
            *kept = KeptTargets { at: Some(state.applied()), targets: Targets::untrained(state).map(Arc::new) };
        }
        kept.targets.clone()
    }
}

impl Asker {
    /// Scores tools and capabilities for an intent. A trained SHGAT scores if one serves, else the untrained network; the answer says
    /// which.
    pub fn score(&self, request: ScoreRequest) -> Result<ScoreAnswer, AskError> {
        let limit = request.check()?;
        let intent = self.checked_intent(&request.intent)?;
        if intent.is_empty() {
            return Err(AskError::invalid("intent", "is blank; say what is to be done"));
        }
        let state = self.views.current();
        let path = named_callees(&state, "path", &request.path)?;
        let question = self.question(&state.vectors, intent)?;
        let trained = state.predictor.parts.targets(&state).cloned();
        let targets = trained.or_else(|| self.untrained.of(&state));
        let found = targets.zip(question.vector).filter(|(targets, vector)| targets.dim() == vector.len());
        let mut answer = ScoreAnswer::empty(&state, question.intent);
        if let Some((targets, vector)) = found {
            let mentions = Mentions::new(&state);
            answer.fill(&mentions, &targets, &vector, &request, limit);
            answer.path = (!path.is_empty()).then(|| PathDto::new(&mentions, &targets, &vector, &path));
            answer.handles = mentions.handles();
        }
        Ok(answer)
    }
}

impl ScoreAnswer {
    fn empty(state: &State, intent: String) -> Self {
        Self {
            intent,
            source: SourceDto { kind: "none", version: None, note: Some(NO_SCORES) },
            results: Vec::new(),
            levels: None,
            path: None,
            scored: CountsDto { tools: 0, capabilities: 0 },
            unscored_capabilities: offered(state),
            handles: Handles::default(),
            based_on_seq: state.applied().0,
        }
    }

    fn fill(&mut self, mentions: &Mentions<'_>, targets: &Targets, vector: &[f32], request: &ScoreRequest, limit: usize) {
        let state = mentions.state;
        self.source = match targets.version() {
            Some(version) => SourceDto { kind: "trained", version: Some(version.to_string()), note: None },
            None => SourceDto { kind: "untrained", version: None, note: Some(UNTRAINED) },
        };
        let (tools, capabilities) = targets.counts(state);
        self.scored = CountsDto { tools, capabilities };
        self.unscored_capabilities = offered(state).saturating_sub(capabilities);
        let dtos = |scores: Vec<TargetScore>| scores.iter().map(|score| ScoreDto::new(mentions, score)).collect::<Vec<_>>();
        if request.by_level {
            let levels: BTreeMap<usize, Vec<TargetScore>> = targets.top_by_level(state, vector, limit);
            self.levels = Some(levels.into_iter().map(|(level, scores)| LevelDto { level, results: dtos(scores) }).collect());
            return;
        }
        self.results = dtos(match (request.only, request.level) {
            (ItemType::Tool, _) => targets.tools(state, vector, limit),
            (ItemType::All, None) => targets.all(state, vector, limit),
            (ItemType::Capability, _) | (ItemType::All, Some(_)) => targets.capabilities(state, vector, request.level, limit),
        });
    }
}

/// The number of capabilities that may be recommended.
fn offered(state: &State) -> usize {
    state.capabilities.rows().filter(|capability| capability.is_offered()).count()
}

impl ScoreDto {
    fn new(mentions: &Mentions<'_>, TargetScore { node, level, score, heads, .. }: &TargetScore) -> Self {
        let state = mentions.state;
        let [semantic, structure, temporal] = heads.map(f64::from);
        let (mut handle, mut name, mut tools, mut r#type) = (None, None, None, "tool");
        if let NodeKind::Capability(position) = node.kind() {
            let capability = state.capabilities.at(position);
            r#type = "capability";
            handle = Some(capability.handle.to_string());
            name = Some(capability.name.clone());
            tools = Some(mentions.nodes(&capability.members));
        }
        let (item, heads) = (state.callee(*node).to_string(), HeadsDto { semantic, structure, temporal });
        Self { item, r#type, level: *level, score: f64::from(*score), heads, handle, name, tools }
    }
}

impl PathDto {
    fn new(mentions: &Mentions<'_>, targets: &Targets, vector: &[f32], path: &[Callee]) -> Self {
        let nodes: Vec<Option<Node>> = path.iter().map(|callee| mentions.state.find(callee)).collect();
        let (scores, success) = targets.path(vector, &nodes);
        let node = |((callee, node), score): ((&Callee, &Option<Node>), f32)| PathNodeDto {
            item: mentions.callee(callee),
            score: f64::from(score),
            known: node.is_some_and(|node| targets.has(node)),
        };
        Self { success: f64::from(success), scores: path.iter().zip(&nodes).zip(scores).map(node).collect() }
    }
}
