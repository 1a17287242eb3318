//! `POST /v1/traces`: OTLP/HTTP. Spans as protobuf or JSON, plain or gzip; the answer is of the same encoding, with the number of rejected
//! spans as partial success.

use std::io::Read;

use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use flate2::read::MultiGzDecoder;

use super::Gateway;
use super::error::ApiError;
use super::publish::read_body;
use crate::core::redact::Redactor;
use crate::gateway::otlp::{Encoding, SpanError};
use crate::readers::otlp;

pub(super) async fn post_traces(request: HttpRequest, payload: Payload, gateway: Data<Gateway>) -> HttpResponse {
    let encoding = match encoding(request.headers()) {
        Ok(encoding) => encoding,
        Err(error) => return error.error_response(),
    };
    match take(&request, payload, &gateway, encoding).await {
        Ok(response) => response,
        Err(error) => failure(&error, encoding, &gateway.publisher.limits().redactor),
    }
}

async fn take(
    request: &HttpRequest,
    payload: Payload,
    gateway: &Gateway,
    encoding: Encoding,
) -> Result<HttpResponse, ApiError> {
    let announced = text(request.headers(), &CONTENT_LENGTH).parse().unwrap_or(0);
    let body = read_body(payload, announced, &gateway.settings).await?;
    let body = match text(request.headers(), &CONTENT_ENCODING).to_ascii_lowercase().as_str() {
        "" | "identity" => body,
        "gzip" => unpacked(&body, gateway.settings.body_bytes_max)?,
        other => {
            let problem = format!("'{other}' is not supported; send gzip or none");
            return Err(ApiError::BadRequest { field: "content-encoding", problem });
        }
    };
    let decoded = gateway.spans.take(&body, encoding)?;
    let message = if decoded.rejected == 0 {
        ""
    } else {
        "spans were rejected: without ids, with very long ones, malformed, beyond otlp.spans_max or otlp.bytes_max"
    };
    Ok(match encoding {
        Encoding::Protobuf => {
            HttpResponse::Ok().content_type("application/x-protobuf").body(otlp::response_protobuf(decoded.rejected, message))
        }
        Encoding::Json => {
            HttpResponse::Ok().content_type("application/json").body(otlp::response_json(decoded.rejected, message))
        }
    })
}

impl From<SpanError> for ApiError {
    fn from(error: SpanError) -> Self {
        match error {
            SpanError::Malformed(error) => Self::BadRequest { field: "body", problem: error.to_string() },
            SpanError::Busy => Self::SpansBusy(error.to_string()),
        }
    }
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let content_type = text(headers, &CONTENT_TYPE);
    match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-protobuf" => Ok(Encoding::Protobuf),
        "application/json" => Ok(Encoding::Json),
        _ => {
            let problem = "is neither application/x-protobuf nor application/json".to_owned();
            Err(ApiError::BadRequest { field: "content-type", problem })
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
}

/// A small body may unpack to any length, so it is read up to the limit only.
fn unpacked(body: &Bytes, max: usize) -> Result<Bytes, ApiError> {
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(&body[..]).take(max as u64 + 1).read_to_end(&mut plain);
    match read {
        Ok(len) if len > max => Err(ApiError::BodyTooLarge { max }),
        Ok(_) => Ok(plain.into()),
        Err(_) => Err(ApiError::BadRequest { field: "body", problem: "is not gzip".to_owned() }),
    }
}

/// The protocol wants errors as `google.rpc.Status` in the encoding of the request.
fn failure(error: &ApiError, encoding: Encoding, redactor: &Redactor) -> HttpResponse {
    let mut message = error.to_string();
    redactor.clean(&mut message);
    let (content_type, body) = match encoding {
        Encoding::Protobuf => ("application/x-protobuf", otlp::status_protobuf(&message)),
        Encoding::Json => ("application/json", otlp::status_json(&message).into_bytes()),
    };
    let mut response = error.error_response().map_into_boxed_body();
    response.headers_mut().insert(CONTENT_TYPE, actix_web::http::header::HeaderValue::from_static(content_type));
    response.set_body(actix_web::body::BoxBody::new(body))
}
