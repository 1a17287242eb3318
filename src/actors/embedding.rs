//! The embedding actor computes and records the vectors of the texts in the state, once per text and model, in batches.
//!
//! The view says which texts lack a vector, so a restarted actor needs nothing but the log, and two processes with this role only
//! repeat some work. After a change of model every text lacks a vector of the new model, and the same loop computes them.

use std::sync::Arc;

use tokio::sync::watch;

use super::ActorFailure;
use crate::clock::Clock;
use crate::core::event::{EmbeddingComputed, Event, NewRecord};
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::core::vectors::TextHash;
use crate::embed::SharedEmbedder;
use crate::failpoint;
use crate::log::{SharedLog, append_patiently};
use crate::views::Views;

const SOURCE: &str = "pml/embedding";
/// Texts whose vectors are appended together. A vector is about a kilobyte.
pub(crate) const APPEND_TEXTS_MAX: usize = 512;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct EmbeddingParts {
    pub(crate) log: SharedLog,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) embedder: SharedEmbedder,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`: computes vectors while texts lack them, otherwise waits for a newer view.
pub(crate) async fn run(mut parts: EmbeddingParts) -> Result<(), ActorFailure> {
    // The view may not have what an earlier incarnation of this actor wrote, and a vector needs to be written once.
    let mut wait_for = *parts.log.tail().borrow();
    while !*parts.stop.borrow_and_update() {
        let view = tokio::select! {
            view = parts.views.at_least(wait_for) => view,
            _ = parts.stop.changed() => continue,
        };
        let Some(view) = view else { return Ok(()) }; // The fold has ended: the process is shutting down.
        let lacking = view.vectors.lacking(parts.embedder.model().as_str(), APPEND_TEXTS_MAX);
        wait_for =
            if lacking.is_empty() { view.applied().next() } else { embed_and_append(&parts, lacking, view.applied()).await? };
    }
    Ok(())
}

/// Computes and appends the vectors of some texts. Returns the position of the last one.
async fn embed_and_append(
    parts: &EmbeddingParts,
    lacking: Vec<(TextHash, Arc<str>)>,
    wanted_at: Seq,
) -> Result<Seq, ActorFailure> {
    failpoint::pass("embedding.batch");
    let embedder = Arc::clone(&parts.embedder);
    let work = move || {
        let texts: Vec<&str> = lacking.iter().map(|(_, text)| &**text).collect();
        let vectors = embedder.embed(&texts)?;
        Ok((lacking, vectors))
    };
    let (texts, vectors) =
        tokio::task::spawn_blocking(work).await.map_err(|_| ActorFailure::Gone)?.map_err(ActorFailure::Embed)?;
    let now = parts.clock.now();
    let model = parts.embedder.model().as_str();
    let record = |((hash, _), vector)| Arc::new(embedding_record(hash, model, vector, wanted_at, now));
    let facts = texts.into_iter().zip(vectors).map(record).collect();
    let appended = append_patiently(&parts.log, facts).await?;
    Ok(appended.into_iter().map(|appended| appended.seq).max().unwrap_or(wanted_at))
}

/// The fact that a text has a vector. Its id contains `wanted_at`, the view in which the vector was missing, so that a text that was
/// forgotten and came back gets a vector again.
pub(crate) fn embedding_record(hash: TextHash, model: &str, vector: Vec<f32>, wanted_at: Seq, now: Timestamp) -> NewRecord {
    let text_hash = hash.to_string();
    NewRecord {
        id: RecordId::derived(now, &["embedding.computed", model, &text_hash, &wanted_at.to_string()]),
        time: now,
        source: SOURCE.into(),
        causation: None,
        envelope: None,
        event: Event::EmbeddingComputed(EmbeddingComputed { text_hash, model: model.to_owned(), vector }),
    }
}
