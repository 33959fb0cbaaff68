//! What the demonstration ends with.

use std::num::NonZeroU32;
use std::time::Duration;

use headroom_lab::engine::Request;
use headroom_lab::fleet::Fleet;
use headroom_lab::profile::Profile;
use headroom_lab::score::{Score, Scorer, static_fleet};
use headroom_lab::time::ModelTime;
use serde::Serialize;

use super::TARGET_ATTAINMENT;

/// After the last arrival the fleet has so long to finish.
const DRAIN: Duration = Duration::from_secs(3600);
const DRAIN_STEP: Duration = Duration::from_secs(10);

/// How a fleet did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Result {
    /// The share of requests that met both limits.
    pub attainment: f64,
    /// Accelerator hours billed.
    pub gpu_hours: f64,
    /// Median seconds to the first token.
    pub time_to_first_token_p50: f64,
    /// The 99th percentile.
    pub time_to_first_token_p99: f64,
    /// Median milliseconds between tokens.
    pub time_per_output_token_p50_millis: f64,
    /// The 99th percentile.
    pub time_per_output_token_p99_millis: f64,
    /// Preemptions.
    pub preemptions: u64,
}

impl Result {
    fn of(score: &Score) -> Self {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        Self {
            attainment: score.attainment(),
            gpu_hours: score.gpu_hours(),
            time_to_first_token_p50: score.time_to_first_token.p50.as_secs_f64(),
            time_to_first_token_p99: score.time_to_first_token.p99.as_secs_f64(),
            time_per_output_token_p50_millis: millis(score.time_per_output_token.p50),
            time_per_output_token_p99_millis: millis(score.time_per_output_token.p99),
            preemptions: score.preemptions,
        }
    }
}

/// The scaled fleet beside a fixed one of the same mean size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Requests that arrived.
    pub requests: u64,
    /// Minutes of the model's time.
    pub minutes: f64,
    /// Replicas, on the mean over time.
    pub mean_replicas: f64,
    /// How often the size was changed.
    pub times_scaled: u64,
    /// The scaled fleet.
    pub scaled: Result,
    /// Replicas of the fixed fleet: the mean of the scaled one, rounded.
    pub fixed_replicas: u32,
    /// The fixed fleet under the same requests.
    pub fixed: Result,
}

impl Summary {
    /// Lets the fleet finish what it has, and compares.
    pub fn of(
        profile: &Profile,
        fleet: &mut Fleet,
        mut scorer: Scorer,
        requests: &[Request],
        times_scaled: u64,
    ) -> Self {
        let ended = fleet.now();
        let gpus = f64::from(profile.gpus.max(1));
        let mean_replicas = fleet.gpu_time().as_secs_f64() / gpus / ended.since(ModelTime::ZERO).as_secs_f64().max(1.0);
        let until = ended.plus(DRAIN);
        while (fleet.in_flight() > 0 || fleet.pending() > 0) && fleet.now() < until {
            fleet.advance(fleet.now().plus(DRAIN_STEP));
            scorer.record_finished(fleet);
        }
        let fixed_replicas = NonZeroU32::new(mean_replicas.round() as u32).unwrap_or(NonZeroU32::MIN);
        let fixed = static_fleet(profile, fixed_replicas, TARGET_ATTAINMENT, requests.iter().copied());
        let score = scorer.score(fleet);
        Self {
            requests: score.requests,
            minutes: ended.as_seconds() / 60.0,
            mean_replicas,
            times_scaled,
            scaled: Result::of(&score),
            fixed_replicas: fixed_replicas.get(),
            fixed: Result::of(&fixed),
        }
    }
}
