//! The arithmetic behind a JSON format of cases, for tests and for people who want to check a number.
//!
//! A case is `{id, kind, input}`. Its kinds are the rules of the HPA (`reconcile`, `behavior_rate`, ...) and those
//! of Headroom (`proposal`, `turn`). The answer is `{id, desiredReplicas, limited, reason, ...}`, or `{id, error}`
//! for a case that cannot be understood; one such case does not stop the others.

mod decision;
mod limit;
mod metric;
mod observed;
mod read;
mod reconcile;
mod stabilize;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use metric::{MetricType, TargetType};

/// One case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Case {
    /// Its name, repeated in the answer.
    pub id: String,
    /// Which rule to apply.
    pub kind: String,
    /// The rule's input.
    pub input: Value,
}

/// What a case has beside its id, kind and input is ignored.
impl TryFrom<Value> for Case {
    type Error = String;

    fn try_from(mut value: Value) -> Result<Self, String> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let id = text("id").ok_or_else(|| format!("a case needs an `id` that is a text: {}", excerpt(&value)))?;
        let kind = text("kind").ok_or_else(|| format!("the case {id:?} needs a `kind` that is a text"))?;
        let input = value.get_mut("input").map(Value::take);
        let input = input.ok_or_else(|| format!("the case {id:?} needs an `input`"))?;
        Ok(Self { id, kind, input })
    }
}

/// The beginning of a value's text.
fn excerpt(value: &Value) -> String {
    const LENGTH: usize = 80;
    let text = value.to_string();
    let mut beginning: String = text.chars().take(LENGTH).collect();
    if beginning.len() < text.len() {
        beginning.push_str("...");
    }
    beginning
}

/// Why a case has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// No such kind.
    #[error("there is no kind {0:?}; kinds are {kinds}", kinds = KINDS.join(", "))]
    Kind(String),
    /// A field of the input is missing or does not fit the kind.
    #[error("{field}: {problem}")]
    Field {
        /// Its path in the case, or that of what lacks it.
        field: String,
        /// What is wrong.
        problem: String,
    },
}

/// Every kind of case.
pub const KINDS: [&str; 17] = [
    "external_value",
    "external_average_value",
    "object_value",
    "object_average_value",
    "pods_average_value",
    "resource_utilization",
    "clamp_no_behavior",
    "scale_up_limit",
    "scale_down_limit",
    "behavior_rate",
    "stabilize_no_behavior",
    "stabilize_behavior",
    "store_scale_event",
    "reconcile",
    "reconcile_multi_metric",
    "proposal",
    "turn",
];

/// Answers one case.
pub fn evaluate(case: &Case) -> Value {
    let mut answer = Map::new();
    answer.insert("id".into(), json!(case.id));
    match answer_of(&case.kind, &case.input) {
        Ok(Value::Object(fields)) => answer.extend(fields),
        Ok(other) => drop(answer.insert("desiredReplicas".into(), other)),
        Err(error) => drop(answer.insert("error".into(), json!(error.to_string()))),
    }
    Value::Object(answer)
}

fn answer_of(kind: &str, input: &Value) -> Result<Value, CaseError> {
    read::check_objects(input)?;
    let one_metric = |metric, target| metric::one_metric(input, (metric, target));
    match kind {
        "proposal" => decision::proposal(input),
        "turn" => decision::turn(input),
        "external_value" => one_metric(MetricType::External, TargetType::Value),
        "external_average_value" => one_metric(MetricType::External, TargetType::AverageValue),
        "object_value" => one_metric(MetricType::Object, TargetType::Value),
        "object_average_value" => one_metric(MetricType::Object, TargetType::AverageValue),
        "pods_average_value" => one_metric(MetricType::Pods, TargetType::AverageValue),
        "resource_utilization" => one_metric(MetricType::Resource, TargetType::Utilization),
        "clamp_no_behavior" => limit::clamp_no_behavior(input),
        "scale_up_limit" => limit::scale_up_limit(input),
        "scale_down_limit" => limit::scale_down_limit(input),
        "behavior_rate" => limit::behavior_rate(input),
        "store_scale_event" => limit::store_scale_event(input),
        "stabilize_no_behavior" => stabilize::stabilize_no_behavior(input),
        "stabilize_behavior" => stabilize::stabilize_behavior(input),
        "reconcile" | "reconcile_multi_metric" => reconcile::reconcile(input),
        other => Err(CaseError::Kind(other.to_owned())),
    }
}
