//! `headroom evaluate`.

use serde_json::{Value, json};

use crate::support::{output, output_with_input, stderr, stdout};

fn vectors(name: &str) -> String {
    format!("{}/policies/tests/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// Whether an answer says all that is expected; what a case leaves open is null or not there.
fn holds(expected: &Value, answer: &Value) -> bool {
    match expected {
        Value::Null => true,
        Value::Object(fields) => fields.iter().all(|(name, value)| holds(value, &answer[name])),
        value => value == answer,
    }
}

/// What is expected is what comes out of the program, from a file and from standard input alike.
#[test]
fn every_vector_by_the_program() {
    for (name, least) in [("hpa", 60), ("hpa-random", 797), ("decision", 150)] {
        let text = std::fs::read_to_string(vectors(name)).unwrap();
        let answered = output(&["evaluate", &vectors(name)]);
        assert!(answered.status.success(), "{}", stderr(&answered));
        assert_eq!(output_with_input(&["evaluate"], text.as_bytes()).stdout, answered.stdout);
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        let answers: Vec<Value> = serde_json::from_str(&stdout(&answered)).unwrap();
        assert!(cases.len() >= least && answers.len() == cases.len(), "{name}: {}", cases.len());
        for (case, answer) in cases.iter().zip(&answers) {
            assert_eq!(answer["id"], case["id"], "{name}");
            assert!(holds(&case["expect"], answer), "{name} {}: {} is not in {answer}", case["id"], case["expect"]);
        }
    }
}

/// One wrong case is an answer that says so; the others are answered, and the exit says that not all were.
#[test]
fn a_wrong_case_stops_no_other() {
    let cases = json!([
        { "id": "wrong", "kind": "reconcile", "input": { "specReplicas": "three" } },
        { "id": "unknown", "kind": "oracle", "input": {} },
    ]);
    let text = std::fs::read_to_string(vectors("hpa")).unwrap();
    let good: Value = serde_json::from_str::<Vec<Value>>(&text).unwrap().remove(0);
    let mut cases = cases.as_array().unwrap().clone();
    cases.push(good.clone());
    let answered = output_with_input(&["evaluate"], json!(cases).to_string().as_bytes());
    assert!(!answered.status.success());
    let answers: Vec<Value> = serde_json::from_str(&stdout(&answered)).unwrap();
    assert_eq!(answers.len(), 3);
    for (answer, id) in answers.iter().zip(["wrong", "unknown"]) {
        assert_eq!(answer["id"], id);
        assert!(answer["error"].is_string() && answer["desiredReplicas"].is_null(), "{answer}");
    }
    assert_eq!(answers[2]["id"], good["id"]);
    assert!(answers[2]["error"].is_null(), "{}", answers[2]);
}

#[test]
fn what_is_no_case_is_refused() {
    for text in ["", "{}", "[1]", "not json"] {
        let refused = output_with_input(&["evaluate"], text.as_bytes());
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{text:?}");
        assert!(stderr(&refused).contains("JSON array"), "{}", stderr(&refused));
    }
}
