//! What a decision sees of a fleet, and what is served of it.

use std::sync::Arc;
use std::time::Duration;

use headroom_policies::observation::{
    InFlight, LatencyObservation, LatencySample, MetricObservation, Phase, Replica, Sample, UnknownReason,
};
use headroom_policies::policy::MetricPolicy;
use headroom_policies::proposal::{Demand, demand};
use headroom_policies::signal::SignalClass;
use headroom_policies::window::{HistogramWindow, Quantile};
use headroom_policies::{Milli, Replicas, Signal, Timestamp};

use super::signal::SignalState;
use super::{Fleet, ReplicaState};
use crate::engines::Readings;
use crate::scrape::TargetState;

/// One latency of the policy over the fleet.
#[derive(Debug)]
pub(super) struct LatencyState {
    pub(super) metric: MetricPolicy,
    window: HistogramWindow,
    read_at: Option<Timestamp>,
    unread: UnknownReason,
}

impl LatencyState {
    pub(super) fn new(metric: MetricPolicy) -> Self {
        Self { metric, window: HistogramWindow::default(), read_at: None, unread: UnknownReason::NotScraped }
    }

    pub(super) fn record(&mut self, readings: &Readings<'_>, at: Timestamp) {
        let Self { metric, window, .. } = self;
        match readings.observed(metric.signal, |bounds, increases| window.record(at, bounds, increases, metric.window))
        {
            Ok(()) => self.read_at = Some(at),
            Err(reason) => self.unread = reason,
        }
    }

    fn sample(&self, now: Timestamp, max_age: Duration) -> LatencySample {
        match self.read_at {
            None => return LatencySample::Unknown { reason: self.unread },
            Some(at) if now.since(at) > max_age => return LatencySample::Unknown { reason: UnknownReason::Stale },
            Some(_) => {}
        }
        let mut window = self.window.clone();
        window.expire(now, self.metric.window);
        match window.quantile(self.metric.quantile) {
            Quantile::Value(value) => match Milli::from_measured(value.seconds) {
                Some(seconds) => LatencySample::Value { value: seconds, at_least: value.at_least },
                None => LatencySample::Unknown { reason: UnknownReason::OutOfRange },
            },
            Quantile::NoObservations => LatencySample::NoTraffic,
            Quantile::TooFewObservations => LatencySample::Unknown { reason: UnknownReason::TooFewObservations },
        }
    }
}

/// What a decision sees of a fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The population.
    pub replicas: Vec<Replica>,
    /// One entry a metric of the policy, in its order.
    pub metrics: Vec<MetricObservation>,
}

/// A raw signal over a fleet, as served.
#[derive(Debug, Clone, PartialEq)]
pub struct RawSignal {
    /// The total as counted for a rise.
    pub total: Milli,
    /// When the oldest of its samples was received.
    pub at: Timestamp,
    /// The window it was read over.
    pub window: Duration,
    /// Replicas that are starting.
    pub starting: u32,
}

/// A raw signal, or why it is not served.
#[derive(Debug, Clone, PartialEq)]
pub enum RawReading {
    /// The signal.
    Served(RawSignal),
    /// These Ready replicas were not readable for so long that a total without them would mislead.
    Unreadable(Vec<(Arc<str>, UnknownReason)>),
    /// No Ready replica was read yet.
    NothingRead,
}

impl ReplicaState {
    /// The phase, with what its servers say: asleep is stuck, loading is starting within its deadline.
    fn phase(&self, now: Timestamp, startup_deadline: Duration) -> Phase {
        let any = |state: TargetState| self.engines.iter().any(|engine| engine.state == state);
        if self.phase == Phase::Ready && any(TargetState::Sleeping) {
            Phase::Stuck
        } else if self.phase == Phase::Ready && any(TargetState::Loading) {
            if now.since(self.since) <= startup_deadline { Phase::Starting } else { Phase::Stuck }
        } else {
            self.phase
        }
    }

