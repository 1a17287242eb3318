//! `/v1/snapshots`: lists and takes snapshots.

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde_json::{Value, json};

use super::Gateway;
use super::error::ApiError;
use crate::snapshot::{ListedSnapshot, Manifest};

/// Lists the snapshots, without the location of the store, which clients need not know.
pub(super) async fn list(gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let snapshots: Vec<Value> = gateway.snapshots.list().await?.iter().map(listed_snapshot_dto).collect();
    Ok(HttpResponse::Ok().json(json!({"snapshots": snapshots})))
}

/// Takes a snapshot and responds once it is written.
pub(super) async fn create(gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(snapshot_dto(&gateway.snapshots.take_snapshot().await?)))
}

/// Returns the JSON of a listed snapshot; `problem` says why one cannot be used.
pub(crate) fn listed_snapshot_dto(ListedSnapshot { seq, manifest }: &ListedSnapshot) -> Value {
    match manifest {
        Ok(manifest) => {
            let mut snapshot = snapshot_dto(manifest);
            if let Err(other) = manifest.check_fold() {
                snapshot["problem"] = json!(other.to_string());
            }
            snapshot
        }
        Err(problem) => json!({"seq": seq.0, "problem": problem.to_string()}),
    }
}

/// Returns the JSON of a snapshot.
pub(crate) fn snapshot_dto(manifest: &Manifest) -> Value {
    json!({
        "seq": manifest.seq, "taken_at": manifest.taken_at, "digest": manifest.digest, "schema": manifest.schema,
        "fold": manifest.fold,
        "rows": manifest.rows(), "bytes": manifest.bytes(), "files": manifest.files.len(),
    })
}
