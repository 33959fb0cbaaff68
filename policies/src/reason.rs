//! Reason words: the HPA's where it has one, ours for what it does not do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a stage answered what it answered. One word, as in a Kubernetes condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    // The HPA's.
    /// A count could be computed from at least one metric.
    ValidMetricFound,
    /// The scale subresource was read.
    SucceededGetScale,
    /// The scale subresource was written.
    SucceededRescale,
    /// No stabilization window holds the count.
    ReadyForNewScale,
    /// A lower recommendation of the scale-up window holds the count.
    ScaleUpStabilized,
    /// A higher recommendation of the scale-down window holds the count.
    ScaleDownStabilized,
    /// The scale-up policies hold the count.
    ScaleUpLimit,
    /// The scale-down policies hold the count.
    ScaleDownLimit,
    /// The effective minimum holds the count.
    TooFewReplicas,
    /// The effective maximum holds the count.
    TooManyReplicas,
    /// No limit was met.
    DesiredWithinRange,
    /// The HPA itself scaled the target to zero.
    ScaledToZero,
    /// The last rescale did not lead to zero.
    NotScaledToZero,
    /// The target stands at zero and nobody asked us to wake it.
    ScalingDisabled,
    /// An External metric cannot be read.
    FailedGetExternalMetric,
    /// An Object metric cannot be read.
    FailedGetObjectMetric,
    /// A Pods metric cannot be read.
    FailedGetPodsMetric,
    /// A Resource metric cannot be read.
    FailedGetResourceMetric,
    /// A `ContainerResource` metric cannot be read.
    FailedGetContainerResourceMetric,
    /// A metric of a kind that does not exist.
    InvalidMetricSourceType,
    // Ours.
    /// Usage is inside the tolerance around the target.
    WithinTolerance,
    /// Every additive and ratio metric is unreadable.
    Blind,
    /// A metric that cannot be read vetoes a fall.
    MetricUnreadable,
    /// No metric made a proposal.
    NoProposal,
    /// Too many Ready replicas are unknown for a fall.
    TooManyUnknown,
    /// An external signal that is not read forbids a fall.
    ExternalSignalUnread,
    /// A raise that a latency asked for is still on its way.
    RaiseComing,
    /// The warm pool's replicas were added.
    WarmPool,
    /// No warm pool.
    NoWarmPool,
    /// The count is held up by the fallback.
    Fallback,
    /// More replicas provably cannot come to be.
    CapacityImpossible,
    /// Nothing is proven impossible.
    CapacityNotProven,
    /// Paused by annotation.
    Paused,
    /// Held at a number by annotation.
    Held,
    /// Somebody else scaled the target to zero.
    ForeignZero,
    /// No override is set.
    NoOverride,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
