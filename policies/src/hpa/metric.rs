//! From one metric to a number of replicas: `replica_calculator.go`.

use super::{ToleranceBand, to_int32, to_int64};
use crate::quantity::Milli;
use crate::reason::Reason;
use crate::units::Replicas;

/// What the HPA knows of a target's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// The scale subresource's `spec.replicas`: "current" everywhere in the HPA.
    pub spec: Replicas,
    /// Its `status.replicas`, which counts surge pods.
    pub status: Replicas,
    /// Pods that are Running and Ready.
    pub ready: Replicas,
}

/// What one metric asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricProposal {
    /// The proposed count.
    pub replicas: Replicas,
    /// The average or total the HPA would show in its status: thousandths of the unit, or percent for
    /// [`resource_utilization`].
    pub reported: i64,
}

/// A pod's phase, as far as the HPA tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub enum PodPhase {
    /// Not started yet: unready.
    Pending,
    /// Running.
    Running,
    /// Done.
    Succeeded,
    /// Failed: left out.
    Failed,
    /// Not known.
    Unknown,
}

/// One pod with its sample of a Pods metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pod {
    /// Its sample; `None` = missing.
    pub value: Option<Milli>,
    /// Its phase.
    pub phase: PodPhase,
    /// It carries a deletion timestamp.
    pub deleting: bool,
}

/// The sum the HPA makes of the series returned for a `Value` target: an overflow is capped at 2^63-1.
pub fn sum_for_value(values: &[Milli]) -> Milli {
    let mut sum: i64 = 0;
    for value in values {
        match sum.checked_add(value.get()) {
            Some(next) => sum = next,
            None if value.get() > 0 => return Milli::MAX,
            None => sum = sum.wrapping_add(value.get()),
        }
    }
    Milli::new(sum)
}

/// The sum the HPA makes of the series returned for an `AverageValue` target: it takes any sum below zero for
/// an overflow and caps it at 2^63-1.
pub fn sum_for_average_value(values: &[Milli]) -> Milli {
    let mut sum: i64 = 0;
    for value in values {
        sum = sum.wrapping_add(value.get());
        if sum < 0 {
            return Milli::MAX;
        }
    }
    Milli::new(sum)
}

/// An External or Object metric with a `Value` target: the ratio times the ready pods.
pub fn value(usage: Milli, target: Milli, counts: ReplicaCounts, tolerances: ToleranceBand) -> MetricProposal {
    let ratio = usage.get() as f64 / target.get() as f64;
    let replicas = if counts.spec == Replicas::ZERO {
        Replicas::new(to_int32(ratio.ceil()))
    } else if tolerances.contains(ratio) {
        counts.spec
    } else {
        let wanted = ratio * f64::from(counts.ready.get());
        if wanted > f64::from(i32::MAX) { Replicas::MAX } else { Replicas::new(to_int32(wanted.ceil())) }
    };
    MetricProposal { replicas, reported: usage.get() }
}

/// An External metric with an `AverageValue` target. Inside tolerance it answers the status count, a known
/// fault of the HPA (kubernetes#138505) that Headroom's own decisions do not have.
pub fn average_value(usage: Milli, target: Milli, status: Replicas, tolerances: ToleranceBand) -> MetricProposal {
    let ratio = usage.get() as f64 / (target.get() as f64 * f64::from(status.get()));
    let replicas = if tolerances.contains(ratio) {
        status
    } else {
        let wanted = (usage.get() as f64 / target.get() as f64).ceil();
        if wanted > f64::from(i32::MAX) { Replicas::MAX } else { Replicas::new(to_int32(wanted)) }
    };
    // A total that as a double is 2^63 counts as an overflow.
    let reported = if usage.get() as f64 >= i64::MAX as f64 { i64::MAX } else { reported_average(usage, status) };
    MetricProposal { replicas, reported }
}

/// An Object metric with an `AverageValue` target: as [`average_value`], but an answer beyond 32 bits is not
/// capped but lost.
pub fn object_average_value(
    usage: Milli,
    target: Milli,
    status: Replicas,
    tolerances: ToleranceBand,
) -> MetricProposal {
    let ratio = usage.get() as f64 / (target.get() as f64 * f64::from(status.get()));
    let replicas = if tolerances.contains(ratio) {
        status
    } else {
        Replicas::new(to_int32((usage.get() as f64 / target.get() as f64).ceil()))
    };
    MetricProposal { replicas, reported: reported_average(usage, status) }
}

/// The average shown in the status. Without a replica it is 0, as newer controllers say.
fn reported_average(usage: Milli, status: Replicas) -> i64 {
    if status == Replicas::ZERO {
        return 0;
    }
    to_int64((usage.get() as f64 / f64::from(status.get())).ceil())
}

