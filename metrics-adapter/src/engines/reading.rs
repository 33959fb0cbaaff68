//! What one page says of each signal, given its plan and the page before it.

use std::sync::Arc;

use headroom_policies::Signal;
use headroom_policies::observation::UnknownReason;
use headroom_policies::window::Bounds;

use super::plan::{HistogramGroup, HistogramPlan, Plan, Rates, Source, Values};
use crate::exposition::{Page, Slot};

/// How far above 1 a fraction may be for rounding's sake.
const FRACTION_SLACK: f64 = 1e-3;

/// A gauge as one page says it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// A value in the signal's unit.
    Value(f64),
    /// Known to be zero without a number.
    Zero,
    /// Not known.
    Unknown(UnknownReason),
}

impl Reading {
    /// The number, where there is one.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::Zero => Some(0.0),
            Self::Unknown(_) => None,
        }
    }
}

/// How much a counter rose since the page before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Increase {
    /// There is no page before, or the counter was not in it.
    First,
    /// By so much, at least 0.
    By(f64),
    /// The counter began again.
    Reset,
    /// Not known.
    Unknown(UnknownReason),
}

/// What one page says.
#[derive(Debug, Clone, Copy)]
pub struct Readings<'a> {
    plan: &'a Plan,
    values: Values<'a>,
    previous: Option<&'a Page>,
}

impl<'a> Readings<'a> {
    /// The page, read by its plan. `previous` is the same server's page before it; samples whose own timestamp
    /// lies more than `most_behind` milliseconds behind the page's newest are stale.
    pub fn new(plan: &'a Plan, page: &'a Page, previous: Option<&'a Page>, most_behind: i64) -> Self {
        let stale_before = page.newest_timestamp().map(|newest| newest - most_behind);
        let restarted =
            previous.is_some_and(|previous| process_start(plan, page) != process_start_in(plan, page, previous));
        Self { plan, values: Values { page, stale_before }, previous: previous.filter(|_| !restarted) }
    }

    /// A gauge. Waiting requests are all of them, whatever they wait for.
    pub fn gauge(&self, signal: Signal) -> Reading {
        match signal {
            Signal::WaitingRequests => self.count(&self.plan.waiting),
            Signal::RunningRequests => self.count(&self.plan.running),
            Signal::InFlightRequests => match (self.count(&self.plan.waiting), self.count(&self.plan.running)) {
                (Reading::Zero, Reading::Zero) => Reading::Zero,
                (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(reason),
                (waiting, running) => {
                    Reading::Value(waiting.number().unwrap_or_default() + running.number().unwrap_or_default())
                }
            },
            // A sleeping engine leaves its cache gauges as they were.
            Signal::KVCacheUtilization | Signal::KVCacheTokens if self.is_asleep() => {
                Reading::Unknown(UnknownReason::Sleeping)
            }
            Signal::KVCacheUtilization => fraction(self.source(&self.plan.kv_cache)),
            Signal::KVCacheTokens => self.count(&self.plan.kv_tokens),
            _ => Reading::Unknown(UnknownReason::NotExported),
        }
    }

    /// Waiting requests that wait for something replicas cannot give; 0 where the engine does not tell.
    pub fn deferred(&self) -> f64 {
        let told = self.plan.deferred.as_ref().and_then(|gauge| self.values.evaluate(&gauge.0).ok());
        told.filter(|count| *count > 0.0).unwrap_or(0.0)
    }

    /// The mean KV-cache occupancy over ranks.
    pub fn kv_cache_mean(&self) -> Option<f64> {
        let mean = self.plan.kv_cache_mean.as_ref()?;
        fraction(self.values.evaluate(&mean.0).map_or_else(Reading::Unknown, Reading::Value)).number()
    }

    fn count(&self, source: &Source<super::plan::Gauge>) -> Reading {
        match self.source(source) {
            Reading::Value(value) if value < 0.0 => Reading::Unknown(UnknownReason::OutOfRange),
            reading => reading,
        }
    }

    fn source(&self, source: &Source<super::plan::Gauge>) -> Reading {
        match source {
            Source::From(gauge) => match self.values.evaluate(&gauge.0) {
                Ok(value) => Reading::Value(value),
                // A gauge that was there and is gone: an engine at rest may have stopped writing it.
                Err(UnknownReason::AbsentFamily) if self.is_at_rest() => Reading::Zero,
                Err(reason) => Reading::Unknown(reason),
            },
            Source::LazyZero => Reading::Zero,
            Source::ZeroWhileStill if self.is_at_rest() => Reading::Zero,
            Source::ZeroWhileStill | Source::Absent(_) => Reading::Unknown(UnknownReason::AbsentFamily),
            Source::NoMatch(_) => Reading::Unknown(UnknownReason::NoMatch),
            Source::Malformed => Reading::Unknown(UnknownReason::Malformed),
            Source::NotExported => Reading::Unknown(UnknownReason::NotExported),
        }
    }

    /// The engine writes gauges only when it computes, and it did not: what it has to name as zero is zero.
    fn is_at_rest(&self) -> bool {
        let quiet = |slot: &Slot| self.values.get(*slot) == Ok(0.0);
        (matches!(self.plan.waiting, Source::ZeroWhileStill) || !self.plan.also_still.is_empty())
            && self.heartbeat_stands_still() == Some(true)
            && self.plan.also_still.iter().all(quiet)
    }

    /// Some engine of the page sleeps.
    pub fn is_asleep(&self) -> bool {
        self.plan.awake.iter().any(|slot| self.values.get(*slot) == Ok(0.0))
    }

    /// Whether the engine computed nothing since the page before. `None` where that cannot be told.
    pub fn heartbeat_stands_still(&self) -> Option<bool> {
        let previous = self.previous?;
        if self.plan.heartbeat.is_empty() {
            return None;
        }
        let moved = |slot: &Slot| {
            let now = self.values.get(*slot).ok()?;
            Some(now.to_bits() != earlier_value(self.values.page, previous, *slot)?.to_bits())
        };
        let moves: Option<Vec<bool>> = self.plan.heartbeat.iter().map(moved).collect();
        moves.map(|moves| !moves.contains(&true))
    }

    /// Gauges of work stand above zero.
    pub fn shows_work(&self) -> bool {
        let above = |signal| self.gauge(signal).number().is_some_and(|value| value > 0.0);
        above(Signal::RunningRequests) || above(Signal::WaitingRequests)
    }

    fn rates(&self, signal: Signal) -> &'a Source<Rates> {
        match signal {
            Signal::GenerationTokenRate => &self.plan.generation_tokens,
            Signal::PromptTokenRate => &self.plan.prompt_tokens,
            Signal::RejectedRequestRate => &self.plan.rejected,
            Signal::PreemptionRate => &self.plan.preemptions,
            _ => &Source::NotExported,
        }
    }

