//! Snapshots: which there are, and taking one.

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde_json::{Value, json};

use super::Gateway;
use super::error::ApiError;
use crate::snapshot::{ListedSnapshot, Manifest};

/// Where they are kept is nothing that clients need to know.
pub(super) async fn list(gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let snapshots: Vec<Value> = gateway.snapshots.list().await?.iter().map(listed).collect();
    Ok(HttpResponse::Ok().json(json!({"snapshots": snapshots})))
}

/// Answers when the snapshot is written.
pub(super) async fn create(gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(described(&gateway.snapshots.take_snapshot().await?)))
}

/// A snapshot for programs; `problem` says why one cannot be used.
pub(crate) fn listed(ListedSnapshot { seq, manifest }: &ListedSnapshot) -> Value {
    match manifest {
        Ok(manifest) => {
            let mut snapshot = described(manifest);
            if let Err(other) = manifest.check_fold() {
                snapshot["problem"] = json!(other.to_string());
            }
            snapshot
        }
        Err(problem) => json!({"seq": seq.0, "problem": problem.to_string()}),
    }
}

pub(crate) fn described(manifest: &Manifest) -> Value {
    json!({
        "seq": manifest.seq, "taken_at": manifest.taken_at, "digest": manifest.digest, "schema": manifest.schema,
        "fold": manifest.fold,
        "rows": manifest.rows(), "bytes": manifest.bytes(), "files": manifest.files.len(),
    })
}
