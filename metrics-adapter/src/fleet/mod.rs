//! The newest samples of one fleet: from pages to the observation a decision is made from.
//!
//! Samples are joined to the present replicas by identity: what left the fleet is forgotten at once.

mod engine;
mod observe;
mod report;
mod shared;
mod signal;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use headroom_policies::observation::Phase;
use headroom_policies::policy::MetricPolicy;
use headroom_policies::signal::SignalClass;
use headroom_policies::{Milli, Signal, Timestamp};

use crate::engines::EngineReader;
use crate::exposition::Scrutiny;
use crate::scrape::{Scraped, Target, TargetId, TargetState};
use engine::EngineState;
use observe::LatencyState;

pub use observe::{Observed, RawReading, RawSignal};
pub use report::{LineReport, SignalReport, TargetReport};
pub use shared::{ScrapeTotals, SharedFleet};

/// How long a value that can no longer be read is remembered.
pub const LAST_VALUE_KEPT: Duration = Duration::from_secs(300);

/// What a fleet is observed for.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetSettings {
    /// The metrics of the policy.
    pub metrics: Vec<MetricPolicy>,
    /// From one scrape to the next.
    pub interval: Duration,
    /// Until when a sample is fresh.
    pub max_age: Duration,
    /// How long a replica may load before it is stuck.
    pub startup_deadline: Duration,
}

/// A replica that should be there.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaSpec {
    /// Its identity: a pod's UID, a group's name, an endpoint.
    pub key: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What is known of its life besides what its servers say.
    pub phase: Phase,
    /// Since when it is in that phase, or since when we watch it.
    pub since: Timestamp,
    /// Its model servers, several with several ports.
    pub targets: Vec<Target>,
}

/// The newest samples of one fleet.
#[derive(Debug)]
pub struct Fleet {
    settings: FleetSettings,
    reader: Arc<EngineReader>,
    /// The policy's additive and ratio metrics, then every other additive signal with its own defaults.
    tracked: Arc<[MetricPolicy]>,
    /// The policy's latencies.
    latencies: Vec<LatencyState>,
    replicas: Vec<ReplicaState>,
    places: HashMap<TargetId, (usize, usize)>,
    /// The replicas were given once.
    synced: bool,
}

#[derive(Debug)]
struct ReplicaState {
    key: Arc<str>,
    name: Arc<str>,
    phase: Phase,
    since: Timestamp,
    /// Ready when we began to watch, so busy for all we know: what cannot be read of it is unknown at once, where
    /// a replica that becomes Ready before our eyes has nothing to do yet.
    ready_from_the_start: bool,
    engines: Vec<EngineState>,
}

impl Fleet {
    /// A fleet without replicas.
    pub fn new(settings: FleetSettings, reader: Arc<EngineReader>) -> Self {
        let (latencies, demand): (Vec<_>, Vec<_>) =
            settings.metrics.iter().cloned().partition(|metric| metric.signal.class() == SignalClass::Latency);
        let missing = Signal::ALL.into_iter().filter(|signal| {
            signal.class() == SignalClass::Additive && !demand.iter().any(|metric| metric.signal == *signal)
        });
        let own_defaults = missing.map(|signal| MetricPolicy::new(signal, Milli::MAX)).collect::<Vec<_>>();
        let tracked: Arc<[MetricPolicy]> = demand.into_iter().chain(own_defaults).collect();
        let latencies = latencies.into_iter().map(LatencyState::new).collect();
        Self { settings, reader, tracked, latencies, replicas: Vec::new(), places: HashMap::new(), synced: false }
    }

    /// What it is observed for.
    pub fn settings(&self) -> &FleetSettings {
        &self.settings
    }

    /// Makes these the fleet's replicas. Those that stay keep their samples, the others are forgotten.
    pub fn sync(&mut self, specs: &[ReplicaSpec]) {
        let mut known: HashMap<Arc<str>, ReplicaState> =
            self.replicas.drain(..).map(|replica| (Arc::clone(&replica.key), replica)).collect();
        self.places.clear();
        let first = !std::mem::replace(&mut self.synced, true);
        for spec in specs {
            let old = known.remove(&spec.key);
            let stayed_so = old.as_ref().is_some_and(|old| old.ready_from_the_start && old.since == spec.since);
            let mut engines: Vec<EngineState> = old.map_or_else(Vec::new, |old| old.engines);
            let servers = spec.targets.iter().map(|target| {
                let place = engines.iter().position(|engine| engine.target == *target);
                place.map_or_else(
                    || EngineState::new(target.clone(), self.tracked.len()),
                    |place| engines.swap_remove(place),
                )
            });
            let engines: Vec<EngineState> = servers.collect();
            let place = self.replicas.len();
            for (index, engine) in engines.iter().enumerate() {
                self.places.insert(engine.target.id.clone(), (place, index));
            }
            self.replicas.push(ReplicaState {
                key: Arc::clone(&spec.key),
                name: Arc::clone(&spec.name),
                phase: spec.phase,
                since: spec.since,
                ready_from_the_start: spec.phase == Phase::Ready && (first || stayed_so),
                engines,
            });
        }
    }

    /// Whether each server of the replicas that were Ready when we began to watch was tried. Until then a total
    /// would be of a part of the fleet.
    pub fn was_tried_once(&self) -> bool {
        let first = self.replicas.iter().filter(|replica| replica.ready_from_the_start);
        first.flat_map(|replica| &replica.engines).all(|engine| engine.state != TargetState::Pending)
    }

    /// Takes the outcome of a scrape. What comes of a target that is no longer in the fleet is dropped.
    ///
    /// Returns whether its next page should be looked at whole, to name what is absent.
    pub fn record(&mut self, target: &TargetId, scraped: Scraped) -> Scrutiny {
        let Some((replica, index)) = self.places.get(target).copied() else { return Scrutiny::Wanted };
        let Some(engine) = self.replicas.get_mut(replica).and_then(|replica| replica.engines.get_mut(index)) else {
            return Scrutiny::Wanted;
        };
        engine.record(scraped, &self.reader, &self.settings, &self.tracked, &mut self.latencies)
    }
}
