//! The stages of a decision, in their order.

use std::time::Duration;

use crate::behavior::{EffectiveBehavior, SelectPolicy};
use crate::decision::{Decision, EffectiveBounds, HeldBy, Published, Stage, StageRecord};
use crate::history::{History, Recommended};
use crate::hpa;
use crate::observation::{MetricObservation, Observation, Phase, Sample};
use crate::policy::{Actuation, Policy};
use crate::proposal::{Proposal, demand, propose_demand, propose_latency};
use crate::reason::Reason;
use crate::units::{HumanDuration, Replicas, Timestamp};

/// What the history knows and a single observation cannot tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elapsed {
    /// How long every additive and ratio metric has been unreadable.
    pub(crate) blind: Duration,
    /// How long the fleet has been known to be without demand.
    pub(crate) idle: Duration,
}

/// Decides how many replicas there should be at `now`, and returns the history to pass to the next decision.
///
/// Pure: the same arguments give the same answer. The observation has one entry for each metric of the policy.
pub fn decide(policy: &Policy, seen: &Observation, mut history: History, now: Timestamp) -> (Decision, History) {
    let behavior = policy.effective_behavior(seen.cold_start_p90);
    history.observe_current(seen.current, now, policy.actuation, &behavior);
    let proposals = propose(policy, seen, &behavior);
    let any_ready = seen.in_phase(Phase::Ready) > Replicas::ZERO;
    let elapsed = Elapsed {
        blind: history.track_blind(is_blind(&proposals), any_ready || seen.current == Replicas::ZERO, now),
        idle: history.track_idle(is_idle(seen), now),
    };
    let turn = Turn { policy, seen, history: &history, behavior, elapsed, now };
    let (decision, recommended) = turn.run(proposals);
    // In Observe nobody follows what is published; what would have been followed is the decision.
    let followed = match policy.actuation {
        Actuation::Observe => Some(decision.desired),
        _ => decision.published.replicas(),
    };
    history.close_turn(now, (recommended, decision.desired, followed), &decision.behavior);
    (decision, history)
}

/// What each metric asks for.
pub(crate) fn propose(policy: &Policy, seen: &Observation, behavior: &EffectiveBehavior) -> Vec<Proposal> {
    let current = seen.current.minus(policy.warm_pool).max(Replicas::ZERO);
    let tolerances = behavior.tolerances();
    let answer = |(metric, observed): (&crate::policy::MetricPolicy, &MetricObservation)| match observed {
        MetricObservation::Demand { samples, external } => {
            let demand = demand(samples, external, metric.target);
            propose_demand(metric.signal, metric.target, &demand, current, tolerances)
        }
        MetricObservation::Latency(latency) => {
            propose_latency(metric.signal, metric.target, latency, (current, seen.current), tolerances.up)
        }
    };
    policy.metrics.iter().zip(&seen.metrics).map(answer).collect()
}

fn is_demand(proposal: &Proposal) -> bool {
    proposal.signal.class() != crate::signal::SignalClass::Latency
}

/// Every additive and ratio metric is unreadable.
pub(crate) fn is_blind(proposals: &[Proposal]) -> bool {
    !proposals.iter().any(|proposal| is_demand(proposal) && proposal.readable)
}

/// Every replica and external signal is read and zero, and none is starting.
fn is_idle(seen: &Observation) -> bool {
    let zero = |sample: &Sample| sample.as_read().is_some_and(|value| value.get() == 0);
    let quiet = |metric: &MetricObservation| match metric {
        MetricObservation::Demand { samples, external } => {
            samples.iter().all(zero) && external.iter().all(|signal| zero(&signal.sample))
        }
        MetricObservation::Latency(_) => true,
    };
    seen.in_phase(Phase::Starting) == Replicas::ZERO && seen.metrics.iter().all(quiet)
}

/// One turn with everything its stages look at.
pub(crate) struct Turn<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) seen: &'a Observation,
    pub(crate) history: &'a History,
    pub(crate) behavior: EffectiveBehavior,
    pub(crate) elapsed: Elapsed,
    pub(crate) now: Timestamp,
}

/// The stages that ran so far.
struct Stages(Vec<StageRecord>);

