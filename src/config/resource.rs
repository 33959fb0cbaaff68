//! One resource out of a document, with everything that is wrong with it.

use serde_json::{Map, Value};

use crate::api::{AutoscalerSpec, FieldError, InferenceAutoscaler};

/// A validated autoscaler.
///
/// # Errors
/// Every mistake of the document, not only the first.
pub(super) fn autoscaler(document: &Value) -> Result<AutoscalerSpec, Vec<FieldError>> {
    let mut lists = Vec::new();
    misplaced_lists(document, "object", &mut lists);
    if !lists.is_empty() {
        return Err(lists);
    }
    match decode(document.clone()) {
        Ok(resource) => AutoscalerSpec::from_file(&resource),
        Err(first) => Err(mistakes(document, first)),
    }
}

fn decode(document: Value) -> Result<InferenceAutoscaler, FieldError> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let field = match error.path().to_string() {
            root if root == "." => "object".to_owned(),
            field => field,
        };
        FieldError::new(field, error.into_inner().to_string())
    })
}

/// Decoding stops at the first mistake. So each field of `spec` is decoded alone, and what is then left is checked as
/// it would have been.
fn mistakes(document: &Value, first: FieldError) -> Vec<FieldError> {
    let Some(spec) = document.get("spec").and_then(Value::as_object) else { return vec![first] };
    let with_spec = |spec: Map<String, Value>| {
        let mut probe = document.clone();
        probe["spec"] = Value::Object(spec);
        probe
    };
    if let Err(outside) = decode(with_spec(Map::new())) {
        return vec![outside];
    }
    let (mut found, mut sound) = (Vec::new(), Map::new());
    for (name, value) in spec {
        let before = found.len();
        let alone = |value: Value| decode(with_spec(Map::from_iter([(name.clone(), value)]))).err();
        match value.as_array() {
            Some(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    if let Some(FieldError { field, message }) = alone(Value::Array(vec![entry.clone()])) {
                        let field = field.replacen("[0]", &format!("[{index}]"), 1);
                        found.push(FieldError::new(field, message));
                    }
                }
            }
            None => found.extend(alone(value.clone())),
        }
        if found.len() == before {
            sound.insert(name.clone(), value.clone());
        }
    }
    // That a field is missing which was only left out here is no mistake of its own.
    let faulty: Vec<&String> = spec.keys().filter(|name| !sound.contains_key(*name)).collect();
    let left_out = |error: &FieldError| {
        faulty.iter().any(|name| {
            let rest = error.field.strip_prefix("spec.").and_then(|field| field.strip_prefix(name.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    if let Ok(Err(others)) = decode(with_spec(sound)).map(|resource| AutoscalerSpec::from_file(&resource)) {
        found.extend(others.into_iter().filter(|error| !left_out(error)));
    }
    if found.is_empty() { vec![first] } else { found }
}

/// The fields that are objects, and those whose entries are.
const OBJECTS: [&str; 13] = [
    "behavior",
    "bearerTokenSecretRef",
    "caSecretRef",
    "clientCertSecretRef",
    "engine",
    "fallback",
    "labels",
    "metadata",
    "scaleDown",
    "scaleTargetRef",
    "scaleUp",
    "spec",
    "warmPool",
];
const LISTS_OF_OBJECTS: [&str; 3] = ["custom", "metrics", "policies"];

/// Notes each list where an object belongs: decoding would take its entries for the object's fields, one by one.
fn misplaced_lists(value: &Value, path: &str, found: &mut Vec<FieldError>) {
    if value.is_array() {
        found.push(FieldError::new(path, "a list, where an object belongs"));
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = if path == "object" { name.clone() } else { format!("{path}.{name}") };
        if OBJECTS.contains(&name.as_str()) {
            misplaced_lists(value, &path, found);
        } else if LISTS_OF_OBJECTS.contains(&name.as_str()) {
            for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
                misplaced_lists(entry, &format!("{path}[{index}]"), found);
            }
        }
    }
}
