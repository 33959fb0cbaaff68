//! Cases of Headroom's own rules: `proposal` for one metric, `turn` for a whole decision.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::CaseError;
use super::observed::SeenMetric;
use super::read::{Count, EventJson, RecommendationJson, plain, read};
use crate::behavior::Behavior;
use crate::decide::{Elapsed, Turn, propose};
use crate::decision::Published;
use crate::history::History;
use crate::hpa::{Recommendation, ScaleEvent};
use crate::observation::{Bound, Hold, MetricObservation, Observation, Phase, Replica};
use crate::policy::{Actuation, Fallback, MetricPolicy, Policy};
use crate::proposal::{Proposal, demand, propose_demand, propose_latency};
use crate::units::{Replicas, Timestamp, Tolerances, optional_seconds, seconds};

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
    let SeenMetric { signal, target, observation, .. } = read(input, "input")?;
    let input: ProposalJson = read(input, "input")?;
    let current = input.current.0.minus(input.warm_pool_replicas.0).max(Replicas::ZERO);
    let answer: Proposal = match observation {
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
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct HistoryJson {
    recommendations: Vec<RecommendationJson>,
    scale_up_events: Vec<EventJson>,
    scale_down_events: Vec<EventJson>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct OverrideJson {
    paused: bool,
    hold_replicas: Option<Count>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
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
    metrics: Vec<SeenMetric>,
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
    /// Refuses what the validation of a policy refuses and its arithmetic does not expect.
    fn check(&self) -> Result<(), CaseError> {
        if self.metrics.iter().all(|metric| matches!(metric.observation, MetricObservation::Latency(_))) {
            let problem = "at least one metric must be additive or a ratio".into();
            return Err(CaseError::Field { field: "input.metrics".into(), problem });
        }
        Ok(())
    }

    fn policy(&self) -> Policy {
        let metric = |metric: &SeenMetric| MetricPolicy::new(metric.signal, metric.target);
        Policy {
            min_replicas: self.min_replicas.map_or(Replicas::ONE, |minimum| minimum.0),
            max_replicas: self.max_replicas.0,
            metrics: self.metrics.iter().map(metric).collect(),
            behavior: self.behavior.clone(),
            warm_pool: self.warm_pool_replicas.0,
            fallback: self.fallback,
            idle_for: self.scale_to_zero.as_ref().map(|zero| zero.idle_for),
            actuation: self.mode,
            // The ages of the case have the time until the next turn in them.
            interval: Duration::ZERO,
        }
    }

    /// Each replica is in the phase in which a metric sees it starting or stuck, else Ready.
    fn replicas(&self) -> Vec<Replica> {
        let count = self.metrics.iter().map(|metric| metric.phases.len()).max().unwrap_or(0);
        let phase_of = |index: usize| {
            let mut seen = self.metrics.iter().filter_map(|metric| metric.phases.get(index));
            seen.find(|phase| **phase != Phase::Ready).copied().unwrap_or(Phase::Ready)
        };
        (0..count)
            .map(|index| Replica { name: Arc::from(format!("replica-{index}")), phase: phase_of(index) })
            .collect()
    }

    fn observation(&self) -> Observation {
        let bounds = |name: &str, counts: &[Count]| {
            counts.iter().map(|count| Bound { name: Arc::from(name), replicas: count.0 }).collect()
        };
        let by_hand = self.by_hand.as_ref();
        Observation {
            current: self.current.0,
            replicas: self.replicas(),
            metrics: self.metrics.iter().map(|metric| metric.observation.clone()).collect(),
            cold_start_p90: self.cold_start_p90,
            floors: bounds("schedule", &self.floors),
            ceilings: bounds("schedule", &self.ceilings),
            provable_ceiling: self.provable_ceiling.map(|count| Bound { name: Arc::from("proven"), replicas: count.0 }),
            paused: by_hand.is_some_and(|by_hand| by_hand.paused),
            hold: by_hand.and_then(|by_hand| by_hand.hold_replicas).map(|count| Hold {
                replicas: count.0,
                until: None,
                reason: None,
            }),
        }
    }
}

pub(super) fn turn(input: &Value) -> Result<Value, CaseError> {
    let input: TurnJson = read(input, "input")?;
    input.check()?;
    let (policy, seen) = (input.policy(), input.observation());
    let behavior = policy.effective_behavior(seen.cold_start_p90);
    let now = Timestamp::from_millis(1_000_000_000_000);
    let past = input.history;
    let history = History::of_ages(
        &plain::<_, Recommendation>(past.recommendations),
        &plain::<_, ScaleEvent>(past.scale_up_events),
        &plain::<_, ScaleEvent>(past.scale_down_events),
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