impl Stages {
    fn value(&self) -> Replicas {
        self.0.last().map_or(Replicas::ZERO, |record| record.output)
    }

    fn push(&mut self, stage: Stage, output: Replicas, reason: Reason, message: String) {
        let input = self.value();
        self.0.push(StageRecord { stage, input, output, reason, message });
    }
}

/// Bounds as they stand, with the name of what set each.
struct Bounds {
    minimum: Replicas,
    maximum: Replicas,
    minimum_from: (Reason, String),
    maximum_from: String,
}

impl Turn<'_> {
    /// Runs every stage. Also answers what enters the log of recommendations.
    pub(crate) fn run(self, proposals: Vec<Proposal>) -> (Decision, Replicas) {
        let blind = is_blind(&proposals);
        let mut stages = Stages(Vec::with_capacity(7));
        self.take_proposals(&mut stages, &proposals);
        self.add_warm_pool(&mut stages);
        let asked = stages.value();
        self.stabilize(&mut stages);
        self.limit_rate(&mut stages);
        let bounds = self.bounds(blind);
        self.apply_bounds(&mut stages, &bounds, blind);
        self.cap_impossible(&mut stages);
        self.override_by_hand(&mut stages);
        let desired = stages.value();
        let overridden = self.overridden().map(|(replicas, ..)| replicas);
        let recommended = asked.max(bounds.minimum).max(overridden.unwrap_or_default());
        let binding = stages.0.iter().rfind(|record| record.input != record.output).map(|record| record.stage);
        let (higher, lower) = held_by(&stages.0);
        let decision = Decision {
            at: self.now,
            current: self.seen.current,
            desired,
            published: self.publish(desired, blind, &proposals),
            binding,
            blind,
            bounds: EffectiveBounds { min_replicas: bounds.minimum, max_replicas: bounds.maximum },
            behavior: self.behavior,
            proposals,
            stages: stages.0,
            held_from_higher: higher,
            held_from_lower: lower,
        };
        (decision, recommended)
    }

    /// Stage 1. Its input is the present size less the warm pool.
    fn take_proposals(&self, stages: &mut Stages, proposals: &[Proposal]) {
        let current = self.seen.current.minus(self.policy.warm_pool).max(Replicas::ZERO);
        let largest = proposals.iter().filter(|proposal| proposal.replicas.is_some()).max_by(|a, b| {
            // The first of equals wins, as in the HPA.
            a.replicas.cmp(&b.replicas).then(std::cmp::Ordering::Greater)
        });
        let asked = largest.and_then(|proposal| proposal.replicas);
        let veto = proposals.iter().find(|proposal| proposal.vetoes_down);
        let (output, reason, message) = match (asked, largest, veto) {
            (None, _, Some(veto)) => (current, veto.reason, veto.message.clone()),
            (Some(asked), _, Some(veto)) if asked < current => {
                (current, Reason::MetricUnreadable, format!("the metrics ask for {asked}, but {}", veto.message))
            }
            (Some(asked), Some(proposal), _) => (asked, proposal.reason, proposal.message.clone()),
            _ => (current, Reason::NoProposal, format!("no metric makes a proposal; stays at {current}")),
        };
        stages.0.push(StageRecord { stage: Stage::Proposals, input: current, output, reason, message });
    }

    /// Stage 2.
    fn add_warm_pool(&self, stages: &mut Stages) {
        let pool = self.policy.warm_pool;
        let output = stages.value().plus(pool);
        if pool == Replicas::ZERO {
            stages.push(Stage::WarmPool, output, Reason::NoWarmPool, "no warm pool".into());
        } else {
            stages.push(Stage::WarmPool, output, Reason::WarmPool, format!("{pool} more for the warm pool"));
        }
    }

    /// Stage 4.
    fn stabilize(&self, stages: &mut Stages) {
        let desired = stages.value();
        let lowest = self.history.lowest(self.now, &self.behavior);
        let highest = self.history.highest(self.now, &self.behavior);
        let bound = |extreme: Option<Recommended>| extreme.map_or(desired, |entry| entry.replicas);
        let stabilized = hpa::steer(self.seen.current, desired, bound(lowest), bound(highest));
        let past = |extreme: Option<Recommended>| match extreme {
            Some(entry) => {
                format!("{}, recommended {} ago", entry.replicas, HumanDuration(self.now.since(entry.at)))
            }
            None => format!("the present {}", self.seen.current),
        };
        let message = match stabilized.reason {
            Reason::ScaleDownStabilized => format!(
                "held at {} by the highest recommendation of the last {}: {}",
                stabilized.replicas,
                HumanDuration(self.behavior.scale_down.stabilization_window),
                past(highest)
            ),
            Reason::ScaleUpStabilized => format!(
                "held at {} by the lowest recommendation of the last {}: {}",
                stabilized.replicas,
                HumanDuration(self.behavior.scale_up.stabilization_window),
                past(lowest)
            ),
            _ => "no window holds it".into(),
        };
        stages.push(Stage::Stabilization, stabilized.replicas, stabilized.reason, message);
    }

    /// Stage 5.
    fn limit_rate(&self, stages: &mut Stages) {
        let current = self.seen.current;
        // A follower acts on the number until the next turn, so what is too old by then is too old now.
        let at = match self.policy.actuation {
            Actuation::Direct => self.now,
            _ => self.now.plus(self.policy.interval),
        };
        let (ups, downs) = self.history.events(at);
        let rules = (&self.behavior.scale_up, &self.behavior.scale_down);
        let limited = hpa::limit_rate(current, stages.value(), (Replicas::ZERO, Replicas::MAX), rules, (&ups, &downs));
        let wakes = current == Replicas::ZERO
            && stages.value() > Replicas::ZERO
            && rules.0.select_policy != SelectPolicy::Disabled;
        let output = if wakes { limited.replicas.max(Replicas::ONE) } else { limited.replicas };
        let message = match limited.reason {
            Reason::ScaleUpLimit => format!("scale-up policies allow no more than {output} now"),
            Reason::ScaleDownLimit => format!("scale-down policies allow no fewer than {output} now"),
            _ => "within the scale policies".into(),
        };
        stages.push(Stage::RatePolicies, output, limited.reason, message);
    }

    fn bounds(&self, blind: bool) -> Bounds {
        let (policy, seen) = (self.policy, self.seen);
        let mut minimum = policy.min_replicas;
        let mut minimum_from = (Reason::TooFewReplicas, format!("minReplicas is {minimum}"));
        if let Some(floor) = seen.floors.iter().max_by_key(|floor| floor.replicas)
            && floor.replicas > minimum
        {
            minimum = floor.replicas;
            minimum_from = (Reason::TooFewReplicas, format!("the floor {} is {minimum}", floor.name));
        }
        if seen.current > Replicas::ZERO && minimum < Replicas::ONE && !self.may_go_to_zero() {
            minimum = Replicas::ONE;
            minimum_from = (Reason::TooFewReplicas, "not known to be idle for long enough to go to zero".into());
        }
        minimum = minimum.min(policy.max_replicas);
        let mut maximum = policy.max_replicas;
        let mut maximum_from = format!("maxReplicas is {maximum}");
        if let Some(ceiling) = seen.ceilings.iter().min_by_key(|ceiling| ceiling.replicas)
            && ceiling.replicas < maximum
        {
            maximum = ceiling.replicas.max(minimum);
            maximum_from = format!("the ceiling {} is {}", ceiling.name, ceiling.replicas);
        }
        if let Some(fallback) = policy.fallback
            && blind
            && self.elapsed.blind >= fallback.after
            && fallback.replicas.min(maximum) > minimum
        {
            minimum = fallback.replicas.min(maximum);
            let blind_for = HumanDuration(self.elapsed.blind);
            minimum_from = (
                Reason::Fallback,
                format!("no metric was readable for {blind_for}, so the fallback of {minimum} applies"),
            );
        }
        Bounds { minimum, maximum, minimum_from, maximum_from }
    }

    fn may_go_to_zero(&self) -> bool {
        let starting = self.seen.in_phase(Phase::Starting) > Replicas::ZERO;
        self.policy.idle_for.is_some_and(|idle_for| self.elapsed.idle >= idle_for && !starting)
    }

    /// Stage 6. While blind nothing lowers, no ceiling either.
    fn apply_bounds(&self, stages: &mut Stages, bounds: &Bounds, blind: bool) {
        let value = stages.value();
        let bounded = value.min(bounds.maximum).max(bounds.minimum);
        if blind && bounded < self.seen.current {
            let message = format!("no metric is readable, so nothing lowers {}", self.seen.current);
            stages.push(Stage::Bounds, self.seen.current, Reason::Blind, message);
        } else if bounded > value {
            let (reason, message) = &bounds.minimum_from;
            stages.push(Stage::Bounds, bounded, *reason, message.clone());
        } else if bounded < value {
            stages.push(Stage::Bounds, bounded, Reason::TooManyReplicas, bounds.maximum_from.clone());
        } else {
            let message = format!("within {} and {}", bounds.minimum, bounds.maximum);
            stages.push(Stage::Bounds, value, Reason::DesiredWithinRange, message);
        }
    }

    /// Stage 7.
    fn cap_impossible(&self, stages: &mut Stages) {
        let value = stages.value();
        match &self.seen.provable_ceiling {
            Some(ceiling) if value > ceiling.replicas.max(self.seen.current) => {
                let message = format!("no more than {} can exist: {}", ceiling.replicas, ceiling.name);
                let output = ceiling.replicas.max(self.seen.current);
                stages.push(Stage::Impossible, output, Reason::CapacityImpossible, message);
            }
            _ => {
                stages.push(Stage::Impossible, value, Reason::CapacityNotProven, "nothing is proven impossible".into());
            }
        }
    }

    /// The count an override asks for, if there is one.
    fn overridden(&self) -> Option<(Replicas, Reason, String)> {
        let seen = self.seen;
        if seen.paused {
            return Some((seen.current, Reason::Paused, format!("paused at {}", seen.current)));
        }
        if let Some(hold) = &seen.hold {
            let replicas = hold.replicas.min(self.policy.max_replicas).max(Replicas::ZERO);
            let until = hold.until.map_or(String::new(), |until| format!(" until {until}"));
            let why = hold.reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
            return Some((replicas, Reason::Held, format!("held at {replicas}{until}{why}")));
        }
        if seen.current == Replicas::ZERO && !self.history.zero_is_ours() {
            let message = "somebody else scaled the target to zero, which pauses it".to_owned();
            return Some((Replicas::ZERO, Reason::ForeignZero, message));
        }
        None
    }

    /// Stage 8.
    fn override_by_hand(&self, stages: &mut Stages) {
        let value = stages.value();
        let (output, reason, message) = self.overridden().unwrap_or((value, Reason::NoOverride, "no override".into()));
        stages.push(Stage::Override, output, reason, message);
    }

    fn publish(&self, desired: Replicas, blind: bool, proposals: &[Proposal]) -> Published {
        if self.policy.actuation == Actuation::Observe {
            return Published::Replicas(self.seen.current);
        }
        if self.overridden().is_some() || !blind || desired > self.seen.current {
            return Published::Replicas(desired);
        }
        let silent: Vec<&str> =
            proposals.iter().filter(|proposal| is_demand(proposal)).map(|proposal| proposal.message.as_str()).collect();
        Published::Error(format!("no metric is readable: {}", silent.join("; ")))
    }
}

/// What held the number from being higher, and from being lower: an override; else the last stage that pushed it
/// that way; else the metrics themselves.
fn held_by(stages: &[StageRecord]) -> (HeldBy, HeldBy) {
    let held =
        |record: &StageRecord| HeldBy { stage: record.stage, reason: record.reason, message: record.message.clone() };
    let answer = |pushed: fn(&StageRecord) -> bool| {
        let overridden = stages.last().filter(|record| record.reason != Reason::NoOverride);
        let after_metrics = || stages.iter().skip(1).rev().find(|record| pushed(record));
        overridden.or_else(after_metrics).or(stages.first()).map(held)
    };
    let none = || HeldBy { stage: Stage::Proposals, reason: Reason::NoProposal, message: "no stage ran".into() };
    (
        answer(|record| record.output < record.input).unwrap_or_else(none),
        answer(|record| record.output > record.input).unwrap_or_else(none),
    )
}