    /// A signal rolled up over the replica's servers: counts and rates add, occupancy is the largest.
    fn sample(&self, index: usize, signal: Signal, now: Timestamp, max_age: Duration) -> Sample {
        let mut samples = self.engines.iter().map(|engine| {
            engine.signals.get(index).map_or(Sample::Unknown { reason: UnknownReason::Unspecified }, |state| {
                state.sample(now, self.since, !self.ready_from_the_start, max_age)
            })
        });
        let first = samples.next().unwrap_or(Sample::Unknown { reason: UnknownReason::NotScraped });
        samples.fold(first, |sum, next| roll_up(signal, sum, next))
    }
}

impl ReplicaState {
    /// Since when a signal was not read: its last reading, or when the replica was first watched.
    fn unread_since(&self, index: usize) -> Timestamp {
        let read = self.engines.iter().map(|engine| engine.signals.get(index).and_then(SignalState::read_at));
        read.min().flatten().unwrap_or(self.since)
    }
}

/// Two servers of one replica: what is known of it is what is known of both.
fn roll_up(signal: Signal, one: Sample, other: Sample) -> Sample {
    let join = |a: Milli, b: Milli| match signal.class() {
        SignalClass::Ratio => a.max(b),
        SignalClass::Additive | SignalClass::Latency => Milli::saturating(i128::from(a.get()) + i128::from(b.get())),
    };
    match (one, other) {
        (Sample::Starting, _) | (_, Sample::Starting) => Sample::Starting,
        (Sample::Stuck, _) | (_, Sample::Stuck) => Sample::Stuck,
        (Sample::Unknown { reason }, _) | (_, Sample::Unknown { reason }) => Sample::Unknown { reason },
        (Sample::Last { value, age, reason }, Sample::Last { value: more, age: longer, .. }) => {
            Sample::Last { value: join(value, more), age: age.max(longer), reason }
        }
        (Sample::Last { value, age, reason }, read) | (read, Sample::Last { value, age, reason }) => {
            Sample::Last { value: join(value, read.as_read().unwrap_or_default()), age, reason }
        }
        (Sample::Value { value, age }, Sample::Value { value: more, age: longer }) => {
            Sample::Value { value: join(value, more), age: age.max(longer) }
        }
        (Sample::Value { value, age }, read) | (read, Sample::Value { value, age }) => {
            Sample::Value { value: join(value, read.as_read().unwrap_or_default()), age }
        }
        (Sample::NoTraffic, Sample::NoTraffic) => Sample::NoTraffic,
        (Sample::Zero | Sample::NoTraffic, Sample::Zero | Sample::NoTraffic) => Sample::Zero,
    }
}

impl Fleet {
    /// What a decision at `now` sees.
    pub fn observe(&self, now: Timestamp) -> Observed {
        let phases: Vec<Phase> =
            self.replicas.iter().map(|replica| replica.phase(now, self.settings.startup_deadline)).collect();
        let replicas = self
            .replicas
            .iter()
            .zip(&phases)
            .map(|(replica, phase)| Replica { name: Arc::clone(&replica.name), phase: *phase })
            .collect();
        let (mut next_demand, mut latencies) = (0, self.latencies.iter());
        let mut metrics = Vec::with_capacity(self.settings.metrics.len());
        for metric in &self.settings.metrics {
            if metric.signal.class() == SignalClass::Latency {
                if let Some(state) = latencies.next() {
                    metrics.push(MetricObservation::Latency(self.latency(state, &phases, now)));
                }
            } else {
                let samples = self.samples(next_demand, &phases, now);
                metrics.push(MetricObservation::Demand { samples, external: Vec::new() });
                next_demand += 1;
            }
        }
        Observed { replicas, metrics }
    }

