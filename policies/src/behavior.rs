//! The HPA's `behavior`: as users write it, and with every default filled in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Tolerance, Tolerances, seconds};

/// Which of several policies counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SelectPolicy {
    /// The one that allows the biggest change.
    #[default]
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: no change in this direction.
    Disabled,
}

/// What a policy's value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyType {
    /// Replicas.
    Pods,
    /// Percent of the replicas at the start of the period.
    Percent,
}

/// At most so much change within a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingPolicy {
    /// What `value` counts.
    #[serde(rename = "type")]
    pub kind: PolicyType,
    /// Replicas or percent, above 0.
    pub value: i32,
    /// Seconds, 1 to 1800.
    pub period_seconds: u32,
}

impl ScalingPolicy {
    /// The period.
    pub fn period(&self) -> Duration {
        Duration::from_secs(u64::from(self.period_seconds))
    }
}

/// Rules for one direction, as users write them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ScalingRules {
    /// Seconds, 0 to 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<u32>,
    /// Which policy counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// The policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<ScalingPolicy>>,
    /// The tolerance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Tolerance>,
}

/// The HPA's `behavior` as users write it: everything is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Behavior {
    /// Rules for adding replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Rules for removing replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Rules for one direction with nothing left open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveRules {
    /// How far back recommendations count; zero = they do not.
    #[serde(rename = "stabilizationWindowSeconds", with = "seconds")]
    pub stabilization_window: Duration,
    /// Which policy counts.
    pub select_policy: SelectPolicy,
    /// At least one policy.
    pub policies: Vec<ScalingPolicy>,
    /// The tolerance.
    pub tolerance: Tolerance,
}

/// A `behavior` with nothing left open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveBehavior {
    /// Rules for adding replicas.
    pub scale_up: EffectiveRules,
    /// Rules for removing replicas.
    pub scale_down: EffectiveRules,
}

/// The cold start assumed until three starts are known.
pub const ASSUMED_COLD_START_P90: Duration = Duration::from_secs(300);
/// The HPA controller's default scale-down window.
pub const HPA_DOWNSCALE_STABILIZATION: Duration = Duration::from_secs(300);
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

fn policy(kind: PolicyType, value: i32, period_seconds: u32) -> ScalingPolicy {
    ScalingPolicy { kind, value, period_seconds }
}

fn burst_policies() -> Vec<ScalingPolicy> {
    vec![policy(PolicyType::Pods, 4, 15), policy(PolicyType::Percent, 100, 15)]
}

impl EffectiveBehavior {
    /// What applies where the user set `behavior`, even to `{}`: missing fields take the HPA's defaults
    /// (Kubernetes API reference, `HPAScalingRules`).
    pub fn of(behavior: &Behavior) -> Self {
        let down_policies = vec![policy(PolicyType::Percent, 100, 15)];
        Self {
            scale_up: EffectiveRules::of(behavior.scale_up.as_ref(), Duration::ZERO, burst_policies),
            scale_down: EffectiveRules::of(behavior.scale_down.as_ref(), HPA_DOWNSCALE_STABILIZATION, || down_policies),
        }
    }

    /// What applies where `behavior` is unset: quick up, and down only after twice a cold start (at least 300 s,
    /// at most an hour), by one replica or a tenth a minute. `cold_start_p90` is `None` while fewer than three
    /// starts are known.
    pub fn for_inference(cold_start_p90: Option<Duration>) -> Self {
        let twice = cold_start_p90.unwrap_or(ASSUMED_COLD_START_P90).saturating_mul(2);
        Self {
            scale_up: EffectiveRules {
                stabilization_window: Duration::ZERO,
                select_policy: SelectPolicy::Max,
                policies: burst_policies(),
                tolerance: Tolerance::DEFAULT,
            },
            scale_down: EffectiveRules {
                stabilization_window: twice.clamp(HPA_DOWNSCALE_STABILIZATION, LONGEST_WINDOW),
                select_policy: SelectPolicy::Max,
                policies: vec![policy(PolicyType::Pods, 1, 60), policy(PolicyType::Percent, 10, 60)],
                tolerance: Tolerance::DEFAULT,
            },
        }
    }

    /// The tolerances of both directions.
    pub fn tolerances(&self) -> Tolerances {
        Tolerances { up: self.scale_up.tolerance, down: self.scale_down.tolerance }
    }

    /// The longest period of any policy: scale events older than this count for nothing.
    pub fn longest_period(&self) -> Duration {
        let policies = self.scale_up.policies.iter().chain(&self.scale_down.policies);
        policies.map(ScalingPolicy::period).max().unwrap_or_default()
    }
}

impl EffectiveRules {
    fn of(rules: Option<&ScalingRules>, window: Duration, policies: impl FnOnce() -> Vec<ScalingPolicy>) -> Self {
        let written = rules.cloned().unwrap_or_default();
        Self {
            stabilization_window: written
                .stabilization_window_seconds
                .map_or(window, |seconds| Duration::from_secs(u64::from(seconds))),
            select_policy: written.select_policy.unwrap_or_default(),
            policies: written.policies.filter(|policies| !policies.is_empty()).unwrap_or_else(policies),
            tolerance: written.tolerance.unwrap_or(Tolerance::DEFAULT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_behavior_waits_for_twice_a_cold_start() {
        for (p90, window) in [(None, 600), (Some(10), 300), (Some(200), 400), (Some(4000), 3600)] {
            let behavior = EffectiveBehavior::for_inference(p90.map(Duration::from_secs));
            assert_eq!(behavior.scale_down.stabilization_window, Duration::from_secs(window));
        }
    }

    #[test]
    fn empty_behavior_takes_the_hpas_defaults() {
        let behavior = EffectiveBehavior::of(&Behavior::default());
        assert_eq!(behavior.scale_down.stabilization_window, Duration::from_secs(300));
        assert_eq!(behavior.scale_down.policies, vec![policy(PolicyType::Percent, 100, 15)]);
        assert_eq!(behavior.scale_up.policies, burst_policies());
        assert_eq!(behavior.longest_period(), Duration::from_secs(15));
    }
}
