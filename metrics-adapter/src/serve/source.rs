//! What is served: the numbers of autoscalers, as the API asks for them.

use std::time::Duration;

use headroom_policies::{Milli, Timestamp};

/// The label by which a request selects one autoscaler; its value is the autoscaler's name.
pub const AUTOSCALER_LABEL: &str = "headroom.dev/autoscaler";

/// The numbers that can be asked for. Every method answers from memory, at once.
pub trait ExternalMetrics: Send + Sync + 'static {
    /// The name of every metric that any autoscaler can have, at least one, in lower case. The list is read once,
    /// when the routes are made.
    fn metric_names(&self) -> &[&'static str];

    /// Calls `visit` with the name of each autoscaler in a namespace, in any order.
    fn autoscalers(&self, namespace: &str, visit: &mut dyn FnMut(&str));

    /// One number of one autoscaler; `metric` is one of [`ExternalMetrics::metric_names`].
    ///
    /// `autoscaler` is what the request named and need not exist. A source that does not know yet which autoscalers
    /// exist answers [`MetricError::Unreadable`].
    fn read(&self, namespace: &str, autoscaler: &str, metric: &'static str) -> Result<MetricValue, MetricError>;
}

/// A number and when the data behind it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricValue {
    /// The number in the metric's unit, at least 0. A negative one is refused rather than sent.
    pub value: Milli,
    /// When the data was received, never the time of the request: a reader must be able to see its age.
    pub at: Timestamp,
    /// The time the number was read over, where it was read over time. Sent in whole seconds, rounded up.
    pub window: Option<Duration>,
}

/// Why there is no number. The text reaches users in the conditions of their HPA, behind the names of the
/// autoscaler and the metric.
///
/// A text must stay the same while its cause does (no ages, no counters): each change is a write to the HPA's status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// The namespace has no autoscaler of this name: 404, with the names that exist.
    #[error("no such autoscaler")]
    NoSuchAutoscaler,
    /// The autoscaler does not offer this metric: 404. The text says why, and what to use instead.
    #[error("{0}")]
    NotServed(String),
    /// The number cannot be known at present: 503. The text says why, e.g. which pods do not answer.
    #[error("{0}")]
    Unreadable(String),
}
