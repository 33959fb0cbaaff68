//! Our own metrics, read off the store when they are asked for: what an autoscaler had goes with it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headroom_adapter::clock::Clock;
use headroom_adapter::fleet::{Fleet, RawReading, ScrapeTotals};
use headroom_adapter::scrape::TargetState;
use headroom_adapter::serve::Tls;
use headroom_policies::signal::SignalClass;
use headroom_policies::{Signal, Timestamp};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::controller::{DecisionLog, Entry, Store, TurnTotals};

/// What the process itself counts.
#[derive(Debug, Default)]
pub struct ProcessState {
    /// Configurations read and taken.
    pub config_reloads: AtomicU64,
    /// Configurations refused.
    pub config_failures: AtomicU64,
    /// The last configuration was refused.
    pub config_refused: AtomicBool,
}

/// The registry of everything we show.
#[derive(Debug)]
pub struct OwnMetrics {
    registry: Registry,
}

/// Asked for by `Accept`, else the Prometheus text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

impl OwnMetrics {
    /// Everything that can be told of a process.
    pub fn new(
        store: Arc<Store>,
        clock: Clock,
        process: Arc<ProcessState>,
        tls: Option<Arc<Tls>>,
        log: Arc<DecisionLog>,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(FromStore { store, clock, process, tls, log }));
        Self { registry }
    }

    /// The page, with its Content-Type.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn page(&self, accept: &str) -> Result<(&'static str, String), fmt::Error> {
        let mut page = String::new();
        if accept.contains("application/openmetrics-text") {
            text::encode(&mut page, &self.registry)?;
            return Ok((OPEN_METRICS, page));
        }
        prometheus_text::encode(&mut page, &self.registry)?;
        Ok((TEXT, page))
    }
}

struct FromStore {
    store: Arc<Store>,
    clock: Clock,
    process: Arc<ProcessState>,
    tls: Option<Arc<Tls>>,
    log: Arc<DecisionLog>,
}

impl fmt::Debug for FromStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromStore")
    }
}

/// One autoscaler at the instant of a page.
struct Row {
    namespace: Arc<str>,
    name: Arc<str>,
    decision: Option<DecisionRow>,
    turns: TurnTotals,
    scrapes: ScrapeTotals,
    states: [u32; TargetState::ALL.len()],
    signals: Vec<(&'static str, f64)>,
}

struct DecisionRow {
    current: f64,
    desired: f64,
    published: Option<f64>,
    blind: bool,
    vetoed: bool,
    held: bool,
    age: f64,
}

impl Row {
    fn of(key: &crate::api::Key, entry: &Entry, now: Timestamp) -> Self {
        let standing = entry.standing.load();
        let decision = standing.as_ref().map(|standing| {
            let decision = &standing.record.decision;
            DecisionRow {
                current: f64::from(decision.current.get()),
                desired: f64::from(decision.desired.get()),
                published: decision.published.replicas().map(|replicas| f64::from(replicas.get())),
                blind: decision.blind,
                vetoed: decision.proposals.iter().any(|proposal| proposal.vetoes_down),
                held: standing.record.observation.paused || standing.record.observation.hold.is_some(),
                age: now.since(decision.at).as_secs_f64(),
            }
        });
        let fleet = entry.fleet.load();
        let (states, signals) = fleet.with(|fleet| (fleet.target_states(), signals(fleet, now)));
        Self {
            namespace: Arc::clone(&key.namespace),
            name: Arc::clone(&key.name),
            decision,
            turns: entry.totals(),
            scrapes: fleet.totals(),
            states,
            signals,
        }
    }

