//! The arithmetic behind a JSON format of cases, for tests and for people who want to check a number.
//!
//! A case is `{id, kind, input}`. Its kinds are the rules of the HPA (`reconcile`, `behavior_rate`, ...) and those
//! of Headroom (`proposal`, `turn`). The answer is `{id, desiredReplicas, limited, reason, ...}`, or `{id, error}`
//! for a case that cannot be understood; one such case does not stop the others.

mod decision;
mod hpa;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its name, repeated in the answer.
    pub id: String,
    /// Which rule to apply.
    pub kind: String,
    /// The rule's input.
    pub input: Value,
}

/// Why a case has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// No such kind.
    #[error("there is no kind {0:?}; kinds are {kinds}", kinds = KINDS.join(", "))]
    Kind(String),
    /// The input does not fit the kind.
    #[error("the input does not fit the kind: {0}")]
    Input(#[from] serde_json::Error),
    /// The input is of the right form and makes no sense.
    #[error("{0}")]
    Senseless(String),
}

/// Every kind of case.
pub const KINDS: [&str; 16] = [
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
    match kind {
        "proposal" => decision::proposal(input),
        "turn" => decision::turn(input),
        "external_value" | "object_value" => hpa::value(input),
        "external_average_value" => hpa::average_value(input),
        "object_average_value" => hpa::object_average_value(input),
        "pods_average_value" => hpa::pods_average_value(input),
        "resource_utilization" => hpa::resource_utilization(input),
        "clamp_no_behavior" => hpa::clamp_no_behavior(input),
        "scale_up_limit" | "scale_down_limit" => hpa::scale_limit(input),
        "behavior_rate" => hpa::behavior_rate(input),
        "stabilize_no_behavior" => hpa::stabilize_no_behavior(input),
        "stabilize_behavior" => hpa::stabilize_behavior(input),
        "store_scale_event" => hpa::store_scale_event(input),
        "reconcile" | "reconcile_multi_metric" => hpa::reconcile(input),
        other => Err(CaseError::Kind(other.to_owned())),
    }
}
