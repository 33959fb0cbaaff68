//! What the tests of the serving side share: a source of made-up numbers, a server on a free port, a client.

// Each test file uses a part of it, and none is seen from outside.
#![allow(dead_code, unreachable_pub)]

pub mod certificates;
pub mod client;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use headroom_adapter::serve::{
    ApiGroup, ExternalMetrics, Limits, MetricError, MetricValue, Transport, external_metrics, serve,
};
use headroom_policies::{Milli, Signal, Timestamp};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const DESIRED: &str = "headroom_desired_replicas";
pub const WAITING: &str = Signal::WaitingRequests.external_metric();
pub const LATENCY: &str = Signal::TimeToFirstToken.external_metric();
/// A name in mixed case, as an engine might have it.
pub const MIXED_CASE: &str = "llmQueueDepth";

type Answer = Result<MetricValue, MetricError>;

/// Numbers as a test sets them.
#[derive(Default)]
pub struct Fake {
    /// By namespace and autoscaler, and then by metric.
    answers: BTreeMap<(String, String), BTreeMap<&'static str, Answer>>,
}

impl Fake {
    /// With one more answer; it makes the autoscaler exist.
    pub fn with(mut self, namespace: &str, autoscaler: &str, metric: &'static str, answer: Answer) -> Self {
        self.answers.entry((namespace.to_owned(), autoscaler.to_owned())).or_default().insert(metric, answer);
        self
    }

    /// With one more number, that came in at 10:00:00 and was read over no time.
    pub fn number(self, namespace: &str, autoscaler: &str, metric: &'static str, quantity: &str) -> Self {
        let at = Timestamp::parse("2026-11-30T10:00:00Z").unwrap();
        let value = MetricValue { value: quantity.parse::<Milli>().unwrap(), at, window: None };
        self.with(namespace, autoscaler, metric, Ok(value))
    }

    /// The routes over it, under the default group.
    pub fn router(self) -> Router {
        external_metrics(Arc::new(self), &ApiGroup::default()).unwrap()
    }
}

impl ExternalMetrics for Fake {
    fn metric_names(&self) -> &[&'static str] {
        &[DESIRED, WAITING, LATENCY, MIXED_CASE]
    }

    fn autoscalers(&self, namespace: &str, visit: &mut dyn FnMut(&str)) {
        self.answers.keys().filter(|(of, _)| of == namespace).for_each(|(_, name)| visit(name));
    }

    fn read(&self, namespace: &str, autoscaler: &str, metric: &'static str) -> Result<MetricValue, MetricError> {
        self.answers
            .get(&(namespace.to_owned(), autoscaler.to_owned()))
            .ok_or(MetricError::NoSuchAutoscaler)?
            .get(metric)
            .cloned()
            .unwrap_or_else(|| Err(MetricError::NotServed(format!("use {DESIRED}"))))
    }
}

/// A server of a test, stopped with it.
pub struct TestServer {
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
    pub served: JoinHandle<std::io::Result<()>>,
}

impl TestServer {
    /// On a free port, over plain HTTP, with the usual limits.
    pub async fn plain(router: Router) -> Self {
        Self::start(router, Transport::Plain, Limits::default()).await
    }

    /// On a free port.
    pub async fn start(router: Router, transport: Transport, limits: Limits) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(serve(listener, router, transport, limits, shutdown.clone()));
        Self { address, shutdown, served }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// A wait that ends a hanging test; far longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A future's output, or the end of the test.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}
