//! What is shown of each target.

use std::time::Duration;

use headroom_policies::observation::Sample;
use headroom_policies::units::seconds;
use headroom_policies::{Signal, Timestamp};
use serde::Serialize;

use super::Fleet;
use crate::engines::Engine;
use crate::scrape::{TargetId, TargetState};

/// What was read of a page, in lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineReport {
    /// All lines.
    pub read: u64,
    /// Lines that are no sample although they should be.
    pub skipped: u64,
    /// The numbers of the first few of those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_numbers: Vec<u64>,
    /// Second samples of a series.
    pub duplicates: u64,
    /// Something may be missing at the end.
    pub partial: bool,
}

/// A signal of a target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SignalReport {
    /// The signal.
    pub signal: Signal,
    /// What is known of it.
    #[serde(flatten)]
    pub sample: Sample,
}

/// A target as it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetReport {
    /// The replica it belongs to.
    pub replica: String,
    /// Where it is scraped.
    pub url: String,
    /// The engine, once recognised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Its state.
    pub state: TargetState,
    /// What is wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scraped_at: Option<Timestamp>,
    /// When a page was last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_scrape_at: Option<Timestamp>,
    /// How long the last try took.
    #[serde(rename = "tookSeconds", with = "seconds")]
    pub took: Duration,
    /// Tries in a row without a page.
    pub failures: u32,
    /// The last page in lines.
    pub lines: LineReport,
    /// The signals of the policy, and the additive ones.
    pub signals: Vec<SignalReport>,
}

impl Fleet {
    /// Every target as it stands, in the replicas' order.
    pub fn targets(&self, now: Timestamp) -> Vec<TargetReport> {
        let mut reports = Vec::new();
        for replica in &self.replicas {
            for engine in &replica.engines {
                let signals = engine.signals.iter().zip(&*self.tracked).map(|(state, metric)| SignalReport {
                    signal: metric.signal,
                    sample: state.sample(now, replica.since, !replica.ready_from_the_start, self.settings.max_age),
                });
                reports.push(TargetReport {
                    replica: replica.name.to_string(),
                    url: engine.target.url.to_string(),
                    engine: engine.engine,
                    state: engine.state,
                    message: engine.message.as_deref().map(str::to_owned),
                    scraped_at: engine.scraped_at,
                    read_at: engine.read_at,
                    next_scrape_at: engine.next,
                    took: Duration::from_millis(u64::try_from(engine.took.as_millis()).unwrap_or(u64::MAX)),
                    failures: engine.failures,
                    lines: LineReport {
                        read: engine.lines.read,
                        skipped: engine.lines.skipped,
                        skipped_numbers: engine.lines.skipped_numbers.clone(),
                        duplicates: engine.lines.duplicates,
                        partial: engine.lines.partial,
                    },
                    signals: signals.collect(),
                });
            }
        }
        reports
    }

    /// The state of a target of the fleet.
    pub fn state_of(&self, target: &TargetId) -> Option<TargetState> {
        let (replica, index) = *self.places.get(target)?;
        Some(self.replicas.get(replica)?.engines.get(index)?.state)
    }

    /// How many targets are in each state, in the order of [`TargetState::ALL`].
    pub fn target_states(&self) -> [u32; TargetState::ALL.len()] {
        let mut counts = [0; TargetState::ALL.len()];
        for engine in self.replicas.iter().flat_map(|replica| &replica.engines) {
            if let Some(place) = TargetState::ALL.iter().position(|state| *state == engine.state) {
                counts[place] += 1;
            }
        }
        counts
    }
}
