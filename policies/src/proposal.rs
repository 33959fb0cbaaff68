//! What one metric asks for. All arithmetic is in integers: a sum is held as thousandths over a common
//! denominator, so that a mean of peers is exact.

use serde::{Deserialize, Serialize};

use crate::observation::{ExternalSample, LatencyObservation, LatencySample, Sample, UnknownReason};
use crate::quantity::{Decimal, Milli, div_ceil};
use crate::reason::Reason;
use crate::signal::Signal;
use crate::units::{Replicas, Tolerance, Tolerances};

/// How many replicas were in which state, for one signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleCounts {
    /// Ready with a fresh sample.
    pub read: u32,
    /// Ready with an earlier value.
    pub last: u32,
    /// Ready and not known.
    pub unknown: u32,
    /// Starting.
    pub starting: u32,
    /// Stuck.
    pub stuck: u32,
}

impl SampleCounts {
    /// Ready replicas.
    pub fn ready(self) -> u32 {
        self.read + self.last + self.unknown
    }
}

/// The demand over a fleet: once as counted for a rise, once for a fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    up: Fraction,
    down: Fraction,
    /// The states behind it.
    pub counts: SampleCounts,
    /// Why the first of the replicas that were not read was not.
    first_unread: Option<UnknownReason>,
    external_read: u32,
    external_unread: u32,
}

/// Thousandths over a positive denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl Fraction {
    fn ceil(self) -> i128 {
        div_ceil(self.numerator, self.denominator)
    }

    /// `ceil(self / target)`: the replicas it takes.
    fn replicas(self, target: Milli) -> i128 {
        div_ceil(self.numerator, self.denominator.saturating_mul(i128::from(target.get())))
    }

    /// Whether `self / (target x current)` is above `1 + tolerance` (of a billionth).
    fn exceeds(self, target: Milli, current: Replicas, tolerance: Tolerance) -> bool {
        let (usage, capacity) = self.scaled(target, current);
        usage > capacity.saturating_mul(ONE + i128::from(tolerance.billionths()))
    }

    /// Whether `self / (target x current)` is below `1 - tolerance`.
    fn falls_short(self, target: Milli, current: Replicas, tolerance: Tolerance) -> bool {
        let (usage, capacity) = self.scaled(target, current);
        usage < capacity.saturating_mul(ONE - i128::from(tolerance.billionths()))
    }

    fn scaled(self, target: Milli, current: Replicas) -> (i128, i128) {
        let capacity = i128::from(target.get()) * i128::from(current.get());
        (self.numerator.saturating_mul(ONE), capacity.saturating_mul(self.denominator))
    }
}

const ONE: i128 = 1_000_000_000;

/// Adds up the demand of an additive or ratio signal. `target` is what a replica that is not served by a number
/// of its own counts for on the way down.
pub fn demand(samples: &[Sample], external: &[ExternalSample], target: Milli) -> Demand {
    let t = i128::from(target.get());
    let (mut up, mut down, mut counts) = (0_i128, 0_i128, SampleCounts::default());
    let mut first_unread = None;
    for sample in samples {
        if let Sample::Last { reason, .. } | Sample::Unknown { reason } = sample {
            first_unread = first_unread.or(Some(*reason));
        }
        match *sample {
            Sample::Starting => {
                counts.starting += 1;
                down += t;
            }
            Sample::Stuck => {
                counts.stuck += 1;
                down += t;
            }
            Sample::Last { value, .. } => {
                counts.last += 1;
                up += i128::from(value.get());
                down += i128::from(value.get()).max(t);
            }
            Sample::Unknown { .. } => counts.unknown += 1,
            Sample::Value { .. } | Sample::Zero | Sample::NoTraffic => {
                counts.read += 1;
                let value = i128::from(sample.as_read().unwrap_or_default().get());
                up += value;
                down += value;
            }
        }
    }
    let known = i128::from(counts.read + counts.last);
    let unknown = i128::from(counts.unknown);
    let denominator = known.max(1);
    let mean = if counts.read == 0 { 0 } else { up };
    let mut up = up * denominator + unknown * mean;
    let mut down = down * denominator + unknown * mean.max(t * denominator);
    let (mut external_read, mut external_unread) = (0, 0);
    for signal in external {
        let value = match signal.sample {
            Sample::Last { value, .. } => {
                external_unread += 1;
                value
            }
            read if read.is_read() => {
                external_read += 1;
                read.as_read().unwrap_or_default()
            }
            _ => {
                external_unread += 1;
                Milli::ZERO
            }
        };
        up += i128::from(value.get()) * denominator;
        down += i128::from(value.get()) * denominator;
    }
    Demand {
        up: Fraction { numerator: up, denominator },
        down: Fraction { numerator: down, denominator },
        counts,
        first_unread,
        external_read,
        external_unread,
    }
}

