//! `GET /v1/backup`: the log as one stream, consistent also while events are appended.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::{Bytes, Data};
use futures_util::StreamExt;

use super::Gateway;
use super::error::ApiError;
use super::stream::OpenStream;
use crate::history::backup;

pub(super) async fn get(gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let open = OpenStream::register(&gateway)?;
    let pieces = backup::encode_log(Arc::clone(&gateway.log)).map(move |piece| {
        // Keeps the stream counted until it is dropped.
        let _counted = &open;
        piece.map(Bytes::from)
    });
    Ok(HttpResponse::Ok().content_type("application/octet-stream").streaming(pieces))
}
