//! The store behind the external metrics API.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use headroom_adapter::clock::Clock;
use headroom_adapter::fleet::RawReading;
use headroom_adapter::serve::{ExternalMetrics, MetricError, MetricValue};
use headroom_policies::observation::UnknownReason;
use headroom_policies::signal::SignalClass;
use headroom_policies::{Milli, Published, Signal};

use crate::controller::{Entry, Store};

/// The whole decision as one number.
pub(super) const DESIRED_REPLICAS: &str = "headroom_desired_replicas";
/// Names of pods shown in a message.
const NAMES_SHOWN: usize = 5;
/// A decision that was not renewed for so many intervals, and so long, no longer stands.
const INTERVALS_UNTIL_STALE: u32 = 3;

/// The decision, then every signal.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| std::iter::once(DESIRED_REPLICAS).chain(Signal::ALL.map(Signal::external_metric)).collect());

/// Serves the standing decisions and the newest samples.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    store: Arc<Store>,
    clock: Clock,
}

impl StoreMetrics {
    /// Serves from a store.
    pub fn new(store: Arc<Store>, clock: Clock) -> Self {
        Self { store, clock }
    }

    fn desired(&self, entry: &Entry) -> Result<MetricValue, MetricError> {
        let standing = entry.standing.load();
        let Some(standing) = standing.as_ref() else {
            return Err(MetricError::Unreadable(
                "no decision has been made yet: its model servers are being read for the first time".into(),
            ));
        };
        let decision = &standing.record.decision;
        let spec = entry.spec.load();
        let stale = spec.max_age.max(spec.policy.interval * INTERVALS_UNTIL_STALE);
        if self.clock.now().since(decision.at) > stale {
            return Err(MetricError::Unreadable(format!("no decision has been made since {}", decision.at)));
        }
        match &decision.published {
            Published::Replicas(replicas) => {
                Ok(MetricValue { value: Milli::from_units(i64::from(replicas.get())), at: decision.at, window: None })
            }
            Published::Error(message) => Err(MetricError::Unreadable(message.clone())),
        }
    }

    fn raw(&self, entry: &Entry, signal: Signal) -> Result<MetricValue, MetricError> {
        let spec = entry.spec.load();
        let metric = spec.policy.metrics.iter().find(|metric| metric.signal == signal);
        match signal.class() {
            SignalClass::Latency => {
                return Err(MetricError::NotServed(format!(
                    "a latency does not tell how many replicas there should be; use {DESIRED_REPLICAS}, in which it is counted"
                )));
            }
            SignalClass::Ratio if metric.is_none() => {
                return Err(MetricError::NotServed(format!(
                    "the autoscaler does not list {signal} with a target; add it to spec.metrics, or use {DESIRED_REPLICAS}"
                )));
            }
            SignalClass::Ratio | SignalClass::Additive => {}
        }
        let (reading, never) =
            entry.fleet.load().with(|fleet| (fleet.raw(signal, self.clock.now()), fleet.is_never_exported(signal)));
        if never {
            return Err(MetricError::NotServed(format!("the engine does not export {signal}; use {DESIRED_REPLICAS}")));
        }
        match reading {
            Some(RawReading::Served(raw)) => {
                // A fleet that loads is held, not cut: the HPA would take its absent occupancy for room.
                let held = metric.filter(|_| signal.class() == SignalClass::Ratio && raw.starting > 0).map(|metric| {
                    let current =
                        entry.standing.load().as_ref().map_or(0, |standing| standing.record.decision.current.get());
                    Milli::saturating(i128::from(metric.target.get()) * i128::from(current))
                });
                let value = held.map_or(raw.total, |held| held.max(raw.total));
                let window = Some(raw.window).filter(|window| !window.is_zero());
                Ok(MetricValue { value, at: raw.at, window })
            }
            Some(RawReading::Unreadable(replicas)) => Err(MetricError::Unreadable(unreadable(signal, &replicas))),
            Some(RawReading::NothingRead) | None => {
                Err(MetricError::Unreadable(format!("{signal} of no Ready replica was read")))
            }
        }
    }
}

fn unreadable(signal: Signal, replicas: &[(Arc<str>, UnknownReason)]) -> String {
    let mut message = format!("{signal} of ");
    for (index, (name, reason)) in replicas.iter().take(NAMES_SHOWN).enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        // Writing to a String does not fail.
        let _ = write!(message, "{separator}{name} ({reason:?})");
    }
    if replicas.len() > NAMES_SHOWN {
        let _ = write!(message, " and {} more", replicas.len() - NAMES_SHOWN);
    }
    message + " has not been readable for 5 minutes"
}

impl ExternalMetrics for StoreMetrics {
    fn metric_names(&self) -> &[&'static str] {
        &NAMES
    }

    fn autoscalers(&self, namespace: &str, visit: &mut dyn FnMut(&str)) {
        for name in self.store.names_in(namespace) {
            visit(&name);
        }
    }

    fn read(&self, namespace: &str, autoscaler: &str, metric: &'static str) -> Result<MetricValue, MetricError> {
        let entry = self.store.get(namespace, autoscaler).ok_or(MetricError::NoSuchAutoscaler)?;
        match Signal::ALL.into_iter().find(|signal| signal.external_metric() == metric) {
            Some(signal) => self.raw(&entry, signal),
            None => self.desired(&entry),
        }
    }
}
