//! Presence: every process of a workspace answers on one subject which roles it runs, so that `pml doctor` sees which ones nobody runs.

use std::time::Duration;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::{Nats, NatsError};

/// How long answers are collected: processes answer from memory.
const ANSWERS_WAIT: Duration = Duration::from_millis(500);
/// Most processes that are listed.
const PROCESSES_MAX: usize = 1_024;

/// What a process says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub process: u32,
    pub version: String,
    pub roles: Vec<String>,
}

impl Nats {
    /// Answers with `info` until the returned task is aborted.
    pub(crate) async fn announce(&self, info: &ProcessInfo) -> Result<tokio::task::JoinHandle<()>, NatsError> {
        let answer = serde_json::to_vec(info).expect("it is plain data");
        let (client, subject) = (self.client().clone(), self.subjects().processes().as_str().to_owned());
        let asked = self.run({
            let client = client.clone();
            async move { client.subscribe(subject).await }
        });
        let mut asked = asked.await.map_err(|error| NatsError::Presence(error.into()))?;
        Ok(self.spawn(async move {
            while let Some(question) = asked.next().await {
                if let Some(reply) = question.reply
                    && let Err(error) = client.publish(reply, answer.clone().into()).await
                {
                    tracing::debug!(%error, "an answer about this process was not sent");
                }
            }
        }))
    }

    /// The processes of the workspace that are connected.
    pub async fn processes(&self) -> Result<Vec<ProcessInfo>, NatsError> {
        let (client, subject) = (self.client().clone(), self.subjects().processes().as_str().to_owned());
        let asking = self.run(async move {
            let inbox = client.new_inbox();
            let mut answers = client.subscribe(inbox.clone()).await?;
            client.publish_with_reply(subject, inbox, "".into()).await?;
            let mut found = Vec::new();
            while let Ok(Some(answer)) = tokio::time::timeout(ANSWERS_WAIT, answers.next()).await {
                // The server answers with an empty message if nobody listens.
                found.extend(serde_json::from_slice::<ProcessInfo>(&answer.payload));
                if answer.payload.is_empty() || found.len() == PROCESSES_MAX {
                    break;
                }
            }
            Ok::<_, async_nats::Error>(found)
        });
        asking.await.map_err(NatsError::Presence)
    }
}
