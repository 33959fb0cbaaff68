//! Stabilization windows: a count steered by the recommendations of the last minutes.

use std::time::Duration;

use crate::reason::Reason;
use crate::units::Replicas;

/// A count recommended earlier, before stabilization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recommendation {
    /// How long ago.
    pub age: Duration,
    /// The count.
    pub replicas: Replicas,
}

/// A stabilized count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stabilized {
    /// The count.
    pub replicas: Replicas,
    /// Which window held it, or that none did.
    pub reason: Reason,
}

/// The rule with `behavior`: the present count, raised to the lowest recommendation of the scale-up window if
/// below it, then lowered to the highest of the scale-down window if above it. A falling signal can so never
/// cause a rise, nor a rising one a fall (kubernetes#98174).
pub fn steer(current: Replicas, desired: Replicas, lowest: Replicas, highest: Replicas) -> Stabilized {
    let replicas = current.max(lowest.min(desired)).min(highest.max(desired));
    let reason = if replicas == desired {
        Reason::ReadyForNewScale
    } else if desired >= current {
        Reason::ScaleUpStabilized
    } else {
        Reason::ScaleDownStabilized
    };
    Stabilized { replicas, reason }
}

/// [`steer`] over an unbounded log; recommendations strictly younger than a window count.
pub fn stabilize_with_behavior(
    current: Replicas,
    desired: Replicas,
    log: &[Recommendation],
    up_window: Duration,
    down_window: Duration,
) -> Stabilized {
    let within = |window: Duration| log.iter().filter(move |entry| entry.age < window).map(|entry| entry.replicas);
    let lowest = within(up_window).min().unwrap_or(desired);
    let highest = within(down_window).max().unwrap_or(desired);
    steer(current, desired, lowest, highest)
}

/// The rule without `behavior`: the highest recommendation not older than the window. Down only.
pub fn stabilize_without_behavior(desired: Replicas, log: &[Recommendation], window: Duration) -> Stabilized {
    let recent = log.iter().filter(|entry| entry.age <= window).map(|entry| entry.replicas);
    let replicas = recent.max().unwrap_or(desired).max(desired);
    let reason = if replicas == desired { Reason::ReadyForNewScale } else { Reason::ScaleDownStabilized };
    Stabilized { replicas, reason }
}

/// Adds a recommendation made just now, in the last slot whose entry is older than every window, else at the end.
pub fn record_recommendation(log: &mut Vec<Recommendation>, desired: Replicas, longest_window: Duration) {
    let entry = Recommendation { age: Duration::ZERO, replicas: desired };
    match log.iter().rposition(|old| old.age > longest_window) {
        Some(slot) => log[slot] = entry,
        None => log.push(entry),
    }
}
