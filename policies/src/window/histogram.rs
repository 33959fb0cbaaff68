//! The quantile of what a fleet's histograms observed within a window.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::units::Timestamp;

/// A window is kept in at most so many slots.
const SLOTS: u32 = 12;
/// With fewer observations a tail quantile says nothing.
pub const MINIMUM_OBSERVATIONS: f64 = 20.0;

/// The upper bounds of a histogram's buckets in seconds, ascending, the last one infinite.
pub type Bounds = Arc<[f64]>;

/// Increases of cumulative buckets, merged over replicas, in slots of a twelfth of the window.
///
/// Replicas whose bounds are equal are added up; of different sets only the bounds they share are used.
#[derive(Debug, Clone, Default)]
pub struct HistogramWindow {
    slots: VecDeque<Slot>,
}

#[derive(Debug, Clone)]
struct Slot {
    newest: Timestamp,
    groups: Vec<Group>,
}

/// The cumulative increases of all replicas with the same bounds.
#[derive(Debug, Clone)]
struct Group {
    bounds: Bounds,
    cumulative: Vec<f64>,
}

/// A quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileValue {
    /// Seconds.
    pub seconds: f64,
    /// It lies beyond the last finite bound: it is at least that.
    pub at_least: bool,
}

/// What a window says of a quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantile {
    /// A value.
    Value(QuantileValue),
    /// Nothing was observed.
    NoObservations,
    /// Fewer observations than [`MINIMUM_OBSERVATIONS`].
    TooFewObservations,
}

impl HistogramWindow {
    /// Adds what one replica observed since its page before: the increase of each cumulative bucket. Samples must
    /// come in the order of their time.
    pub fn record(&mut self, at: Timestamp, bounds: &Bounds, increases: &[f64], window: Duration) {
        self.expire(at, window);
        if bounds.len() != increases.len() || increases.last().is_none_or(|total| *total <= 0.0) {
            return;
        }
        let width = i64::try_from((window / SLOTS).as_millis()).unwrap_or(i64::MAX).max(1);
        let slot_of = |time: Timestamp| time.as_millis().div_euclid(width);
        if self.slots.back().is_none_or(|slot| slot_of(slot.newest) != slot_of(at)) {
            self.slots.push_back(Slot { newest: at, groups: Vec::new() });
        }
        let Some(slot) = self.slots.back_mut() else { return };
        slot.newest = at;
        let same = |group: &&mut Group| Arc::ptr_eq(&group.bounds, bounds) || group.bounds == *bounds;
        if let Some(group) = slot.groups.iter_mut().find(same) {
            for (sum, increase) in group.cumulative.iter_mut().zip(increases) {
                *sum += increase;
            }
        } else {
            slot.groups.push(Group { bounds: Arc::clone(bounds), cumulative: increases.to_vec() });
        }
    }

    /// Drops what is older than the window.
    pub fn expire(&mut self, now: Timestamp, window: Duration) {
        self.slots.retain(|slot| now.since(slot.newest) < window);
    }

    /// The quantile, interpolated linearly within its bucket as Prometheus' `histogram_quantile` does.
    pub fn quantile(&self, quantile: f64) -> Quantile {
        self.quantile_of_at_least(MINIMUM_OBSERVATIONS, quantile)
    }

    /// The quantile however few observations there are: for people, who see their number beside it.
    pub fn quantile_of_any(&self, quantile: f64) -> Quantile {
        self.quantile_of_at_least(0.0, quantile)
    }

    fn quantile_of_at_least(&self, observations: f64, quantile: f64) -> Quantile {
        let Some((bounds, cumulative)) = self.merged() else {
            return Quantile::NoObservations;
        };
        let total = cumulative.last().copied().unwrap_or_default();
        if total <= 0.0 {
            return Quantile::NoObservations;
        }
        if total < observations {
            return Quantile::TooFewObservations;
        }
        Quantile::Value(interpolate(&bounds, &cumulative, quantile * total))
    }

