//! One autoscaler: its turns, one an interval, and at once when a sample arrives or something changes.

use std::sync::Arc;
use std::time::Duration;

use headroom_adapter::engines::EngineReader;
use headroom_adapter::fleet::{Fleet, FleetSettings, SharedFleet};
use headroom_adapter::scrape::{CredentialsError, ScrapeSettings, Scraper, Target, TargetState};
use headroom_policies::policy::{Actuation, Policy};
use headroom_policies::{
    Decision, DecisionRecord, History, Observation, Persisted, Published, Replicas, Signal, Timestamp, decide,
};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::journal::Kept;
use super::manager::Environment;
use super::state_dir::Stored;
use super::store::{Entry, Standing};
use super::target::ScaleTarget;
use crate::api::AutoscalerSpec;

/// Turns for newly arrived samples take at most this share of a core.
const TURN_SHARE: u32 = 50;
const SHORTEST_GAP: Duration = Duration::from_millis(5);
/// What the first round of scrapes may take besides its interval and its timeout.
const FIRST_ROUND_SLACK: Duration = Duration::from_secs(1);
/// The states of targets are logged when they change, at most so often.
const STATES_LOGGED_EVERY: Duration = Duration::from_secs(30);

/// What an autoscaler is made to be.
#[derive(Debug, Clone)]
pub(super) struct Assignment {
    pub(super) spec: Arc<AutoscalerSpec>,
    pub(super) scrape: ScrapeSettings,
}

/// Whether a decision changes the target's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It does.
    Scale {
        /// From this size.
        from: Replicas,
        /// To this.
        to: Replicas,
    },
    /// It does not.
    Nothing,
}

impl Act {
    /// What a decision asks of us: only in Direct do we move replicas.
    pub fn of(actuation: Actuation, decision: &Decision) -> Self {
        if actuation == Actuation::Direct && decision.desired != decision.current {
            Self::Scale { from: decision.current, to: decision.desired }
        } else {
            Self::Nothing
        }
    }
}

/// The parts that read a fleet; made anew when what is read changes.
pub(super) struct Reading {
    fleet: Arc<SharedFleet>,
    scraper: Scraper,
    settings: (FleetSettings, ScrapeSettings),
    /// The target's revision that the fleet was last made equal to.
    revision: Option<u64>,
    /// Until when the first round of scrapes may take; `None` once it is over.
    first_round_until: Option<Instant>,
}

impl Reading {
    pub(super) fn new(assignment: &Assignment, environment: &Environment) -> Result<Self, CredentialsError> {
        let spec = &assignment.spec;
        let settings = fleet_settings(spec);
        let reader = Arc::new(EngineReader::new(spec.engine.clone()));
        let fleet = Arc::new(SharedFleet::new(Fleet::new(settings.clone(), Arc::clone(&reader))));
        let scraper = Scraper::new(
            assignment.scrape.clone(),
            reader,
            Arc::clone(&fleet) as _,
            environment.scrape_limit.clone(),
            (environment.clock, environment.scrape_runtime.clone()),
        )?;
        let round = environment.clock.real_duration(settings.interval) + assignment.scrape.timeout + FIRST_ROUND_SLACK;
        let first_round_until = Some(Instant::now() + round);
        Ok(Self { fleet, scraper, settings: (settings, assignment.scrape.clone()), revision: None, first_round_until })
    }

    pub(super) fn fleet(&self) -> &Arc<SharedFleet> {
        &self.fleet
    }

    fn sync(&mut self, target: &dyn ScaleTarget) {
        let revision = target.revision();
        if self.revision == Some(revision) {
            return;
        }
        self.revision = Some(revision);
        let replicas = target.replicas();
        let targets: Vec<Target> = replicas.iter().flat_map(|replica| replica.targets.iter().cloned()).collect();
        self.fleet.update(|fleet| fleet.sync(&replicas));
        self.scraper.sync(&targets);
    }

    /// Whether each server was tried, or had its time. Part of a fleet would be taken for the whole before that.
    fn first_round_is_over(&mut self) -> bool {
        if let Some(until) = self.first_round_until
            && (Instant::now() >= until || self.fleet.with(Fleet::was_tried_once))
        {
            self.first_round_until = None;
        }
        self.first_round_until.is_none()
    }
}

