//! Health, own metrics and state on one listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use headroom_adapter::clock::Clock;

use super::state;
use crate::controller::Store;
use crate::telemetry::OwnMetrics;

/// Whether the process is ready: its configuration is in force and everything listens. Not tied to scrapes.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
}

impl Health {
    /// Ready from now on.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}

/// What the handlers share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) clock: Clock,
    metrics: Arc<OwnMetrics>,
    health: Arc<Health>,
}

const INDEX: &str = "Headroom\n\n\
    /metrics                                            own metrics\n\
    /livez /readyz                                      health\n\
    /api/v1/autoscalers                                 every autoscaler\n\
    /api/v1/autoscalers/NAMESPACE/NAME                  one, with its decision and its targets\n\
    /api/v1/autoscalers/NAMESPACE/NAME/decisions        its decisions of the last day (?since= ?until= ?limit=)\n\
    /api/v1/autoscalers/NAMESPACE/NAME/decisions?at=T   the one in force at a time, whole\n\
    /api/v1/autoscalers/NAMESPACE/NAME/decisions/ID     one of them, whole\n\
    /api/v1/autoscalers/NAMESPACE/NAME/hold             PUT {\"replicas\", \"until\", \"reason\"} and DELETE, from loopback\n";

/// The routes.
pub fn router(store: Arc<Store>, clock: Clock, metrics: Arc<OwnMetrics>, health: Arc<Health>) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(own_metrics))
        .nest("/api/v1", state::routes())
        .with_state(Shared { store, clock, metrics, health })
}

async fn readyz(State(shared): State<Shared>) -> Response {
    if shared.health.ready.load(Ordering::Relaxed) {
        "ok".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping").into_response()
    }
}

async fn own_metrics(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match shared.metrics.page(accept) {
        Ok((content_type, page)) => ([(CONTENT_TYPE, content_type)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The address of a client, for requests that only a local user may make.
pub(super) type Client = axum::extract::ConnectInfo<SocketAddr>;
