//! Cases of the limits: bounds, the fixed cap, `behavior` policies and their scale events.

use serde::Deserialize;
use serde_json::{Value, json};

use super::CaseError;
use super::read::{Count, EventJson, Positive, Seconds, field, nullable, plain, read};
use crate::behavior::{Behavior, EffectiveBehavior, EffectiveRules, ScalingPolicy, ScalingRules};
use crate::hpa::{self, Limited, ScaleEventLog};
use crate::units::Replicas;

/// A `behavior` with the API server's defaults. That server refuses an empty list of policies; the controller
/// would follow it, and so does a case.
pub(super) fn effective(behavior: &Behavior) -> EffectiveBehavior {
    let keep_empty = |written: Option<&ScalingRules>, rules: &mut EffectiveRules| {
        if written.and_then(|rules| rules.policies.as_ref()).is_some_and(Vec::is_empty) {
            rules.policies.clear();
        }
    };
    let mut effective = EffectiveBehavior::of(behavior);
    keep_empty(behavior.scale_up.as_ref(), &mut effective.scale_up);
    keep_empty(behavior.scale_down.as_ref(), &mut effective.scale_down);
    effective
}

fn limited(before: Replicas, limited: Limited) -> Value {
    json!({
        "desiredReplicas": limited.replicas,
        "limited": limited.replicas != before,
        "reason": limited.reason,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields are named as in the cases")]
struct Counts {
    current_replicas: Count,
    /// Any integer: a metric may ask for anything.
    metric_desired_replicas: Replicas,
    min_replicas: Count,
    max_replicas: Count,
}

pub(super) fn clamp_no_behavior(input: &Value) -> Result<Value, CaseError> {
    let counts: Counts = read(input, "input")?;
    let desired = counts.metric_desired_replicas;
    let (minimum, maximum) = (counts.min_replicas.0, counts.max_replicas.0);
    Ok(limited(desired, hpa::clamp_without_behavior(counts.current_replicas.0, desired, minimum, maximum)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Events {
    scale_up_events: Vec<EventJson>,
    scale_down_events: Vec<EventJson>,
}

fn limit_only(limit: Replicas) -> Value {
    json!({ "desiredReplicas": limit, "limited": null, "reason": null })
}

pub(super) fn scale_up_limit(input: &Value) -> Result<Value, CaseError> {
    let current = field::<Count>(input, "input", "currentReplicas")?.0;
    let behavior = Behavior { scale_up: Some(field(input, "input", "scaleUp")?), scale_down: None };
    let events: Events = read(input, "input")?;
    let (ups, downs) = (plain(events.scale_up_events), plain(events.scale_down_events));
    Ok(limit_only(hpa::scale_up_limit(current, &effective(&behavior).scale_up, &ups, &downs)))
}

pub(super) fn scale_down_limit(input: &Value) -> Result<Value, CaseError> {
    let current = field::<Count>(input, "input", "currentReplicas")?.0;
    let behavior = Behavior { scale_up: None, scale_down: Some(field(input, "input", "scaleDown")?) };
    let events: Events = read(input, "input")?;
    let (ups, downs) = (plain(events.scale_up_events), plain(events.scale_down_events));
    Ok(limit_only(hpa::scale_down_limit(current, &effective(&behavior).scale_down, &ups, &downs)))
}

pub(super) fn behavior_rate(input: &Value) -> Result<Value, CaseError> {
    let counts: Counts = read(input, "input")?;
    let behavior = effective(&field(input, "input", "behavior")?);
    let events: Events = read(input, "input")?;
    let desired = counts.metric_desired_replicas;
    let answer = hpa::limit_rate(
        counts.current_replicas.0,
        desired,
        (counts.min_replicas.0, counts.max_replicas.0),
        (&behavior.scale_up, &behavior.scale_down),
        (&plain(events.scale_up_events), &plain(events.scale_down_events)),
    );
    Ok(limited(desired, answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoreInput {
    new_change: Positive,
    query_period_seconds: Seconds,
    events: Vec<EventJson>,
    #[serde(deserialize_with = "nullable")]
    policies: Option<Vec<ScalingPolicy>>,
}

pub(super) fn store_scale_event(input: &Value) -> Result<Value, CaseError> {
    let input: StoreInput = read(input, "input")?;
    let mut log = ScaleEventLog::of(plain(input.events));
    let changed = hpa::replicas_changed_within(input.query_period_seconds.0, &log.events);
    log.store(input.new_change.0, input.policies.as_deref());
    let after: Vec<Value> = log
        .events
        .iter()
        .zip(&log.outdated)
        .map(|(event, outdated)| json!({ "change": event.change, "outdated": outdated }))
        .collect();
    Ok(json!({
        "desiredReplicas": null,
        "limited": null,
        "reason": null,
        "changeInPeriodBefore": changed,
        "eventsAfter": after,
    }))
}
