//! `pml eval --ablation`: one table with the answers without each part.

use serde_json::{Value, json};

use crate::cli::output::Output;
use crate::core::event::ModelPart;
use crate::eval::ablation::AblationRow;

/// Prints the rows.
pub(super) fn report(dataset: &str, model: &str, rows: &[AblationRow], output: &Output) {
    let names = |accepted: &[Vec<ModelPart>]| -> Vec<Vec<&str>> {
        accepted.iter().map(|parts| parts.iter().map(|part| part.name()).collect()).collect()
    };
    let row = |row: &AblationRow| {
        json!({
            "variant": row.variant.name(), "discover": row.discover, "next": row.next, "accepted": names(&row.accepted),
        })
    };
    let ablation: Vec<Value> = rows.iter().map(row).collect();
    output.json(&json!({"dataset": dataset, "model": model, "ablation": ablation}));
    output.say(format!("{dataset}, embedding model {model}: what pml answers, in %"));
    let percent = |value: f64| format!("{:.1}", value * 100.0);
    let cells = |row: &AblationRow| {
        let AblationRow { variant, discover, next, accepted } = row;
        let measures =
            [discover.hit1, discover.recall5, discover.mrr, next.all.hit1, next.all.mrr, next.first.hit1].map(percent);
        let accepted = names(accepted).iter().map(|parts| parts.join(" ")).collect::<Vec<_>>().join("; ");
        [variant.name()].into_iter().chain(measures).chain([accepted]).collect()
    };
    let header = ["", "discover hit@1", "recall@5", "MRR", "next hit@1", "MRR", "first hit@1", "accepted by the gate"];
    output.table(&header, rows.iter().map(cells).collect::<Vec<_>>());
}
