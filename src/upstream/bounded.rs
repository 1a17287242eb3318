//! Limits on what a server sends: a reader that fails on a line that is too long, and an HTTP client that fails on an answer that is.
//! Nothing is kept in memory beyond the limit, and the connection ends, since what follows cannot be understood.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tokio::io::{AsyncRead, ReadBuf};

const SESSION_ID: &str = "mcp-session-id";
/// Bytes of an error's body that are shown.
const SHOWN_BYTES: usize = 200;

/// A reader that fails when a line is longer than a limit.
pub(super) struct LineLimit<R> {
    reader: R,
    max: usize,
    /// Bytes since the last line break.
    line: usize,
}

impl<R> LineLimit<R> {
    pub(super) fn new(reader: R, max: usize) -> Self {
        Self { reader, max, line: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LineLimit<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.reader).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = polled {
            let read = &buffer.filled()[before..];
            let first = self.line + read.iter().position(|byte| *byte == b'\n').unwrap_or(read.len());
            self.line = read.iter().rposition(|byte| *byte == b'\n').map_or(first, |at| read.len() - at - 1);
            if first > self.max || self.line > self.max {
                // A read that fails gives nothing.
                buffer.set_filled(before);
                let problem = format!("a message is longer than {} bytes (upstream.message_bytes_max)", self.max);
                return Poll::Ready(Err(std::io::Error::other(problem)));
            }
        }
        polled
    }
}

/// Headers as rmcp hands them over.
#[expect(clippy::disallowed_types, reason = "the type of rmcp's trait")]
type Headers = std::collections::HashMap<HeaderName, HeaderValue>;
type HttpError = StreamableHttpError<reqwest::Error>;

/// An HTTP client whose answers are limited in size.
#[derive(Clone)]
pub(super) struct BoundedHttp {
    pub(super) client: reqwest::Client,
    pub(super) answer_bytes_max: usize,
}

impl StreamableHttpClient for BoundedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut request = self.client.post(uri.as_ref()).header(ACCEPT, "text/event-stream, application/json");
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        let has_session = session_id.is_some();
        if let Some(session) = &session_id {
            request = request.header(SESSION_ID, session.as_ref());
        }
        let response = request.json(&message).send().await.map_err(StreamableHttpError::Client)?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if has_session => Err(StreamableHttpError::SessionExpired),
            status if status.is_success() => self.read_success(response, &message).await,
            status => self.read_failure(response, status).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), HttpError> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let max = self.answer_bytes_max;
        self.client.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, custom_headers, max).await
    }
}

impl BoundedHttp {
    async fn read_success(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (content_type, session) = (header(CONTENT_TYPE.as_str()).unwrap_or_default(), header(SESSION_ID));
        if content_type.starts_with("text/event-stream") {
            let events = SseStream::from_bytes_stream(limited(response.bytes_stream(), self.answer_bytes_max));
            return Ok(StreamableHttpPostResponse::Sse(events.boxed(), session));
        }
        let body = self.read_body(response).await?;
        // A notification needs no answer, whatever the server sends.
        if !matches!(message, ClientJsonRpcMessage::Request(_)) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !content_type.starts_with("application/json") {
            return Err(StreamableHttpError::UnexpectedContentType(Some(content_type)));
        }
        let answer: ServerJsonRpcMessage = serde_json::from_slice(&body)?;
        Ok(StreamableHttpPostResponse::Json(answer, session))
    }

    /// An error of the protocol may come with any status; other failures are described by their status and the start of their body.
    async fn read_failure(&self, response: Response, status: StatusCode) -> Result<StreamableHttpPostResponse, HttpError> {
        let body = self.read_body(response).await?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer @ ServerJsonRpcMessage::Error(_)) if status.as_u16() != 401 && status.as_u16() != 403 => {
                Ok(StreamableHttpPostResponse::Json(answer, None))
            }
            _ => {
                let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]);
                Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(format!("HTTP {status}: {shown}"))))
            }
        }
    }

    async fn read_body(&self, response: Response) -> Result<Bytes, HttpError> {
        let mut body = BytesMut::new();
        let mut pieces = std::pin::pin!(limited(response.bytes_stream(), self.answer_bytes_max));
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece.map_err(StreamableHttpError::Io)?);
        }
        Ok(body.freeze())
    }
}

/// The stream, which fails once it has given more than `max` bytes.
fn limited(
    pieces: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    max: usize,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    let mut given = 0_usize;
    pieces.map(move |piece| {
        let piece = piece.map_err(std::io::Error::other)?;
        given = given.saturating_add(piece.len());
        if given > max {
            let problem = format!("an answer is longer than {max} bytes (upstream.message_bytes_max)");
            return Err(std::io::Error::other(problem));
        }
        Ok(piece)
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        let mut text = String::new();
        let input = b"12345678\n1234\n123456789";
        let mut reader = LineLimit::new(&input[..], 8);
        let error = reader.read_to_string(&mut text).await.unwrap_err();
        assert!(error.to_string().contains("longer than 8 bytes"));
        let mut reader = LineLimit::new(&input[..input.len() - 1], 8);
        assert_eq!(reader.read_to_string(&mut text).await.unwrap(), input.len() - 1);
    }
}
