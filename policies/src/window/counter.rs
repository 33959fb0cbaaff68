//! The rate of a counter over a window.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::Timestamp;

/// A window is kept in at most so many slots.
const SLOTS: u32 = 12;

/// The increases of one counter within a window.
#[derive(Debug, Clone, Default)]
pub struct CounterWindow {
    points: VecDeque<Point>,
    total: f64,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    at: Timestamp,
    total: f64,
}

/// How fast a counter rose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// By so much a second, above 0.
    PerSecond(f64),
    /// Not at all.
    Still,
    /// Two samples since the start or the last reset are needed.
    TooFewSamples,
}

impl CounterWindow {
    /// Adds a sample that is `increase` above the one before it; the first sample's increase counts for nothing.
    pub fn record(&mut self, at: Timestamp, increase: f64, window: Duration) {
        if !self.points.is_empty() {
            self.total += increase;
        }
        // One point at or beyond the window's edge stays, so that the whole window is covered.
        while self.points.get(1).is_some_and(|second| at.since(second.at) >= window) {
            self.points.pop_front();
        }
        let width = i64::try_from((window / SLOTS).as_millis()).unwrap_or(i64::MAX).max(1);
        let point = Point { at, total: self.total };
        let same_slot = |last: &Point| last.at.as_millis().div_euclid(width) == at.as_millis().div_euclid(width);
        match self.points.len() {
            0 | 1 => self.points.push_back(point),
            last if same_slot(&self.points[last - 1]) => self.points[last - 1] = point,
            _ => self.points.push_back(point),
        }
    }

    /// The counter started again: what was before says nothing of what comes.
    pub fn reset(&mut self) {
        self.points.clear();
        self.total = 0.0;
    }

    /// The rate over the window, or over as much of it as there are samples of.
    pub fn rate(&self) -> Rate {
        let (Some(first), Some(last)) = (self.points.front(), self.points.back()) else {
            return Rate::TooFewSamples;
        };
        let seconds = last.at.since(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return Rate::TooFewSamples;
        }
        let increase = last.total - first.total;
        if increase > 0.0 { Rate::PerSecond(increase / seconds) } else { Rate::Still }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn needs_two_samples_and_again_after_a_reset() {
        let mut window = CounterWindow::default();
        assert_eq!(window.rate(), Rate::TooFewSamples);
        window.record(at(0), 1e9, MINUTE);
        assert_eq!(window.rate(), Rate::TooFewSamples);
        window.record(at(5), 50.0, MINUTE);
        assert_eq!(window.rate(), Rate::PerSecond(10.0));
        window.reset();
        window.record(at(10), 3.0, MINUTE);
        assert_eq!(window.rate(), Rate::TooFewSamples);
        window.record(at(15), 0.0, MINUTE);
        assert_eq!(window.rate(), Rate::Still);
    }

    #[test]
    fn forgets_what_lies_before_the_window() {
        let mut window = CounterWindow::default();
        for second in 0..600 {
            window.record(at(second), if second < 300 { 8.0 } else { 2.0 }, MINUTE);
            assert!(window.points.len() <= 15);
        }
        assert_eq!(window.rate(), Rate::PerSecond(2.0));
    }
}