/// A Pods metric: pods without a sample count at the target on the way down and as zero on the way up, and
/// Pending pods as zero on the way up.
///
/// Answers the reason the HPA would give where no pod can be counted.
pub fn pods_average_value(
    pods: &[Pod],
    target: Milli,
    current: Replicas,
    tolerances: ToleranceBand,
) -> Result<MetricProposal, Reason> {
    let counted = |pod: &&Pod| !pod.deleting && pod.phase != PodPhase::Failed;
    let mut sampled: Vec<i64> = Vec::new();
    let (mut unready, mut missing) = (0_usize, 0_usize);
    for pod in pods.iter().filter(counted) {
        match pod.value {
            _ if pod.phase == PodPhase::Pending => unready += 1,
            None => missing += 1,
            Some(value) => sampled.push(value.get()),
        }
    }
    if sampled.is_empty() {
        return Err(Reason::FailedGetPodsMetric);
    }
    let ready = sampled.len();
    let (ratio, usage) = usage_ratio(&sampled, target);
    let rises_with_unready = unready > 0 && ratio > 1.0;
    if !rises_with_unready && missing == 0 {
        let replicas =
            if tolerances.contains(ratio) { current } else { Replicas::new(to_int32((ratio * ready as f64).ceil())) };
        return Ok(MetricProposal { replicas, reported: usage });
    }
    if ratio < 1.0 {
        sampled.extend(std::iter::repeat_n(target.get(), missing));
    } else if ratio > 1.0 {
        sampled.extend(std::iter::repeat_n(0, missing));
    }
    if rises_with_unready {
        sampled.extend(std::iter::repeat_n(0, unready));
    }
    let (refilled, _) = usage_ratio(&sampled, target);
    Ok(MetricProposal {
        replicas: unless_reversed(ratio, refilled, sampled.len(), current, tolerances),
        reported: usage,
    })
}

/// The proposal after missing and unready pods were filled in: `current` where the change became too small or
/// turned round.
fn unless_reversed(
    ratio: f64,
    refilled: f64,
    counted: usize,
    current: Replicas,
    tolerances: ToleranceBand,
) -> Replicas {
    if tolerances.contains(refilled) || (ratio < 1.0 && refilled > 1.0) || (ratio > 1.0 && refilled < 1.0) {
        return current;
    }
    let wanted = Replicas::new(to_int32((refilled * counted as f64).ceil()));
    if (refilled < 1.0 && wanted > current) || (refilled > 1.0 && wanted < current) { current } else { wanted }
}

fn usage_ratio(samples: &[i64], target: Milli) -> (f64, i64) {
    let total = samples.iter().fold(0_i64, |sum, value| sum.wrapping_add(*value));
    let usage = total / samples.len() as i64;
    (usage as f64 / target.get() as f64, usage)
}

/// One pod, ready, with its request and its sample of a Resource metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourcePod {
    /// Its request, thousandths.
    pub request: i64,
    /// Its usage, thousandths; `None` = missing.
    pub usage: Option<i64>,
}

/// A Resource metric with a `Utilization` target, in percent, over pods that are all ready: those without a sample
/// count at their whole request (or the target, if that is more) on the way down and as zero on the way up.
///
/// Answers the reason the HPA would give where no pod can be counted.
pub fn resource_utilization(
    pods: &[ResourcePod],
    target_percent: i32,
    current: Replicas,
    tolerances: ToleranceBand,
) -> Result<MetricProposal, Reason> {
    let percent = utilization(pods.iter().filter_map(|pod| Some((pod.request, pod.usage?))))?;
    let ratio_of = |percent: i32| f64::from(percent) / f64::from(target_percent);
    let ratio = ratio_of(percent);
    let proposed = |replicas| MetricProposal { replicas, reported: i64::from(percent) };
    if pods.iter().all(|pod| pod.usage.is_some()) {
        let wanted = Replicas::new(to_int32((ratio * pods.len() as f64).ceil()));
        return Ok(proposed(if tolerances.contains(ratio) { current } else { wanted }));
    }
    let assumed = |request: i64| match ratio {
        falling if falling < 1.0 => Some(request.wrapping_mul(i64::from(target_percent.max(100))) / 100),
        rising if rising > 1.0 => Some(0),
        _ => None,
    };
    let filled: Vec<(i64, i64)> =
        pods.iter().filter_map(|pod| Some((pod.request, pod.usage.or_else(|| assumed(pod.request))?))).collect();
    let refilled = ratio_of(utilization(filled.iter().copied())?);
    Ok(proposed(unless_reversed(ratio, refilled, filled.len(), current, tolerances)))
}

/// Used of requested, in whole percent, with the HPA's overflows.
fn utilization(pods: impl Iterator<Item = (i64, i64)>) -> Result<i32, Reason> {
    let (requested, used) = pods.fold((0_i64, 0_i64), |(requested, used), (request, usage)| {
        (requested.wrapping_add(request), used.wrapping_add(usage))
    });
    if requested == 0 {
        return Err(Reason::FailedGetResourceMetric);
    }
    Ok(used.wrapping_mul(100).wrapping_div(requested) as i32)
}
