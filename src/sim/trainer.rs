//! The trainer of a simulated process: the records of a training run as the product makes them, with parameters made up here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::life::Life;
use super::ports::SimLog;
use crate::core::event::ModelTrained;
use crate::core::train::TrainedPart;
use crate::core::trained::PIECE_BYTES;
use crate::lease::LeaseState;
use crate::log::{SharedLog, append_patiently};
use crate::training::training_records;
use crate::views::Views;

/// Runs of one life, at most.
const RUNS_MAX: u64 = 2;
/// The pause before a run, and before its records are appended again.
const PAUSE: Duration = Duration::from_millis(900);

/// Trains while the lease is held, until the process ends.
pub(super) async fn run(life: Arc<Life>, views: Views, lease: watch::Receiver<LeaseState>) {
    let log: SharedLog = Arc::new(SimLog { life: Arc::clone(&life), site: "trainer" });
    for _ in 0..RUNS_MAX {
        sleep(PAUSE).await;
        let view = views.current();
        if life.is_dead() || !lease.borrow().is_held() {
            continue;
        }
        let Ok(through) = log.read(crate::core::id::Seq(view.applied().0.saturating_sub(1)), 1).await else { continue };
        let Some(through) = through.first() else { continue };
        let records = training_records(&[part(through.seq.0, pieces(&life))], through, life.clock.now());
        // The ids are the same, so repeating is harmless; a run that was not recorded in time is trained anew.
        for _ in 0..3 {
            match append_patiently(&log, records.clone()).await {
                Ok(_) => break,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// Pieces of parameters. With tiering one, since all of them would be written to the archive and read from it many times.
fn pieces(life: &Life) -> usize {
    if life.world.tiering { 1 } else { 2 }
}

/// An accepted part whose parameters, in so many pieces, follow from the position.
fn part(through: u64, pieces: usize) -> TrainedPart {
    let mut bytes = vec![0; PIECE_BYTES * (pieces - 1)];
    bytes.extend(through.to_le_bytes());
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let version = format!("head-{}", &digest[..12]).parse().expect("a part and twelve digits");
    let event = ModelTrained {
        version,
        parent: None,
        seed: through,
        through_seq: crate::core::id::Seq(through),
        intents_end: 0,
        embedding_model: None,
        examples: 1,
        skipped: 0,
        settings: Vec::new(),
        metrics: Vec::new(),
        digest,
        size: bytes.len() as u64,
        accepted: true,
        reason: "simulated".to_owned(),
        curve: Vec::new(),
    };
    TrainedPart { event, bytes, retires: false }
}
