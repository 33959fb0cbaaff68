//! What one decision must know of those before it: a value passed in and returned, bounded, serializable.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::behavior::EffectiveBehavior;
use crate::hpa;
use crate::policy::Actuation;
use crate::units::{Replicas, Timestamp, seconds};

/// Most scale events kept of one direction; older ones are merged into the oldest kept.
const MOST_EVENTS: usize = 256;
/// A window's recommendations are kept in so many buckets.
const BUCKETS: u32 = 20;

/// Which recommendation of a window counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Extreme {
    Lowest,
    Highest,
}

/// A recommendation, before stabilization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommended {
    /// When.
    pub at: Timestamp,
    /// How many.
    pub replicas: Replicas,
}

/// The recommendations of one window that can still count: a monotone queue, one entry a bucket of a twentieth
/// of the window. Rounding is to the side of more replicas: the highest is remembered up to a bucket longer, the
/// lowest is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecommendationLog {
    extreme: Extreme,
    entries: VecDeque<Recommended>,
}

impl RecommendationLog {
    fn new(extreme: Extreme) -> Self {
        Self { extreme, entries: VecDeque::new() }
    }

    /// Remembers a recommendation. Recommendations must come in the order of their time.
    pub fn record(&mut self, at: Timestamp, replicas: Replicas, window: Duration) {
        self.entries.retain(|entry| at.since(entry.at) < window);
        if window.is_zero() {
            return;
        }
        let outdone = |old: Replicas| match self.extreme {
            Extreme::Lowest => old >= replicas,
            Extreme::Highest => old <= replicas,
        };
        while self.entries.back().is_some_and(|last| outdone(last.replicas)) {
            self.entries.pop_back();
        }
        let bucket = i64::try_from((window / BUCKETS).as_millis()).unwrap_or(i64::MAX).max(1);
        match self.entries.back_mut() {
            Some(last) if last.at.as_millis().div_euclid(bucket) == at.as_millis().div_euclid(bucket) => {
                if self.extreme == Extreme::Highest {
                    last.at = at;
                }
            }
            _ => self.entries.push_back(Recommended { at, replicas }),
        }
    }

    /// The extreme recommendation strictly younger than the window.
    pub fn extreme(&self, now: Timestamp, window: Duration) -> Option<Recommended> {
        self.entries.iter().find(|entry| now.since(entry.at) < window).copied()
    }

    /// How many recommendations are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A change of the target's size that took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleEvent {
    /// When.
    pub at: Timestamp,
    /// By how many replicas, above 0.
    pub change: i32,
}

/// How long a fleet has been blind: only time in which a replica was Ready or there was none counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlindClock {
    #[serde(rename = "seconds", with = "seconds")]
    counted: Duration,
    seen_at: Timestamp,
}

/// What a process that takes over, or comes back, must know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Persisted {
    /// The last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_desired: Option<Replicas>,
    /// The last published number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_published: Option<Replicas>,
    /// The last size of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_current: Option<Replicas>,
    /// When that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<Timestamp>,
    /// Rises that took effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scale_up_events: Vec<ScaleEvent>,
    /// Falls that took effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scale_down_events: Vec<ScaleEvent>,
    /// The target stands at zero because of us.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub zero_is_ours: bool,
}

/// What one decision must know of those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    lowest: RecommendationLog,
    highest: RecommendationLog,
    persisted: Persisted,
    #[serde(skip_serializing_if = "Option::is_none")]
    blind: Option<BlindClock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_since: Option<Timestamp>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            lowest: RecommendationLog::new(Extreme::Lowest),
            highest: RecommendationLog::new(Extreme::Highest),
            persisted: Persisted::default(),
            blind: None,
            idle_since: None,
        }
    }
}

impl History {
    /// The history of a process that starts, takes over or lost its own: nothing may fall below the larger of the
    /// present size and the last decision for one scale-down window; a rise is free.
    pub fn resume(persisted: Persisted, current: Replicas, now: Timestamp, behavior: &EffectiveBehavior) -> Self {
        let mut history = Self { persisted, ..Self::default() };
        let seed = history.persisted.last_desired.map_or(current, |desired| desired.max(current));
        history.highest.record(now, seed, behavior.scale_down.stabilization_window);
        history
    }

