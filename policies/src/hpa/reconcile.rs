//! One whole pass of the HPA controller: bounds, metrics, their maximum, windows, limits.

use std::time::Duration;

use super::limit::{ScaleEvent, clamp_without_behavior, limit_rate};
use super::metric::{
    MetricProposal, Pod, ReplicaCounts, average_value, object_average_value, pods_average_value, resource_utilization,
    sum_for_average_value, sum_for_value, value,
};
use super::stabilize::{Recommendation, stabilize_with_behavior, stabilize_without_behavior};
use crate::behavior::EffectiveBehavior;
use crate::quantity::Milli;
use crate::reason::Reason;
use crate::units::{Replicas, Tolerances};

/// A metric of the HPA's spec with what was read of it.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricInput {
    /// The metric and its values.
    pub source: MetricSource,
    /// It cannot be read, for this reason.
    pub error: Option<Reason>,
}

/// The kinds of metrics.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricSource {
    /// External with a `Value` target: every returned series.
    ExternalValue {
        /// The target.
        target: Milli,
        /// One entry a series.
        values: Vec<Milli>,
    },
    /// External with an `AverageValue` target.
    ExternalAverageValue {
        /// The target of each replica.
        target: Milli,
        /// One entry a series.
        values: Vec<Milli>,
    },
    /// Object with a `Value` target.
    ObjectValue {
        /// The target.
        target: Milli,
        /// The value.
        usage: Milli,
    },
    /// Object with an `AverageValue` target.
    ObjectAverageValue {
        /// The target of each replica.
        target: Milli,
        /// The value.
        usage: Milli,
    },
    /// Pods with an `AverageValue` target.
    Pods {
        /// The target of each pod.
        target: Milli,
        /// The pods.
        pods: Vec<Pod>,
    },
    /// Resource with a `Utilization` target.
    Resource {
        /// Percent of the request.
        target_percent: i32,
        /// Usage of each pod, thousandths.
        usage: Vec<i64>,
        /// Request of each pod, thousandths.
        requests: Vec<i64>,
    },
    /// A kind that does not exist.
    Unknown,
}

impl MetricInput {
    fn propose(&self, counts: ReplicaCounts, tolerances: Tolerances) -> Result<MetricProposal, Reason> {
        if let Some(reason) = self.error {
            return Err(reason);
        }
        match &self.source {
            MetricSource::ExternalValue { values, .. } | MetricSource::ExternalAverageValue { values, .. }
                if values.is_empty() =>
            {
                Err(Reason::FailedGetExternalMetric)
            }
            MetricSource::ExternalValue { target, values } => {
                Ok(value(sum_for_value(values), *target, counts, tolerances))
            }
            MetricSource::ExternalAverageValue { target, values } => {
                Ok(average_value(sum_for_average_value(values), *target, counts.status, tolerances))
            }
            MetricSource::ObjectValue { target, usage } => Ok(value(*usage, *target, counts, tolerances)),
            MetricSource::ObjectAverageValue { target, usage } => {
                Ok(object_average_value(*usage, *target, counts.status, tolerances))
            }
            MetricSource::Pods { target, pods } => pods_average_value(pods, *target, counts.spec, tolerances),
            MetricSource::Resource { target_percent, usage, requests } => {
                resource_utilization(usage, requests, *target_percent, counts.spec, tolerances)
            }
            MetricSource::Unknown => Err(Reason::InvalidMetricSourceType),
        }
    }

    fn can_wake(&self) -> bool {
        !matches!(self.source, MetricSource::Pods { .. } | MetricSource::Resource { .. } | MetricSource::Unknown)
    }
}

/// Everything a pass looks at.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconcileInput {
    /// The target's size.
    pub counts: ReplicaCounts,
    /// `minReplicas`.
    pub minimum: Replicas,
    /// `maxReplicas`.
    pub maximum: Replicas,
    /// The tolerances.
    pub tolerances: Tolerances,
    /// The metrics.
    pub metrics: Vec<MetricInput>,
    /// `behavior`; `None` = absent.
    pub behavior: Option<EffectiveBehavior>,
    /// The controller's scale-down window, for an HPA without `behavior`.
    pub downscale_stabilization: Duration,
    /// Recommendations so far.
    pub recommendations: Vec<Recommendation>,
    /// Rises so far.
    pub scale_up_events: Vec<ScaleEvent>,
    /// Falls so far.
    pub scale_down_events: Vec<ScaleEvent>,
    /// The gate `HPAScaleToZero`.
    pub scale_to_zero_enabled: bool,
    /// The status says `ScaledToZero=True`.
    pub scaled_to_zero: bool,
}

/// A condition the pass leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// True or False.
    pub status: bool,
    /// Its reason.
    pub reason: Reason,
}

