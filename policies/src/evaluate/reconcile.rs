//! Cases of a whole pass.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::CaseError;
use super::limit::effective;
use super::metric::{TolerancesJson, metric_input};
use super::read::{Count, EventJson, RecommendationJson, Seconds, nullable, plain, read};
use crate::behavior::{Behavior, EffectiveBehavior, ScalingRules};
use crate::hpa::{self, Condition, Reconcile, ReconcileInput, ReplicaCounts, ToleranceBand};
use crate::units::Tolerance;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReconcileJson {
    spec_replicas: Count,
    status_replicas: Count,
    ready_pods: Count,
    min_replicas: Count,
    max_replicas: Count,
    tolerance: TolerancesJson,
    metrics: Vec<Value>,
    #[serde(deserialize_with = "nullable")]
    behavior: Option<Behavior>,
    downscale_stabilization_seconds: Seconds,
    past_recommendations: Vec<RecommendationJson>,
    scale_up_events: Vec<EventJson>,
    scale_down_events: Vec<EventJson>,
    scale_to_zero_enabled: bool,
    scaled_to_zero_condition: bool,
}

pub(super) fn reconcile(input: &Value) -> Result<Value, CaseError> {
    let input: ReconcileJson = read(input, "input")?;
    if input.metrics.is_empty() {
        let problem = "an HPA has at least one metric: the API server adds one where none is listed".into();
        return Err(CaseError::Field { field: "input.metrics".into(), problem });
    }
    let metric = |(index, metric): (usize, &Value)| metric_input(metric, &format!("input.metrics[{index}]"));
    let downscale_stabilization = input.downscale_stabilization_seconds.0;
    let answer = hpa::reconcile(&ReconcileInput {
        counts: ReplicaCounts {
            spec: input.spec_replicas.0,
            status: input.status_replicas.0,
            ready: input.ready_pods.0,
        },
        minimum: input.min_replicas.0,
        maximum: input.max_replicas.0,
        tolerances: tolerance_band(input.tolerance, input.behavior.as_ref()),
        metrics: input.metrics.iter().enumerate().map(metric).collect::<Result<_, _>>()?,
        behavior: input.behavior.as_ref().map(|behavior| with_controller_window(behavior, downscale_stabilization)),
        downscale_stabilization,
        recommendations: plain(input.past_recommendations),
        scale_up_events: plain(input.scale_up_events),
        scale_down_events: plain(input.scale_down_events),
        scale_to_zero_enabled: input.scale_to_zero_enabled,
        scaled_to_zero: input.scaled_to_zero_condition,
    });
    Ok(answered(&answer))
}

/// A scale-down window left open is the controller's, in whole seconds.
fn with_controller_window(behavior: &Behavior, downscale_stabilization: Duration) -> EffectiveBehavior {
    let mut effective = effective(behavior);
    let window = behavior.scale_down.as_ref().and_then(|rules| rules.stabilization_window_seconds);
    if window.is_none() {
        effective.scale_down.stabilization_window = Duration::from_secs(downscale_stabilization.as_secs());
    }
    effective
}

/// A direction's own tolerance goes before the controller's. Two that differ can only come from `behavior`, as the
/// controller has one for both.
fn tolerance_band(tolerance: TolerancesJson, behavior: Option<&Behavior>) -> ToleranceBand {
    let (up, down) = (tolerance.up.0, tolerance.down.0);
    let written = behavior.is_some() && up != down;
    let as_read = |fraction: f64| match Tolerance::from_fraction(fraction) {
        Some(tolerance) if written => hpa::tolerance_of_behavior(tolerance),
        _ => fraction,
    };
    let own = |rules: Option<&ScalingRules>| rules.and_then(|rules| rules.tolerance).map(hpa::tolerance_of_behavior);
    ToleranceBand::new(
        own(behavior.and_then(|behavior| behavior.scale_up.as_ref())).unwrap_or_else(|| as_read(up)),
        own(behavior.and_then(|behavior| behavior.scale_down.as_ref())).unwrap_or_else(|| as_read(down)),
    )
}

fn answered(answer: &Reconcile) -> Value {
    let mut conditions = Map::new();
    let mut add = |name: &str, condition: Option<Condition>| {
        if let Some(condition) = condition {
            let status = if condition.status { "True" } else { "False" };
            conditions.insert(name.into(), json!(format!("{status}/{}", condition.reason)));
        }
    };
    add("AbleToScale", Some(answer.able_to_scale));
    add("ScalingActive", answer.scaling_active);
    add("ScalingLimited", answer.scaling_limited);
    add("ScaledToZero", answer.scaled_to_zero);
    let inactive = answer.scaling_active.filter(|condition| !condition.status);
    json!({
        "desiredReplicas": answer.desired,
        "limited": answer.scaling_limited.map(|condition| condition.status),
        "reason": answer.scaling_limited.or(inactive).map(|condition| condition.reason),
        "conditions": conditions,
    })
}