    /// The total of a rate's counters since the server started.
    pub fn total(&self, signal: Signal) -> Reading {
        let expression = match self.rates(signal) {
            Source::From(rates) => super::plan::Expression::Sum(rates.0.clone()),
            other => return unavailable(other),
        };
        match self.values.evaluate(&expression) {
            Ok(total) if total >= 0.0 => Reading::Value(total),
            Ok(_) => Reading::Unknown(UnknownReason::OutOfRange),
            Err(reason) => Reading::Unknown(reason),
        }
    }

    /// How much a rate's counters rose since the page before: by series first, then added up.
    pub fn increase(&self, signal: Signal) -> Increase {
        let rates = match self.rates(signal) {
            Source::From(rates) => rates,
            other => {
                return match unavailable(other) {
                    Reading::Unknown(reason) => Increase::Unknown(reason),
                    // A counter that its engine has not created yet has counted nothing.
                    Reading::Zero | Reading::Value(_) if self.previous.is_some() => Increase::By(0.0),
                    Reading::Zero | Reading::Value(_) => Increase::First,
                };
            }
        };
        let Some(previous) = self.previous else { return Increase::First };
        let (mut sum, mut seen_before) = (0.0, false);
        for group in &rates.0 {
            let mut largest: f64 = 0.0;
            for slot in group {
                let now = match self.values.get(*slot) {
                    Ok(now) => now,
                    Err(reason) => return Increase::Unknown(reason),
                };
                let Some(before) = earlier_value(self.values.page, previous, *slot) else { continue };
                if now < before {
                    return Increase::Reset;
                }
                seen_before = true;
                largest = largest.max(now - before);
            }
            sum += largest;
        }
        if seen_before { Increase::By(sum) } else { Increase::First }
    }