fn fleet_settings(spec: &AutoscalerSpec) -> FleetSettings {
    FleetSettings {
        metrics: spec.policy.metrics.clone(),
        interval: spec.policy.interval,
        max_age: spec.max_age,
        startup_deadline: spec.startup_deadline,
    }
}

/// One running autoscaler.
pub(super) struct Autoscaler {
    pub(super) environment: Arc<Environment>,
    pub(super) entry: Arc<Entry>,
    pub(super) target: Arc<dyn ScaleTarget>,
    pub(super) reading: Reading,
    pub(super) stored: Stored,
    pub(super) history: Option<History>,
    pub(super) states: StatesLog,
}

/// What was last said of the targets' states.
#[derive(Debug, Default)]
pub(super) struct StatesLog {
    counts: Option<[u32; TargetState::ALL.len()]>,
    at: Option<Timestamp>,
}

impl Autoscaler {
    /// Turns until it is stopped.
    pub(super) async fn run(mut self, mut assignments: watch::Receiver<Assignment>, stop: CancellationToken) {
        let mut tick = self.tick();
        let mut earliest = Instant::now();
        loop {
            let fleet = Arc::clone(self.reading.fleet());
            let arrived = async {
                fleet.changed().await;
                tokio::time::sleep_until(earliest).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = assignments.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let assignment = assignments.borrow_and_update().clone();
                    self.assign(&assignment);
                    tick = self.tick();
                }
                () = self.entry.wake.notified() => {}
                _ = tick.tick() => {}
                () = arrived => {}
            }
            let begun = Instant::now();
            self.turn();
            earliest = Instant::now() + (begun.elapsed() * TURN_SHARE).max(SHORTEST_GAP);
        }
    }

    fn tick(&self) -> tokio::time::Interval {
        let interval = self.environment.clock.real_duration(self.entry.spec.load().policy.interval);
        let mut tick = tokio::time::interval(interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick
    }

    /// Takes over a changed spec. The fleet's samples are kept unless what is read of it changed.
    fn assign(&mut self, assignment: &Assignment) {
        let same = self.reading.settings == (fleet_settings(&assignment.spec), assignment.scrape.clone())
            && self.entry.spec.load().engine == assignment.spec.engine;
        if !same {
            match Reading::new(assignment, &self.environment) {
                Ok(reading) => {
                    self.entry.fleet.store(Arc::clone(reading.fleet()));
                    self.reading = reading;
                }
                Err(error) => {
                    warn!(autoscaler = %assignment.spec.key, %error, "the changed spec cannot be used; the old one stays");
                    return;
                }
            }
        }
        self.entry.spec.store(Arc::clone(&assignment.spec));
    }

    /// Collects, decides, publishes, acts.
    fn turn(&mut self) {
        let now = self.environment.clock.now();
        self.reading.sync(&*self.target);
        if !self.reading.first_round_is_over() {
            return;
        }
        let spec = self.entry.spec.load_full();
        let (policy, observation) = self.collect(&spec, now);
        let before = self.history.take().unwrap_or_else(|| {
            let behavior = policy.effective_behavior(observation.cold_start_p90);
            History::resume(self.stored.history.clone(), observation.current, now, &behavior)
        });
        let (decision, after) = decide(&policy, &observation, before.clone(), now);
        let act = Act::of(policy.actuation, &decision);
        let mut history = after.clone();
        if let Act::Scale { from, to } = act {
            history.record_write(from, to, now);
        }
        // What is about to be published or done is on disk before it is.
        self.keep(history.persisted());
        self.report(&spec, &decision);
        let published = decision.published.replicas();
        let record = DecisionRecord { policy, observation, history: before, decision };
        self.publish(&spec, record);
        if let Some(count) = published {
            self.target.published(count);
        }
        if let Act::Scale { to, .. } = act
            && let Err(error) = self.target.scale(to)
        {
            warn!(autoscaler = %spec.key, %to, %error, "the target was not scaled");
            self.entry.count(|totals| totals.scale_failures += 1);
            history = after;
            self.keep(history.persisted());
        }
        self.history = Some(history);
        self.log_states(&spec, now);
    }

    fn collect(&self, spec: &AutoscalerSpec, now: Timestamp) -> (Policy, Observation) {
        let mut policy = spec.policy.clone();
        if self.environment.observe_only {
            policy.actuation = Actuation::Observe;
        }
        let mut observed = self.reading.fleet.with(|fleet| fleet.observe(now));
        if spec.default_metrics && policy.metrics.len() > 1 {
            // A default that the engine cannot meet is left out; one that the user asked for is unreadable.
            let signal = Signal::KVCacheUtilization;
            if let Some(place) = policy.metrics.iter().position(|metric| metric.signal == signal)
                && self.reading.fleet.with(|fleet| fleet.is_never_exported(signal))
            {
                policy.metrics.remove(place);
                observed.metrics.remove(place);
            }
        }
        let observation = Observation {
            replicas: observed.replicas,
            metrics: observed.metrics,
            paused: spec.paused,
            hold: self.entry.by_hand().effective(spec, now),
            ..Observation::of(self.target.size())
        };
        (policy, observation)
    }

    /// Keeps what must survive a restart, if it changed.
    fn keep(&mut self, persisted: &Persisted) {
        let stored = Stored { history: persisted.clone(), by_hand: self.entry.by_hand() };
        // When the last turn was changes every turn and matters only beside another change.
        let same = Persisted { last_turn: self.stored.history.last_turn, ..stored.history.clone() }
            == self.stored.history
            && stored.by_hand == self.stored.by_hand;
        if same {
            return;
        }
        if let Err(error) = self.environment.state.write(&self.entry.spec.load().key, &stored) {
            let mut first = false;
            self.entry.count(|totals| {
                first = totals.state_failures == 0;
                totals.state_failures += 1;
            });
            if first {
                warn!(%error, "a restart would forget this; further failures are counted in headroom_state_write_failures_total");
            }
        }
        self.stored = stored;
    }

    /// Says what changed, in the log for people.
    fn report(&self, spec: &AutoscalerSpec, decision: &Decision) {
        let last = self.entry.standing.load();
        let last = last.as_ref().map(|standing| &standing.record.decision);
        let desired_before = last.map(|decision| decision.desired);
        self.entry.count(|totals| {
            totals.turns += 1;
            totals.rises += u64::from(desired_before.is_some_and(|before| decision.desired > before));
            totals.falls += u64::from(desired_before.is_some_and(|before| decision.desired < before));
        });
        if desired_before != Some(decision.desired) {
            let (reason, message) = decision.summary();
            let (current, desired) = (decision.current, decision.desired);
            info!(autoscaler = %spec.key, %current, %desired, %reason, "{message}");
        }
        let is_refused = |decision: &Decision| matches!(decision.published, Published::Error(_));
        let (was_blind, was_refused) = last.map_or((false, false), |last| (last.blind, is_refused(last)));
        if let Published::Error(error) = &decision.published
            && !was_refused
        {
            warn!(autoscaler = %spec.key, "no count is published: {error}");
        } else if decision.blind && !was_blind {
            let (_, message) = decision.summary();
            warn!(autoscaler = %spec.key, "none of its metrics can be read, so the count does not fall: {message}");
        } else if was_blind && !decision.blind {
            info!(autoscaler = %spec.key, "its metrics are readable again");
        }
    }

    fn publish(&self, spec: &AutoscalerSpec, record: DecisionRecord) {
        let kept = self.entry.journal().offer(&record);
        if let Some((Kept::Change, id)) = kept {
            self.environment.log.write(&spec.key, id, &record);
        }
        self.entry.standing.store(Some(Arc::new(Standing { record })));
    }

    fn log_states(&mut self, spec: &AutoscalerSpec, now: Timestamp) {
        let due = self.states.at.is_none_or(|at| now.since(at) >= STATES_LOGGED_EVERY);
        if !due {
            return;
        }
        let counts = self.reading.fleet.with(Fleet::target_states);
        if self.states.counts == Some(counts) {
            return;
        }
        self.states = StatesLog { counts: Some(counts), at: Some(now) };
        let named = TargetState::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
        let text: Vec<String> = named.map(|(state, count)| format!("{count} {state}")).collect();
        info!(autoscaler = %spec.key, targets = text.join(", "), "the targets' states changed");
    }
}
