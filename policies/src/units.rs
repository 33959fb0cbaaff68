//! Replica counts, tolerances, instants and durations as types of their own.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of replicas.
///
/// A 32-bit signed integer as in Kubernetes: a rate limit worked out from past changes can be below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Replicas(i32);

impl Replicas {
    /// None.
    pub const ZERO: Self = Self(0);
    /// One.
    pub const ONE: Self = Self(1);
    /// The largest count Kubernetes can hold, 2^31-1.
    pub const MAX: Self = Self(i32::MAX);

    /// So many replicas.
    pub const fn new(count: i32) -> Self {
        Self(count)
    }

    /// The count.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// The nearest count that can be held.
    pub fn saturating(count: i128) -> Self {
        Self(i32::try_from(count).unwrap_or(if count < 0 { i32::MIN } else { i32::MAX }))
    }

    /// How many things there are.
    pub fn count_of(len: usize) -> Self {
        Self(i32::try_from(len).unwrap_or(i32::MAX))
    }

    /// The sum, capped at what can be held.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, capped at what can be held.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fraction of the target by which usage may be off before the count changes, at least 0.
///
/// Held in billionths, so that a decimal such as 0.1 is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tolerance {
    billionths: i64,
}

impl Tolerance {
    /// The HPA's default, 0.1.
    pub const DEFAULT: Self = Self { billionths: 100_000_000 };
    /// No tolerance.
    pub const ZERO: Self = Self { billionths: 0 };

    /// A fraction in billionths; what is below zero is taken as zero.
    pub fn from_billionths(billionths: i64) -> Self {
        Self { billionths: billionths.max(0) }
    }

    /// A decimal fraction such as 0.1. `None` where it is negative, not finite or above 9 thousand million.
    pub fn from_fraction(fraction: f64) -> Option<Self> {
        let billionths = (fraction * 1e9).round();
        (0.0..9.0e18).contains(&billionths).then_some(Self { billionths: billionths as i64 })
    }

    /// The fraction in billionths.
    pub fn billionths(self) -> i64 {
        self.billionths
    }

    /// The fraction as the double nearest to its decimal.
    pub fn as_f64(self) -> f64 {
        self.billionths as f64 / 1e9
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

impl Serialize for Tolerance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

/// A number, or a quantity in a text as in the HPA's `behavior` (`"0"`, `"50m"`).
impl<'de> Deserialize<'de> for Tolerance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        let tolerance = match Written::deserialize(deserializer)? {
            Written::Number(fraction) => Self::from_fraction(fraction),
            Written::Text(text) => {
                let quantity: crate::quantity::Quantity = text.parse().map_err(serde::de::Error::custom)?;
                i64::try_from(quantity.nano()).ok().filter(|nano| *nano >= 0).map(Self::from_billionths)
            }
        };
        tolerance.ok_or_else(|| {
            serde::de::Error::custom("a tolerance must be a fraction of at least 0, such as 0.1 or \"50m\"")
        })
    }
}

/// A tolerance for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tolerances {
    /// How far above the target usage may be before replicas are added.
    pub up: Tolerance,
    /// How far below the target usage may be before replicas are removed.
    pub down: Tolerance,
}

impl Default for Tolerances {
    fn default() -> Self {
        Self { up: Tolerance::DEFAULT, down: Tolerance::DEFAULT }
    }
}

/// An instant on the clock the caller decides by, in milliseconds since 1970-01-01T00:00:00Z.
///
/// Written and read as RFC 3339 with milliseconds in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// So many milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339, e.g. `2026-03-08T03:12:00Z`. `None` where the text is not that.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Self(t.as_millisecond()))
    }

    /// The time since `earlier`, zero where that lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The instant so much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The instant so much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{} ms since 1970", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not an RFC 3339 time")))
    }
}

/// Serde form of a duration: whole or fractional seconds as a JSON number, exact to a millisecond.
pub mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes seconds.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = duration.as_millis();
        if millis.is_multiple_of(1000) {
            serializer.serialize_u64(u64::try_from(millis / 1000).unwrap_or(u64::MAX))
        } else {
            serializer.serialize_f64(millis as f64 / 1000.0)
        }
    }

    /// Reads seconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=1e12).contains(&seconds) {
            return Err(serde::de::Error::custom(format!("{seconds} is not a number of seconds from 0 to 10^12")));
        }
        Ok(Duration::from_millis((seconds * 1000.0).round() as u64))
    }
}

/// Serde form of an optional duration: seconds as in [`seconds`], or null.
pub mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes seconds or null.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::seconds::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads seconds or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct Seconds(#[serde(with = "super::seconds")] Duration);
        Ok(Option::<Seconds>::deserialize(deserializer)?.map(|seconds| seconds.0))
    }
}

/// A duration as people write it: `90s` for whole seconds up to two minutes, else minutes and hours.
pub struct HumanDuration(pub Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis < 10_000 && !millis.is_multiple_of(1000) {
            return write!(f, "{:.1}s", millis as f64 / 1000.0);
        }
        let seconds = (millis + 500) / 1000;
        match seconds {
            0..120 => write!(f, "{seconds}s"),
            120..7200 if seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
            120..7200 => write!(f, "{}m{}s", seconds / 60, seconds % 60),
            _ => write!(f, "{}h{}m", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_are_exact_decimals() {
        for fraction in [0.0, 0.01, 0.05, 0.1, 0.2, 0.333, 2.0] {
            assert_eq!(Tolerance::from_fraction(fraction).unwrap().as_f64().to_bits(), fraction.to_bits());
        }
        for fraction in [-0.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Tolerance::from_fraction(fraction), None);
        }
    }

    #[test]
    fn tolerances_as_users_write_them() {
        let read = |json: &str| serde_json::from_str::<Tolerance>(json).map(Tolerance::billionths).ok();
        assert_eq!(read("0.1"), Some(100_000_000));
        assert_eq!(read("\"50m\""), Some(50_000_000));
        assert_eq!(read("\"0\""), Some(0));
        for wrong in ["-1", "\"-1\"", "\"x\"", "null"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn timestamps_read_back() {
        let time = Timestamp::parse("2026-03-08T03:12:00.250Z").unwrap();
        assert_eq!(time.to_string(), "2026-03-08T03:12:00.250Z");
        assert_eq!(Timestamp::parse(&time.to_string()), Some(time));
        assert_eq!(time.plus(Duration::from_secs(5)).since(time), Duration::from_secs(5));
        assert_eq!(time.since(time.plus(Duration::from_secs(5))), Duration::ZERO);
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for (millis, text) in
            [(0, "0s"), (1200, "1.2s"), (90_000, "90s"), (300_000, "5m"), (330_000, "5m30s"), (7_260_000, "2h1m")]
        {
            assert_eq!(HumanDuration(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
