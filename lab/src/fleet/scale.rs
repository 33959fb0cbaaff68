//! How a fleet grows and shrinks.

use std::cmp::Reverse;

use super::Fleet;
use super::replica::{Replica, ReplicaId, ReplicaState};
use crate::cold_start::StageMedians;
use crate::time::ModelTime;

impl Fleet {
    /// Sets how many replicas are wanted from now on.
    ///
    /// New ones start cold; a draining replica does not come back. Those that go are chosen as a `ReplicaSet` does:
    /// first those that are not ready, the youngest first, then those most recently ready. One that holds requests
    /// drains.
    pub fn scale_to(&mut self, wanted: u32) {
        let mut present: Vec<_> =
            self.replicas.iter().filter(|replica| replica.is_wanted()).map(leaving_order).collect();
        for _ in present.len()..wanted as usize {
            self.create(self.settings.start);
        }
        present.sort_unstable();
        let surplus = present.len().saturating_sub(wanted as usize);
        for (_, _, Reverse(id)) in present.into_iter().take(surplus) {
            if let Some(replica) = self.replicas.iter_mut().find(|replica| replica.id == id) {
                replica.state = ReplicaState::Draining { since: self.now };
            }
        }
        self.make_ready();
        self.remove_drained();
    }

    /// Creates a replica that starts now.
    pub(super) fn create(&mut self, start: StageMedians) {
        let id = ReplicaId::new(self.next_replica);
        self.next_replica += 1;
        let start = start.draw(&mut self.random);
        self.replicas.push(Replica::starting(id, self.settings.engine, start, self.now));
    }

    /// When the next replica becomes ready.
    pub(super) fn next_ready_at(&self) -> Option<ModelTime> {
        let starting = self.replicas.iter().filter_map(|replica| match replica.state {
            ReplicaState::Starting { ready_at } => Some(ready_at),
            ReplicaState::Ready { .. } | ReplicaState::Draining { .. } => None,
        });
        starting.min()
    }

    /// Makes every replica ready whose start has ended, and gives them what is pending.
    pub(super) fn make_ready(&mut self) {
        for replica in &mut self.replicas {
            match replica.state {
                ReplicaState::Starting { ready_at } if ready_at <= self.now => {
                    replica.state = ReplicaState::Ready { since: ready_at };
                }
                _ => {}
            }
        }
        self.deal();
    }

    /// Removes the draining replicas that hold no request. Each is billed until its last request ended.
    pub(super) fn remove_drained(&mut self) {
        for replica in &self.replicas {
            if let Some(gone_at) = replica.gone_at() {
                self.past_gpu_time += replica.age(gone_at) * self.settings.gpus;
                self.past_preemptions += replica.engine.statistics().preemptions;
                self.past_peaks = self.past_peaks.max(replica.engine.statistics().peaks);
            }
        }
        self.replicas.retain(|replica| replica.gone_at().is_none());
    }
}

/// Sorts those that leave first to the front.
fn leaving_order(replica: &Replica) -> (bool, Reverse<ModelTime>, Reverse<ReplicaId>) {
    match replica.state {
        ReplicaState::Ready { since } => (true, Reverse(since), Reverse(replica.id)),
        ReplicaState::Starting { .. } | ReplicaState::Draining { .. } => {
            (false, Reverse(replica.created_at), Reverse(replica.id))
        }
    }
}
