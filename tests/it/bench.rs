//! `pml bench` measures what it says, on a history so short that the numbers mean nothing.

use serde_json::Value;

use crate::server::pml;

#[test]
fn the_costs_of_a_growing_history_come_with_their_exponents() {
    let output = pml().args(["bench", "scale", "--json", "--events", "1200,400"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let curves: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sizes = curves["sizes"].as_array().unwrap();
    let records: Vec<f64> = sizes.iter().map(|size| size["records"].as_f64().unwrap()).collect();
    assert!(records.len() == 2 && (400.0..1_200.0).contains(&records[0]) && records[1] >= 1_200.0, "{curves}");
    for cost in ["log_mb", "fold_s", "peak_memory_mb", "snapshot_mb", "start_ms"] {
        assert!(sizes.iter().all(|size| size[cost].as_f64().is_some_and(|cost| cost > 0.0)), "{cost}: {curves}");
    }
    for cost in ["log", "fold", "peak_memory", "snapshot", "start"] {
        assert!(curves["exponents"][cost].is_f64(), "{cost}: {curves}");
    }
}
