//! Small answers.

use std::time::{Duration, SystemTime};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An answer of JSON.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// An error in the form of vLLM's.
pub(super) fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": kind, "param": null, "code": status.as_u16()}});
    answer(status, &body)
}

/// 503.
pub(super) fn unavailable(message: &str) -> Response {
    error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
}

/// The wall clock, since 1970-01-01T00:00:00Z; zero where it stands before.
pub(super) fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
