//! What was seen of a fleet at one instant: the input of a decision.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::Milli;
use crate::units::{Replicas, Timestamp, optional_seconds, seconds};

/// Where a replica is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It serves (or lost readiness but still answers its scrape).
    Ready,
    /// Not Ready, within its start-up deadline.
    Starting,
    /// Past its deadline, crash-looping, without an image, or asleep.
    Stuck,
}

/// Why a signal of a replica is not known. Closed, so that it can label a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownReason {
    /// Never read.
    NotScraped,
    /// The last value is too old.
    Stale,
    /// No answer within the timeout.
    Timeout,
    /// The connection was refused.
    Refused,
    /// A proxy or policy answered, or kept us out, in the server's place.
    Blocked,
    /// 401 or 403.
    Unauthorized,
    /// The TLS handshake failed.
    TlsError,
    /// Another HTTP status than 200.
    HttpError,
    /// The body is not an exposition.
    Malformed,
    /// The body is too large.
    TooLarge,
    /// The model is still being loaded.
    Loading,
    /// The engine sleeps.
    Sleeping,
    /// Gauges stand above zero while nothing is computed.
    Frozen,
    /// The family is not in the page.
    AbsentFamily,
    /// The family is there, and no series matches the filter.
    NoMatch,
    /// The value is not a number, or outside what the signal can be.
    OutOfRange,
    /// The engine does not export this signal.
    NotExported,
    /// A rate needs two samples since the last counter reset.
    CounterReset,
    /// Too few observations for a quantile.
    TooFewObservations,
    /// The caller gave no reason.
    Unspecified,
}

impl UnknownReason {
    /// Its name, as it is serialized.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotScraped => "notScraped",
            Self::Stale => "stale",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Blocked => "blocked",
            Self::Unauthorized => "unauthorized",
            Self::TlsError => "tlsError",
            Self::HttpError => "httpError",
            Self::Malformed => "malformed",
            Self::TooLarge => "tooLarge",
            Self::Loading => "loading",
            Self::Sleeping => "sleeping",
            Self::Frozen => "frozen",
            Self::AbsentFamily => "absentFamily",
            Self::NoMatch => "noMatch",
            Self::OutOfRange => "outOfRange",
            Self::NotExported => "notExported",
            Self::CounterReset => "counterReset",
            Self::TooFewObservations => "tooFewObservations",
            Self::Unspecified => "unspecified",
        }
    }
}

/// One signal of one replica, rolled up over its engines and ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum Sample {
    /// The replica is Starting, or Ready so recently that it was not read yet.
    Starting,
    /// The replica is Stuck.
    Stuck,
    /// A fresh value.
    Value {
        /// The value in the signal's unit.
        value: Milli,
        /// Its age.
        #[serde(rename = "ageSeconds", with = "seconds")]
        age: Duration,
    },
    /// A value seen before; now it cannot be read.
    Last {
        /// The value in the signal's unit.
        value: Milli,
        /// Its age.
        #[serde(rename = "ageSeconds", with = "seconds")]
        age: Duration,
        /// Why it cannot be read now.
        reason: UnknownReason,
    },
    /// Not known.
    Unknown {
        /// Why.
        reason: UnknownReason,
    },
    /// Known to be zero although there is no number to read.
    Zero,
    /// A fresh page in which nothing new was observed; of a rate it is zero.
    NoTraffic,
}

impl Sample {
    /// A value read just now.
    pub fn value(value: Milli) -> Self {
        Self::Value { value, age: Duration::ZERO }
    }

    /// Fresh: a value, a known zero, or nothing observed.
    pub fn is_read(self) -> bool {
        self.as_read().is_some()
    }

    /// The number of a fresh sample.
    pub fn as_read(self) -> Option<Milli> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::Zero | Self::NoTraffic => Some(Milli::ZERO),
            Self::Starting | Self::Stuck | Self::Last { .. } | Self::Unknown { .. } => None,
        }
    }
}

/// A quantile over what the whole fleet observed within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum LatencySample {
    /// A value.
    Value {
        /// Seconds.
        value: Milli,
        /// The quantile lies beyond the last bound: it is at least the value.
        #[serde(default, rename = "atLeast")]
        at_least: bool,
    },
    /// Fresh pages, and nothing observed.
    NoTraffic,
    /// Not known.
    Unknown {
        /// Why.
        reason: UnknownReason,
    },
}

/// What was seen of one metric of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum MetricObservation {
    /// An additive or ratio signal.
    Demand {
        /// One entry a replica, in the observation's order.
        samples: Vec<Sample>,
        /// Demand of the same signal seen outside the replicas.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        external: Vec<ExternalSample>,
    },
    /// A latency.
    Latency(LatencyObservation),
}

/// A latency with what says whether replicas could cure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyObservation {
    /// The quantile.
    pub sample: LatencySample,
    /// Replicas that are Ready.
    pub ready: Replicas,
    /// Replicas that are Stuck.
    pub stuck: Replicas,
    /// Waiting requests over the fleet as counted for a rise; `None` = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Milli>,
    /// In-flight requests over the fleet as counted for a rise, with the target of each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
}

/// Requests in flight, and how many a replica should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// Over the fleet.
    pub total: Milli,
    /// Of each replica.
    pub target: Milli,
}

/// Demand seen outside the replicas, e.g. a gateway's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalSample {
    /// Its name in the spec.
    pub name: Arc<str>,
    /// Value, last, zero or unknown.
    pub sample: Sample,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The pod's, group's or endpoint's name.
    pub name: Arc<str>,
    /// Where it is in its life.
    pub phase: Phase,
}

/// A floor or ceiling with the name of what asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// E.g. a schedule's name.
    pub name: Arc<str>,
    /// The count.
    pub replicas: Replicas,
}

/// A count held by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The count, 0 or more.
    pub replicas: Replicas,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why, in the words of whoever holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// What was seen of a fleet at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// `spec.replicas` of the target.
    pub current: Replicas,
    /// The population.
    pub replicas: Vec<Replica>,
    /// One entry a metric of the policy, in its order.
    pub metrics: Vec<MetricObservation>,
    /// The 90th percentile of the fleet's cold starts; `None` while fewer than three are known.
    #[serde(
        default,
        rename = "coldStartP90Seconds",
        with = "optional_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub cold_start_p90: Option<Duration>,
    /// Floors of active schedules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub floors: Vec<Bound>,
    /// Ceilings of active schedules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ceilings: Vec<Bound>,
    /// More than so many provably cannot come to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provable_ceiling: Option<Bound>,
    /// Paused by hand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Held by hand; one that has ended is no longer in here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

impl Observation {
    /// A fleet of which nothing was read yet.
    pub fn of(current: Replicas) -> Self {
        Self {
            current,
            replicas: Vec::new(),
            metrics: Vec::new(),
            cold_start_p90: None,
            floors: Vec::new(),
            ceilings: Vec::new(),
            provable_ceiling: None,
            paused: false,
            hold: None,
        }
    }

    /// How many replicas are in a phase.
    pub fn in_phase(&self, phase: Phase) -> Replicas {
        Replicas::count_of(self.replicas.iter().filter(|replica| replica.phase == phase).count())
    }
}
