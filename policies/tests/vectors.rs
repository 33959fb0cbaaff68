//! Cases with their answers: `hpa.json` restates numbers of Kubernetes' own test tables, `hpa-random.json` and
//! `hpa-edges.json` were answered by the HPA controller of Kubernetes 1.37.2, `decision.json` by an independent model of Headroom's rules.

#![allow(clippy::unwrap_used, clippy::panic)]

use headroom_policies::evaluate::{Case, evaluate};
use serde_json::Value;

fn check(text: &str, expected_count: usize) {
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    assert_eq!(cases.len(), expected_count);
    let mut wrong = Vec::new();
    for value in &cases {
        let case: Case = serde_json::from_value(value.clone()).unwrap();
        let answer = evaluate(&case);
        for (field, expected) in value["expect"].as_object().unwrap() {
            // What a case leaves open is null, but for a count, which can be null itself.
            if expected.is_null() && field != "desiredReplicas" {
                continue;
            }
            let got = &answer[field];
            let agrees = match expected.as_object() {
                Some(fields) => fields.iter().all(|(name, value)| got[name] == *value),
                None => got == expected,
            };
            if !agrees {
                wrong.push(format!("{} {field}: expected {expected}, got {got} in {answer}", case.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {expected_count} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_hpas_own_tables() {
    check(include_str!("vectors/hpa.json"), 60);
}

#[test]
fn random_cases_answered_by_the_hpa() {
    check(include_str!("vectors/hpa-random.json"), 797);
}

/// Where doubles, overflows, missing samples and empty lists decide.
#[test]
fn edges_answered_by_the_hpa() {
    check(include_str!("vectors/hpa-edges.json"), 23);
}

#[test]
fn decisions_answered_by_an_independent_model() {
    check(include_str!("vectors/decision.json"), 150);
}