    /// What must survive a restart.
    pub fn persisted(&self) -> &Persisted {
        &self.persisted
    }

    /// Records a write of our own to the scale subresource that succeeded (actuation Direct).
    pub fn record_write(&mut self, from: Replicas, to: Replicas, at: Timestamp) {
        self.push_event(from, to, at);
        self.persisted.last_current = Some(to);
        self.persisted.zero_is_ours = to == Replicas::ZERO;
    }

    /// Takes note of the target's present size: what moved it towards the published number is our follower's
    /// doing and a scale event; what raised it beyond is somebody else's and a recommendation.
    pub(crate) fn observe_current(
        &mut self,
        current: Replicas,
        now: Timestamp,
        actuation: Actuation,
        behavior: &EffectiveBehavior,
    ) {
        let Some(before) = self.persisted.last_current.replace(current) else {
            return;
        };
        if before == current {
            return;
        }
        let since = self.persisted.last_turn.unwrap_or(now);
        // Direct records its own writes; what else moves the target there is somebody else's.
        let followed = match (actuation, self.persisted.last_published) {
            (Actuation::Direct, _) | (_, None) => before,
            (_, Some(published)) if current > before => published.min(current).max(before),
            (_, Some(published)) => published.max(current).min(before),
        };
        self.push_event(before, followed, since);
        if current > before && followed < current {
            self.highest.record(now, current, behavior.scale_down.stabilization_window);
        }
        if current == Replicas::ZERO {
            self.persisted.zero_is_ours = followed == current;
        } else {
            self.persisted.zero_is_ours = false;
        }
    }

    fn push_event(&mut self, from: Replicas, to: Replicas, at: Timestamp) {
        let change = to.minus(from).get();
        let events =
            if change > 0 { &mut self.persisted.scale_up_events } else { &mut self.persisted.scale_down_events };
        if change == 0 {
            return;
        }
        events.push(ScaleEvent { at, change: change.saturating_abs() });
        if events.len() > MOST_EVENTS {
            // Merging into the younger of the two makes the older count for longer, never for less.
            let oldest = events.remove(0);
            events[0].change = events[0].change.saturating_add(oldest.change);
        }
    }

    /// The scale events with the ages that policies compare with their periods: those at `at`.
    pub(crate) fn events(&self, at: Timestamp) -> (Vec<hpa::ScaleEvent>, Vec<hpa::ScaleEvent>) {
        let aged = |events: &[ScaleEvent]| {
            events.iter().map(|event| hpa::ScaleEvent { age: at.since(event.at), change: event.change }).collect()
        };
        (aged(&self.persisted.scale_up_events), aged(&self.persisted.scale_down_events))
    }

    /// The lowest recommendation of the scale-up window.
    pub(crate) fn lowest(&self, now: Timestamp, behavior: &EffectiveBehavior) -> Option<Recommended> {
        self.lowest.extreme(now, behavior.scale_up.stabilization_window)
    }

    /// The highest recommendation of the scale-down window.
    pub(crate) fn highest(&self, now: Timestamp, behavior: &EffectiveBehavior) -> Option<Recommended> {
        self.highest.extreme(now, behavior.scale_down.stabilization_window)
    }

    /// Ends a turn: what was recommended, decided and published enters, what no policy reaches goes.
    pub(crate) fn close_turn(
        &mut self,
        now: Timestamp,
        (recommended, desired, published): (Replicas, Replicas, Option<Replicas>),
        behavior: &EffectiveBehavior,
    ) {
        self.lowest.record(now, recommended, behavior.scale_up.stabilization_window);
        self.highest.record(now, recommended, behavior.scale_down.stabilization_window);
        self.persisted.last_desired = Some(desired);
        // An error leaves the follower where it is: it holds the target, not the number before.
        self.persisted.last_published = published.or(self.persisted.last_current);
        self.persisted.last_turn = Some(now);
        let longest = behavior.longest_period();
        self.persisted.scale_up_events.retain(|event| now.since(event.at) <= longest);
        self.persisted.scale_down_events.retain(|event| now.since(event.at) <= longest);
    }

    /// Advances the clock of blindness and answers how long the fleet has been blind.
    pub(crate) fn track_blind(&mut self, blind: bool, counts: bool, now: Timestamp) -> Duration {
        if !blind {
            self.blind = None;
            return Duration::ZERO;
        }
        let clock = self.blind.get_or_insert(BlindClock { counted: Duration::ZERO, seen_at: now });
        if counts {
            clock.counted = clock.counted.saturating_add(now.since(clock.seen_at));
        }
        clock.seen_at = now;
        clock.counted
    }

