//! What the demonstration shows each second.

use headroom_policies::{Published, Reason, Replicas};
use serde::Serialize;

use super::SimulatedTarget;
use crate::controller::{Entry, ScaleTarget};

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Seconds of the model's time.
    pub seconds: f64,
    /// Requests that arrived a second since the row before.
    pub requests_per_second: f64,
    /// Requests waiting over the fleet, with those that no ready replica could take.
    pub waiting: u64,
    /// Requests running over the fleet.
    pub running: u32,
    /// The fullest replica's KV cache, 0 to 1.
    pub kv_cache: f64,
    /// Ready replicas.
    pub ready: usize,
    /// The size asked for.
    pub size: Replicas,
    /// The count decided.
    pub desired: Option<Replicas>,
    /// The number published; none while an error is.
    pub published: Option<Replicas>,
    /// Why the last change was made.
    pub reason: Option<Reason>,
    /// In one sentence.
    pub message: Option<String>,
}

impl Row {
    /// The fleet and its decision as they stand.
    pub fn now(target: &SimulatedTarget, entry: &Entry, requests_per_second: f64) -> Self {
        let (seconds, waiting, running, kv_cache, ready) = target.fleet().with(|fleet| {
            let gauges: Vec<_> = fleet.replicas().iter().map(|replica| replica.engine().gauges()).collect();
            let queued: u32 = gauges.iter().map(|gauges| gauges.waiting).sum();
            (
                fleet.now().as_seconds(),
                u64::from(queued) + fleet.pending() as u64,
                gauges.iter().map(|gauges| gauges.running).sum(),
                gauges.iter().map(|gauges| gauges.kv_usage).fold(0.0, f64::max),
                fleet.replicas().iter().filter(|replica| replica.is_ready()).count(),
            )
        });
        let standing = entry.standing.load();
        let decision = standing.as_ref().map(|standing| &standing.record.decision);
        let change = entry.journal().last_change();
        Self {
            seconds,
            requests_per_second,
            waiting,
            running,
            kv_cache,
            ready,
            size: target.size(),
            desired: decision.map(|decision| decision.desired),
            published: decision.map(|decision| &decision.published).and_then(Published::replicas),
            reason: change.as_ref().map(|change| change.reason),
            message: change.map(|change| change.message),
        }
    }
}