impl Demand {
    /// The total as counted for a rise, rounded up to a thousandth: what is published of a raw signal.
    pub fn sum_up(&self) -> Milli {
        Milli::saturating(self.up.ceil())
    }

    /// The total as counted for a fall, rounded up to a thousandth.
    pub fn sum_down(&self) -> Milli {
        Milli::saturating(self.down.ceil())
    }

    /// A Ready replica or an external signal was read.
    pub fn is_readable(&self) -> bool {
        self.counts.read > 0 || self.external_read > 0
    }

    /// No Ready replica was read, so falls are vetoed.
    pub fn vetoes_down(&self) -> bool {
        self.counts.read == 0
    }

    /// More than a fifth of the Ready replicas, and more than one, are unknown.
    fn too_many_unknown(&self) -> bool {
        self.counts.unknown > 1 && self.counts.unknown * 5 > self.counts.ready()
    }
}

/// What one metric asks for, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// The signal.
    pub signal: Signal,
    /// Its target for each replica.
    pub target: Milli,
    /// The count it asks for, before the warm pool is added; `None` = none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// It forbids a fall.
    pub vetoes_down: bool,
    /// Something of it was read.
    pub readable: bool,
    /// The total as counted for a rise (of a latency: the quantile).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_up: Option<Milli>,
    /// The total as counted for a fall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_down: Option<Milli>,
    /// The states of the replicas.
    pub counts: SampleCounts,
    /// One word.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
}

/// The proposal of an additive or ratio metric.
///
/// `current` is `spec.replicas` less the warm pool's.
pub fn propose_demand(
    signal: Signal,
    target: Milli,
    demand: &Demand,
    current: Replicas,
    tolerances: Tolerances,
) -> Proposal {
    let rise = Replicas::saturating(demand.up.replicas(target));
    let rises = rise > current && (current == Replicas::ZERO || demand.up.exceeds(target, current, tolerances.up));
    let fall = Replicas::saturating(demand.down.replicas(target));
    let falls = fall < current && demand.down.falls_short(target, current, tolerances.down);
    let (replicas, reason) = if rises {
        (Some(rise), Reason::ValidMetricFound)
    } else if demand.vetoes_down() {
        (None, Reason::MetricUnreadable)
    } else if falls && demand.external_unread > 0 {
        (Some(current), Reason::ExternalSignalUnread)
    } else if falls && demand.too_many_unknown() {
        (Some(current), Reason::TooManyUnknown)
    } else if falls {
        (Some(fall), Reason::ValidMetricFound)
    } else {
        (Some(current), Reason::WithinTolerance)
    };
    let total = if falls && !rises { demand.sum_down() } else { demand.sum_up() };
    Proposal {
        signal,
        target,
        replicas,
        vetoes_down: demand.vetoes_down(),
        readable: demand.is_readable(),
        sum_up: Some(demand.sum_up()),
        sum_down: Some(demand.sum_down()),
        counts: demand.counts,
        reason,
        message: demand_message(signal, target, demand, total, (replicas, reason), current),
    }
}

fn demand_message(
    signal: Signal,
    target: Milli,
    demand: &Demand,
    total: Milli,
    (replicas, reason): (Option<Replicas>, Reason),
    current: Replicas,
) -> String {
    let counts = demand.counts;
    let assumed = assumptions(counts);
    let (total, target) = (Decimal(total), Decimal(target));
    match (reason, replicas) {
        (Reason::MetricUnreadable, _) if demand.is_readable() => {
            format!(
                "{signal}: no Ready replica was read, so it forbids a fall; outside the replicas {total} waits{assumed}"
            )
        }
        (Reason::MetricUnreadable, _) if counts.ready() == 0 => {
            format!("{signal}: no replica is Ready and read, so it forbids a fall{assumed}")
        }
        (Reason::MetricUnreadable, _) => {
            let why = demand.first_unread.map_or_else(String::new, |reason| format!(" (first: {})", reason.name()));
            format!("{signal}: none of {} Ready replicas was read{why}, so it forbids a fall{assumed}", counts.ready())
        }
        (Reason::ExternalSignalUnread, _) => {
            format!("{signal}: stays at {current}, as a demand seen outside the replicas was not read{assumed}")
        }
        (Reason::TooManyUnknown, _) => format!(
            "{signal}: stays at {current}, as {} of {} Ready replicas are unknown{assumed}",
            counts.unknown,
            counts.ready()
        ),
        (Reason::WithinTolerance, _) => {
            format!("{signal}: {total} over {current} is within tolerance of {target} a replica{assumed}")
        }
        (_, Some(replicas)) => format!("{signal}: {total} at {target} a replica asks for {replicas}{assumed}"),
        (_, None) => format!("{signal}: no proposal"),
    }
}

