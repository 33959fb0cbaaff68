//! One replica of a fleet.

use std::fmt;
use std::time::Duration;

use crate::cold_start::ColdStart;
use crate::engine::{Engine, EngineSettings};
use crate::random::Random;
use crate::time::ModelTime;

/// Names a replica; never used twice in a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(u64);

impl ReplicaId {
    /// The replica of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// It will serve from `ready_at` on.
    Starting {
        /// When.
        ready_at: ModelTime,
    },
    /// It serves.
    Ready {
        /// Since when.
        since: ModelTime,
    },
    /// It takes no new request and goes when those it holds have ended.
    Draining {
        /// Since when.
        since: ModelTime,
    },
}

/// One replica of a fleet.
#[derive(Debug, Clone)]
pub struct Replica {
    pub(super) id: ReplicaId,
    pub(super) state: ReplicaState,
    pub(super) created_at: ModelTime,
    pub(super) start: ColdStart,
    pub(super) engine: Engine,
    /// When a request last left it.
    pub(super) last_end: ModelTime,
}

impl Replica {
    /// A replica created at `now`, its start drawn already. Its noise is its own stream of the settings' seed.
    pub(super) fn starting(id: ReplicaId, settings: EngineSettings, start: ColdStart, now: ModelTime) -> Self {
        let seed = Random::stream(settings.seed, id.0).bits();
        Self {
            id,
            state: ReplicaState::Starting { ready_at: now.plus(start.total()) },
            created_at: now,
            start,
            engine: Engine::new(EngineSettings { seed, ..settings }, now),
            last_end: now,
        }
    }

    /// Its name.
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// What it does.
    pub fn state(&self) -> ReplicaState {
        self.state
    }

    /// It takes requests.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, ReplicaState::Ready { .. })
    }

    /// It is to stay: starting or ready.
    pub fn is_wanted(&self) -> bool {
        !matches!(self.state, ReplicaState::Draining { .. })
    }

    /// When it was created.
    pub fn created_at(&self) -> ModelTime {
        self.created_at
    }

    /// The stages of its start.
    pub fn start(&self) -> ColdStart {
        self.start
    }

    /// Its engine. Before the replica is ready the engine holds nothing.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// When it was done: drained and empty. `None` while it is wanted or holds requests.
    pub(super) fn gone_at(&self) -> Option<ModelTime> {
        match self.state {
            ReplicaState::Draining { since } if self.engine.is_idle() => Some(since.max(self.last_end)),
            _ => None,
        }
    }

    /// How long it has been there.
    pub(super) fn age(&self, now: ModelTime) -> Duration {
        now.since(self.created_at)
    }
}
