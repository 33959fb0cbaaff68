//! The process's clock: monotonic, and steady whatever happens to the machine's wall clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use headroom_policies::Timestamp;

/// Tells the time by which samples are dated and decisions are made: the wall clock's time when the process
/// started, plus what the monotonic clock counted since.
///
/// A demonstration runs it faster than real time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started_at: Timestamp,
    started: Instant,
    speed: f64,
}

impl Clock {
    /// A clock at the speed of time.
    pub fn real() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_at = Timestamp::from_millis(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX));
        Self { started_at, started: Instant::now(), speed: 1.0 }
    }

    /// A clock that starts now and runs so many times faster; a speed that is not above 0 is taken as 1.
    #[must_use]
    pub fn at_speed(self, speed: f64) -> Self {
        Self { speed: if speed > 0.0 && speed.is_finite() { speed } else { 1.0 }, ..self }
    }

    /// The present time.
    pub fn now(&self) -> Timestamp {
        self.started_at.plus(self.started.elapsed().mul_f64(self.speed))
    }

    /// How long a duration on this clock takes in real time.
    pub fn real_duration(&self, duration: Duration) -> Duration {
        if self.speed == 1.0 { duration } else { duration.div_f64(self.speed) }
    }

    /// How much of this clock's time passes in a real duration.
    pub fn clock_duration(&self, real: Duration) -> Duration {
        if self.speed == 1.0 { real } else { real.mul_f64(self.speed) }
    }
}
