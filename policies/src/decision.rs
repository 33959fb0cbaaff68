//! A decision: every stage with what it changed and why, and a record from which it can be made again.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::behavior::EffectiveBehavior;
use crate::decide::decide;
use crate::history::History;
use crate::observation::Observation;
use crate::policy::Policy;
use crate::proposal::Proposal;
use crate::reason::Reason;
use crate::units::{Replicas, Timestamp};

/// A stage of a decision, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// What the metrics ask for, their maximum, and vetoes.
    Proposals,
    /// The warm pool's replicas on top.
    WarmPool,
    /// Stabilization windows.
    Stabilization,
    /// Rate policies.
    RatePolicies,
    /// Minimum and maximum, with schedules, fallback and idleness.
    Bounds,
    /// What provably cannot be had.
    Impossible,
    /// Pause, hold, and a zero that somebody else set.
    Override,
}

impl Stage {
    /// Its name as in the serialized record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proposals => "proposals",
            Self::WarmPool => "warmPool",
            Self::Stabilization => "stabilization",
            Self::RatePolicies => "ratePolicies",
            Self::Bounds => "bounds",
            Self::Impossible => "impossible",
            Self::Override => "override",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one stage did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Which.
    pub stage: Stage,
    /// The count before it.
    pub input: Replicas,
    /// The count after it.
    pub output: Replicas,
    /// One word.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
}

/// What `headroom_desired_replicas` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Published {
    /// This number.
    Replicas(Replicas),
    /// An error with this text, on which an HPA and KEDA hold.
    Error(String),
}

impl Published {
    /// The number, if it is one.
    pub fn replicas(&self) -> Option<Replicas> {
        match self {
            Self::Replicas(replicas) => Some(*replicas),
            Self::Error(_) => None,
        }
    }
}

/// What held the decision from being different in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBy {
    /// The stage.
    pub stage: Stage,
    /// One word.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
}

/// The bounds that apply at the instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveBounds {
    /// At least so many.
    pub min_replicas: Replicas,
    /// At most so many.
    pub max_replicas: Replicas,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When it was made.
    pub at: Timestamp,
    /// `spec.replicas` at that time.
    pub current: Replicas,
    /// The count decided.
    pub desired: Replicas,
    /// What is published.
    pub published: Published,
    /// The last stage that changed the number; `None` = none did.
    pub binding: Option<Stage>,
    /// Every additive and ratio metric is unreadable.
    pub blind: bool,
    /// The bounds that applied.
    pub bounds: EffectiveBounds,
    /// The `behavior` that applied.
    pub behavior: EffectiveBehavior,
    /// What each metric asked for.
    pub proposals: Vec<Proposal>,
    /// What each stage did.
    pub stages: Vec<StageRecord>,
    /// What held it from being higher.
    pub held_from_higher: HeldBy,
    /// What held it from being lower.
    pub held_from_lower: HeldBy,
}

impl Decision {
    /// The stage that bound the number, as recorded.
    pub fn binding_record(&self) -> Option<&StageRecord> {
        self.stages.iter().find(|record| Some(record.stage) == self.binding)
    }

    /// One line for people: the reason word and sentence of what bound the number.
    pub fn summary(&self) -> (Reason, &str) {
        match self.binding_record() {
            Some(record) => (record.reason, &record.message),
            None => (self.held_from_lower.reason, &self.held_from_lower.message),
        }
    }
}

/// A decision with everything it was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The policy.
    pub policy: Policy,
    /// What was seen.
    pub observation: Observation,
    /// What was known of earlier decisions.
    pub history: History,
    /// The answer.
    pub decision: Decision,
}

impl DecisionRecord {
    /// Makes the decision again from the record alone.
    pub fn execute(&self) -> Decision {
        decide(&self.policy, &self.observation, self.history.clone(), self.decision.at).0
    }
}
