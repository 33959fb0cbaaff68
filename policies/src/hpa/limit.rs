//! Limits on a stabilized count: `behavior` policies with their scale events, and the fixed cap without them.

use std::time::Duration;

use super::to_int32;
use crate::behavior::{EffectiveRules, PolicyType, ScalingPolicy, SelectPolicy};
use crate::reason::Reason;
use crate::units::Replicas;

/// A change of the count that took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleEvent {
    /// How long ago.
    pub age: Duration,
    /// By how many replicas, above 0 in either direction.
    pub change: i32,
}

/// A count after a limit was applied, with the HPA's reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// The count.
    pub replicas: Replicas,
    /// Which limit it met.
    pub reason: Reason,
}

/// The replicas changed within a period: events strictly younger than it count.
pub fn replicas_changed_within(period: Duration, events: &[ScaleEvent]) -> i32 {
    events.iter().filter(|event| event.age < period).fold(0, |sum, event| sum.wrapping_add(event.change))
}

fn at_period_start(current: Replicas, policy: &ScalingPolicy, ups: &[ScaleEvent], downs: &[ScaleEvent]) -> i32 {
    let added = replicas_changed_within(policy.period(), ups);
    let removed = replicas_changed_within(policy.period(), downs);
    current.get().wrapping_sub(added).wrapping_add(removed)
}

/// The count up to which the policies allow a rise, before any clamp.
pub fn scale_up_limit(current: Replicas, rules: &EffectiveRules, ups: &[ScaleEvent], downs: &[ScaleEvent]) -> Replicas {
    let allowed = |policy: &ScalingPolicy| {
        let start = at_period_start(current, policy, ups, downs);
        match policy.kind {
            PolicyType::Pods => start.wrapping_add(policy.value),
            PolicyType::Percent => to_int32((f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil()),
        }
    };
    let limits = rules.policies.iter().map(allowed);
    Replicas::new(match rules.select_policy {
        SelectPolicy::Disabled => current.get(),
        SelectPolicy::Min => limits.min().unwrap_or(i32::MAX),
        SelectPolicy::Max => limits.max().unwrap_or(i32::MIN),
    })
}

/// The count down to which the policies allow a fall, before any clamp.
pub fn scale_down_limit(
    current: Replicas,
    rules: &EffectiveRules,
    ups: &[ScaleEvent],
    downs: &[ScaleEvent],
) -> Replicas {
    let allowed = |policy: &ScalingPolicy| {
        let start = at_period_start(current, policy, ups, downs);
        match policy.kind {
            PolicyType::Pods => start.wrapping_sub(policy.value),
            PolicyType::Percent => to_int32(f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)),
        }
    };
    let limits = rules.policies.iter().map(allowed);
    Replicas::new(match rules.select_policy {
        SelectPolicy::Disabled => current.get(),
        SelectPolicy::Min => limits.max().unwrap_or(i32::MIN),
        SelectPolicy::Max => limits.min().unwrap_or(i32::MAX),
    })
}

/// A stabilized count after the policies of its direction and the bounds.
pub fn limit_rate(
    current: Replicas,
    desired: Replicas,
    (minimum, maximum): (Replicas, Replicas),
    (up, down): (&EffectiveRules, &EffectiveRules),
    (ups, downs): (&[ScaleEvent], &[ScaleEvent]),
) -> Limited {
    if desired > current {
        let limit = scale_up_limit(current, up, ups, downs).max(current);
        let (allowed, reason) =
            if maximum > limit { (limit, Reason::ScaleUpLimit) } else { (maximum, Reason::TooManyReplicas) };
        if desired > allowed {
            return Limited { replicas: allowed, reason };
        }
    } else if desired < current {
        let limit = scale_down_limit(current, down, ups, downs).min(current);
        let (allowed, reason) =
            if minimum < limit { (limit, Reason::ScaleDownLimit) } else { (minimum, Reason::TooFewReplicas) };
        if desired < allowed {
            return Limited { replicas: allowed, reason };
        }
    }
    Limited { replicas: desired, reason: Reason::DesiredWithinRange }
}

/// A stabilized count after the bounds and the fixed cap of an HPA without `behavior`: twice the present count,
/// or 4.
pub fn clamp_without_behavior(current: Replicas, desired: Replicas, minimum: Replicas, maximum: Replicas) -> Limited {
    let cap = Replicas::new(to_int32((2.0 * f64::from(current.get())).max(4.0)));
    let (allowed, reason) =
        if maximum > cap { (cap, Reason::ScaleUpLimit) } else { (maximum, Reason::TooManyReplicas) };
    if desired < minimum {
        Limited { replicas: minimum, reason: Reason::TooFewReplicas }
    } else if desired > allowed {
        Limited { replicas: allowed, reason }
    } else {
        Limited { replicas: desired, reason: Reason::DesiredWithinRange }
    }
}

/// The longest period of some policies.
pub fn longest_period(policies: &[ScalingPolicy]) -> Duration {
    policies.iter().map(ScalingPolicy::period).max().unwrap_or_default()
}

/// The HPA's own log of scale events of one direction, whose outdated slots are used again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScaleEventLog {
    /// In stored order.
    pub events: Vec<ScaleEvent>,
    /// For each event, whether no policy reaches back to it.
    pub outdated: Vec<bool>,
}

impl ScaleEventLog {
    /// A log of these events.
    pub fn of(events: Vec<ScaleEvent>) -> Self {
        let outdated = vec![false; events.len()];
        Self { events, outdated }
    }

    /// Stores a change made just now. Without `behavior` (`policies` is `None`) nothing is stored.
    pub fn store(&mut self, change: i32, policies: Option<&[ScalingPolicy]>) {
        let Some(policies) = policies else { return };
        let longest = longest_period(policies);
        for (event, outdated) in self.events.iter().zip(&mut self.outdated) {
            *outdated |= event.age > longest;
        }
        let event = ScaleEvent { age: Duration::ZERO, change };
        if let Some(slot) = self.outdated.iter().rposition(|outdated| *outdated) {
            self.events[slot] = event;
            self.outdated[slot] = false;
        } else {
            self.events.push(event);
            self.outdated.push(false);
        }
    }
}
