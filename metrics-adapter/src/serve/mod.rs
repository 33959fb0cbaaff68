//! The serving side of the Kubernetes external metrics API, from memory only.
//!
//! - [`source`]: what is served, a trait that the keeper of the numbers implements.
//! - [`external_metrics`]: the routes of one API group over it, as an [`axum::Router`].
//! - [`tls`]: certificates read from files and read again when they change.
//! - [`server`]: a router on a listener, with the limits that keep one client from hurting the others.
//!
//! No request causes anything but a read of the source: no scrape, no call to the Kubernetes API.

mod api;
mod discovery;
mod group;
mod message;
mod names;
mod selector;
pub mod server;
pub mod source;
mod status;
pub mod tls;
mod value;

pub use api::{NoMetricNames, external_metrics};
pub use group::{ApiGroup, ApiGroupError};
pub use server::{Limits, Transport, serve};
pub use source::{AUTOSCALER_LABEL, ExternalMetrics, MetricError, MetricValue};
pub use tls::{Reload, Tls, TlsError, TlsFiles};
