//! The signals Headroom scales on.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a signal turns into replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SignalClass {
    /// Amounts that add up over replicas: the fleet needs total / target.
    Additive,
    /// Fractions of one replica's capacity, 0 to 1; they add up too, but saturate.
    Ratio,
    /// Times that people wait. They can only raise.
    Latency,
}

/// What a number of a signal counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Requests.
    Requests,
    /// A fraction of 1.
    Fraction,
    /// Tokens.
    Tokens,
    /// Tokens a second.
    TokensPerSecond,
    /// Requests a second.
    RequestsPerSecond,
    /// Preemptions a second.
    PreemptionsPerSecond,
    /// Seconds.
    Seconds,
}

/// How a signal is read from successive samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The value itself, or its mean over a window.
    Gauge,
    /// The increase of a counter a second, over a window.
    Rate,
    /// A quantile of what a histogram observed within a window.
    Quantile,
}

/// One signal of a model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Signal {
    /// Requests accepted but not running. What replicas cannot cure (vLLM's `deferred`) is left out unless
    /// asked for.
    WaitingRequests,
    /// Requests being worked on.
    RunningRequests,
    /// Waiting and running together.
    InFlightRequests,
    /// KV-cache blocks held by live requests, 0 to 1.
    KVCacheUtilization,
    /// KV-cache tokens held by live requests.
    KVCacheTokens,
    /// Output tokens a second.
    GenerationTokenRate,
    /// Prompt tokens a second.
    PromptTokenRate,
    /// Requests refused for lack of room, a second.
    RejectedRequestRate,
    /// Requests thrown out of the KV cache to be computed again, a second.
    PreemptionRate,
    /// Seconds from arrival to the first token.
    TimeToFirstToken,
    /// Seconds between two tokens of one request.
    InterTokenLatency,
    /// Seconds a request waited before it ran.
    QueueTime,
}

impl Signal {
    /// Every signal.
    pub const ALL: [Self; 12] = [
        Self::WaitingRequests,
        Self::RunningRequests,
        Self::InFlightRequests,
        Self::KVCacheUtilization,
        Self::KVCacheTokens,
        Self::GenerationTokenRate,
        Self::PromptTokenRate,
        Self::RejectedRequestRate,
        Self::PreemptionRate,
        Self::TimeToFirstToken,
        Self::InterTokenLatency,
        Self::QueueTime,
    ];

    /// How it turns into replicas.
    pub const fn class(self) -> SignalClass {
        match self {
            Self::KVCacheUtilization => SignalClass::Ratio,
            Self::TimeToFirstToken | Self::InterTokenLatency | Self::QueueTime => SignalClass::Latency,
            _ => SignalClass::Additive,
        }
    }

    /// How it is read.
    pub const fn reading(self) -> Reading {
        match self {
            Self::GenerationTokenRate | Self::PromptTokenRate | Self::RejectedRequestRate | Self::PreemptionRate => {
                Reading::Rate
            }
            Self::TimeToFirstToken | Self::InterTokenLatency | Self::QueueTime => Reading::Quantile,
            _ => Reading::Gauge,
        }
    }

    /// What its numbers count.
    pub const fn unit(self) -> Unit {
        match self {
            Self::WaitingRequests | Self::RunningRequests | Self::InFlightRequests => Unit::Requests,
            Self::KVCacheUtilization => Unit::Fraction,
            Self::KVCacheTokens => Unit::Tokens,
            Self::GenerationTokenRate | Self::PromptTokenRate => Unit::TokensPerSecond,
            Self::RejectedRequestRate => Unit::RequestsPerSecond,
            Self::PreemptionRate => Unit::PreemptionsPerSecond,
            Self::TimeToFirstToken | Self::InterTokenLatency | Self::QueueTime => Unit::Seconds,
        }
    }

    /// The window it is read over where the user names none.
    pub const fn default_window(self) -> Duration {
        match (self, self.reading()) {
            (Self::WaitingRequests, _) => Duration::from_secs(10),
            (_, Reading::Gauge) => Duration::ZERO,
            (_, Reading::Rate | Reading::Quantile) => Duration::from_secs(60),
        }
    }

    /// Its name in the external metrics API, where it is a total over the fleet.
    pub const fn external_metric(self) -> &'static str {
        match self {
            Self::WaitingRequests => "headroom_waiting_requests",
            Self::RunningRequests => "headroom_running_requests",
            Self::InFlightRequests => "headroom_inflight_requests",
            Self::KVCacheUtilization => "headroom_kv_cache_utilization",
            Self::KVCacheTokens => "headroom_kv_cache_tokens",
            Self::GenerationTokenRate => "headroom_generation_token_rate",
            Self::PromptTokenRate => "headroom_prompt_token_rate",
            Self::RejectedRequestRate => "headroom_rejected_request_rate",
            Self::PreemptionRate => "headroom_preemption_rate",
            Self::TimeToFirstToken => "headroom_time_to_first_token",
            Self::InterTokenLatency => "headroom_inter_token_latency",
            Self::QueueTime => "headroom_queue_time",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
