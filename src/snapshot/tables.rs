//! The tables of a snapshot: each file converts a part of the state to columns and back.
//!
//! A new part of the state needs a file here that writes and reads it, a line in [`TABLES`], a line in `restore`, and its columns in
//! `docs/snapshots.md`. Tests fail if one of them is missing: the digest of a restored state, or the document, differs.

pub(super) mod capabilities;
pub(super) mod counters;
pub(super) mod graph;
pub(super) mod intents;
pub(super) mod models;
pub(super) mod open;
pub(super) mod predictions;
pub(super) mod quality;
pub(super) mod templates;
pub(super) mod tools;
pub(super) mod traces;
pub(super) mod vectors;

use arrow_array::RecordBatch;

use crate::core::state::State;

/// The name of a table and the function that writes it; it returns no batch if the table is to be left out.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) batches: fn(&State) -> Vec<RecordBatch>,
}

/// All tables; the long ones are last.
pub(super) const TABLES: [Table; 27] = [
    Table { name: counters::COUNTERS, batches: counters::counters },
    Table { name: counters::RECORD_IDS, batches: counters::record_ids },
    Table { name: tools::TOOLS, batches: tools::tools },
    Table { name: capabilities::CAPABILITIES, batches: capabilities::capabilities },
    Table { name: capabilities::MEMBERS, batches: capabilities::members },
    Table { name: graph::EDGES, batches: graph::edges },
    Table { name: graph::TRANSITIONS, batches: graph::transitions },
    Table { name: templates::TEMPLATES, batches: templates::templates },
    Table { name: intents::INTENTS, batches: intents::intents },
    Table { name: intents::WAYS, batches: intents::ways },
    Table { name: vectors::TEXTS, batches: vectors::texts },
    Table { name: vectors::MODELS, batches: vectors::models },
    Table { name: vectors::EMBEDDINGS[0], batches: |state| vectors::embeddings(state, 0) },
    Table { name: vectors::EMBEDDINGS[1], batches: |state| vectors::embeddings(state, 1) },
    Table { name: models::TRAINING_RUNS, batches: models::training_runs },
    Table { name: models::MODEL_PARAMETERS, batches: models::model_parameters },
    Table { name: predictions::PARAMETERS, batches: predictions::parameters },
    Table { name: predictions::THRESHOLDS, batches: predictions::thresholds },
    Table { name: predictions::PREDICTIONS, batches: predictions::predictions },
    Table { name: predictions::OPEN_PREDICTIONS, batches: predictions::open_predictions },
    Table { name: predictions::SCORES, batches: predictions::scores },
    Table { name: quality::QUALITY, batches: quality::quality },
    Table { name: predictions::PLAN_FEEDBACK, batches: predictions::plan_feedback },
    Table { name: open::OPEN_EXECUTIONS, batches: open::open_executions },
    Table { name: open::OPEN_STEPS, batches: open::open_steps },
    Table { name: traces::TRACES, batches: traces::traces },
    Table { name: traces::STEPS, batches: traces::steps },
];
