//! What a scrape found: the state of a target, closed so that it can be counted.

use std::fmt;

use headroom_policies::observation::UnknownReason;
use serde::{Deserialize, Serialize};

/// The state of one target after its last scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TargetState {
    /// Not scraped yet.
    Pending,
    /// Read.
    Ok,
    /// Read, but it takes long: it is read less often.
    Slow,
    /// The samples' own timestamps stand still or are old.
    Stale,
    /// A family that is needed is not in the page.
    AbsentFamily,
    /// The family is there, and no series matches the filter.
    NoMatch,
    /// 401 or 403.
    Unauthorized,
    /// The body is not an exposition, or was cut.
    Malformed,
    /// The body is too large.
    TooLarge,
    /// The connection was refused.
    Refused,
    /// A proxy or policy in between.
    Blocked,
    /// No answer within the timeout.
    Timeout,
    /// The TLS handshake failed.
    TlsError,
    /// Another HTTP status than 200.
    HttpError,
    /// The engine sleeps.
    Sleeping,
    /// The model is being loaded.
    Loading,
    /// Gauges stand above zero while the engine's heartbeat stands still.
    Frozen,
}

impl TargetState {
    /// Every state.
    pub const ALL: [Self; 17] = [
        Self::Pending,
        Self::Ok,
        Self::Slow,
        Self::Stale,
        Self::AbsentFamily,
        Self::NoMatch,
        Self::Unauthorized,
        Self::Malformed,
        Self::TooLarge,
        Self::Refused,
        Self::Blocked,
        Self::Timeout,
        Self::TlsError,
        Self::HttpError,
        Self::Sleeping,
        Self::Loading,
        Self::Frozen,
    ];

    /// Its name, as in JSON and in metric labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Stale => "stale",
            Self::AbsentFamily => "absentFamily",
            Self::NoMatch => "noMatch",
            Self::Unauthorized => "unauthorized",
            Self::Malformed => "malformed",
            Self::TooLarge => "tooLarge",
            Self::Refused => "refused",
            Self::Blocked => "blocked",
            Self::Timeout => "timeout",
            Self::TlsError => "tlsError",
            Self::HttpError => "httpError",
            Self::Sleeping => "sleeping",
            Self::Loading => "loading",
            Self::Frozen => "frozen",
        }
    }

    /// A page was read, whatever it said.
    pub const fn is_read(self) -> bool {
        matches!(
            self,
            Self::Ok | Self::Slow | Self::Stale | Self::AbsentFamily | Self::NoMatch | Self::Sleeping | Self::Frozen
        )
    }

    /// What a signal that this state leaves unread is unknown for.
    pub const fn unknown_reason(self) -> UnknownReason {
        match self {
            Self::Pending | Self::Ok | Self::Slow => UnknownReason::NotScraped,
            Self::Stale => UnknownReason::Stale,
            Self::AbsentFamily => UnknownReason::AbsentFamily,
            Self::NoMatch => UnknownReason::NoMatch,
            Self::Unauthorized => UnknownReason::Unauthorized,
            Self::Malformed => UnknownReason::Malformed,
            Self::TooLarge => UnknownReason::TooLarge,
            Self::Refused => UnknownReason::Refused,
            Self::Blocked => UnknownReason::Blocked,
            Self::Timeout => UnknownReason::Timeout,
            Self::TlsError => UnknownReason::TlsError,
            Self::HttpError => UnknownReason::HttpError,
            Self::Sleeping => UnknownReason::Sleeping,
            Self::Loading => UnknownReason::Loading,
            Self::Frozen => UnknownReason::Frozen,
        }
    }
}

impl fmt::Display for TargetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scrape that gave no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScrapeFailure {
    /// The state it leaves the target in.
    pub state: TargetState,
    /// What happened and what to do about it.
    pub message: String,
}

impl ScrapeFailure {
    pub(crate) fn new(state: TargetState, message: impl Into<String>) -> Self {
        Self { state, message: message.into() }
    }
}
