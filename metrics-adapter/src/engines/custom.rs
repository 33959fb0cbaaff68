//! Any other server, with the families of each signal named by the user.

use std::collections::BTreeMap;

use headroom_policies::Signal;
use headroom_policies::signal::Reading;
use serde::{Deserialize, Serialize};

use super::plan::{Expression, Gauge, PlanBuilder, Rates, Source};
use super::select::{Family, Selection};

/// How the series of a family become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RollUp {
    /// Added up.
    #[default]
    Sum,
    /// The largest.
    Max,
    /// The mean.
    Mean,
}

/// Where a signal of another server comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomMetric {
    /// The signal.
    pub signal: Signal,
    /// A gauge's or counter's sample name; a histogram's name without `_bucket`, in seconds.
    pub family: String,
    /// Only series with these labels.
    pub labels: BTreeMap<String, String>,
    /// How several series become one.
    pub roll_up: RollUp,
}

impl CustomMetric {
    fn sample_name(&self) -> String {
        match self.signal.reading() {
            Reading::Quantile => format!("{}_bucket", self.family),
            Reading::Gauge | Reading::Rate => self.family.clone(),
        }
    }

    fn select<'a>(&self, selection: &Selection<'a>) -> Family<'a> {
        let family = selection.family(&self.sample_name());
        self.labels.iter().fold(family, |family, (label, value)| family.with(label, value))
    }

    fn expression(&self, family: &Family<'_>) -> Option<Expression> {
        match self.roll_up {
            RollUp::Sum => family.sum(),
            RollUp::Max => family.max(),
            RollUp::Mean => family.mean(),
        }
    }
}

pub(super) fn names(metrics: &[CustomMetric]) -> Vec<String> {
    metrics.iter().map(CustomMetric::sample_name).collect()
}

pub(super) fn plan(metrics: &[CustomMetric], selection: &Selection<'_>, builder: &mut PlanBuilder) {
    for metric in metrics {
        let family = metric.select(selection);
        match metric.signal.reading() {
            Reading::Gauge => {
                let found = metric.expression(&family).map(Gauge);
                let source = metric.source(found, selection);
                if metric.signal == Signal::InFlightRequests {
                    // One family for both: as good as running requests with an empty queue.
                    builder.plan().running = source;
                    builder.plan().waiting = Source::LazyZero;
                } else {
                    builder.set_gauge(metric.signal, source);
                }
            }
            Reading::Rate => {
                let found = (!family.is_empty()).then(|| Rates(family.groups()));
                builder.set_rate(metric.signal, metric.source(found, selection));
            }
            Reading::Quantile => {
                let found = family.histogram(1.0);
                builder.set_latency(metric.signal, metric.source(found, selection));
            }
        }
    }
}

impl CustomMetric {
    fn source<T>(&self, found: Option<T>, selection: &Selection<'_>) -> Source<T> {
        let name = self.sample_name();
        match found {
            Some(found) => Source::From(found),
            None if selection.has(&name) => Source::NoMatch(selection.label_values(&name, &self.labels)),
            None => Source::Absent(vec![name.into()]),
        }
    }
}