/// What a pass answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconcile {
    /// The count afterwards.
    pub desired: Replicas,
    /// The condition `AbleToScale`.
    pub able_to_scale: Condition,
    /// The condition `ScalingActive`, where this pass set it.
    pub scaling_active: Option<Condition>,
    /// The condition `ScalingLimited`, where this pass set it.
    pub scaling_limited: Option<Condition>,
    /// The condition `ScaledToZero`, where this pass set it: on every rescale while the gate is on.
    pub scaled_to_zero: Option<Condition>,
}

/// One pass.
pub fn reconcile(input: &ReconcileInput) -> Reconcile {
    let current = input.counts.spec;
    let got_scale = Condition { status: true, reason: Reason::SucceededGetScale };
    let rescaled = Condition { status: true, reason: Reason::SucceededRescale };
    let bounded = |desired| Reconcile {
        desired,
        able_to_scale: rescaled,
        scaling_active: None,
        scaling_limited: None,
        scaled_to_zero: went_to_zero(input, desired),
    };
    let inactive = |reason| Reconcile {
        desired: current,
        able_to_scale: got_scale,
        scaling_active: Some(Condition { status: false, reason }),
        scaling_limited: None,
        scaled_to_zero: None,
    };
    let scaled_to_zero = input.scale_to_zero_enabled && input.scaled_to_zero;
    if current == Replicas::ZERO {
        let wakes = scaled_to_zero && input.metrics.iter().any(MetricInput::can_wake);
        if !(wakes || input.minimum != Replicas::ZERO && scaled_to_zero) {
            return inactive(Reason::ScalingDisabled);
        }
    } else if current > input.maximum {
        return bounded(input.maximum);
    } else if current < input.minimum {
        return bounded(input.minimum);
    }
    match largest_proposal(input) {
        Err(reason) => inactive(reason),
        Ok(proposal) => normalize(input, proposal.max(Replicas::ZERO), scaled_to_zero),
    }
}

/// The maximum of the proposals; the first failure's reason where all metrics failed, or where one did and the
/// rest would scale down.
fn largest_proposal(input: &ReconcileInput) -> Result<Replicas, Reason> {
    let mut largest = Replicas::ZERO;
    let mut first_failure = None;
    let mut failures = 0;
    for metric in &input.metrics {
        match metric.propose(input.counts, input.tolerances) {
            Ok(proposal) if largest == Replicas::ZERO || proposal.replicas > largest => largest = proposal.replicas,
            Ok(_) => {}
            Err(reason) => {
                failures += 1;
                first_failure.get_or_insert(reason);
            }
        }
    }
    match first_failure {
        Some(reason) if failures == input.metrics.len() || largest < input.counts.spec => Err(reason),
        _ => Ok(largest),
    }
}

fn normalize(input: &ReconcileInput, desired: Replicas, scaled_to_zero: bool) -> Reconcile {
    let current = input.counts.spec;
    let log = &input.recommendations;
    let (stabilized, limited) = match &input.behavior {
        None => {
            let stabilized = stabilize_without_behavior(desired, log, input.downscale_stabilization);
            (stabilized, clamp_without_behavior(current, stabilized.replicas, input.minimum, input.maximum))
        }
        Some(EffectiveBehavior { scale_up, scale_down }) => {
            let windows = (scale_up.stabilization_window, scale_down.stabilization_window);
            let stabilized = stabilize_with_behavior(current, desired, log, windows.0, windows.1);
            let limited = limit_rate(
                current,
                stabilized.replicas,
                (input.minimum, input.maximum),
                (scale_up, scale_down),
                (&input.scale_up_events, &input.scale_down_events),
            );
            (stabilized, limited)
        }
    };
    let wakes_to_minimum = current == Replicas::ZERO && input.minimum != Replicas::ZERO && scaled_to_zero;
    let desired = if wakes_to_minimum { limited.replicas.max(input.minimum) } else { limited.replicas };
    let able = if desired == current { stabilized.reason } else { Reason::SucceededRescale };
    Reconcile {
        desired,
        able_to_scale: Condition { status: true, reason: able },
        scaling_active: Some(Condition { status: true, reason: Reason::ValidMetricFound }),
        scaling_limited: Some(Condition { status: limited.replicas != stabilized.replicas, reason: limited.reason }),
        scaled_to_zero: if desired == current { None } else { went_to_zero(input, desired) },
    }
}

/// The condition `ScaledToZero` after a rescale.
fn went_to_zero(input: &ReconcileInput, desired: Replicas) -> Option<Condition> {
    let ours = input.counts.spec > Replicas::ZERO
        && desired == Replicas::ZERO
        && input.minimum == Replicas::ZERO
        && input.metrics.iter().any(MetricInput::can_wake);
    let reason = if ours { Reason::ScaledToZero } else { Reason::NotScaledToZero };
    input.scale_to_zero_enabled.then_some(Condition { status: ours, reason })
}