    fn latency(&self, signal: Signal) -> &'a Source<HistogramPlan> {
        match signal {
            Signal::TimeToFirstToken => &self.plan.time_to_first_token,
            Signal::InterTokenLatency => &self.plan.inter_token_latency,
            Signal::QueueTime => &self.plan.queue_time,
            _ => &Source::NotExported,
        }
    }

    /// Gives `record` what each histogram of a latency observed since the page before, as increases of its
    /// cumulative buckets. Nothing is given after a reset, or while there is no page before.
    ///
    /// # Errors
    /// Why the latency cannot be read.
    pub fn observed(&self, signal: Signal, mut record: impl FnMut(&Bounds, &[f64])) -> Result<(), UnknownReason> {
        let mut increases = Vec::new();
        for group in &self.histograms(signal)?.groups {
            if self.rose(group, &mut increases)? {
                record(&group.bounds, &increases);
            }
        }
        Ok(())
    }

    /// Fills `increases` with how much each bucket rose since the page before. Answers whether that can be told: not
    /// without a page before that has them all, and not after a reset.
    fn rose(&self, group: &HistogramGroup, increases: &mut Vec<f64>) -> Result<bool, UnknownReason> {
        increases.clear();
        let mut told = true;
        let mut below = 0.0;
        for slot in &group.slots {
            let now = self.values.get(*slot)?;
            if now < below {
                return Err(UnknownReason::Malformed);
            }
            below = now;
            let before = self.previous.and_then(|previous| earlier_value(self.values.page, previous, *slot));
            match before {
                Some(before) if now >= before => increases.push(now - before),
                _ => told = false,
            }
        }
        Ok(told)
    }

    /// Gives `record` what each histogram of a latency observed since the server started.
    ///
    /// # Errors
    /// Why the latency cannot be read.
    pub fn observed_since_start(
        &self,
        signal: Signal,
        mut record: impl FnMut(&Bounds, &[f64]),
    ) -> Result<(), UnknownReason> {
        for group in &self.histograms(signal)?.groups {
            record(&group.bounds, &self.cumulative(group)?);
        }
        Ok(())
    }

    fn histograms(&self, signal: Signal) -> Result<&'a HistogramPlan, UnknownReason> {
        match self.latency(signal) {
            Source::From(histograms) => Ok(histograms),
            other => match unavailable(other) {
                Reading::Unknown(reason) => Err(reason),
                Reading::Zero | Reading::Value(_) => Err(UnknownReason::TooFewObservations),
            },
        }
    }

    fn cumulative(&self, group: &HistogramGroup) -> Result<Vec<f64>, UnknownReason> {
        let counts: Vec<f64> = group.slots.iter().map(|slot| self.values.get(*slot)).collect::<Result<_, _>>()?;
        let sound =
            counts.first().is_none_or(|first| *first >= 0.0) && counts.windows(2).all(|pair| pair[0] <= pair[1]);
        if sound { Ok(counts) } else { Err(UnknownReason::Malformed) }
    }
}

fn unavailable<T>(source: &Source<T>) -> Reading {
    match source {
        Source::From(_) | Source::LazyZero => Reading::Zero,
        Source::ZeroWhileStill | Source::Absent(_) => Reading::Unknown(UnknownReason::AbsentFamily),
        Source::NoMatch(_) => Reading::Unknown(UnknownReason::NoMatch),
        Source::Malformed => Reading::Unknown(UnknownReason::Malformed),
        Source::NotExported => Reading::Unknown(UnknownReason::NotExported),
    }
}

/// A fraction of 1: a hair outside is rounding, more is nonsense.
fn fraction(reading: Reading) -> Reading {
    match reading {
        Reading::Value(value) if (-FRACTION_SLACK..=1.0 + FRACTION_SLACK).contains(&value) => {
            Reading::Value(value.clamp(0.0, 1.0))
        }
        Reading::Value(_) => Reading::Unknown(UnknownReason::OutOfRange),
        other => other,
    }
}

/// The value that a slot of `page` had in an earlier page, whose layout may differ.
fn earlier_value(page: &Page, earlier: &Page, slot: Slot) -> Option<f64> {
    let slot = if Arc::ptr_eq(page.layout(), earlier.layout()) {
        slot
    } else {
        earlier.layout().slot(page.series().get(slot as usize)?)?
    };
    earlier.value(slot)
}

fn process_start(plan: &Plan, page: &Page) -> Option<u64> {
    plan.process_start.and_then(|slot| page.value(slot)).map(f64::to_bits)
}

fn process_start_in(plan: &Plan, page: &Page, earlier: &Page) -> Option<u64> {
    plan.process_start.and_then(|slot| earlier_value(page, earlier, slot)).map(f64::to_bits)
}