/// How replicas without a number of their own were counted.
fn assumptions(counts: SampleCounts) -> String {
    let mut parts = Vec::new();
    if counts.unknown > 0 {
        parts.push(format!("{} unknown counted like their peers, at least at target for a fall", counts.unknown));
    }
    if counts.last > 0 {
        parts.push(format!("{} counted at their last value, at least at target for a fall", counts.last));
    }
    if counts.starting > 0 {
        parts.push(format!("{} starting counted at target for a fall", counts.starting));
    }
    if counts.stuck > 0 {
        parts.push(format!("{} stuck counted at target for a fall", counts.stuck));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

/// The proposal of a latency: a quarter more while it is above target and replicas can cure it.
///
/// `current` is `spec.replicas` less the warm pool's, `spec` the whole.
pub fn propose_latency(
    signal: Signal,
    target: Milli,
    seen: &LatencyObservation,
    (current, spec): (Replicas, Replicas),
    tolerance: Tolerance,
) -> Proposal {
    let (replicas, reason, message) = latency_answer(signal, target, seen, (current, spec), tolerance);
    Proposal {
        signal,
        target,
        replicas,
        vetoes_down: false,
        readable: !matches!(seen.sample, LatencySample::Unknown { .. }),
        sum_up: match seen.sample {
            LatencySample::Value { value, .. } => Some(value),
            LatencySample::NoTraffic | LatencySample::Unknown { .. } => None,
        },
        sum_down: None,
        counts: SampleCounts::default(),
        reason,
        message,
    }
}

fn latency_answer(
    signal: Signal,
    target: Milli,
    seen: &LatencyObservation,
    (current, spec): (Replicas, Replicas),
    tolerance: Tolerance,
) -> (Option<Replicas>, Reason, String) {
    let (value, beyond) = match seen.sample {
        LatencySample::Value { value, at_least } => (value, if at_least { "at least " } else { "" }),
        LatencySample::NoTraffic => {
            return (None, Reason::NoProposal, format!("{signal}: nothing was observed, no proposal"));
        }
        LatencySample::Unknown { reason } => {
            return (None, Reason::NoProposal, format!("{signal}: not known ({reason:?}), no proposal"));
        }
    };
    let limit = i128::from(target.get()) * (ONE + i128::from(tolerance.billionths()));
    if i128::from(value.get()) * ONE <= limit {
        let message =
            format!("{signal}: {beyond}{}s is not above {}s and its tolerance", value.to_f64(), target.to_f64());
        return (None, Reason::WithinTolerance, message);
    }
    let ready = seen.ready.get();
    let waits = seen.waiting.is_some_and(|waiting| waiting > Milli::ZERO);
    let busy = seen.in_flight.is_some_and(|in_flight| {
        2 * i128::from(in_flight.total.get()) > i128::from(in_flight.target.get()) * i128::from(ready)
    });
    if !waits && !busy {
        let message = format!(
            "{signal}: {beyond}{}s is above {}s, but nothing waits and replicas are not half full, so more would not help",
            value.to_f64(),
            target.to_f64()
        );
        return (None, Reason::NoProposal, message);
    }
    if seen.ready.plus(seen.stuck) < spec {
        let message = format!(
            "{signal}: {beyond}{}s is above {}s; only {ready} of {spec} replicas are ready, so the raise is still coming",
            value.to_f64(),
            target.to_f64()
        );
        return (Some(current), Reason::RaiseComing, message);
    }
    let step = Replicas::saturating(div_ceil(i128::from(ready), 4).max(1));
    let message = format!(
        "{signal}: {beyond}{}s is above {}s, so a quarter of {ready} ready replicas more",
        value.to_f64(),
        target.to_f64()
    );
    (Some(current.plus(step)), Reason::ValidMetricFound, message)
}
