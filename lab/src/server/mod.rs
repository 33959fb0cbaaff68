//! Replicas as real HTTP servers, their fleet's time running with the wall clock.
//!
//! A [`LiveFleet`] sets a [`Fleet`](crate::fleet::Fleet) going; a [`ReplicaServer`] answers for one of its replicas as
//! vLLM's API server does: `/metrics`, `/v1/completions`, `/v1/models`, `/health` and `/version`. A single engine is a
//! fleet of one.

mod answer;
mod clock;
mod completions;
mod fault;
mod live;
mod stage;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use clock::Clock;
pub use fault::Fault;
pub use live::LiveFleet;

use crate::exposition::{self, Page, VLLM_VERSION};
use crate::fleet::ReplicaId;
use stage::Stage;

/// What a page needs at most, to write it without growing.
const PAGE_CAPACITY: usize = 64 * 1024;
/// How long a killed server has for its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the handlers of one server share.
#[derive(Debug)]
struct Server {
    fleet: LiveFleet,
    replica: ReplicaId,
    model: String,
    page: Page,
    fault: Mutex<Fault>,
    stage: watch::Receiver<Stage>,
}

/// The HTTP server of one replica. Dropped, it stops at once.
#[derive(Debug)]
pub struct ReplicaServer {
    address: SocketAddr,
    server: Arc<Server>,
    stage: watch::Sender<Stage>,
    task: JoinHandle<io::Result<()>>,
}

impl ReplicaServer {
    /// Serves a replica under a model's name on a bound listener, on the present tokio runtime. Fails where the
    /// listener has no address.
    ///
    /// While weights load, vLLM refuses connections: start the server when the replica is ready.
    pub fn start(listener: TcpListener, fleet: LiveFleet, replica: ReplicaId, model: &str) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stage, stopping) = watch::channel(Stage::Running);
        let server = Arc::new(Server {
            fleet,
            replica,
            model: model.to_owned(),
            page: Page::new(model, answer::unix_time()),
            fault: Mutex::default(),
            stage: stopping.clone(),
        });
        let router = router(Arc::clone(&server));
        let task = tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(async move { stage::reached(&stopping, Stage::Stopping).await })
                .await
        });
        Ok(Self { address, server, stage, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The replica it answers for.
    pub fn replica(&self) -> ReplicaId {
        self.server.replica
    }

    /// What it does wrong from now on.
    pub fn set_fault(&self, fault: Fault) {
        *self.server.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Stops: takes no new connection, lets completions end within `grace`, then cuts them off.
    pub async fn stop(mut self, grace: Duration) {
        self.stage.send_replace(Stage::Stopping);
        if timeout(grace, &mut self.task).await.is_ok() {
            return;
        }
        self.stage.send_replace(Stage::Killed);
        if timeout(LAST_WORDS, &mut self.task).await.is_err() {
            // A client that does not read holds its connection; it goes when the client does.
            self.task.abort();
        }
    }
}

fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/v1/models", get(models))
        .route("/v1/completions", post(completions::complete))
        .layer(middleware::from_fn_with_state(Arc::clone(&server), misbehave))
        .with_state(server)
}

async fn misbehave(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let fault = server.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(answer) = fault::before(&fault, request.headers(), &server).await {
        return answer;
    }
    let response = next.run(request).await;
    if fault == Fault::Truncated { fault::truncate(response).await } else { response }
}

async fn metrics(State(server): State<Arc<Server>>) -> Response {
    let mut body = String::with_capacity(PAGE_CAPACITY);
    let is_there = server.fleet.with(|fleet| {
        fleet.replica(server.replica).map(|replica| server.page.write(replica.engine(), &mut body)).is_some()
    });
    if is_there {
        ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], body).into_response()
    } else {
        answer::unavailable("the replica is gone")
    }
}

/// vLLM answers an empty page while its engine lives.
async fn health(State(server): State<Arc<Server>>) -> StatusCode {
    let is_there = server.fleet.with(|fleet| fleet.replica(server.replica).is_some());
    if is_there { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn version() -> Response {
    answer::answer(StatusCode::OK, &json!({"version": VLLM_VERSION}))
}

async fn models(State(server): State<Arc<Server>>) -> Response {
    let longest = server
        .fleet
        .with(|fleet| fleet.replica(server.replica).map(|replica| replica.engine().settings().longest_request()));
    let model = json!({
        "id": server.model,
        "object": "model",
        "owned_by": "vllm",
        "root": server.model,
        "parent": null,
        "max_model_len": longest,
    });
    answer::answer(StatusCode::OK, &json!({"object": "list", "data": [model]}))
}
