//! A policy: what an autoscaler's spec asks for, validated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::behavior::{Behavior, EffectiveBehavior};
use crate::quantity::Milli;
use crate::signal::Signal;
use crate::units::{Replicas, optional_seconds, seconds};

/// Who moves the replicas, and what that means for the published number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Actuation {
    /// Headroom owns one HPA that follows the number.
    #[default]
    HPA,
    /// An HPA or `ScaledObject` of the user's follows the number.
    Metrics,
    /// Headroom writes the scale subresource.
    Direct,
    /// Nobody: decisions are recorded and nothing is touched.
    Observe,
}

/// One metric with its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricPolicy {
    /// The signal.
    pub signal: Signal,
    /// The target of each replica, in the signal's unit, above 0.
    pub target: Milli,
    /// The window it is read over.
    #[serde(rename = "windowSeconds", with = "seconds")]
    pub window: Duration,
    /// The quantile of a latency, above 0 and at most 1.
    pub quantile: f64,
    /// Count requests that wait for something replicas cannot give.
    pub include_deferred: bool,
}

impl MetricPolicy {
    /// A metric with the signal's own window and the 0.95 quantile.
    pub fn new(signal: Signal, target: Milli) -> Self {
        Self { signal, target, window: signal.default_window(), quantile: 0.95, include_deferred: false }
    }
}

/// A floor for a fleet whose metrics have been unreadable for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// How long.
    #[serde(rename = "afterSeconds", with = "seconds")]
    pub after: Duration,
    /// How many replicas at least.
    pub replicas: Replicas,
}

/// What an autoscaler wants, with every rule of its validation already met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// At least so many, 0 or more.
    pub min_replicas: Replicas,
    /// At most so many, 1 or more and not below the minimum.
    pub max_replicas: Replicas,
    /// At least one additive or ratio metric, no signal twice.
    pub metrics: Vec<MetricPolicy>,
    /// As the user wrote it; `None` = unset, which means the defaults for inference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,
    /// Replicas kept beyond what the load asks for.
    pub warm_pool: Replicas,
    /// The floor for a fleet that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Down to zero after so long without any demand; `None` = never.
    #[serde(rename = "idleForSeconds", with = "optional_seconds", skip_serializing_if = "Option::is_none", default)]
    pub idle_for: Option<Duration>,
    /// Who moves the replicas.
    pub actuation: Actuation,
    /// The time from one turn to the next.
    #[serde(rename = "intervalSeconds", with = "seconds")]
    pub interval: Duration,
}

impl Policy {
    /// A policy with the defaults of every other field: waiting requests at 5 and the KV cache at 75 %.
    pub fn new(min_replicas: Replicas, max_replicas: Replicas) -> Self {
        Self {
            min_replicas,
            max_replicas,
            metrics: vec![
                MetricPolicy::new(Signal::WaitingRequests, Milli::from_units(5)),
                MetricPolicy::new(Signal::KVCacheUtilization, Milli::new(750)),
            ],
            behavior: None,
            warm_pool: Replicas::ZERO,
            fallback: None,
            idle_for: None,
            actuation: Actuation::HPA,
            interval: Duration::from_secs(5),
        }
    }

    /// The `behavior` that applies, given the fleet's cold start if enough starts are known.
    pub fn effective_behavior(&self, cold_start_p90: Option<Duration>) -> EffectiveBehavior {
        match &self.behavior {
            Some(behavior) => EffectiveBehavior::of(behavior),
            None => EffectiveBehavior::for_inference(cold_start_p90),
        }
    }
}
