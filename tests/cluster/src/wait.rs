//! Waiting for conditions.

use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::ClusterError;

/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Why there is nothing to return yet.
pub(crate) enum Setback {
    /// It may come; this was seen instead.
    NotYet(String),
    /// It will never come.
    Never(ClusterError),
}

/// Looks until there is something to return, and says how long it took on standard error. What was seen instead is told
/// when the time is over.
///
/// # Errors
/// The time is over.
pub fn wait_until<T, S: Display>(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> Result<T, S>,
) -> Result<T, ClusterError> {
    wait_while_it_may_come(what, patience, || look().map_err(|seen| Setback::NotYet(seen.to_string())))
}

/// As [`wait_until`], but no longer than there is hope.
pub(crate) fn wait_while_it_may_come<T>(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> Result<T, Setback>,
) -> Result<T, ClusterError> {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => {
                eprintln!("{:6.2} s until {what}", began.elapsed().as_secs_f64());
                return Ok(found);
            }
            Err(Setback::Never(error)) => return Err(error),
            Err(Setback::NotYet(seen)) if began.elapsed() > patience => {
                return Err(ClusterError::TimedOut { what: what.to_owned(), seconds: patience.as_secs(), seen });
            }
            Err(Setback::NotYet(_)) => std::thread::sleep(PAUSE),
        }
    }
}
