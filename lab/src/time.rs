//! Time inside the model.

use std::fmt;
use std::time::Duration;

/// An instant of the model: nanoseconds since the model began.
///
/// An integer, so that the same run gives the same instants on every platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModelTime(u64);

impl ModelTime {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many seconds after the beginning, to the nearest nanosecond. What is negative or not a number is taken as 0.
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The instant so much later, capped at the last one that can be held, after 584 years.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero where it is before.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for ModelTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.as_seconds())
    }
}

/// A span of so many milliseconds, to the nearest nanosecond. What is negative or not a number is taken as zero.
pub(crate) fn milliseconds(millis: f64) -> Duration {
    Duration::from_nanos((millis * 1e6).round() as u64)
}
