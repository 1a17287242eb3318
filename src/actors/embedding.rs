//! embedding: gives every text that the state wants a vector, once per text and model, in batches, and records it.
//!
//! What is lacking is read off the view, so a new life needs nothing but the log, and two of these in different processes only do
//! some work twice. A change of model is nothing special: the texts lack vectors of the new model until the last one has got its own.

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

#[derive(Clone)]
pub(crate) struct EmbeddingParts {
    pub(crate) log: SharedLog,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) embedder: SharedEmbedder,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life: while texts lack vectors, compute some; else wait for the view to move.
pub(crate) async fn run(mut parts: EmbeddingParts) -> Result<(), ActorFailure> {
    let mut wait_for = Seq::ZERO;
    while !*parts.stop.borrow_and_update() {
        let view = tokio::select! {
            view = parts.views.at_least(wait_for) => view,
            _ = parts.stop.changed() => continue,
        };
        let Some(view) = view else { return Ok(()) }; // The fold is gone: shutting down.
        let lacking = view.vectors.lacking(parts.embedder.model().as_str(), APPEND_TEXTS_MAX);
        wait_for = if lacking.is_empty() { view.applied().next() } else { compute(&parts, lacking, view.applied()).await? };
    }
    Ok(())
}

/// Records the vectors of some texts; the answer is where the last one stands.
async fn compute(parts: &EmbeddingParts, lacking: Vec<(TextHash, Arc<str>)>, wanted_at: Seq) -> Result<Seq, ActorFailure> {
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

/// The record of a vector. With the moment the text was found lacking in its id: a text that was forgotten and came back gets a vector again.
pub(crate) fn embedding_record(hash: TextHash, model: &str, vector: Vec<f32>, wanted_at: Seq, now: Timestamp) -> NewRecord {
    let text_hash = hash.to_string();
    NewRecord {
        id: RecordId::derived(now, &["embedding.computed", model, &text_hash, &wanted_at.to_string()]),
        time: now,
        source: SOURCE.into(),
        causation: None,
        event: Event::EmbeddingComputed(EmbeddingComputed { text_hash, model: model.to_owned(), vector }),
    }
}
