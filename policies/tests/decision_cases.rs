//! Cases of a decision at the edges of their format: what may be left out, and numbers no cluster has.

#![allow(clippy::unwrap_used)]

use headroom_policies::evaluate::{Case, evaluate};
use serde_json::{Value, json};

fn answer(kind: &str, input: Value) -> Value {
    evaluate(&Case { id: "case".into(), kind: kind.into(), input })
}

/// Four replicas with 30 waiting each at a target of 5: the metric asks for 24.
fn busy(more: Value) -> Value {
    let replica = json!({"phase": "Ready", "sample": "value", "valueMilli": 30_000});
    let mut input = json!({
        "current": 4,
        "maxReplicas": 50,
        "metrics": [{"signalClass": "additive", "targetMilli": 5000, "replicas": vec![replica; 4]}],
    });
    let fields = input.as_object_mut().unwrap();
    let Value::Object(more) = more else { return input };
    fields.extend(more);
    input
}

#[test]
fn what_a_turn_leaves_out_takes_the_defaults() {
    let sparse = answer("turn", busy(json!({"blindForSeconds": null})));
    let whole = answer(
        "turn",
        busy(json!({
            "warmPoolReplicas": 0, "minReplicas": 1, "behavior": null, "coldStartP90Seconds": null,
            "history": {"recommendations": [], "scaleUpEvents": [], "scaleDownEvents": []},
            "floors": [], "ceilings": [], "provableCeiling": null, "override": null, "zeroSetBy": "us",
            "scaleToZero": null, "fallback": null, "blindForSeconds": 0, "mode": "HPA",
        })),
    );
    assert_eq!(sparse, whole);
    assert_eq!((&sparse["desiredReplicas"], &sparse["bindingStage"]), (&json!(8), &json!("ratePolicies")));
}

#[test]
fn what_a_proposal_leaves_out_takes_the_defaults() {
    // A tenth above target is within the default tolerance, a little more is not.
    for (value, expected) in [(5500, 1), (5501, 2)] {
        let replica = json!({"phase": "Ready", "sample": "value", "valueMilli": value});
        let metric = json!({
            "current": 1, "signalClass": "additive", "targetMilli": 5000, "replicas": [replica], "externalMilli": null,
        });
        assert_eq!(answer("proposal", metric)["desiredReplicas"], json!(expected), "{value}");
    }
}

/// The lower recommendation is just older than the window, the higher just younger, less than a bucket apart.
#[test]
fn a_recommendation_past_its_window_hides_no_younger_one() {
    let turn = busy(json!({
        "behavior": {"scaleUp": {
            "stabilizationWindowSeconds": 600,
            "policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}],
        }},
        "history": {"recommendations": [{"ageSeconds": 599, "replicas": 6}, {"ageSeconds": 601, "replicas": 0}]},
    }));
    let answer = answer("turn", turn);
    assert_eq!((&answer["desiredReplicas"], &answer["bindingStage"]), (&json!(6), &json!("stabilization")));
}

#[test]
fn a_senseless_count_is_refused() {
    let answer = answer("turn", busy(json!({"maxReplicas": -1, "override": {"holdReplicas": 3}})));
    assert_eq!(answer["error"], json!("input.maxReplicas: replicas must be from 0 to 2147483647, not -1"));
}

/// A rise is capped at what a count can hold before it is compared with the present size.
#[test]
fn nothing_rises_above_the_largest_count() {
    let metric = |current: i32| {
        json!({
            "current": current, "signalClass": "additive", "targetMilli": 5, "replicas": [],
            "externalMilli": [{"sample": "value", "valueMilli": i64::MAX}],
        })
    };
    assert_eq!(answer("proposal", metric(i32::MAX - 1))["desiredReplicas"], json!(i32::MAX));
    assert_eq!(answer("proposal", metric(i32::MAX))["desiredReplicas"], json!(null));
}
