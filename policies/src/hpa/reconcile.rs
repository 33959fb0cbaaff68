//! One whole pass of the HPA controller: bounds, metrics, their maximum, windows, limits.

use std::time::Duration;

use super::limit::{ScaleEvent, clamp_without_behavior, limit_rate};
use super::metric::ReplicaCounts;
use super::source::MetricSource;
use super::stabilize::{Recommendation, stabilize_with_behavior, stabilize_without_behavior};
use super::tolerance::ToleranceBand;
use crate::behavior::EffectiveBehavior;
use crate::reason::Reason;
use crate::units::Replicas;

/// A metric of the HPA's spec.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricInput {
    /// It is External or Object: only these can raise the count from zero.
    pub can_wake: bool,
    /// What was read of it, or the reason why it cannot be read.
    pub source: Result<MetricSource, Reason>,
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
    pub tolerances: ToleranceBand,
    /// The metrics, at least one.
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
        let wakes = scaled_to_zero && input.metrics.iter().any(|metric| metric.can_wake);
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
        let proposal = metric.source.as_ref().map_err(|reason| *reason);
        match proposal.and_then(|source| source.propose(input.counts, input.tolerances)) {
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
        && input.metrics.iter().any(|metric| metric.can_wake);
    let reason = if ours { Reason::ScaledToZero } else { Reason::NotScaledToZero };
    input.scale_to_zero_enabled.then_some(Condition { status: ours, reason })
}
