//! A fleet that scrape tasks write and others read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::Fleet;
use crate::exposition::Scrutiny;
use crate::scrape::{ScrapeSink, Scraped, TargetId, TargetState};

/// What scraping a fleet has come to since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrapeTotals {
    /// Scrapes by the state they left their target in, in the order of [`TargetState::ALL`].
    pub by_state: [u64; TargetState::ALL.len()],
    /// Time spent in scrapes, over all targets.
    pub time: Duration,
    /// Lines that were no samples.
    pub skipped_lines: u64,
    /// Second samples of a series.
    pub duplicates: u64,
}

/// A fleet behind a lock that is never held across a wait.
#[derive(Debug)]
pub struct SharedFleet {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    fleet: Fleet,
    totals: ScrapeTotals,
}

impl SharedFleet {
    /// Shares a fleet.
    pub fn new(fleet: Fleet) -> Self {
        Self { state: Mutex::new(State { fleet, totals: ScrapeTotals::default() }), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the fleet.
    pub fn with<T>(&self, look: impl FnOnce(&Fleet) -> T) -> T {
        look(&self.lock().fleet)
    }

    /// Changes the fleet.
    pub fn update<T>(&self, change: impl FnOnce(&mut Fleet) -> T) -> T {
        change(&mut self.lock().fleet)
    }

    /// What scraping has come to.
    pub fn totals(&self) -> ScrapeTotals {
        self.lock().totals
    }

    /// Waits until a sample arrived since the last wait.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl ScrapeSink for SharedFleet {
    fn record(&self, target: &TargetId, scraped: Scraped) -> Scrutiny {
        let mut state = self.lock();
        let State { fleet, totals } = &mut *state;
        totals.time += scraped.took;
        if let Ok(page) = &scraped.outcome {
            totals.skipped_lines += page.lines.skipped;
            totals.duplicates += page.lines.duplicates;
        }
        let scrutiny = fleet.record(target, scraped);
        if let Some(place) =
            fleet.state_of(target).and_then(|own| TargetState::ALL.iter().position(|state| *state == own))
        {
            totals.by_state[place] += 1;
        }
        drop(state);
        self.changed.notify_one();
        scrutiny
    }
}
