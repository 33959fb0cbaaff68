//! How well a fleet served, and what it cost.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::cold_start::StageMedians;
use crate::engine::{EngineSettings, Event, Outcome, Peaks, Request};
use crate::fleet::{Fleet, FleetSettings, Routing};
use crate::profile::Profile;

/// A minute counts against the fleet only with so many requests: of fewer, one slow request is most of it.
const FEWEST_OF_A_MINUTE: u32 = 10;
/// The smallest step of time.
const TICK: Duration = Duration::from_nanos(1);

/// Two quantiles of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quantiles {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// How well a fleet served, and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Requests that arrived.
    pub requests: u64,
    /// Those that met both limits of the profile.
    pub met: u64,
    /// From arrival to the first token, of the requests that got one.
    pub time_to_first_token: Quantiles,
    /// Mean time between tokens, of the finished requests with two tokens or more.
    pub time_per_output_token: Quantiles,
    /// Minutes of arrival, of at least 10 requests, in which fewer than the target met the limits.
    pub violation_minutes: u32,
    /// Accelerator time billed.
    pub gpu_time: Duration,
    /// Preemptions.
    pub preemptions: u64,
    /// The highest that one replica has seen.
    pub peaks: Peaks,
    /// The most requests that waited because no replica was ready.
    pub longest_pending: usize,
}

impl Score {
    /// The share of requests that met both limits: 0 to 1, and 1 where none arrived.
    pub fn attainment(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.met as f64 / self.requests as f64 }
    }

    /// Accelerator hours billed.
    pub fn gpu_hours(&self) -> f64 {
        self.gpu_time.as_secs_f64() / 3600.0
    }
}

/// The requests that arrived in one minute.
#[derive(Debug, Clone, Copy, Default)]
struct Minute {
    requests: u32,
    met: u32,
}

/// A time in microseconds, a quarter of a [`Duration`] for the millions of a week. What takes longer than 71 minutes is
/// taken as that.
type Micros = u32;

fn micros(span: Duration) -> Micros {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

/// Gathers outcomes into a score.
///
/// A request meets its objective when both its time to the first token and its mean time between tokens are within the
/// limits (as in the evaluation of `DistServe`, OSDI 2024). One that never finishes is a miss.
#[derive(Debug, Clone)]
pub struct Scorer {
    profile: Profile,
    target: f64,
    requests: u64,
    met: u64,
    first_token: Vec<Micros>,
    per_token: Vec<Micros>,
    minutes: Vec<Minute>,
}

impl Scorer {
    /// A scorer by the limits of a profile. `target` is the share of a minute's requests that are to meet them, 0 to 1.
    pub fn new(profile: Profile, target: f64) -> Self {
        Self {
            profile,
            target,
            requests: 0,
            met: 0,
            first_token: Vec::new(),
            per_token: Vec::new(),
            minutes: Vec::new(),
        }
    }

    /// Whether a request met its objective.
    pub fn is_met(&self, outcome: &Outcome) -> bool {
        let first_limit = self.profile.first_token_limit(outcome.request.prompt_tokens);
        outcome.time_to_first_token().is_some_and(|time| time <= first_limit)
            && outcome.time_per_output_token().is_some_and(|time| time <= self.profile.slo.time_per_output_token)
    }

    /// Takes in what became of a request: finished, refused, aborted or still there at the end.
    pub fn record(&mut self, outcome: &Outcome) {
        let met = self.is_met(outcome);
        self.requests += 1;
        self.met += u64::from(met);
        self.first_token.extend(outcome.time_to_first_token().map(micros));
        if outcome.tokens > 1 {
            self.per_token.extend(outcome.time_per_output_token().map(micros));
        }
        let minute = (outcome.request.arrival.as_seconds() / 60.0) as usize;
        if self.minutes.len() <= minute {
            self.minutes.resize(minute + 1, Minute::default());
        }
        self.minutes[minute].requests += 1;
        self.minutes[minute].met += u32::from(met);
    }

    /// Takes in the requests that finished in a fleet since its events were last taken.
    pub fn record_finished(&mut self, fleet: &mut Fleet) {
        for happened in fleet.take_events() {
            if let Event::Finished { outcome, .. } = happened.event {
                self.record(&outcome);
            }
        }
    }

    /// The score, with what the fleet cost so far.
    pub fn score(mut self, fleet: &Fleet) -> Score {
        let target = self.target;
        let is_violated = |minute: &&Minute| {
            minute.requests >= FEWEST_OF_A_MINUTE && f64::from(minute.met) < target * f64::from(minute.requests)
        };
        Score {
            requests: self.requests,
            met: self.met,
            time_to_first_token: quantiles(&mut self.first_token),
            time_per_output_token: quantiles(&mut self.per_token),
            violation_minutes: self.minutes.iter().filter(is_violated).count() as u32,
            gpu_time: fleet.gpu_time(),
            preemptions: fleet.preemptions(),
            peaks: fleet.peaks(),
            longest_pending: fleet.longest_pending(),
        }
    }
}

/// Quantiles by nearest rank; zero where there is nothing.
fn quantiles(times: &mut [Micros]) -> Quantiles {
    times.sort_unstable();
    let at = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(rank).map_or(Duration::ZERO, |micros| Duration::from_micros(u64::from(*micros)))
    };
    Quantiles { p50: at(50), p99: at(99) }
}

