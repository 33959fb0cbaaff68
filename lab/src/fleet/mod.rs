//! A fleet of replicas in virtual time.
//!
//! Replicas start, serve, drain and go; requests are dealt among those that are ready and wait where there is none.
//! Time only moves by [`Fleet::advance`], and what happened since is taken by [`Fleet::take_events`].

mod replica;
mod routing;
mod scale;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

pub use replica::{Replica, ReplicaId, ReplicaState};
use routing::Router;
pub use routing::Routing;

use crate::cold_start::StageMedians;
use crate::engine::{EngineSettings, Event, Outcome, Peaks, Refusal, Request, RequestId};
use crate::random::Random;
use crate::time::ModelTime;

/// What a fleet is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FleetSettings {
    /// The engine of each replica. Each draws its noise from a stream of its own.
    pub engine: EngineSettings,
    /// Accelerators of one replica.
    pub gpus: u32,
    /// Medians of the stages of a replica's start.
    pub start: StageMedians,
    /// How requests are dealt.
    pub routing: Routing,
    /// Which cold starts.
    pub seed: u64,
}

/// What happened at a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetEvent {
    /// Which one.
    pub replica: ReplicaId,
    /// What.
    pub event: Event,
}

/// Why a replica does not take a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The engine refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The replica is starting, draining or gone.
    #[error("replica {0} takes no requests: it is not ready")]
    NotReady(ReplicaId),
}

/// A fleet of replicas.
#[derive(Debug, Clone)]
pub struct Fleet {
    settings: FleetSettings,
    now: ModelTime,
    /// In the order of their ids.
    replicas: Vec<Replica>,
    /// Requests that no ready replica could take, in the order of arrival.
    pending: VecDeque<(RequestId, Request)>,
    router: Router,
    random: Random,
    next_replica: u64,
    next_request: u64,
    events: Vec<FleetEvent>,
    /// Accelerator time of the replicas that are gone.
    past_gpu_time: Duration,
    past_preemptions: u64,
    past_peaks: Peaks,
    longest_pending: usize,
}

impl Fleet {
    /// A fleet with so many replicas ready at the beginning.
    pub fn new(settings: FleetSettings, ready: u32) -> Self {
        let mut fleet = Self {
            settings,
            now: ModelTime::ZERO,
            replicas: Vec::new(),
            pending: VecDeque::new(),
            router: Router::new(settings.routing),
            random: Random::seeded(settings.seed),
            next_replica: 0,
            next_request: 0,
            events: Vec::new(),
            past_gpu_time: Duration::ZERO,
            past_preemptions: 0,
            past_peaks: Peaks::default(),
            longest_pending: 0,
        };
        for _ in 0..ready {
            fleet.create(StageMedians::NONE);
        }
        fleet.make_ready();
        fleet
    }

    /// Moves time on. A replica is made ready, and gets waiting requests, at its instant.
    pub fn advance(&mut self, to: ModelTime) {
        while let Some(ready_at) = self.next_ready_at().filter(|ready_at| *ready_at <= to) {
            self.run(ready_at);
            self.make_ready();
        }
        self.run(to);
    }

    /// Deals a request that arrives now. Where no replica is ready it waits for the first that is.
    pub fn arrive(&mut self, request: Request) -> Result<RequestId, Refusal> {
        self.settings.engine.admits(&request)?;
        let id = self.name_request();
        self.pending.push_back((id, request));
        self.deal();
        self.longest_pending = self.longest_pending.max(self.pending.len());
        Ok(id)
    }

    /// Gives a request that arrives now to one replica.
    pub fn submit_to(&mut self, replica: ReplicaId, request: Request) -> Result<RequestId, SubmitError> {
        let id = RequestId::new(self.next_request);
        let target = self.replicas.iter_mut().find(|candidate| candidate.id == replica && candidate.is_ready());
        target.ok_or(SubmitError::NotReady(replica))?.engine.submit(id, request)?;
        Ok(self.name_request())
    }

    /// Takes a request out, as when its client hangs up. `None` if the fleet does not hold it.
    pub fn abort(&mut self, id: RequestId) -> Option<Outcome> {
        if let Some(index) = self.pending.iter().position(|(pending, _)| *pending == id) {
            return self.pending.remove(index).map(|(_, request)| Outcome::unserved(request));
        }
        let now = self.now;
        let outcome = self.replicas.iter_mut().find_map(|replica| {
            let outcome = replica.engine.abort(id)?;
            replica.last_end = now;
            Some(outcome)
        });
        self.remove_drained();
        outcome
    }

    /// What happened since the last call: in the order of time for each replica.
    pub fn take_events(&mut self) -> Vec<FleetEvent> {
        std::mem::take(&mut self.events)
    }

    /// When the fleet next changes by itself; `None` when it holds no request and nothing starts.
    pub fn next_event_at(&self) -> Option<ModelTime> {
        let engines = self.replicas.iter().filter_map(|replica| replica.engine.next_event_at());
        engines.chain(self.next_ready_at()).min()
    }

    /// How far the fleet has been advanced.
    pub fn now(&self) -> ModelTime {
        self.now
    }

    /// The replicas there are, draining ones included, in the order of their ids.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// One replica; `None` once it is gone.
    pub fn replica(&self, id: ReplicaId) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.id == id)
    }

    /// Requests that wait because no replica is ready.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The most requests that ever waited because no replica was ready.
    pub fn longest_pending(&self) -> usize {
        self.longest_pending
    }

    /// Requests the fleet holds.
    pub fn in_flight(&self) -> usize {
        self.pending.len() + self.replicas.iter().map(|replica| replica.engine.in_flight()).sum::<usize>()
    }

    /// Accelerator time so far: from each replica's creation until it is gone, times its accelerators.
    pub fn gpu_time(&self) -> Duration {
        let present: Duration = self.replicas.iter().map(|replica| replica.age(self.now)).sum();
        self.past_gpu_time + present * self.settings.gpus
    }

    /// Preemptions so far.
    pub fn preemptions(&self) -> u64 {
        let present = self.replicas.iter().map(|replica| replica.engine.statistics().preemptions);
        self.past_preemptions + present.sum::<u64>()
    }

    /// The highest that any one replica has seen.
    pub fn peaks(&self) -> Peaks {
        let present = self.replicas.iter().map(|replica| replica.engine.statistics().peaks);
        present.fold(self.past_peaks, Peaks::max)
    }

    fn name_request(&mut self) -> RequestId {
        let id = RequestId::new(self.next_request);
        self.next_request += 1;
        id
    }

    /// Runs the engines up to `to`, before which no replica becomes ready.
    fn run(&mut self, to: ModelTime) {
        let mut happened = Vec::new();
        for replica in &mut self.replicas {
            replica.engine.advance(to, &mut happened);
            for event in happened.drain(..) {
                if let Event::Finished { outcome, .. } = event {
                    replica.last_end = outcome.finished_at.unwrap_or(replica.last_end);
                }
                self.events.push(FleetEvent { replica: replica.id, event });
            }
        }
        self.now = self.now.max(to);
        self.remove_drained();
    }

    /// Deals what is pending while a replica is ready.
    fn deal(&mut self) {
        while !self.pending.is_empty() {
            let Some(index) = self.router.choose(&self.replicas) else { return };
            if let Some((id, request)) = self.pending.pop_front() {
                // The engines are alike, and this one's settings admitted the request when it arrived.
                let submitted = self.replicas[index].engine.submit(id, request);
                debug_assert_eq!(submitted, Ok(()));
            }
        }
    }
}
