//! The simulated fleet as a workload: its replicas are HTTP servers on loopback.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headroom_adapter::clock::Clock;
use headroom_adapter::fleet::ReplicaSpec;
use headroom_adapter::scrape::{Target, TargetId};
use headroom_lab::fleet::{ReplicaId, ReplicaState};
use headroom_lab::server::{LiveFleet, ReplicaServer};
use headroom_policies::Replicas;
use headroom_policies::observation::Phase;
use tokio::net::TcpListener;

use super::MODEL;
use crate::controller::{ScaleError, ScaleTarget};

/// How long a replica that is gone lets its last answers end.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// The simulated fleet.
#[derive(Debug)]
pub struct SimulatedTarget {
    fleet: LiveFleet,
    clock: Clock,
    size: AtomicU64,
    revision: AtomicU64,
    scaled: AtomicU64,
    listed: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    servers: HashMap<ReplicaId, ReplicaServer>,
    replicas: Vec<ReplicaSpec>,
}

impl SimulatedTarget {
    /// A fleet of this size, whose servers are started by [`SimulatedTarget::host`].
    pub fn new(fleet: LiveFleet, clock: Clock, size: u32) -> Self {
        Self {
            fleet,
            clock,
            size: AtomicU64::new(u64::from(size)),
            revision: AtomicU64::new(0),
            scaled: AtomicU64::new(0),
            listed: Mutex::default(),
        }
    }

    /// The simulation.
    pub fn fleet(&self) -> &LiveFleet {
        &self.fleet
    }

    /// How often its size was changed.
    pub fn times_scaled(&self) -> u64 {
        self.scaled.load(Ordering::Relaxed)
    }

    /// Starts a server for each replica that became ready, and stops those of replicas that are gone. Answers whether
    /// anything changed.
    ///
    /// # Errors
    /// No port of loopback can be had.
    pub async fn host(&self) -> std::io::Result<bool> {
        let states: Vec<(ReplicaId, ReplicaState)> =
            self.fleet.with(|fleet| fleet.replicas().iter().map(|replica| (replica.id(), replica.state())).collect());
        let missing: Vec<ReplicaId> = {
            let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            let serves = |state: &ReplicaState| !matches!(state, ReplicaState::Starting { .. });
            let new = |(id, state): &&(ReplicaId, ReplicaState)| serves(state) && !listed.servers.contains_key(id);
            states.iter().filter(new).map(|(id, _)| *id).collect()
        };
        let mut started = Vec::new();
        for id in missing {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            started.push((id, ReplicaServer::start(listener, self.fleet.clone(), id, MODEL)?));
        }
        Ok(self.list(&states, started))
    }

    fn list(&self, states: &[(ReplicaId, ReplicaState)], started: Vec<(ReplicaId, ReplicaServer)>) -> bool {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.servers.extend(started);
        let gone: Vec<ReplicaId> =
            listed.servers.keys().filter(|id| states.iter().all(|(own, _)| own != *id)).copied().collect();
        for id in gone {
            if let Some(server) = listed.servers.remove(&id) {
                tokio::spawn(server.stop(LAST_ANSWERS));
            }
        }
        let now = self.clock.now();
        let mut replicas = Vec::new();
        for (id, state) in states {
            let phase = match state {
                ReplicaState::Starting { .. } => Phase::Starting,
                ReplicaState::Ready { .. } => Phase::Ready,
                // As a pod that is being deleted: no longer of the population.
                ReplicaState::Draining { .. } => continue,
            };
            let name: Arc<str> = format!("chat-{id}").into();
            let known = listed.replicas.iter().find(|known| known.name == name && known.phase == phase);
            let since = known.map_or(now, |known| known.since);
            let targets = match listed.servers.get(id) {
                Some(server) if phase == Phase::Ready => target(&name, server),
                _ => Vec::new(),
            };
            replicas.push(ReplicaSpec { key: Arc::clone(&name), name, phase, since, targets });
        }
        let changed = replicas != listed.replicas;
        if changed {
            listed.replicas = replicas;
            self.revision.fetch_add(1, Ordering::Relaxed);
        }
        changed
    }
}

fn target(name: &str, server: &ReplicaServer) -> Vec<Target> {
    let url = format!("http://{}/metrics", server.address()).parse();
    url.map(|url| vec![Target { id: TargetId::new(name), url }]).unwrap_or_default()
}

impl ScaleTarget for SimulatedTarget {
    fn size(&self) -> Replicas {
        Replicas::saturating(i128::from(self.size.load(Ordering::Relaxed)))
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    fn replicas(&self) -> Vec<ReplicaSpec> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).replicas.clone()
    }

    fn scale(&self, to: Replicas) -> Result<(), ScaleError> {
        let size = u32::try_from(to.get()).unwrap_or_default();
        self.fleet.with(|fleet| fleet.scale_to(size));
        self.size.store(u64::from(size), Ordering::Relaxed);
        self.scaled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