    /// Answers how long the fleet has been known to be without any demand.
    pub(crate) fn track_idle(&mut self, idle: bool, now: Timestamp) -> Duration {
        if !idle {
            self.idle_since = None;
            return Duration::ZERO;
        }
        now.since(*self.idle_since.get_or_insert(now))
    }

    /// The target stands at zero because of us or of our declared follower.
    pub(crate) fn zero_is_ours(&self) -> bool {
        self.persisted.zero_is_ours
    }

    /// A history as it stands in a test vector: recommendations and events with their ages.
    pub(crate) fn of_ages(
        recommendations: &[hpa::Recommendation],
        ups: &[hpa::ScaleEvent],
        downs: &[hpa::ScaleEvent],
        (now, zero_is_ours): (Timestamp, bool),
        behavior: &EffectiveBehavior,
    ) -> Self {
        let mut history = Self::default();
        let dated = |past: &hpa::Recommendation| Recommended { at: now.minus(past.age), replicas: past.replicas };
        let mut oldest_first: Vec<Recommended> = recommendations.iter().map(dated).collect();
        oldest_first.sort_by_key(|recommended| recommended.at);
        let windows = (behavior.scale_up.stabilization_window, behavior.scale_down.stabilization_window);
        for Recommended { at, replicas } in oldest_first {
            // One that is too old already must not share a bucket with one that counts.
            if now.since(at) < windows.0 {
                history.lowest.record(at, replicas, windows.0);
            }
            if now.since(at) < windows.1 {
                history.highest.record(at, replicas, windows.1);
            }
        }
        let dated = |events: &[hpa::ScaleEvent]| {
            events.iter().map(|event| ScaleEvent { at: now.minus(event.age), change: event.change }).collect()
        };
        history.persisted.scale_up_events = dated(ups);
        history.persisted.scale_down_events = dated(downs);
        history.persisted.zero_is_ours = zero_is_ours;
        history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn the_highest_of_a_window_counts_until_it_is_too_old() {
        let mut log = RecommendationLog::new(Extreme::Highest);
        log.record(at(0), Replicas::new(9), WINDOW);
        log.record(at(100), Replicas::new(4), WINDOW);
        log.record(at(200), Replicas::new(6), WINDOW);
        assert_eq!(log.extreme(at(299), WINDOW), Some(Recommended { at: at(0), replicas: Replicas::new(9) }));
        assert_eq!(log.extreme(at(300), WINDOW), Some(Recommended { at: at(200), replicas: Replicas::new(6) }));
        assert_eq!(log.extreme(at(500), WINDOW), None);
    }

    proptest::proptest! {
        /// Bounded whatever the interval, never below the true maximum of the window, and never held for more
        /// than a bucket beyond it.
        #[test]
        fn the_log_is_bounded_and_errs_towards_more(
            values in proptest::collection::vec((0_i64..20_000, 0_i32..50), 1..400),
        ) {
            let mut log = RecommendationLog::new(Extreme::Highest);
            let mut lowest = RecommendationLog::new(Extreme::Lowest);
            let mut now = 0;
            let mut all = Vec::new();
            for (step, value) in values {
                now += step;
                let (time, replicas) = (Timestamp::from_millis(now), Replicas::new(value));
                log.record(time, replicas, WINDOW);
                lowest.record(time, replicas, WINDOW);
                all.push((now, value));
                proptest::prop_assert!(log.len() <= 22 && lowest.len() <= 22);
                let within = |reach: i64| all.iter().filter(move |(at, _)| now - at < reach).map(|(_, value)| *value);
                let answer = log.extreme(time, WINDOW).unwrap().replicas.get();
                proptest::prop_assert!(answer >= within(300_000).max().unwrap());
                proptest::prop_assert!(answer <= within(315_000).max().unwrap());
                let answer = lowest.extreme(time, WINDOW).unwrap().replicas.get();
                proptest::prop_assert!(answer >= within(300_000).min().unwrap());
                proptest::prop_assert!(answer <= within(285_000).min().unwrap());
            }
        }
    }
}
