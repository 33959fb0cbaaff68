//! One signal of one model server over time.

use std::time::Duration;

use headroom_policies::observation::{Sample, UnknownReason};
use headroom_policies::policy::MetricPolicy;
use headroom_policies::signal::Reading as Kind;
use headroom_policies::window::{CounterWindow, GaugeWindow, Rate};
use headroom_policies::{Milli, Signal, Timestamp};

use super::LAST_VALUE_KEPT;
use crate::engines::{Increase, Reading, Readings};

/// The window of a signal, by how it is read.
#[derive(Debug, Clone)]
enum Window {
    Gauge(GaugeWindow),
    Counter(CounterWindow),
}

/// What was last read.
#[derive(Debug, Clone, Copy)]
enum Known {
    Value(Milli),
    Zero,
    NoTraffic,
}

impl Known {
    fn milli(self) -> Milli {
        match self {
            Self::Value(value) => value,
            Self::Zero | Self::NoTraffic => Milli::ZERO,
        }
    }
}

/// One signal of one model server.
#[derive(Debug, Clone, Default)]
pub(super) struct SignalState {
    window: Option<Window>,
    known: Option<(Known, Timestamp)>,
    /// Why the newest page did not say it.
    unread: Option<UnknownReason>,
}

impl SignalState {
    /// Takes what a page says.
    pub(super) fn record(&mut self, metric: &MetricPolicy, readings: &Readings<'_>, at: Timestamp) {
        let read = match metric.signal.reading() {
            Kind::Rate => self.record_rate(metric, readings.increase(metric.signal), at),
            Kind::Gauge | Kind::Quantile => self.record_gauge(metric, gauge(metric, readings), at),
        };
        match read {
            Ok(known) => {
                self.known = Some((known, at));
                self.unread = None;
            }
            Err(reason) => self.unread = Some(reason),
        }
    }

    fn record_gauge(&mut self, metric: &MetricPolicy, reading: Reading, at: Timestamp) -> Result<Known, UnknownReason> {
        let value = match reading {
            Reading::Unknown(reason) => return Err(reason),
            Reading::Value(value) => value,
            Reading::Zero => 0.0,
        };
        let mean = if metric.window.is_zero() {
            value
        } else {
            let window = match self.window.get_or_insert_with(|| Window::Gauge(GaugeWindow::default())) {
                Window::Gauge(window) => window,
                Window::Counter(_) => return Err(UnknownReason::Unspecified),
            };
            window.record(at, value, metric.window);
            window.mean().unwrap_or(value)
        };
        match Milli::from_measured(mean) {
            Some(Milli::ZERO) if reading == Reading::Zero => Ok(Known::Zero),
            Some(value) => Ok(Known::Value(value)),
            None => Err(UnknownReason::OutOfRange),
        }
    }

    fn record_rate(
        &mut self,
        metric: &MetricPolicy,
        increase: Increase,
        at: Timestamp,
    ) -> Result<Known, UnknownReason> {
        let window = match self.window.get_or_insert_with(|| Window::Counter(CounterWindow::default())) {
            Window::Counter(window) => window,
            Window::Gauge(_) => return Err(UnknownReason::Unspecified),
        };
        match increase {
            Increase::Unknown(reason) => return Err(reason),
            Increase::By(increase) => window.record(at, increase, metric.window),
            Increase::First | Increase::Reset => {
                window.reset();
                window.record(at, 0.0, metric.window);
                // What was known was of a process that is gone.
                self.known = None;
            }
        }
        match window.rate() {
            Rate::PerSecond(rate) => Milli::from_measured(rate).map(Known::Value).ok_or(UnknownReason::OutOfRange),
            Rate::Still => Ok(Known::NoTraffic),
            Rate::TooFewSamples => Err(UnknownReason::CounterReset),
        }
    }

    /// The scrape gave no page, or one that cannot be believed.
    pub(super) fn fail(&mut self, reason: UnknownReason) {
        self.unread = Some(reason);
    }

    /// What is known of the signal at an instant. `since` is when the replica became Ready or was first watched;
    /// with `starts` it counts as starting until it was read, for as long as a sample is fresh.
    pub(super) fn sample(&self, now: Timestamp, since: Timestamp, starts: bool, max_age: Duration) -> Sample {
        let reason = self.unread.unwrap_or(UnknownReason::Stale);
        let read_since = self.known.is_some_and(|(_, at)| at >= since);
        // A counter that began again was read; it only needs another page.
        let told = self.unread == Some(UnknownReason::CounterReset);
        if starts && !read_since && !told && now.since(since) <= max_age {
            return Sample::Starting;
        }
        match self.known {
            Some((known, at)) if now.since(at) <= max_age => match known {
                Known::Value(value) => Sample::Value { value, age: now.since(at) },
                Known::Zero => Sample::Zero,
                Known::NoTraffic => Sample::NoTraffic,
            },
            Some((known, at)) if now.since(at) <= LAST_VALUE_KEPT => {
                Sample::Last { value: known.milli(), age: now.since(at), reason }
            }
            Some(_) => Sample::Unknown { reason },
            None => Sample::Unknown { reason: self.unread.unwrap_or(UnknownReason::NotScraped) },
        }
    }

    /// When it was last read.
    pub(super) fn read_at(&self) -> Option<Timestamp> {
        self.known.map(|(_, at)| at)
    }

    /// Why the newest page did not say it.
    pub(super) fn unread(&self) -> Option<UnknownReason> {
        self.unread
    }
}

/// A gauge as the metric wants it: of waiting requests, those that replicas can cure.
fn gauge(metric: &MetricPolicy, readings: &Readings<'_>) -> Reading {
    let reading = readings.gauge(metric.signal);
    let counts_waiting = matches!(metric.signal, Signal::WaitingRequests | Signal::InFlightRequests);
    match reading {
        Reading::Value(value) if counts_waiting && !metric.include_deferred => {
            Reading::Value((value - readings.deferred()).max(0.0))
        }
        other => other,
    }
}