/// Runs requests, in the order of arrival, through `replicas` that are ready all the time, until the last has ended,
/// and scores them. `target` as in [`Scorer::new`].
///
/// Requests are dealt in turn and steps take exactly the profile's time. A request that the engine refuses is a miss.
pub fn static_fleet(
    profile: &Profile,
    replicas: NonZeroU32,
    target: f64,
    requests: impl IntoIterator<Item = Request>,
) -> Score {
    let settings = FleetSettings {
        engine: EngineSettings::of(profile),
        gpus: profile.gpus,
        start: StageMedians::NONE,
        routing: Routing::RoundRobin,
        seed: 0,
    };
    let mut fleet = Fleet::new(settings, replicas.get());
    let mut scorer = Scorer::new(*profile, target);
    for request in requests {
        fleet.advance(request.arrival);
        if fleet.arrive(request).is_err() {
            scorer.record(&Outcome::unserved(request));
        }
        scorer.record_finished(&mut fleet);
    }
    // Event by event, so that the fleet's time ends with the last request.
    while fleet.in_flight() > 0 {
        let Some(next) = fleet.next_event_at() else { break };
        fleet.advance(next.max(fleet.now().plus(TICK)));
    }
    scorer.record_finished(&mut fleet);
    scorer.score(&fleet)
}

#[cfg(test)]
mod tests {
    use super::{Scorer, static_fleet};
    use crate::engine::{EngineSettings, Outcome, Request};
    use crate::fleet::{Fleet, FleetSettings, Routing};
    use crate::profile::Profile;
    use crate::time::ModelTime;
    use std::num::NonZeroU32;
    use std::time::Duration;

    fn request(arrival: f64, prompt_tokens: u32) -> Request {
        let arrival = ModelTime::from_seconds(arrival);
        Request { arrival, prompt_tokens, output_tokens: 11, streamed: false }
    }

    /// Eleven tokens, the first so many milliseconds after arrival and each of the others so many after the one before.
    fn outcome(request: Request, first: u64, each: u64) -> Outcome {
        let first_token_at = request.arrival.plus(Duration::from_millis(first));
        let finished_at = first_token_at.plus(Duration::from_millis(10 * each));
        Outcome {
            tokens: 11,
            first_token_at: Some(first_token_at),
            finished_at: Some(finished_at),
            ..Outcome::unserved(request)
        }
    }

    fn no_fleet() -> Fleet {
        let profile = Profile::P2A;
        let settings = FleetSettings {
            engine: EngineSettings::of(&profile),
            gpus: 1,
            start: crate::cold_start::StageMedians::NONE,
            routing: Routing::RoundRobin,
            seed: 0,
        };
        Fleet::new(settings, 0)
    }

    #[test]
    fn both_limits_count_and_what_never_finishes_is_a_miss() {
        let scorer = Scorer::new(Profile::P2A, 0.99);
        let short = request(0.0, 100);
        assert!(scorer.is_met(&outcome(short, 1000, 40)));
        assert!(!scorer.is_met(&outcome(short, 1001, 40)));
        assert!(!scorer.is_met(&outcome(short, 1000, 41)));
        assert!(!scorer.is_met(&Outcome::unserved(short)));
        assert!(!scorer.is_met(&Outcome { finished_at: None, ..outcome(short, 1000, 40) }));
        // 12,288 tokens beyond 4,096 are given twice their prefill time of 1,053.3 ms more.
        assert!(scorer.is_met(&outcome(request(0.0, 16_384), 3106, 40)));
        assert!(!scorer.is_met(&outcome(request(0.0, 16_384), 3107, 40)));
    }

    #[test]
    fn a_minute_is_violated_by_its_own_requests() {
        let mut scorer = Scorer::new(Profile::P2A, 0.9);
        // Of 10 requests one may miss in the first minute, two miss in the third; the second has 9, all missed.
        for (minute, requests, missed) in [(0, 10, 1), (1, 9, 9), (2, 10, 2)] {
            for number in 0..requests {
                let first = if number < missed { 5000 } else { 100 };
                scorer.record(&outcome(request(f64::from(minute) * 60.0 + 59.0, 10), first, 20));
            }
        }
        let score = scorer.score(&no_fleet());
        assert_eq!((score.requests, score.met, score.violation_minutes), (29, 17, 1));
        assert!((score.attainment() - 17.0 / 29.0).abs() < 1e-12);
        assert_eq!(score.time_to_first_token.p50, Duration::from_millis(100));
        assert_eq!(score.time_to_first_token.p99, Duration::from_secs(5));
    }

    #[test]
    fn nothing_asked_is_nothing_missed() {
        let score = Scorer::new(Profile::P2A, 0.9).score(&no_fleet());
        assert!((score.attainment() - 1.0).abs() < f64::EPSILON);
        assert_eq!(score.time_per_output_token.p99, Duration::ZERO);
    }

    #[test]
    fn a_static_fleet_is_billed_until_the_last_request_ended() {
        let requests = [request(0.0, 100), request(100.0, 100), request(100.0, 1_000_000)];
        let two = NonZeroU32::new(2).unwrap();
        let score = static_fleet(&Profile::P3, two, 0.99, requests);
        assert_eq!((score.requests, score.met, score.preemptions), (3, 2, 0));
        // Two replicas of four accelerators over 100 s and the 0.18 s of the last request.
        let billed = score.gpu_time.as_secs_f64() / 8.0;
        assert!((100.15..100.25).contains(&billed), "{billed}");
        assert!((score.gpu_hours() - score.gpu_time.as_secs_f64() / 3600.0).abs() < 1e-12);
    }
}
