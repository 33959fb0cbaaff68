//! A metric of the HPA's spec with what was read of it.

use super::ToleranceBand;
use super::metric::{
    MetricProposal, Pod, ReplicaCounts, ResourcePod, average_value, object_average_value, pods_average_value,
    resource_utilization, sum_for_average_value, sum_for_value, value,
};
use crate::quantity::Milli;
use crate::reason::Reason;

/// The kinds of metrics.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricSource {
    /// External with a `Value` target.
    ExternalValue {
        /// The target.
        target: Milli,
        /// One entry a returned series; none is a failure.
        values: Vec<Milli>,
    },
    /// External with an `AverageValue` target.
    ExternalAverageValue {
        /// The target of each replica.
        target: Milli,
        /// One entry a returned series; none is a failure.
        values: Vec<Milli>,
    },
    /// Object with a `Value` target.
    ObjectValue {
        /// The target.
        target: Milli,
        /// What was returned; anything but one value is a failure.
        values: Vec<Milli>,
    },
    /// Object with an `AverageValue` target.
    ObjectAverageValue {
        /// The target of each replica.
        target: Milli,
        /// What was returned; anything but one value is a failure.
        values: Vec<Milli>,
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
        /// The pods.
        pods: Vec<ResourcePod>,
    },
}

impl MetricSource {
    /// What the metric asks for, or the reason why it cannot be computed.
    pub fn propose(&self, counts: ReplicaCounts, tolerances: ToleranceBand) -> Result<MetricProposal, Reason> {
        match self {
            Self::ExternalValue { target, values } => {
                returned(values).map(|values| value(sum_for_value(values), *target, counts, tolerances))
            }
            Self::ExternalAverageValue { target, values } => returned(values)
                .map(|values| average_value(sum_for_average_value(values), *target, counts.status, tolerances)),
            Self::ObjectValue { target, values } => only(values).map(|usage| value(usage, *target, counts, tolerances)),
            Self::ObjectAverageValue { target, values } => {
                only(values).map(|usage| object_average_value(usage, *target, counts.status, tolerances))
            }
            Self::Pods { target, pods } => pods_average_value(pods, *target, counts.spec, tolerances),
            Self::Resource { target_percent, pods } => {
                resource_utilization(pods, *target_percent, counts.spec, tolerances)
            }
        }
    }
}

fn returned(values: &[Milli]) -> Result<&[Milli], Reason> {
    if values.is_empty() { Err(Reason::FailedGetExternalMetric) } else { Ok(values) }
}

fn only(values: &[Milli]) -> Result<Milli, Reason> {
    match values {
        [value] => Ok(*value),
        _ => Err(Reason::FailedGetObjectMetric),
    }
}