    /// All slots over the bounds that every group has.
    fn merged(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let groups = || self.slots.iter().flat_map(|slot| &slot.groups);
        let first = groups().next()?;
        let mut bounds: Vec<f64> = first.bounds.to_vec();
        for group in groups() {
            bounds.retain(|bound| group.bounds.contains(bound));
        }
        let mut cumulative = vec![0.0; bounds.len()];
        for group in groups() {
            for (sum, bound) in cumulative.iter_mut().zip(&bounds) {
                let place = group.bounds.iter().position(|own| own == bound);
                *sum += place.map_or(0.0, |place| group.cumulative[place]);
            }
        }
        Some((bounds, cumulative))
    }
}

fn interpolate(bounds: &[f64], cumulative: &[f64], rank: f64) -> QuantileValue {
    let place = cumulative.iter().position(|count| *count >= rank).unwrap_or(bounds.len() - 1);
    let upper = bounds[place];
    let (lower, below) = if place == 0 { (0.0, 0.0) } else { (bounds[place - 1], cumulative[place - 1]) };
    if upper.is_infinite() {
        return QuantileValue { seconds: lower, at_least: true };
    }
    if place == 0 && upper <= 0.0 {
        return QuantileValue { seconds: upper, at_least: false };
    }
    let inside = cumulative[place] - below;
    let share = if inside > 0.0 { (rank - below) / inside } else { 1.0 };
    QuantileValue { seconds: lower + (upper - lower) * share, at_least: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn bounds(finite: &[f64]) -> Bounds {
        finite.iter().copied().chain([f64::INFINITY]).collect()
    }

    fn value(window: &HistogramWindow, quantile: f64) -> (f64, bool) {
        match window.quantile(quantile) {
            Quantile::Value(value) => (value.seconds, value.at_least),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn merges_replicas_and_interpolates() {
        let (mut window, bounds) = (HistogramWindow::default(), bounds(&[0.1, 0.5, 1.0]));
        window.record(at(0), &bounds, &[10.0, 20.0, 20.0, 20.0], MINUTE);
        window.record(at(1), &bounds, &[0.0, 0.0, 20.0, 20.0], MINUTE);
        assert_eq!(value(&window, 0.5), (0.5, false));
        assert_eq!(value(&window, 0.75), (0.75, false));
    }

    #[test]
    fn beyond_the_last_bound_is_at_least_it() {
        let (mut window, bounds) = (HistogramWindow::default(), bounds(&[0.1, 10.0]));
        window.record(at(0), &bounds, &[0.0, 30.0, 100.0], MINUTE);
        assert_eq!(value(&window, 0.95), (10.0, true));
    }

    #[test]
    fn few_or_no_observations_are_said_to_be_that() {
        let (mut window, bounds) = (HistogramWindow::default(), bounds(&[0.1]));
        assert_eq!(window.quantile(0.95), Quantile::NoObservations);
        window.record(at(0), &bounds, &[0.0, 0.0], MINUTE);
        assert_eq!(window.quantile(0.95), Quantile::NoObservations);
        window.record(at(0), &bounds, &[19.0, 19.0], MINUTE);
        assert_eq!(window.quantile(0.95), Quantile::TooFewObservations);
        window.record(at(0), &bounds, &[1.0, 1.0], MINUTE);
        assert_eq!(window.quantile(1.0), Quantile::Value(QuantileValue { seconds: 0.1, at_least: false }));
        window.expire(at(60), MINUTE);
        assert_eq!(window.quantile(0.95), Quantile::NoObservations);
    }

    /// Two versions in one rollout can have different bounds.
    #[test]
    fn different_bounds_meet_in_what_they_share() {
        let mut window = HistogramWindow::default();
        window.record(at(0), &bounds(&[0.1, 1.0, 4.0]), &[10.0, 20.0, 20.0, 20.0], MINUTE);
        window.record(at(0), &bounds(&[0.2, 1.0]), &[5.0, 5.0, 20.0], MINUTE);
        // Shared: 1.0 and infinity, with 25 of 40 at most 1.0.
        assert_eq!(value(&window, 0.5), (0.8, false));
        assert_eq!(value(&window, 0.9), (1.0, true));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut window, bounds) = (HistogramWindow::default(), bounds(&[0.1]));
        for second in 0..10_000 {
            window.record(at(second), &bounds, &[1.0, 1.0], MINUTE);
            assert!(window.slots.len() <= 13);
        }
    }
}