    /// The samples of one tracked metric, one a replica.
    fn samples(&self, index: usize, phases: &[Phase], now: Timestamp) -> Vec<Sample> {
        let Some(metric) = self.tracked.get(index) else { return Vec::new() };
        let sample = |(replica, phase): (&ReplicaState, &Phase)| match phase {
            Phase::Starting => Sample::Starting,
            Phase::Stuck => Sample::Stuck,
            Phase::Ready => replica.sample(index, metric.signal, now, self.settings.max_age),
        };
        self.replicas.iter().zip(phases).map(sample).collect()
    }

    fn demand_of(&self, signal: Signal, phases: &[Phase], now: Timestamp) -> Option<(&MetricPolicy, Demand)> {
        let index = self.tracked.iter().position(|metric| metric.signal == signal)?;
        let metric = &self.tracked[index];
        Some((metric, demand(&self.samples(index, phases, now), &[], metric.target)))
    }

    fn latency(&self, state: &LatencyState, phases: &[Phase], now: Timestamp) -> LatencyObservation {
        let in_phase = |wanted: Phase| Replicas::count_of(phases.iter().filter(|phase| **phase == wanted).count());
        let waiting = self.demand_of(Signal::WaitingRequests, phases, now);
        let configured = |metric: &MetricPolicy| self.settings.metrics.iter().any(|own| own.signal == metric.signal);
        let in_flight = self.demand_of(Signal::InFlightRequests, phases, now);
        LatencyObservation {
            sample: state.sample(now, self.settings.max_age),
            ready: in_phase(Phase::Ready),
            stuck: in_phase(Phase::Stuck),
            waiting: waiting.filter(|(_, demand)| demand.counts.ready() > 0).map(|(_, demand)| demand.sum_up()),
            in_flight: in_flight
                .filter(|(metric, demand)| configured(metric) && demand.counts.ready() > 0)
                .map(|(metric, demand)| InFlight { total: demand.sum_up(), target: metric.target }),
        }
    }

    /// A signal's total over the fleet, as an HPA would be given it.
    pub fn raw(&self, signal: Signal, now: Timestamp) -> Option<RawReading> {
        let index = self.tracked.iter().position(|metric| metric.signal == signal)?;
        let phases: Vec<Phase> =
            self.replicas.iter().map(|replica| replica.phase(now, self.settings.startup_deadline)).collect();
        let samples = self.samples(index, &phases, now);
        let unreadable: Vec<(Arc<str>, UnknownReason)> = self
            .replicas
            .iter()
            .zip(&samples)
            .filter_map(|(replica, sample)| match sample {
                Sample::Unknown { reason } if now.since(replica.unread_since(index)) >= super::LAST_VALUE_KEPT => {
                    Some((Arc::clone(&replica.name), *reason))
                }
                _ => None,
            })
            .collect();
        if !unreadable.is_empty() {
            return Some(RawReading::Unreadable(unreadable));
        }
        let metric = &self.tracked[index];
        let demand = demand(&samples, &[], metric.target);
        if demand.counts.read + demand.counts.last == 0 {
            return Some(RawReading::NothingRead);
        }
        let received = self.replicas.iter().flat_map(|replica| &replica.engines);
        let oldest = received.filter_map(|engine| engine.signals.get(index)?.read_at()).min();
        Some(RawReading::Served(RawSignal {
            total: demand.sum_up(),
            at: oldest.unwrap_or(now),
            window: metric.window,
            starting: demand.counts.starting,
        }))
    }

    /// Every server that was read says that its engine does not export the signal.
    pub fn is_never_exported(&self, signal: Signal) -> bool {
        let Some(index) = self.tracked.iter().position(|metric| metric.signal == signal) else { return false };
        let mut read =
            self.replicas.iter().flat_map(|replica| &replica.engines).filter(|engine| engine.read_at.is_some());
        let says_so = |engine: &super::EngineState| {
            engine.signals.get(index).and_then(SignalState::unread) == Some(UnknownReason::NotExported)
        };
        read.clone().next().is_some() && read.all(says_so)
    }
}
