//! Choosing series of a page layout by name and labels.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Expression, HistogramGroup, HistogramPlan};
use crate::exposition::{Layout, NameSet, Series, Slot};

/// Labels whose values repeat the same fact: of series that differ in nothing else, the largest counts.
const SAME_FACT: [&str; 4] = ["tp_rank", "pp_rank", "moe_ep_rank", "pid"];
/// Labels that name a model.
const MODEL: [&str; 2] = ["model_name", "model"];

/// A label's name and value.
type Label = (Box<str>, Box<str>);

/// Upper bounds with the slots of their counts.
type Buckets = Vec<(f64, Slot)>;

/// The series of a layout, those of other models left out.
pub(crate) struct Selection<'a> {
    layout: &'a Layout,
    names: &'a NameSet,
    model: Option<&'a str>,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(layout: &'a Layout, names: &'a NameSet, model: Option<&'a str>) -> Self {
        Self { layout, names, model }
    }

    fn all_named(&self, name: &str) -> impl Iterator<Item = (Slot, &'a Series)> + use<'a> {
        let id = self.names.id(name);
        let numbered = self.layout.series().iter().enumerate();
        numbered.filter(move |(_, series)| Some(series.name) == id).map(|(slot, series)| (slot as Slot, series))
    }

    /// Any series of the name is there, of whatever model.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all_named(name).next().is_some()
    }

    /// The series of a name.
    pub(crate) fn family(&self, name: &str) -> Family<'a> {
        let wanted = |series: &Series| {
            let own = MODEL.iter().find_map(|label| series.label(label));
            self.model.is_none() || own.is_none() || own == self.model
        };
        let members = self.all_named(name).filter(|(_, series)| wanted(series)).collect();
        Family { members }
    }

    /// The family of the first of these names that is there.
    pub(crate) fn first(&self, names: &[impl AsRef<str>]) -> Family<'a> {
        let found = names.iter().find(|name| self.has(name.as_ref()));
        found.map_or(Family { members: Vec::new() }, |name| self.family(name.as_ref()))
    }

    /// The models of the families with these names, where a filter leaves none of their series.
    pub(crate) fn other_models(&self, names: &[impl AsRef<str>]) -> Option<Vec<Box<str>>> {
        self.model?;
        let present: Vec<&str> = names.iter().map(AsRef::as_ref).filter(|name| self.has(name)).collect();
        if present.is_empty() || present.iter().any(|name| !self.family(name).is_empty()) {
            return None;
        }
        let label = |series: &Series| MODEL.iter().find_map(|label| series.label(label)).map(Box::from);
        let seen: BTreeSet<Box<str>> =
            present.iter().flat_map(|name| self.all_named(name)).filter_map(|(_, series)| label(series)).collect();
        Some(seen.into_iter().collect())
    }

    /// What the series of a name have for some labels, as `label="value"`, where a filter by them leaves none.
    pub(crate) fn label_values(&self, name: &str, labels: &BTreeMap<String, String>) -> Vec<Box<str>> {
        let shown = |series: &Series| {
            let pairs = labels.keys().map(|label| format!("{label}={:?}", series.label(label).unwrap_or_default()));
            pairs.collect::<Vec<_>>().join(",").into_boxed_str()
        };
        let seen: BTreeSet<Box<str>> = self.all_named(name).map(|(_, series)| shown(series)).collect();
        seen.into_iter().collect()
    }
}

/// Series of one name.
#[derive(Debug, Clone)]
pub(crate) struct Family<'a> {
    members: Vec<(Slot, &'a Series)>,
}

impl Family<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Some series has the label.
    pub(crate) fn has_label(&self, label: &str) -> bool {
        self.members.iter().any(|(_, series)| series.label(label).is_some())
    }

    /// Those with a label of this value.
    pub(crate) fn with(mut self, label: &str, value: &str) -> Self {
        self.members.retain(|(_, series)| series.label(label) == Some(value));
        self
    }

    /// If any has the label with this value, those; else those without the label, or all.
    pub(crate) fn total_of(self, label: &str, value: &str) -> Self {
        let split = self.members.iter().any(|(_, series)| series.label(label) == Some(value));
        if split { self.with(label, value) } else { self }
    }

    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.members.iter().map(|(slot, _)| *slot).collect()
    }

    /// Groups of slots that repeat the same fact.
    pub(crate) fn groups(&self) -> Vec<Vec<Slot>> {
        let partition = |series: &Series| -> Vec<Label> {
            series.labels.iter().filter(|(name, _)| !SAME_FACT.contains(&&**name)).cloned().collect()
        };
        // The tensor-parallel ranks of different data-parallel ranks differ too: `dp_rank` alone tells them apart.
        let mut groups: Vec<(Vec<Label>, Vec<Slot>)> = Vec::new();
        for (slot, series) in &self.members {
            let key = partition(series);
            match groups.iter_mut().find(|(own, _)| *own == key) {
                Some((_, slots)) => slots.push(*slot),
                None => groups.push((key, vec![*slot])),
            }
        }
        groups.into_iter().map(|(_, slots)| slots).collect()
    }

    /// The sum over partitions.
    pub(crate) fn sum(&self) -> Option<Expression> {
        (!self.is_empty()).then(|| Expression::Sum(self.groups()))
    }

    /// The largest.
    pub(crate) fn max(&self) -> Option<Expression> {
        (!self.is_empty()).then(|| Expression::Max(self.slots()))
    }

    /// The mean over partitions.
    pub(crate) fn mean(&self) -> Option<Expression> {
        (!self.is_empty()).then(|| Expression::Mean(self.groups()))
    }

    /// The whole number that a label holds: the largest over the series.
    pub(crate) fn largest_label(&self, label: &str) -> Option<f64> {
        let numbers = self.members.iter().filter_map(|(_, series)| series.label(label)?.parse::<f64>().ok());
        numbers.filter(|number| number.is_finite() && *number > 0.0).reduce(f64::max)
    }

    /// The histograms of these buckets, bounds multiplied by `to_seconds`.
    pub(crate) fn histogram(&self, to_seconds: f64) -> Option<HistogramPlan> {
        let mut groups: Vec<(Vec<Label>, Buckets)> = Vec::new();
        for (slot, series) in &self.members {
            let Some(bound) = series.label("le").and_then(parse_bound) else { continue };
            let key: Vec<_> = series.labels.iter().filter(|(name, _)| &**name != "le").cloned().collect();
            match groups.iter_mut().find(|(own, _)| *own == key) {
                Some((_, buckets)) => buckets.push((bound * to_seconds, *slot)),
                None => groups.push((key, vec![(bound * to_seconds, *slot)])),
            }
        }
        let groups: Vec<HistogramGroup> =
            groups.into_iter().filter_map(|(_, buckets)| HistogramGroup::of(buckets)).collect();
        (!groups.is_empty()).then_some(HistogramPlan { groups })
    }
}

/// A bucket's upper bound.
fn parse_bound(text: &str) -> Option<f64> {
    let bound: f64 = text.parse().ok()?;
    (!bound.is_nan()).then_some(bound)
}