    fn labels(&self) -> [(&'static str, &str); 2] {
        [("namespace", &self.namespace), ("autoscaler", &self.name)]
    }

    fn labels_and(&self, name: &'static str, value: &'static str) -> [(&'static str, &str); 3] {
        [("namespace", &self.namespace), ("autoscaler", &self.name), (name, value)]
    }
}

/// The totals over the fleet of every signal that can be told.
fn signals(fleet: &Fleet, now: Timestamp) -> Vec<(&'static str, f64)> {
    let told = |signal: Signal| match fleet.raw(signal, now)? {
        RawReading::Served(raw) => Some((signal.external_metric(), raw.total.to_f64())),
        RawReading::Unreadable(_) | RawReading::NothingRead => None,
    };
    Signal::ALL.into_iter().filter(|signal| signal.class() != SignalClass::Latency).filter_map(told).collect()
}

/// Writes one family.
struct Family<'a>(MetricEncoder<'a>);

impl Family<'_> {
    fn gauge<const N: usize>(&mut self, labels: &[(&'static str, &str); N], value: f64) -> fmt::Result {
        ConstGauge::new(value).encode(self.0.encode_family(labels)?)
    }

    fn counter<const N: usize>(&mut self, labels: &[(&'static str, &str); N], value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_family(labels)?)
    }

    fn seconds<const N: usize>(&mut self, labels: &[(&'static str, &str); N], value: f64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_family(labels)?)
    }
}

fn gauge<'a>(encoder: &'a mut DescriptorEncoder<'_>, name: &'a str, help: &'a str) -> Result<Family<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge).map(Family)
}

/// Counters are named without `_total`, which the format adds.
fn counter<'a>(encoder: &'a mut DescriptorEncoder<'_>, name: &'a str, help: &'a str) -> Result<Family<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter).map(Family)
}

impl Collector for FromStore {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.clock.now();
        let rows: Vec<Row> = self.store.all().iter().map(|(key, entry)| Row::of(key, entry, now)).collect();
        self.encode_process(&mut encoder)?;
        encode_decisions(&mut encoder, &rows)?;
        encode_turns(&mut encoder, &rows)?;
        encode_scrapes(&mut encoder, &rows)
    }
}

impl FromStore {
    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Always 1; the version is a label";
        gauge(encoder, "headroom_build_info", help)?.gauge(&[("version", env!("CARGO_PKG_VERSION"))], 1.0)?;
        let help = "Configurations read, by result";
        let mut reloads = counter(encoder, "headroom_config_reloads", help)?;
        reloads.counter(&[("result", "taken")], self.process.config_reloads.load(Ordering::Relaxed))?;
        reloads.counter(&[("result", "refused")], self.process.config_failures.load(Ordering::Relaxed))?;
        let help = "1 if the last configuration was taken, 0 if it was refused and an older one stays in force";
        let taken = !self.process.config_refused.load(Ordering::Relaxed);
        gauge(encoder, "headroom_config_last_reload_successful", help)?.gauge(&[], f64::from(u8::from(taken)))?;
        let help = "Decisions that could not be written to standard output";
        counter(encoder, "headroom_decision_log_dropped", help)?.counter(&[], self.log.dropped())?;
        if let Some(tls) = &self.tls {
            let help = "Days until the serving certificate of the external metrics API expires";
            let days = tls.days_to_expiry(Clock::real().now());
            gauge(encoder, "headroom_serving_certificate_expiry_days", help)?.gauge(&[], days)?;
        }
        Ok(())
    }
}

fn encode_decisions(encoder: &mut DescriptorEncoder<'_>, rows: &[Row]) -> fmt::Result {
    let decisions = || rows.iter().filter_map(|row| Some((row, row.decision.as_ref()?)));
    let mut write = |name: &str, help: &str, value: fn(&DecisionRow) -> Option<f64>| {
        let mut family = gauge(encoder, name, help)?;
        for (row, decision) in decisions() {
            if let Some(value) = value(decision) {
                family.gauge(&row.labels(), value)?;
            }
        }
        Ok::<(), fmt::Error>(())
    };
    write("headroom_current_replicas", "Size of the target", |row| Some(row.current))?;
    write("headroom_desired_replicas", "Replicas decided", |row| Some(row.desired))?;
    write("headroom_published_replicas", "Replicas published; absent while an error is", |row| row.published)?;
    write("headroom_decision_age_seconds", "Time since the last decision", |row| Some(row.age))?;
    write("headroom_blind", "1 while no additive or ratio metric is readable", |row| {
        Some(f64::from(u8::from(row.blind)))
    })?;
    write("headroom_scale_down_vetoed", "1 while an unreadable metric forbids a fall", |row| {
        Some(f64::from(u8::from(row.vetoed)))
    })?;
    write("headroom_held", "1 while paused or held by hand", |row| Some(f64::from(u8::from(row.held))))?;
    for signal in Signal::ALL.into_iter().filter(|signal| signal.class() != SignalClass::Latency) {
        let name = signal.external_metric();
        let help = format!("{signal}, added up over the fleet as counted for a rise; absent while it cannot be told");
        let mut family = gauge(encoder, name, &help)?;
        for row in rows {
            if let Some((_, value)) = row.signals.iter().find(|(own, _)| *own == name) {
                family.gauge(&row.labels(), *value)?;
            }
        }
    }
    Ok(())
}

fn encode_turns(encoder: &mut DescriptorEncoder<'_>, rows: &[Row]) -> fmt::Result {
    let mut family = counter(encoder, "headroom_turns", "Decisions made")?;
    for row in rows {
        family.counter(&row.labels(), row.turns.turns)?;
    }
    let mut family =
        counter(encoder, "headroom_decision_changes", "Decisions that differ from the one before, by direction")?;
    for row in rows {
        family.counter(&row.labels_and("direction", "up"), row.turns.rises)?;
        family.counter(&row.labels_and("direction", "down"), row.turns.falls)?;
    }
    let mut family = counter(encoder, "headroom_scale_failures", "Writes of the target's size that failed")?;
    for row in rows {
        family.counter(&row.labels(), row.turns.scale_failures)?;
    }
    let mut family = counter(encoder, "headroom_state_write_failures", "States that could not be kept for a restart")?;
    for row in rows {
        family.counter(&row.labels(), row.turns.state_failures)?;
    }
    Ok(())
}

fn encode_scrapes(encoder: &mut DescriptorEncoder<'_>, rows: &[Row]) -> fmt::Result {
    let mut family = gauge(encoder, "headroom_targets", "Targets by the state their last scrape left them in")?;
    for row in rows {
        for (state, count) in TargetState::ALL.iter().zip(row.states) {
            family.gauge(&row.labels_and("state", state.name()), f64::from(count))?;
        }
    }
    let mut family = counter(encoder, "headroom_scrapes", "Scrapes by the state they left their target in")?;
    for row in rows {
        for (state, count) in TargetState::ALL.iter().zip(row.scrapes.by_state) {
            family.counter(&row.labels_and("state", state.name()), count)?;
        }
    }
    let mut family = counter(encoder, "headroom_scrape_seconds", "Time spent in scrapes, over all targets")?;
    for row in rows {
        family.seconds(&row.labels(), row.scrapes.time.as_secs_f64())?;
    }
    let mut family = counter(
        encoder,
        "headroom_scrape_lines_skipped",
        "Lines of pages that were no samples although they should be",
    )?;
    for row in rows {
        family.counter(&row.labels(), row.scrapes.skipped_lines)?;
    }
    let mut family =
        counter(encoder, "headroom_scrape_duplicate_samples", "Second samples of a series; the first counts")?;
    for row in rows {
        family.counter(&row.labels(), row.scrapes.duplicates)?;
    }
    Ok(())
}
