//! Cases that cannot be answered: the error names the field, and no number is printed.

#![allow(clippy::unwrap_used)]

use headroom_policies::evaluate::{Case, evaluate};
use serde_json::{Value, json};

fn error_of(kind: &str, input: Value) -> Value {
    let answer = evaluate(&Case { id: "case".into(), kind: kind.into(), input });
    assert_eq!((&answer["id"], &answer["desiredReplicas"]), (&json!("case"), &Value::Null));
    answer["error"].clone()
}

fn with(mut input: Value, path: &str, value: Value) -> Value {
    *input.pointer_mut(path).unwrap() = value;
    input
}

fn without(mut input: Value, field: &str) -> Value {
    input.as_object_mut().unwrap().remove(field).unwrap();
    input
}

fn external() -> Value {
    json!({
        "specReplicas": 3, "statusReplicas": 3, "readyPods": 3, "metricType": "External", "targetType": "Value",
        "targetMilli": 1000, "metricValuesMilli": [5000], "tolerance": {"up": 0.1, "down": 0.1},
    })
}

fn reconcile() -> Value {
    json!({
        "specReplicas": 3, "statusReplicas": 3, "readyPods": 3, "minReplicas": 1, "maxReplicas": 9,
        "tolerance": {"up": 0.1, "down": 0.1},
        "metrics": [{"type": "External", "targetType": "AverageValue", "targetMilli": 1000, "valuesMilli": [5000]}],
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}},
        "downscaleStabilizationSeconds": 300, "pastRecommendations": [{"ageSeconds": 10, "replicas": 3}],
        "scaleUpEvents": [{"ageSeconds": 10, "change": 1}], "scaleDownEvents": [],
        "scaleToZeroEnabled": true, "scaledToZeroCondition": false,
    })
}

fn turn() -> Value {
    json!({
        "current": 1, "maxReplicas": 9,
        "metrics": [{
            "signalClass": "additive", "targetMilli": 1000,
            "replicas": [{"phase": "Ready", "sample": "value", "valueMilli": 5000}],
        }],
    })
}

#[test]
fn the_cases_without_a_fault_are_answered() {
    for (kind, input) in [("external_value", external()), ("reconcile", reconcile()), ("turn", turn())] {
        let answer = evaluate(&Case { id: "case".into(), kind: kind.into(), input });
        assert!(answer["desiredReplicas"].is_i64() && answer.get("error").is_none(), "{answer}");
    }
}

#[test]
fn a_metric_names_its_field() {
    for (path, value, error) in [
        ("/specReplicas", json!("3"), "input.specReplicas: invalid type: string \"3\", expected i64"),
        ("/specReplicas", json!(-1), "input.specReplicas: replicas must be from 0 to 2147483647, not -1"),
        ("/readyPods", json!(2.5), "input.readyPods: invalid type: floating point `2.5`, expected i64"),
        ("/targetMilli", json!(0), "input.targetMilli: a target must be above 0, not 0"),
        ("/targetType", json!("AverageValue"), "input.targetType: AverageValue does not fit the kind"),
        ("/metricType", json!("Object"), "input.metricType: Object does not fit the kind"),
        ("/metricValuesMilli/0", json!(null), "input.metricValuesMilli[0]: invalid type: null, expected i64"),
        ("/tolerance/up", json!(-0.1), "input.tolerance.up: a fraction must be at least 0, not -0.1"),
        ("/tolerance", json!([0.1, 0.1]), "input.tolerance: must be an object"),
    ] {
        assert_eq!(error_of("external_value", with(external(), path, value)), json!(error));
    }
}

#[test]
fn a_reconcile_names_its_field() {
    for (path, value, error) in [
        (
            "/metrics",
            json!([]),
            "input.metrics: an HPA has at least one metric: the API server adds one where none is listed",
        ),
        (
            "/metrics/0/type",
            json!("external"),
            "input.metrics[0].type: unknown variant `external`, expected one of `External`, `Object`, `Pods`, `Resource`, `Unknown`",
        ),
        (
            "/metrics/0/targetType",
            json!("Utilization"),
            "input.metrics[0].targetType: a metric of type External has no target of type Utilization",
        ),
        ("/behavior/scaleUp", json!([]), "input.behavior.scaleUp: must be an object"),
        (
            "/behavior/scaleUp/policies/0",
            json!(["Pods", 4, 60]),
            "input.behavior.scaleUp.policies[0]: must be an object",
        ),
        (
            "/behavior/scaleUp/policies/0/type",
            json!("Pod"),
            "input.behavior.scaleUp.policies[0].type: unknown variant `Pod`, expected `Pods` or `Percent`",
        ),
        ("/metrics/0", json!(5), "input.metrics[0]: invalid type: integer `5`, expected an object"),
        ("", json!(null), "input: must be an object"),
        ("/scaleUpEvents/0/change", json!(0), "input.scaleUpEvents[0].change: must be from 1 to 2147483647, not 0"),
        ("/scaleUpEvents/0/ageSeconds", json!(-1), "input.scaleUpEvents[0].ageSeconds: -1 is not a number of seconds"),
        (
            "/pastRecommendations/0/replicas",
            json!(1e9),
            "input.pastRecommendations[0].replicas: invalid type: floating point `1000000000.0`, expected i64",
        ),
    ] {
        assert_eq!(error_of("reconcile", with(reconcile(), path, value)), json!(error));
    }
}

#[test]
fn nothing_that_was_observed_is_taken_for_granted() {
    let fields: Vec<String> = reconcile().as_object().unwrap().keys().cloned().collect();
    for field in fields {
        let error = format!("input: missing field `{field}`");
        assert_eq!(error_of("reconcile", without(reconcile(), &field)), json!(error));
    }
}

#[test]
fn a_turn_names_its_field() {
    for (path, value, error) in [
        ("/metrics", json!([]), "input.metrics: at least one metric must be additive or a ratio"),
        ("/metrics/0/targetMilli", json!(-5), "input.metrics[0].targetMilli: a target must be above 0, not -5"),
        ("/metrics/0/signalClass", json!("latency"), "input.metrics[0]: a latency needs the field `latency`"),
        (
            "/metrics/0/replicas/0/sample",
            json!(null),
            "input.metrics[0]: replicas[0]: a Ready replica needs a `sample`",
        ),
        (
            "/metrics/0/replicas/0/valueMilli",
            json!(null),
            "input.metrics[0]: replicas[0]: a sample Value needs `valueMilli`",
        ),
    ] {
        assert_eq!(error_of("turn", with(turn(), path, value)), json!(error));
    }
}

#[test]
fn a_kind_that_does_not_exist_is_refused() {
    let error = error_of("reconcil", json!({}));
    assert!(error.as_str().unwrap().starts_with("there is no kind \"reconcil\"; kinds are external_value, "));
}

#[test]
fn what_is_no_case_is_named() {
    for (value, error) in [
        (json!({"kind": "turn"}), "a case needs an `id` that is a text: {\"kind\":\"turn\"}"),
        (json!(5), "a case needs an `id` that is a text: 5"),
        (json!({"id": "a", "input": {}}), "the case \"a\" needs a `kind` that is a text"),
        (json!({"id": "a", "kind": "turn"}), "the case \"a\" needs an `input`"),
    ] {
        assert_eq!(serde_json::from_value::<Case>(value).unwrap_err().to_string(), error);
    }
}
