//! Cases of the HPA's own rules.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::CaseError;
use crate::behavior::{Behavior, EffectiveBehavior, ScalingPolicy, ScalingRules};
use crate::hpa::{
    self, Condition, Limited, MetricInput, MetricProposal, MetricSource, Pod, PodPhase, Recommendation, ReconcileInput,
    ReplicaCounts, ScaleEvent, ScaleEventLog, Stabilized,
};
use crate::quantity::Milli;
use crate::reason::Reason;
use crate::units::{Replicas, Tolerances, seconds};

fn read<T: DeserializeOwned>(input: &Value) -> Result<T, CaseError> {
    Ok(T::deserialize(input)?)
}

/// Thousandths as a plain JSON integer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(from = "i64")]
pub(super) struct MilliNumber(pub(super) Milli);

impl From<i64> for MilliNumber {
    fn from(thousandths: i64) -> Self {
        Self(Milli::new(thousandths))
    }
}

fn plain(values: &[MilliNumber]) -> Vec<Milli> {
    values.iter().map(|value| value.0).collect()
}

fn nonzero_target(target: MilliNumber) -> Result<Milli, CaseError> {
    if target.0 > Milli::ZERO {
        Ok(target.0)
    } else {
        Err(CaseError::Senseless(format!("targetMilli must be above 0, not {}", target.0.get())))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeriesInput {
    spec_replicas: Replicas,
    status_replicas: Replicas,
    #[serde(default)]
    ready_pods: Replicas,
    target_milli: MilliNumber,
    metric_values_milli: Vec<MilliNumber>,
    tolerance: Tolerances,
}

impl SeriesInput {
    fn counts(&self) -> ReplicaCounts {
        ReplicaCounts { spec: self.spec_replicas, status: self.status_replicas, ready: self.ready_pods }
    }
}

fn proposed(proposal: MetricProposal) -> Value {
    json!({ "desiredReplicas": proposal.replicas, "limited": null, "reason": null })
}

fn with_average(proposal: MetricProposal) -> Value {
    let mut answer = proposed(proposal);
    answer["reportedAverageMilli"] = json!(proposal.reported);
    answer
}

/// A metric that cannot be computed: the count stays.
fn failed(current: Replicas, reason: Reason) -> Value {
    json!({ "desiredReplicas": current, "limited": null, "reason": reason })
}

pub(super) fn value(input: &Value) -> Result<Value, CaseError> {
    let input: SeriesInput = read(input)?;
    let usage = hpa::sum_for_value(&plain(&input.metric_values_milli));
    Ok(proposed(hpa::value(usage, nonzero_target(input.target_milli)?, input.counts(), input.tolerance)))
}

pub(super) fn average_value(input: &Value) -> Result<Value, CaseError> {
    let input: SeriesInput = read(input)?;
    let usage = hpa::sum_for_average_value(&plain(&input.metric_values_milli));
    let target = nonzero_target(input.target_milli)?;
    Ok(with_average(hpa::average_value(usage, target, input.status_replicas, input.tolerance)))
}

pub(super) fn object_average_value(input: &Value) -> Result<Value, CaseError> {
    let input: SeriesInput = read(input)?;
    let usage = hpa::sum_for_value(&plain(&input.metric_values_milli));
    let target = nonzero_target(input.target_milli)?;
    Ok(with_average(hpa::object_average_value(usage, target, input.status_replicas, input.tolerance)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodInput {
    value_milli: Option<MilliNumber>,
    #[serde(default = "running")]
    phase: PodPhase,
    #[serde(default)]
    deleting: bool,
}

fn running() -> PodPhase {
    PodPhase::Running
}

impl From<&PodInput> for Pod {
    fn from(input: &PodInput) -> Self {
        Self { value: input.value_milli.map(|value| value.0), phase: input.phase, deleting: input.deleting }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodsInput {
    spec_replicas: Replicas,
    target_milli: MilliNumber,
    pods: Vec<PodInput>,
    tolerance: Tolerances,
}

pub(super) fn pods_average_value(input: &Value) -> Result<Value, CaseError> {
    let input: PodsInput = read(input)?;
    let pods: Vec<Pod> = input.pods.iter().map(Pod::from).collect();
    let target = nonzero_target(input.target_milli)?;
    Ok(match hpa::pods_average_value(&pods, target, input.spec_replicas, input.tolerance) {
        Ok(proposal) => with_average(proposal),
        Err(reason) => failed(input.spec_replicas, reason),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UtilizationInput {
    spec_replicas: Replicas,
    target_utilization_percent: i32,
    #[serde(alias = "usageMilli")]
    usage_milli_per_pod: Vec<i64>,
    #[serde(alias = "requestMilli")]
    request_milli_per_pod: Vec<i64>,
    tolerance: Tolerances,
}

pub(super) fn resource_utilization(input: &Value) -> Result<Value, CaseError> {
    let input: UtilizationInput = read(input)?;
    let answer = hpa::resource_utilization(
        &input.usage_milli_per_pod,
        &input.request_milli_per_pod,
        input.target_utilization_percent,
        input.spec_replicas,
        input.tolerance,
    );
    Ok(match answer {
        Ok(proposal) => {
            let mut answer = proposed(proposal);
            answer["reportedUtilizationPercent"] = json!(proposal.reported);
            answer
        }
        Err(reason) => failed(input.spec_replicas, reason),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields are named as in the cases")]
struct ClampInput {
    current_replicas: Replicas,
    metric_desired_replicas: Replicas,
    min_replicas: Replicas,
    max_replicas: Replicas,
}

fn limited(before: Replicas, limited: Limited) -> Value {
    json!({
        "desiredReplicas": limited.replicas,
        "limited": limited.replicas != before,
        "reason": limited.reason,
    })
}

pub(super) fn clamp_no_behavior(input: &Value) -> Result<Value, CaseError> {
    let input: ClampInput = read(input)?;
    let desired = input.metric_desired_replicas;
    let answer = hpa::clamp_without_behavior(input.current_replicas, desired, input.min_replicas, input.max_replicas);
    Ok(limited(desired, answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LimitInput {
    current_replicas: Replicas,
    scale_up: Option<ScalingRules>,
    scale_down: Option<ScalingRules>,
    #[serde(default)]
    scale_up_events: Vec<ScaleEvent>,
    #[serde(default)]
    scale_down_events: Vec<ScaleEvent>,
}

pub(super) fn scale_limit(input: &Value) -> Result<Value, CaseError> {
    let input: LimitInput = read(input)?;
    let down = input.scale_down.is_some();
    let behavior = Behavior { scale_up: input.scale_up, scale_down: input.scale_down };
    let behavior = EffectiveBehavior::of(&behavior);
    let (ups, downs) = (&input.scale_up_events, &input.scale_down_events);
    let limit = if down {
        hpa::scale_down_limit(input.current_replicas, &behavior.scale_down, ups, downs)
    } else {
        hpa::scale_up_limit(input.current_replicas, &behavior.scale_up, ups, downs)
    };
    Ok(json!({ "desiredReplicas": limit, "limited": null, "reason": null }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RateInput {
    current_replicas: Replicas,
    metric_desired_replicas: Replicas,
    min_replicas: Replicas,
    max_replicas: Replicas,
    #[serde(default)]
    behavior: Behavior,
    #[serde(default)]
    scale_up_events: Vec<ScaleEvent>,
    #[serde(default)]
    scale_down_events: Vec<ScaleEvent>,
}

pub(super) fn behavior_rate(input: &Value) -> Result<Value, CaseError> {
    let input: RateInput = read(input)?;
    let behavior = EffectiveBehavior::of(&input.behavior);
    let answer = hpa::limit_rate(
        input.current_replicas,
        input.metric_desired_replicas,
        (input.min_replicas, input.max_replicas),
        (&behavior.scale_up, &behavior.scale_down),
        (&input.scale_up_events, &input.scale_down_events),
    );
    Ok(limited(input.metric_desired_replicas, answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyStabilizeInput {
    metric_desired_replicas: Replicas,
    past_recommendations: Vec<Recommendation>,
    #[serde(rename = "downscaleStabilizationSeconds", with = "seconds")]
    window: Duration,
}

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

pub(super) fn stabilize_no_behavior(input: &Value) -> Result<Value, CaseError> {
    let mut input: LegacyStabilizeInput = read(input)?;
    let desired = input.metric_desired_replicas;
    let answer = hpa::stabilize_without_behavior(desired, &input.past_recommendations, input.window);
    hpa::record_recommendation(&mut input.past_recommendations, desired, input.window);
    Ok(stabilized(desired, answer, &input.past_recommendations))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StabilizeInput {
    current_replicas: Replicas,
    metric_desired_replicas: Replicas,
    past_recommendations: Vec<Recommendation>,
    #[serde(rename = "scaleUpStabilizationWindowSeconds", with = "seconds")]
    up_window: Duration,
    #[serde(rename = "scaleDownStabilizationWindowSeconds", with = "seconds")]
    down_window: Duration,
}

pub(super) fn stabilize_behavior(input: &Value) -> Result<Value, CaseError> {
    let mut input: StabilizeInput = read(input)?;
    let desired = input.metric_desired_replicas;
    let (up, down) = (input.up_window, input.down_window);
    let answer = hpa::stabilize_with_behavior(input.current_replicas, desired, &input.past_recommendations, up, down);
    hpa::record_recommendation(&mut input.past_recommendations, desired, up.max(down));
    Ok(stabilized(desired, answer, &input.past_recommendations))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoreInput {
    new_change: i32,
    #[serde(rename = "queryPeriodSeconds", with = "seconds")]
    query_period: Duration,
    events: Vec<ScaleEvent>,
    policies: Option<Vec<ScalingPolicy>>,
}

pub(super) fn store_scale_event(input: &Value) -> Result<Value, CaseError> {
    let input: StoreInput = read(input)?;
    let changed = hpa::replicas_changed_within(input.query_period, &input.events);
    let mut log = ScaleEventLog::of(input.events);
    log.store(input.new_change, input.policies.as_deref());
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricJson {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    target_type: String,
    #[serde(default)]
    target_milli: MilliNumber,
    #[serde(default)]
    values_milli: Vec<MilliNumber>,
    #[serde(default)]
    pods: Vec<PodInput>,
    #[serde(default)]
    target_utilization_percent: i32,
    #[serde(default, alias = "usageMilliPerPod")]
    usage_milli: Vec<i64>,
    #[serde(default, alias = "requestMilliPerPod")]
    request_milli: Vec<i64>,
    error: Option<Reason>,
}

impl MetricJson {
    fn input(&self) -> Result<MetricInput, CaseError> {
        let values = plain(&self.values_milli);
        let usage = hpa::sum_for_value(&values);
        let target = || if self.error.is_some() { Ok(self.target_milli.0) } else { nonzero_target(self.target_milli) };
        let source = match (self.kind.as_str(), self.target_type.as_str()) {
            ("External", "Value") => MetricSource::ExternalValue { target: target()?, values },
            ("External", "AverageValue") => MetricSource::ExternalAverageValue { target: target()?, values },
            ("Object", "Value") => MetricSource::ObjectValue { target: target()?, usage },
            ("Object", "AverageValue") => MetricSource::ObjectAverageValue { target: target()?, usage },
            ("Pods", _) => MetricSource::Pods { target: target()?, pods: self.pods.iter().map(Pod::from).collect() },
            ("Resource", _) => MetricSource::Resource {
                target_percent: self.target_utilization_percent,
                usage: self.usage_milli.clone(),
                requests: self.request_milli.clone(),
            },
            _ => MetricSource::Unknown,
        };
        Ok(MetricInput { source, error: self.error })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReconcileJson {
    spec_replicas: Replicas,
    status_replicas: Replicas,
    #[serde(default)]
    ready_pods: Replicas,
    min_replicas: Replicas,
    max_replicas: Replicas,
    tolerance: Tolerances,
    metrics: Vec<MetricJson>,
    behavior: Option<Behavior>,
    #[serde(rename = "downscaleStabilizationSeconds", with = "seconds", default = "five_minutes")]
    downscale_stabilization: Duration,
    #[serde(default)]
    past_recommendations: Vec<Recommendation>,
    #[serde(default)]
    scale_up_events: Vec<ScaleEvent>,
    #[serde(default)]
    scale_down_events: Vec<ScaleEvent>,
    #[serde(default)]
    scale_to_zero_enabled: bool,
    #[serde(default)]
    scaled_to_zero_condition: bool,
}

fn five_minutes() -> Duration {
    crate::behavior::HPA_DOWNSCALE_STABILIZATION
}

pub(super) fn reconcile(input: &Value) -> Result<Value, CaseError> {
    let input: ReconcileJson = read(input)?;
    let behavior = input.behavior.as_ref().map(|behavior| {
        let mut effective = EffectiveBehavior::of(behavior);
        let window = behavior.scale_down.as_ref().and_then(|rules| rules.stabilization_window_seconds);
        if window.is_none() {
            effective.scale_down.stabilization_window = input.downscale_stabilization;
        }
        effective
    });
    let answer = hpa::reconcile(&ReconcileInput {
        counts: ReplicaCounts { spec: input.spec_replicas, status: input.status_replicas, ready: input.ready_pods },
        minimum: input.min_replicas,
        maximum: input.max_replicas,
        tolerances: behavior_tolerances(input.tolerance, input.behavior.as_ref()),
        metrics: input.metrics.iter().map(MetricJson::input).collect::<Result<_, _>>()?,
        behavior,
        downscale_stabilization: input.downscale_stabilization,
        recommendations: input.past_recommendations,
        scale_up_events: input.scale_up_events,
        scale_down_events: input.scale_down_events,
        scale_to_zero_enabled: input.scale_to_zero_enabled,
        scaled_to_zero: input.scaled_to_zero_condition,
    });
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
    Ok(json!({
        "desiredReplicas": answer.desired,
        "limited": answer.scaling_limited.map(|condition| condition.status),
        "reason": answer.scaling_limited.or(inactive).map(|condition| condition.reason),
        "conditions": conditions,
    }))
}

/// A direction's own tolerance goes before the controller's.
fn behavior_tolerances(controller: Tolerances, behavior: Option<&Behavior>) -> Tolerances {
    let own = |rules: Option<&ScalingRules>| rules.and_then(|rules| rules.tolerance);
    Tolerances {
        up: own(behavior.and_then(|behavior| behavior.scale_up.as_ref())).unwrap_or(controller.up),
        down: own(behavior.and_then(|behavior| behavior.scale_down.as_ref())).unwrap_or(controller.down),
    }
}
