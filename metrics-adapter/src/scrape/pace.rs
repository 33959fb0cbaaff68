//! When a target is scraped next: spread over the interval, less often while it is slow or fails.

use std::time::Duration;

use super::target::{ScrapeSettings, TargetId};

/// A scrape that takes longer than this is slow.
pub(crate) const SLOW: Duration = Duration::from_millis(200);
/// A slow or failing target is read at least this often, unless its interval is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How one target is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pace {
    /// Scrapes in a row that gave no page.
    failures: u32,
    /// Slow scrapes in a row.
    slow: u32,
}

impl Pace {
    /// A page was read within this time.
    pub(crate) fn read(&mut self, took: Duration) {
        self.failures = 0;
        self.slow = if took > SLOW { self.slow.saturating_add(1) } else { 0 };
    }

    /// No page was read.
    pub(crate) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// The target answers slowly and is read less often.
    pub(crate) fn is_slow(self) -> bool {
        self.slow > 0
    }

    /// The time from one scrape to the next.
    ///
    /// The first failure is tried again at the usual time; then the pause doubles. A slow target's samples stay
    /// fresh: it is read again before the last one is too old.
    pub(crate) fn pause(self, settings: &ScrapeSettings) -> Duration {
        let interval = settings.interval;
        let doublings = self.failures.saturating_sub(1).max(self.slow).min(8);
        let wanted = interval.saturating_mul(1 << doublings);
        let fresh = settings.max_age.saturating_sub(settings.timeout);
        let longest = if self.failures > 0 { LONGEST_PAUSE } else { LONGEST_PAUSE.min(fresh) };
        wanted.min(longest.max(interval))
    }
}

/// Where in the interval a target is scraped: the same place always, and spread evenly over many targets.
pub(crate) fn phase(id: &TargetId, interval: Duration) -> Duration {
    // FNV-1a: stable between processes, so that replicas of ours scrape at the same places.
    let hash = id
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    interval.mul_f64(mixed as f64 / (1_u64 << 53) as f64)
}

/// The first time after `after` (both since a common origin) that is at a target's place in the interval.
pub(crate) fn next_at_phase(after: Duration, phase: Duration, interval: Duration) -> Duration {
    let (after_nanos, phase_nanos, interval_nanos) = (after.as_nanos(), phase.as_nanos(), interval.as_nanos().max(1));
    let rounds = after_nanos.saturating_sub(phase_nanos) / interval_nanos + u128::from(after_nanos >= phase_nanos);
    Duration::from_nanos(u64::try_from(phase_nanos + rounds * interval_nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_failing_target_is_tried_less_often() {
        let (settings, mut pace) = (ScrapeSettings::default(), Pace::default());
        let mut pauses = Vec::new();
        for _ in 0..5 {
            pace.failed();
            pauses.push(pace.pause(&settings).as_secs());
        }
        assert_eq!(pauses, [5, 10, 15, 15, 15]);
        pace.read(Duration::from_millis(3));
        assert_eq!(pace.pause(&settings), seconds(5));
    }

    #[test]
    fn a_slow_target_stays_fresh() {
        let (settings, mut pace) = (ScrapeSettings::default(), Pace::default());
        for expected in [10, 14, 14] {
            pace.read(Duration::from_millis(201));
            assert!(pace.is_slow());
            assert_eq!(pace.pause(&settings), seconds(expected));
        }
        pace.read(Duration::from_millis(200));
        assert!(!pace.is_slow());
        let long = ScrapeSettings { interval: seconds(60), max_age: seconds(120), ..settings };
        pace.failed();
        pace.failed();
        assert_eq!(pace.pause(&long), seconds(60));
    }

    #[test]
    fn targets_are_spread_and_keep_their_place() {
        let interval = seconds(5);
        let mut places: Vec<u128> =
            (0..1000).map(|n| phase(&TargetId::new(format!("pod-{n}/8000")), interval).as_millis()).collect();
        places.sort_unstable();
        assert!(*places.last().unwrap() < 5000);
        // No twentieth of the interval has more than three times its share.
        for start in (0..5000).step_by(250) {
            let within = places.iter().filter(|place| (start..start + 250).contains(*place)).count();
            assert!((15..150).contains(&within), "{within} of 1000 within 250 ms");
        }
        let place = Duration::from_millis(1300);
        for (after, next) in [(0, 1300), (1299, 1300), (1300, 6300), (6299, 6300), (20_000, 21_300)] {
            let next_at = next_at_phase(Duration::from_millis(after), place, interval);
            assert_eq!(next_at, Duration::from_millis(next), "after {after} ms");
        }
    }
}
