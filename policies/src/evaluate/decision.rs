//! Cases of Headroom's own rules: `proposal` for one metric, `turn` for a whole decision.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::CaseError;
use super::read::{Count, EventJson, MilliNumber, RecommendationJson, Target, plain, read};
use crate::behavior::Behavior;
use crate::decide::{Elapsed, Turn, propose};
use crate::decision::Published;
use crate::history::History;
use crate::observation::{
    Bound, ExternalSample, Hold, InFlight, LatencyObservation, LatencySample, MetricObservation, Observation, Phase,
    Replica, Sample, UnknownReason,
};
use crate::policy::{Actuation, Fallback, MetricPolicy, Policy};
use crate::proposal::{Proposal, demand, propose_demand, propose_latency};
use crate::quantity::Milli;
use crate::signal::{Signal, SignalClass};
use crate::units::{Replicas, Timestamp, Tolerances, optional_seconds, seconds};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Value,
    Last,
    Unknown,
    Zero,
    NoTraffic,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplicaJson {
    phase: Phase,
    sample: Option<State>,
    value_milli: Option<MilliNumber>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExternalJson {
    sample: State,
    value_milli: Option<MilliNumber>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LatencyJson {
    sample: State,
    value_milli: Option<MilliNumber>,
    waiting_milli: Option<MilliNumber>,
    in_flight_milli: Option<MilliNumber>,
    in_flight_target_milli: Option<MilliNumber>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricJson {
    signal_class: SignalClass,
    target_milli: Target,
    replicas: Vec<ReplicaJson>,
    external_milli: Option<Vec<ExternalJson>>,
    latency: Option<LatencyJson>,
}

fn sample(state: State, value: Option<MilliNumber>) -> Result<Sample, CaseError> {
    let number = || {
        value.map(|value| value.0).ok_or_else(|| CaseError::Senseless(format!("a sample {state:?} needs valueMilli")))
    };
    let (age, reason) = (Duration::ZERO, UnknownReason::Unspecified);
    Ok(match state {
        State::Value => Sample::Value { value: number()?, age },
        State::Last => Sample::Last { value: number()?, age, reason },
        State::Unknown => Sample::Unknown { reason },
        State::Zero => Sample::Zero,
        State::NoTraffic => Sample::NoTraffic,
    })
}

impl ReplicaJson {
    fn sample(&self) -> Result<Sample, CaseError> {
        match self.phase {
            Phase::Starting => Ok(Sample::Starting),
            Phase::Stuck => Ok(Sample::Stuck),
            Phase::Ready => {
                let state = self.sample.ok_or_else(|| CaseError::Senseless("a Ready replica needs a sample".into()))?;
                sample(state, self.value_milli)
            }
        }
    }
}

impl MetricJson {
    /// A signal of the metric's class: the arithmetic knows no more of it.
    fn signal(&self) -> Signal {
        match self.signal_class {
            SignalClass::Additive => Signal::WaitingRequests,
            SignalClass::Ratio => Signal::KVCacheUtilization,
            SignalClass::Latency => Signal::TimeToFirstToken,
        }
    }

    fn samples(&self) -> Result<Vec<Sample>, CaseError> {
        self.replicas.iter().map(ReplicaJson::sample).collect()
    }

    fn external(&self) -> Result<Vec<ExternalSample>, CaseError> {
        let named = |signal: &ExternalJson| {
            Ok(ExternalSample { name: Arc::from("external"), sample: sample(signal.sample, signal.value_milli)? })
        };
        self.external_milli.iter().flatten().map(named).collect()
    }

    fn in_phase(&self, phase: Phase) -> Replicas {
        Replicas::count_of(self.replicas.iter().filter(|replica| replica.phase == phase).count())
    }

    fn latency(&self) -> Result<LatencyObservation, CaseError> {
        let latency =
            self.latency.as_ref().ok_or_else(|| CaseError::Senseless("a latency metric needs `latency`".into()))?;
        let sample = match (latency.sample, latency.value_milli) {
            (State::Value, Some(value)) => LatencySample::Value { value: value.0, at_least: false },
            (State::NoTraffic, _) => LatencySample::NoTraffic,
            (State::Unknown, _) => LatencySample::Unknown { reason: UnknownReason::Unspecified },
            (other, _) => return Err(CaseError::Senseless(format!("a latency is not {other:?} without valueMilli"))),
        };
        let in_flight = latency.in_flight_milli.zip(latency.in_flight_target_milli);
        Ok(LatencyObservation {
            sample,
            ready: self.in_phase(Phase::Ready),
            stuck: self.in_phase(Phase::Stuck),
            waiting: latency.waiting_milli.map(|waiting| waiting.0),
            in_flight: in_flight.map(|(total, target)| InFlight { total: total.0, target: target.0 }),
        })
    }

    fn observation(&self) -> Result<MetricObservation, CaseError> {
        Ok(match self.signal_class {
            SignalClass::Latency => MetricObservation::Latency(self.latency()?),
            SignalClass::Additive | SignalClass::Ratio => {
                MetricObservation::Demand { samples: self.samples()?, external: self.external()? }
            }
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProposalJson {
    current: Count,
    #[serde(default)]
    warm_pool_replicas: Count,
    #[serde(default)]
    tolerance: Tolerances,
}

pub(super) fn proposal(input: &Value) -> Result<Value, CaseError> {
    let metric: MetricJson = read(input, "input")?;
    let input: ProposalJson = read(input, "input")?;
    let current = input.current.0.minus(input.warm_pool_replicas.0).max(Replicas::ZERO);
    let (signal, target) = (metric.signal(), metric.target_milli.0);
    let answer: Proposal = match metric.observation()? {
        MetricObservation::Demand { samples, external } => {
            propose_demand(signal, target, &demand(&samples, &external, target), current, input.tolerance)
        }
        MetricObservation::Latency(seen) => {
            propose_latency(signal, target, &seen, (current, input.current.0), input.tolerance.up)
        }
    };
    Ok(json!({
        "desiredReplicas": answer.replicas,
        "vetoesDown": answer.vetoes_down,
        "reason": answer.reason,
        "message": answer.message,
    }))
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HistoryJson {
    recommendations: Vec<RecommendationJson>,
    scale_up_events: Vec<EventJson>,
    scale_down_events: Vec<EventJson>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OverrideJson {
    paused: bool,
    hold_replicas: Option<Count>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScaleToZeroJson {
    #[serde(rename = "idleForSeconds", with = "seconds")]
    idle_for: Duration,
    #[serde(rename = "knownIdleSeconds", with = "seconds")]
    known_idle: Duration,
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy, Default)]
#[serde(rename_all = "camelCase")]
enum ZeroSetBy {
    #[default]
    Us,
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnJson {
    current: Count,
    #[serde(default)]
    warm_pool_replicas: Count,
    /// The spec's default is 1.
    min_replicas: Option<Count>,
    max_replicas: Count,
    metrics: Vec<MetricJson>,
    behavior: Option<Behavior>,
    #[serde(default, rename = "coldStartP90Seconds", with = "optional_seconds")]
    cold_start_p90: Option<Duration>,
    #[serde(default)]
    history: HistoryJson,
    #[serde(default)]
    floors: Vec<Count>,
    #[serde(default)]
    ceilings: Vec<Count>,
    provable_ceiling: Option<Count>,
    #[serde(rename = "override")]
    by_hand: Option<OverrideJson>,
    #[serde(default)]
    zero_set_by: ZeroSetBy,
    scale_to_zero: Option<ScaleToZeroJson>,
    fallback: Option<Fallback>,
    #[serde(default, rename = "blindForSeconds", with = "optional_seconds")]
    blind_for: Option<Duration>,
    #[serde(default)]
    mode: Actuation,
}

impl TurnJson {
    fn policy(&self) -> Result<Policy, CaseError> {
        let metric = |metric: &MetricJson| Ok(MetricPolicy::new(metric.signal(), metric.target()?));
        Ok(Policy {
            min_replicas: self.min_replicas.unwrap_or(Replicas::ONE),
            max_replicas: self.max_replicas,
            metrics: self.metrics.iter().map(metric).collect::<Result<_, CaseError>>()?,
            behavior: self.behavior.clone(),
            warm_pool: self.warm_pool_replicas,
            fallback: self.fallback,
            idle_for: self.scale_to_zero.as_ref().map(|zero| zero.idle_for),
            actuation: self.mode,
            // The ages of the case have the time until the next turn in them.
            interval: Duration::ZERO,
        })
    }

    /// Each replica is in the phase in which a metric sees it starting or stuck, else Ready.
    fn replicas(&self) -> Vec<Replica> {
        let count = self.metrics.iter().map(|metric| metric.replicas.len()).max().unwrap_or(0);
        let phase_of = |index: usize| {
            let seen = self.metrics.iter().filter_map(|metric| metric.replicas.get(index)).map(|replica| replica.phase);
            let off = |phase: &Phase| *phase != Phase::Ready;
            seen.clone().find(off).unwrap_or(Phase::Ready)
        };
        (0..count)
            .map(|index| Replica { name: Arc::from(format!("replica-{index}")), phase: phase_of(index) })
            .collect()
    }

    fn observation(&self) -> Result<Observation, CaseError> {
        let bounds = |name: &str, counts: &[Replicas]| {
            counts.iter().map(|replicas| Bound { name: Arc::from(name), replicas: *replicas }).collect()
        };
        let by_hand = self.by_hand.as_ref();
        Ok(Observation {
            current: self.current,
            replicas: self.replicas(),
            metrics: self.metrics.iter().map(MetricJson::observation).collect::<Result<_, _>>()?,
            cold_start_p90: self.cold_start_p90,
            floors: bounds("schedule", &self.floors),
            ceilings: bounds("schedule", &self.ceilings),
            provable_ceiling: self.provable_ceiling.map(|replicas| Bound { name: Arc::from("proven"), replicas }),
            paused: by_hand.is_some_and(|by_hand| by_hand.paused),
            hold: by_hand.and_then(|by_hand| by_hand.hold_replicas).map(|replicas| Hold {
                replicas,
                until: None,
                reason: None,
            }),
        })
    }
}

pub(super) fn turn(input: &Value) -> Result<Value, CaseError> {
    let input: TurnJson = read(input, "input")?;
    let (policy, seen) = (input.policy()?, input.observation()?);
    let behavior = policy.effective_behavior(seen.cold_start_p90);
    let now = Timestamp::from_millis(1_000_000_000_000);
    let past = &input.history;
    let history = History::of_ages(
        &past.recommendations,
        &past.scale_up_events,
        &past.scale_down_events,
        (now, input.zero_set_by == ZeroSetBy::Us),
        &behavior,
    );
    let proposals = propose(&policy, &seen, &behavior);
    let idle = input.scale_to_zero.as_ref().map_or(Duration::ZERO, |zero| zero.known_idle);
    let elapsed = Elapsed { blind: input.blind_for.unwrap_or_default(), idle };
    let turn = Turn { policy: &policy, seen: &seen, history: &history, behavior, elapsed, now };
    let (decision, _) = turn.run(proposals);
    let (reason, message) = decision.summary();
    Ok(json!({
        "desiredReplicas": decision.desired,
        "published": match &decision.published {
            Published::Replicas(replicas) => json!(replicas),
            Published::Error(_) => json!("error"),
        },
        "bindingStage": decision.binding.map_or("none", crate::decision::Stage::name),
        "reason": reason,
        "message": message,
        "stages": decision.stages,
    }))
}
