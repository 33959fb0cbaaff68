//! Refusals as Kubernetes clients read them: a `Status` object with the matching HTTP code.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A refusal. Any other body would be replaced by clients with a text that says nothing.
///
/// No `Retry-After` is ever sent: with it the HPA's client would wait and ask again within one pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Status {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Status {
    /// 400: the request cannot be understood.
    pub(super) fn bad_request(message: String) -> Self {
        Self { code: StatusCode::BAD_REQUEST, reason: "BadRequest", message }
    }

    /// 404: there is no such thing.
    pub(super) fn not_found(message: String) -> Self {
        Self { code: StatusCode::NOT_FOUND, reason: "NotFound", message }
    }

    /// 405: the path exists, but is only read.
    pub(super) fn method_not_allowed(message: String) -> Self {
        Self { code: StatusCode::METHOD_NOT_ALLOWED, reason: "MethodNotAllowed", message }
    }

    /// 503: not known at present.
    pub(super) fn unavailable(message: String) -> Self {
        Self { code: StatusCode::SERVICE_UNAVAILABLE, reason: "ServiceUnavailable", message }
    }
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        json_response(self.code, body.to_string().into())
    }
}

/// A body of JSON.
pub(super) fn json_response(code: StatusCode, body: axum::body::Bytes) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
