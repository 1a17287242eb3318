//! Calls of pml's own tools.

use rmcp::model::{CallToolResult, JsonObject};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::own_tools::OwnTool;
use super::{Caller, Mcp};
use crate::ask::{
    AskError, Asker, DiscoverRequest, PredictRequest, SearchCapabilitiesRequest, SearchToolsRequest, SuggestRequest,
};
use crate::core::event::{Event, FeedbackGiven, FeedbackTarget, FeedbackVerdict};
use crate::core::id::RecordId;

/// The arguments of `pml_feedback`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedbackArguments {
    prediction: Option<String>,
    suggestion: Option<String>,
    verdict: VerdictArgument,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VerdictArgument {
    Accepted,
    Ignored,
    Rejected,
}

impl FeedbackArguments {
    fn into_event(self) -> Result<FeedbackGiven, String> {
        let id = |field: &str, id: String| id.parse::<RecordId>().map_err(|problem| format!("{field}: {problem}"));
        let target = match (self.prediction, self.suggestion) {
            (Some(prediction), None) => FeedbackTarget::Prediction(id("prediction", prediction)?),
            (None, Some(suggestion)) => FeedbackTarget::Suggestion(id("suggestion", suggestion)?),
            _ => return Err("prediction: give the id of a prediction or of a suggestion".to_owned()),
        };
        let verdict = match self.verdict {
            VerdictArgument::Accepted => FeedbackVerdict::Accepted,
            VerdictArgument::Ignored => FeedbackVerdict::Ignored,
            VerdictArgument::Rejected => FeedbackVerdict::Rejected,
        };
        Ok(FeedbackGiven { target, verdict })
    }
}

impl Mcp {
    /// Calls one of pml's own tools. What goes wrong is told in the answer, so that the model can read it.
    pub(super) async fn call_own(&self, caller: &Caller, tool: OwnTool, arguments: JsonObject) -> CallToolResult {
        if let Err(problem) = caller.needs(tool.scope()) {
            return self.0.outgoing.problem(problem);
        }
        let answered = match tool {
            // Their answers are prepared where they are made: they hold results of other servers' tools.
            OwnTool::Execute => return self.told(self.execute(caller, arguments).await),
            OwnTool::Continue => return self.told(self.go_on(caller, arguments).await),
            OwnTool::Discover => self.discover(caller, arguments).await,
            OwnTool::SearchTools => self.ask(arguments, |asker, request: SearchToolsRequest| asker.search_tools(request)).await,
            OwnTool::SearchCapabilities => {
                self.ask(arguments, |asker, request: SearchCapabilitiesRequest| asker.search_capabilities(request)).await
            }
            OwnTool::Predict => self.ask(arguments, |asker, request: PredictRequest| asker.predict(request)).await,
            OwnTool::Suggest => self.ask(arguments, |asker, request: SuggestRequest| asker.suggest(request)).await,
            OwnTool::Feedback => self.feedback(arguments).await,
        };
        match answered {
            Ok(answer) => self.0.outgoing.answer(answer),
            Err(problem) => self.0.outgoing.problem(problem),
        }
    }

    fn told(&self, answered: Result<Value, String>) -> CallToolResult {
        match answered {
            Ok(answer) => CallToolResult::structured(answer),
            Err(problem) => self.0.outgoing.problem(problem),
        }
    }

    /// What is asked for is what the session's next calls are for.
    async fn discover(&self, caller: &Caller, arguments: JsonObject) -> Result<Value, String> {
        let intent = arguments.get("intent").and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned();
        let answer = self.ask(arguments, |asker, request: DiscoverRequest| asker.discover(request)).await?;
        if !intent.is_empty() {
            let ended = self.observer().ask(&caller.session, &intent, self.now_ms());
            self.record(ended).await;
        }
        Ok(answer)
    }

    /// Answers a question on a thread that may block.
    async fn ask<Q, A>(&self, arguments: JsonObject, question: fn(&Asker, Q) -> Result<A, AskError>) -> Result<Value, String>
    where
        Q: DeserializeOwned + Send + 'static,
        A: Serialize + 'static,
    {
        let request: Q = parsed(arguments)?;
        let asker = self.parts().asker.clone();
        let answering = tokio::task::spawn_blocking(move || question(&asker, request).map(|answer| json!(answer)));
        let answered = answering.await.map_err(|_| "answering failed; the server's log says why".to_owned())?;
        answered.map_err(|error| match error {
            AskError::Invalid { .. } => error.to_string(),
            AskError::Embed(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a question cannot be embedded");
                "intent: cannot be embedded".to_owned()
            }
        })
    }

    async fn feedback(&self, arguments: JsonObject) -> Result<Value, String> {
        let feedback = parsed::<FeedbackArguments>(arguments)?.into_event()?;
        let recorded = self.parts().recorder.record(self.facts(vec![Event::FeedbackGiven(feedback)])).await;
        recorded.map_err(|error| error.to_string())?;
        Ok(json!({"status": "recorded"}))
    }
}

/// Reads the arguments of a call; the error names the argument.
pub(super) fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| format!("arguments: {error}"))
}
