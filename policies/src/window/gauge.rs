//! The mean of a gauge over a window.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::Timestamp;

/// A window is kept in at most so many slots.
const SLOTS: u32 = 60;

/// The samples of one gauge within a window, merged into slots of a sixtieth of it.
#[derive(Debug, Clone, Default)]
pub struct GaugeWindow {
    slots: VecDeque<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    newest: Timestamp,
    sum: f64,
    count: u32,
}

impl GaugeWindow {
    /// Adds a sample. Samples must come in the order of their time; with a window of zero only the newest is kept.
    pub fn record(&mut self, at: Timestamp, value: f64, window: Duration) {
        if window.is_zero() {
            self.slots.clear();
        }
        self.slots.retain(|slot| at.since(slot.newest) < window);
        let width = i64::try_from((window / SLOTS).as_millis()).unwrap_or(i64::MAX).max(1);
        match self.slots.back_mut() {
            Some(slot) if slot.newest.as_millis().div_euclid(width) == at.as_millis().div_euclid(width) => {
                *slot = Slot { newest: at, sum: slot.sum + value, count: slot.count + 1 };
            }
            _ => self.slots.push_back(Slot { newest: at, sum: value, count: 1 }),
        }
    }

    /// The mean of the samples younger than the window when the newest was taken. `None` where there is none.
    pub fn mean(&self) -> Option<f64> {
        let (sum, count) = self.slots.iter().fold((0.0, 0), |(sum, count), slot| (sum + slot.sum, count + slot.count));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Forgets every sample.
    pub fn clear(&mut self) {
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_window_of_zero_keeps_the_newest() {
        let mut window = GaugeWindow::default();
        window.record(at(0), 9.0, Duration::ZERO);
        window.record(at(5000), 4.0, Duration::ZERO);
        assert_eq!(window.mean(), Some(4.0));
    }

    #[test]
    fn a_short_burst_is_a_third_of_its_height() {
        let mut window = GaugeWindow::default();
        for second in 0..10 {
            window.record(at(second * 1000), if second >= 7 { 10.0 } else { 0.0 }, TEN);
        }
        assert_eq!(window.mean(), Some(3.0));
        window.record(at(25_000), 1.0, TEN);
        assert_eq!(window.mean(), Some(1.0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut window = GaugeWindow::default();
        for step in 0..100_000 {
            window.record(at(step * 7), 2.0, Duration::from_secs(600));
            assert!(window.slots.len() <= 62);
        }
        assert_eq!(window.mean(), Some(2.0));
    }
}
