//! What is decided by: metrics and `behavior`.

use std::time::Duration;

use headroom_adapter::engines::{Engine, EngineSettings};
use headroom_policies::behavior::{Behavior, ScalingRules};
use headroom_policies::policy::{MetricPolicy, Policy};
use headroom_policies::quantity::Decimal;
use headroom_policies::signal::{Reading, SignalClass};
use headroom_policies::{Replicas, Signal};

use super::Check;
use crate::api::quantities::{duration_within, target};
use crate::api::wire::{Include, Metric, Spec};

const LONGEST_METRIC_WINDOW: Duration = Duration::from_secs(600);

impl Check {
    pub(super) fn metrics(&mut self, spec: &Spec, engine: &EngineSettings) -> Vec<MetricPolicy> {
        let Some(written) = &spec.metrics else {
            let mut defaults = Policy::new(Replicas::ONE, Replicas::ONE).metrics;
            defaults.retain(|metric| exports(engine, metric.signal) != Some(false));
            if defaults.is_empty() {
                let name = engine.engine.map_or("this engine", Engine::name);
                self.error(
                    "spec.metrics",
                    format!("is required: {name} exports neither WaitingRequests nor KVCacheUtilization"),
                );
            }
            return defaults;
        };
        let mut metrics: Vec<MetricPolicy> = Vec::new();
        for (index, metric) in written.iter().enumerate() {
            let field = format!("spec.metrics[{index}]");
            if metrics.iter().any(|own| own.signal == metric.signal) {
                self.error(format!("{field}.signal"), format!("{} is listed twice", metric.signal));
                continue;
            }
            if exports(engine, metric.signal) == Some(false) {
                let name = engine.engine.map_or("this engine", Engine::name);
                self.error(format!("{field}.signal"), format!("{name} does not export {}; remove it", metric.signal));
            }
            if let Some(metric) = self.metric(metric, &field) {
                metrics.push(metric);
            }
        }
        if !written.iter().any(|metric| metric.signal.class() != SignalClass::Latency) {
            self.error(
                "spec.metrics",
                "needs a signal that can also lower, such as {signal: WaitingRequests, target: 5}",
            );
        }
        metrics
    }

    fn metric(&mut self, written: &Metric, field: &str) -> Option<MetricPolicy> {
        let signal = written.signal;
        let target = self.take(target(signal, &written.target, &format!("{field}.target")));
        let window = self.take(duration_within(
            written.window.as_deref(),
            &format!("{field}.window"),
            signal.default_window(),
            (Duration::ZERO, LONGEST_METRIC_WINDOW),
        ));
        if window == Some(Duration::ZERO) && signal.reading() != Reading::Gauge {
            self.error(format!("{field}.window"), format!("{signal} needs a window, such as 60s"));
        }
        if written.quantile.is_some() && signal.reading() != Reading::Quantile {
            self.error(format!("{field}.quantile"), format!("{signal} is no latency and has no quantile"));
        }
        let quantile = written.quantile.unwrap_or(0.95);
        if !(quantile > 0.0 && quantile <= 1.0) {
            self.error(format!("{field}.quantile"), format!("{quantile} must be above 0 and at most 1, such as 0.95"));
        }
        let include_deferred = written.include.contains(&Include::Deferred);
        if include_deferred && !matches!(signal, Signal::WaitingRequests | Signal::InFlightRequests) {
            self.error(format!("{field}.include"), format!("only waiting requests can be deferred, not {signal}"));
        }
        let target = target?;
        if signal == Signal::WaitingRequests && target.get() > 30_000 {
            self.warn(
                format!("{field}.target"),
                format!("{} waiting requests a replica is a long queue; 5 to 10 is usual", Decimal(target)),
            );
        }
        Some(MetricPolicy { signal, target, window: window?, quantile, include_deferred })
    }

    /// The HPA's own validation of `behavior`.
    pub(super) fn behavior(&mut self, behavior: Option<&Behavior>) {
        let Some(behavior) = behavior else { return };
        for (rules, field) in [
            (behavior.scale_up.as_ref(), "spec.behavior.scaleUp"),
            (behavior.scale_down.as_ref(), "spec.behavior.scaleDown"),
        ] {
            if let Some(rules) = rules {
                self.scaling_rules(rules, field);
            }
        }
    }

    fn scaling_rules(&mut self, rules: &ScalingRules, field: &str) {
        if rules.stabilization_window_seconds.is_some_and(|seconds| seconds > 3600) {
            self.error(format!("{field}.stabilizationWindowSeconds"), "must be from 0 to 3600");
        }
        let Some(policies) = &rules.policies else { return };
        if policies.is_empty() {
            self.error(format!("{field}.policies"), "must hold at least one policy, or be left out");
        }
        for (index, policy) in policies.iter().enumerate() {
            if policy.value < 1 {
                self.error(
                    format!("{field}.policies[{index}].value"),
                    "must be above 0; to forbid changes set selectPolicy: Disabled",
                );
            }
            if !(1..=1800).contains(&policy.period_seconds) {
                self.error(format!("{field}.policies[{index}].periodSeconds"), "must be from 1 to 1800");
            }
        }
    }
}

/// Whether an engine can export a signal, where that is known of it.
fn exports(settings: &EngineSettings, signal: Signal) -> Option<bool> {
    match settings.engine? {
        Engine::Custom => {
            let named = |wanted: Signal| settings.custom.iter().any(|metric| metric.signal == wanted);
            let parts =
                signal == Signal::InFlightRequests && named(Signal::WaitingRequests) && named(Signal::RunningRequests);
            Some(named(signal) || parts)
        }
        engine => engine.exports(signal),
    }
}
