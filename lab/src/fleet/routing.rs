//! Which replica gets a request.

use super::replica::{Replica, ReplicaId};

/// How requests are dealt among ready replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// In turn.
    #[default]
    RoundRobin,
    /// To the one that holds the fewest; of several the oldest.
    LeastRequests,
}

/// Deals requests.
#[derive(Debug, Clone)]
pub(super) struct Router {
    routing: Routing,
    last: Option<ReplicaId>,
}

impl Router {
    pub(super) fn new(routing: Routing) -> Self {
        Self { routing, last: None }
    }

    /// The place among `replicas`, which are in the order of their ids, of the ready one to take the next request.
    pub(super) fn choose(&mut self, replicas: &[Replica]) -> Option<usize> {
        let ready = || replicas.iter().enumerate().filter(|(_, replica)| replica.is_ready());
        let (index, chosen) = match self.routing {
            Routing::RoundRobin => ready().find(|(_, replica)| Some(replica.id) > self.last).or_else(|| ready().next()),
            Routing::LeastRequests => ready().min_by_key(|(_, replica)| replica.engine.in_flight()),
        }?;
        self.last = Some(chosen.id);
        Some(index)
    }
}
