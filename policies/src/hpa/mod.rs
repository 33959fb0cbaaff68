//! The rules of the Kubernetes HPA, exactly, doubles included.
//!
//! Source: `pkg/controller/podautoscaler` of Kubernetes 1.37 (`replica_calculator.go` for the formulas,
//! `horizontal.go` for everything after them). Nothing here reads a clock: events and recommendations come
//! with their ages.

mod limit;
mod metric;
mod reconcile;
mod source;
mod stabilize;
mod tolerance;

pub use limit::{
    Limited, ScaleEvent, ScaleEventLog, clamp_without_behavior, limit_rate, longest_period, replicas_changed_within,
    scale_down_limit, scale_up_limit,
};
pub use metric::{
    MetricProposal, Pod, PodPhase, ReplicaCounts, ResourcePod, average_value, object_average_value, pods_average_value,
    resource_utilization, sum_for_average_value, sum_for_value, value,
};
pub use reconcile::{Condition, MetricInput, Reconcile, ReconcileInput, reconcile};
pub use source::MetricSource;
pub use stabilize::{
    Recommendation, Stabilized, record_recommendation, stabilize_with_behavior, stabilize_without_behavior, steer,
};
pub use tolerance::{ToleranceBand, tolerance_of_behavior};

/// A double as Go converts it to a 32-bit integer on amd64: what does not fit becomes the smallest one.
fn to_int32(value: f64) -> i32 {
    let truncated = value.trunc();
    if (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&truncated) { truncated as i32 } else { i32::MIN }
}

/// As [`to_int32`], to a 64-bit integer.
fn to_int64(value: f64) -> i64 {
    let truncated = value.trunc();
    if (i64::MIN as f64..i64::MAX as f64).contains(&truncated) { truncated as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    #[test]
    fn doubles_convert_as_in_go() {
        assert_eq!(super::to_int32(110.9), 110);
        assert_eq!(super::to_int32(-0.5), 0);
        assert_eq!(super::to_int32(2_147_483_647.0), i32::MAX);
        for value in [1e12, -1e12, f64::NAN, f64::INFINITY, 2_147_483_648.0] {
            assert_eq!(super::to_int32(value), i32::MIN);
        }
        assert_eq!(super::to_int64(-9.1e18), -9_100_000_000_000_000_000);
        for value in [9.3e18, -9.3e18, f64::NAN, f64::INFINITY, i64::MAX as f64] {
            assert_eq!(super::to_int64(value), i64::MIN);
        }
    }
}
