//! Cases of the stabilization windows.

use serde::Deserialize;
use serde_json::{Value, json};

use super::CaseError;
use super::read::{Count, RecommendationJson, Seconds, plain, read};
use crate::hpa::{self, Recommendation, Stabilized};
use crate::units::Replicas;

fn stabilized(before: Replicas, stabilized: Stabilized, log: &[Recommendation]) -> Value {
    let after: Vec<Replicas> = log.iter().map(|entry| entry.replicas).collect();
    json!({
        "desiredReplicas": stabilized.replicas,
        "limited": stabilized.replicas != before,
        "reason": stabilized.reason,
        "recommendationLogLengthAfter": after.len(),
        "recommendationsAfter": after,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithoutBehavior {
    metric_desired_replicas: Replicas,
    past_recommendations: Vec<RecommendationJson>,
    downscale_stabilization_seconds: Seconds,
}

pub(super) fn stabilize_no_behavior(input: &Value) -> Result<Value, CaseError> {
    let input: WithoutBehavior = read(input, "input")?;
    let (desired, window) = (input.metric_desired_replicas, input.downscale_stabilization_seconds.0);
    let mut log: Vec<Recommendation> = plain(input.past_recommendations);
    let answer = hpa::stabilize_without_behavior(desired, &log, window);
    hpa::record_recommendation(&mut log, desired, window);
    Ok(stabilized(desired, answer, &log))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithBehavior {
    current_replicas: Count,
    metric_desired_replicas: Replicas,
    past_recommendations: Vec<RecommendationJson>,
    scale_up_stabilization_window_seconds: Seconds,
    scale_down_stabilization_window_seconds: Seconds,
}

pub(super) fn stabilize_behavior(input: &Value) -> Result<Value, CaseError> {
    let input: WithBehavior = read(input, "input")?;
    let (current, desired) = (input.current_replicas.0, input.metric_desired_replicas);
    let up = input.scale_up_stabilization_window_seconds.0;
    let down = input.scale_down_stabilization_window_seconds.0;
    let mut log: Vec<Recommendation> = plain(input.past_recommendations);
    let answer = hpa::stabilize_with_behavior(current, desired, &log, up, down);
    hpa::record_recommendation(&mut log, desired, up.max(down));
    Ok(stabilized(desired, answer, &log))
}
