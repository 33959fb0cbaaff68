//! Servers that misbehave, as some do.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};

use super::Server;
use super::answer::unavailable;
use super::stage::{self, Stage};
use crate::exposition;

/// How many bytes an endless body sends at a time.
const ENDLESS_CHUNK: usize = 16 * 1024;

/// The media type of errors.
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// What a server does wrong, on every path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It takes the request and never answers.
    Hang,
    /// It answers 401 unless the request carries this bearer token.
    Unauthorized {
        /// The token.
        token: String,
    },
    /// It answers 503 with a JSON error, as llama.cpp does while a model loads.
    Loading,
    /// It answers 200 with a metrics page that does not end.
    Endless,
    /// It answers 200 with a web page, as a login page in between would.
    Html,
    /// It answers so much later.
    Slow(Duration),
    /// It ends the connection in the middle of the body.
    Truncated,
}

/// What a server with a fault does before, or instead of, its answer.
pub(super) async fn before(fault: &Fault, headers: &HeaderMap, server: &Server) -> Option<Response> {
    match fault {
        Fault::None | Fault::Truncated => None,
        Fault::Hang => {
            stage::reached(&server.stage, Stage::Stopping).await;
            Some(unavailable("the server stops"))
        }
        Fault::Unauthorized { token } => {
            let expected = format!("Bearer {token}");
            let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let is_known = given == Some(expected.as_str());
            (!is_known).then(|| (StatusCode::UNAUTHORIZED, [JSON], r#"{"error":"Unauthorized"}"#).into_response())
        }
        Fault::Loading => {
            let body = r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#;
            Some((StatusCode::SERVICE_UNAVAILABLE, [JSON], body).into_response())
        }
        Fault::Endless => Some(endless(server)),
        Fault::Html => {
            let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><form></form></body></html>\n";
            Some(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response())
        }
        Fault::Slow(delay) => {
            tokio::select! {
                () = tokio::time::sleep(*delay) => {}
                () = stage::reached(&server.stage, Stage::Stopping) => {}
            }
            None
        }
    }
}

fn endless(server: &Server) -> Response {
    let line = "# a page that does not end\n";
    let chunk = Bytes::from(line.repeat(ENDLESS_CHUNK / line.len()));
    let stopping = server.stage.clone();
    let chunks = stream::unfold((chunk, stopping), |(chunk, stopping)| async move {
        let is_running = *stopping.borrow() == Stage::Running;
        is_running.then(|| (Ok::<_, Infallible>(chunk.clone()), (chunk, stopping)))
    });
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], Body::from_stream(chunks)).into_response()
}

/// The first half of an answer; then the connection ends.
pub(super) async fn truncate(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = axum::body::to_bytes(body, usize::MAX).await else {
        return (parts, Body::empty()).into_response();
    };
    parts.headers.insert(header::CONTENT_LENGTH, whole.len().into());
    let half = whole.slice(..whole.len() / 2);
    let end = async {
        // What was sent before goes out while this waits.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("the body is cut off"))
    };
    let chunks = stream::iter([Ok(half)]).chain(stream::once(end));
    (parts, Body::from_stream(chunks)).into_response()
}
