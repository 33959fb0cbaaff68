//! Model time that runs with the wall clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::ModelTime;

/// Model time that runs with the wall clock, at a fixed speed.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
    began_at: ModelTime,
    speed: f64,
}

impl Clock {
    /// A clock that shows `began_at` now and runs `speed` model seconds a second; a speed that is not above 0 is
    /// taken as 1.
    pub fn start(began_at: ModelTime, speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { origin: Instant::now(), began_at, speed }
    }

    /// Model seconds a second.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// The model's present.
    pub fn now(&self) -> ModelTime {
        self.at(Instant::now())
    }

    /// The model's time at an instant.
    pub fn at(&self, instant: Instant) -> ModelTime {
        let elapsed = instant.saturating_duration_since(self.origin).as_secs_f64();
        self.began_at.plus(Duration::from_nanos((elapsed * self.speed * 1e9) as u64))
    }

    /// When the model's time is reached, but not before `earliest`.
    pub fn instant_of(&self, time: ModelTime, earliest: Instant) -> Instant {
        let seconds = time.since(self.began_at).as_secs_f64() / self.speed;
        let reached = Duration::try_from_secs_f64(seconds).ok().and_then(|span| self.origin.checked_add(span));
        reached.unwrap_or(earliest).max(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::time::ModelTime;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn model_time_runs_at_its_speed() {
        let clock = Clock::start(ModelTime::from_seconds(100.0), 30.0);
        let later = clock.origin + Duration::from_secs(2);
        assert_eq!(clock.at(later), ModelTime::from_seconds(160.0));
        assert_eq!(clock.instant_of(ModelTime::from_seconds(160.0), clock.origin), later);
        assert_eq!(clock.instant_of(ModelTime::from_seconds(130.0), later), later);
    }

    #[test]
    fn a_speed_of_nothing_is_that_of_the_wall() {
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!((Clock::start(ModelTime::ZERO, speed).speed() - 1.0).abs() < f64::EPSILON);
        }
        assert!(Clock::start(ModelTime::ZERO, 1.0).at(Instant::now()) < ModelTime::from_seconds(3600.0));
    }
}
