//! What cases of Headroom's own rules say was seen of a metric.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::read::{MilliNumber, Target};
use crate::observation::{
    ExternalSample, InFlight, LatencyObservation, LatencySample, MetricObservation, Phase, Sample, UnknownReason,
};
use crate::quantity::Milli;
use crate::signal::{Signal, SignalClass};
use crate::units::Replicas;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Value,
    Last,
    Unknown,
    Zero,
    NoTraffic,
}

impl State {
    fn sample(self, value: Option<MilliNumber>) -> Result<Sample, String> {
        let number = || value.map(|value| value.0).ok_or_else(|| format!("a sample {self:?} needs `valueMilli`"));
        let (age, reason) = (Duration::ZERO, UnknownReason::Unspecified);
        Ok(match self {
            Self::Value => Sample::Value { value: number()?, age },
            Self::Last => Sample::Last { value: number()?, age, reason },
            Self::Unknown => Sample::Unknown { reason },
            Self::Zero => Sample::Zero,
            Self::NoTraffic => Sample::NoTraffic,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct ReplicaJson {
    phase: Phase,
    sample: Option<State>,
    value_milli: Option<MilliNumber>,
}

impl ReplicaJson {
    fn sample(&self) -> Result<Sample, String> {
        match self.phase {
            Phase::Starting => Ok(Sample::Starting),
            Phase::Stuck => Ok(Sample::Stuck),
            Phase::Ready => self.sample.ok_or("a Ready replica needs a `sample`")?.sample(self.value_milli),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct SampleJson {
    sample: State,
    value_milli: Option<MilliNumber>,
}

/// A signal from outside the replicas.
#[derive(Deserialize)]
#[serde(try_from = "SampleJson")]
struct External(Sample);

impl TryFrom<SampleJson> for External {
    type Error = String;

    fn try_from(json: SampleJson) -> Result<Self, String> {
        json.sample.sample(json.value_milli).map(Self)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct LatencyJson {
    sample: State,
    value_milli: Option<MilliNumber>,
    waiting_milli: Option<MilliNumber>,
    in_flight_milli: Option<MilliNumber>,
    in_flight_target_milli: Option<MilliNumber>,
}

impl LatencyJson {
    fn sample(&self) -> Result<LatencySample, String> {
        match (self.sample, self.value_milli) {
            (State::Value, Some(value)) => Ok(LatencySample::Value { value: value.0, at_least: false }),
            (State::Value, None) => Err("the latency's sample Value needs `valueMilli`".into()),
            (State::NoTraffic, _) => Ok(LatencySample::NoTraffic),
            (State::Unknown, _) => Ok(LatencySample::Unknown { reason: UnknownReason::Unspecified }),
            (other, _) => Err(format!("the latency's `sample` cannot be {other:?}")),
        }
    }

    /// Of the replicas only their phases matter.
    fn observation(&self, replicas: &[ReplicaJson]) -> Result<LatencyObservation, String> {
        let in_phase =
            |phase| Replicas::count_of(replicas.iter().filter(|replica: &&ReplicaJson| replica.phase == phase).count());
        let in_flight = self.in_flight_milli.zip(self.in_flight_target_milli);
        Ok(LatencyObservation {
            sample: self.sample()?,
            ready: in_phase(Phase::Ready),
            stuck: in_phase(Phase::Stuck),
            waiting: self.waiting_milli.map(|waiting| waiting.0),
            in_flight: in_flight.map(|(total, target)| InFlight { total: total.0, target: target.0 }),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct MetricJson {
    signal_class: SignalClass,
    target_milli: Target,
    replicas: Vec<ReplicaJson>,
    external_milli: Option<Vec<External>>,
    latency: Option<LatencyJson>,
}

/// A metric of a case.
#[derive(Deserialize)]
#[serde(try_from = "MetricJson")]
pub(super) struct SeenMetric {
    /// A signal of the metric's class: the arithmetic knows no more of it.
    pub(super) signal: Signal,
    pub(super) target: Milli,
    /// One entry a replica.
    pub(super) phases: Vec<Phase>,
    pub(super) observation: MetricObservation,
}

impl TryFrom<MetricJson> for SeenMetric {
    type Error = String;

    fn try_from(json: MetricJson) -> Result<Self, String> {
        let observation = match json.signal_class {
            SignalClass::Latency => {
                let latency = json.latency.ok_or("a latency needs the field `latency`")?;
                MetricObservation::Latency(latency.observation(&json.replicas)?)
            }
            SignalClass::Additive | SignalClass::Ratio => {
                let sample = |(index, replica): (usize, &ReplicaJson)| {
                    replica.sample().map_err(|problem| format!("replicas[{index}]: {problem}"))
                };
                let named = |External(sample)| ExternalSample { name: Arc::from("external"), sample };
                MetricObservation::Demand {
                    samples: json.replicas.iter().enumerate().map(sample).collect::<Result<_, _>>()?,
                    external: json.external_milli.into_iter().flatten().map(named).collect(),
                }
            }
        };
        Ok(Self {
            signal: match json.signal_class {
                SignalClass::Additive => Signal::WaitingRequests,
                SignalClass::Ratio => Signal::KVCacheUtilization,
                SignalClass::Latency => Signal::TimeToFirstToken,
            },
            target: json.target_milli.0,
            phases: json.replicas.iter().map(|replica| replica.phase).collect(),
            observation,
        })
    }
}
