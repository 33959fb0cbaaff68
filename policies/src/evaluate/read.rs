//! Reading the input of a case: every error names the field.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::CaseError;
use crate::hpa::{Recommendation, ScaleEvent};
use crate::quantity::Milli;
use crate::units::Replicas;

/// Reads a value that stands at a path of the case.
pub(super) fn read<T: DeserializeOwned>(value: &Value, at: &str) -> Result<T, CaseError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = match error.path().to_string() {
            root if root == "." => at.to_owned(),
            index if index.starts_with('[') => format!("{at}{index}"),
            inner => format!("{at}.{inner}"),
        };
        CaseError::Field { field, problem: error.into_inner().to_string() }
    })
}

/// Reads a field of an object that stands at a path of the case.
pub(super) fn field<T: DeserializeOwned>(object: &Value, at: &str, name: &str) -> Result<T, CaseError> {
    match object.get(name) {
        Some(value) => read(value, &format!("{at}.{name}")),
        None => Err(CaseError::Field { field: at.to_owned(), problem: format!("missing field `{name}`") }),
    }
}

/// The fields that are objects wherever they are not null.
const OBJECTS: [&str; 9] =
    ["behavior", "fallback", "history", "latency", "override", "scaleDown", "scaleToZero", "scaleUp", "tolerance"];

/// Refuses an input that is no object, and a list where an object belongs: serde would take its entries for the
/// object's fields, one by one.
pub(super) fn check_objects(input: &Value) -> Result<(), CaseError> {
    let misplaced = if input.is_object() { misplaced_list(input, "") } else { Some(String::new()) };
    match misplaced {
        Some(path) => Err(CaseError::Field { field: format!("input{path}"), problem: "must be an object".into() }),
        None => Ok(()),
    }
}

/// The path from a value to the first list that should be an object.
fn misplaced_list(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Array(_) if OBJECTS.contains(&name) => Some(String::new()),
        Value::Array(entries) => entries.iter().enumerate().find_map(|(index, entry)| match entry {
            Value::Array(_) => Some(format!("[{index}]")),
            entry => misplaced_list(entry, "").map(|inner| format!("[{index}]{inner}")),
        }),
        Value::Object(fields) => {
            fields.iter().find_map(|(name, value)| misplaced_list(value, name).map(|inner| format!(".{name}{inner}")))
        }
        _ => None,
    }
}

/// For a field that must be there and may be null.
pub(super) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

pub(super) fn plain<T, U: From<T>>(list: Vec<T>) -> Vec<U> {
    list.into_iter().map(U::from).collect()
}

/// Thousandths as a plain JSON integer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(from = "i64")]
pub(super) struct MilliNumber(pub(super) Milli);

impl From<i64> for MilliNumber {
    fn from(thousandths: i64) -> Self {
        Self(Milli::new(thousandths))
    }
}

impl From<MilliNumber> for Milli {
    fn from(number: MilliNumber) -> Self {
        number.0
    }
}

/// A target in thousandths, above 0.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Target(pub(super) Milli);

impl TryFrom<i64> for Target {
    type Error = String;

    fn try_from(thousandths: i64) -> Result<Self, String> {
        if thousandths > 0 {
            Ok(Self(Milli::new(thousandths)))
        } else {
            Err(format!("a target must be above 0, not {thousandths}"))
        }
    }
}

/// An integer from 1 to 2^31-1: a change of the count, or a percentage.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Positive(pub(super) i32);

impl TryFrom<i64> for Positive {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        let positive = i32::try_from(number).ok().filter(|number| *number > 0);
        positive.map(Self).ok_or_else(|| format!("must be from 1 to {}, not {number}", i32::MAX))
    }
}

/// A number of replicas that can exist, at least 0.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Count(pub(super) Replicas);

impl TryFrom<i64> for Count {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        let count = i32::try_from(number).ok().filter(|number| *number >= 0);
        count
            .map(|count| Self(Replicas::new(count)))
            .ok_or_else(|| format!("replicas must be from 0 to {}, not {number}", i32::MAX))
    }
}

/// A fraction of at least 0, as the double that the text of the case says.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Fraction(pub(super) f64);

impl TryFrom<f64> for Fraction {
    type Error = String;

    fn try_from(fraction: f64) -> Result<Self, String> {
        if fraction.is_finite() && fraction >= 0.0 {
            Ok(Self(fraction))
        } else {
            Err(format!("a fraction must be at least 0, not {fraction}"))
        }
    }
}

/// Seconds of at least 0, exact to a billionth.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Seconds(pub(super) Duration);

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| format!("{seconds} is not a number of seconds"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub(super) struct EventJson {
    age_seconds: Seconds,
    change: Positive,
}

impl From<EventJson> for ScaleEvent {
    fn from(event: EventJson) -> Self {
        Self { age: event.age_seconds.0, change: event.change.0 }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub(super) struct RecommendationJson {
    age_seconds: Seconds,
    replicas: Count,
}

impl From<RecommendationJson> for Recommendation {
    fn from(recommendation: RecommendationJson) -> Self {
        Self { age: recommendation.age_seconds.0, replicas: recommendation.replicas.0 }
    }
}
