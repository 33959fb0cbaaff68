//! What the series of one page layout mean: made once for a layout, then evaluated for each page.

use headroom_policies::Signal;
use headroom_policies::observation::UnknownReason;
use headroom_policies::window::Bounds;

use super::Engine;
use super::select::Selection;
use crate::exposition::{Page, Slot};

/// When the server's process started; a change means its counters began again.
pub(crate) const PROCESS_START: &str = "process_start_time_seconds";

/// Arithmetic over slots.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    /// Over groups, the sum of each group's largest.
    Sum(Vec<Vec<Slot>>),
    /// The largest.
    Max(Vec<Slot>),
    /// Over groups, the mean of each group's largest.
    Mean(Vec<Vec<Slot>>),
    /// Several added up.
    Total(Vec<Expression>),
    /// The first less the second, at least 0.
    Less(Box<Expression>, Box<Expression>),
    /// The first over the second.
    Over(Box<Expression>, Box<Expression>),
    /// Multiplied.
    Product(Box<Expression>, Box<Expression>),
    /// Multiplied by a constant.
    Times(Box<Expression>, f64),
}

impl Expression {
    /// `self - other`, at least 0.
    pub(crate) fn less(self, other: Self) -> Self {
        Self::Less(Box::new(self), Box::new(other))
    }

    /// `self / other`.
    pub(crate) fn over(self, other: Self) -> Self {
        Self::Over(Box::new(self), Box::new(other))
    }

    /// `self * other`.
    pub(crate) fn product(self, other: Self) -> Self {
        Self::Product(Box::new(self), Box::new(other))
    }

    /// `self * factor`.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self::Times(Box::new(self), factor)
    }

    /// Those that are there, added up.
    pub(crate) fn total(parts: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let mut parts: Vec<Self> = parts.into_iter().flatten().collect();
        match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(Self::Total(parts)),
        }
    }
}

/// A page with the time before which its own timestamps are too old.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) page: &'a Page,
    /// Milliseconds since 1970 on the server's clock.
    pub(crate) stale_before: Option<i64>,
}

impl Values<'_> {
    pub(crate) fn get(&self, slot: Slot) -> Result<f64, UnknownReason> {
        let value = self.page.value(slot).ok_or(UnknownReason::AbsentFamily)?;
        if let Some(limit) = self.stale_before
            && self.page.timestamp(slot).is_some_and(|timestamp| timestamp < limit)
        {
            return Err(UnknownReason::Stale);
        }
        if value.is_finite() && !is_blank_sentinel(value) { Ok(value) } else { Err(UnknownReason::OutOfRange) }
    }

    fn largest(&self, slots: &[Slot]) -> Result<f64, UnknownReason> {
        let mut largest = f64::NEG_INFINITY;
        for slot in slots {
            largest = largest.max(self.get(*slot)?);
        }
        if largest.is_finite() { Ok(largest) } else { Err(UnknownReason::AbsentFamily) }
    }

    fn sum(&self, groups: &[Vec<Slot>]) -> Result<f64, UnknownReason> {
        groups.iter().try_fold(0.0, |sum, slots| Ok(sum + self.largest(slots)?))
    }

    pub(crate) fn evaluate(&self, expression: &Expression) -> Result<f64, UnknownReason> {
        match expression {
            Expression::Sum(groups) => self.sum(groups),
            Expression::Max(slots) => self.largest(slots),
            Expression::Mean(groups) => Ok(self.sum(groups)? / groups.len() as f64),
            Expression::Total(parts) => parts.iter().try_fold(0.0, |sum, part| Ok(sum + self.evaluate(part)?)),
            Expression::Less(whole, part) => Ok((self.evaluate(whole)? - self.evaluate(part)?).max(0.0)),
            Expression::Over(part, whole) => {
                let whole = self.evaluate(whole)?;
                if whole > 0.0 { Ok(self.evaluate(part)? / whole) } else { Err(UnknownReason::OutOfRange) }
            }
            Expression::Product(a, b) => Ok(self.evaluate(a)? * self.evaluate(b)?),
            Expression::Times(inner, factor) => Ok(self.evaluate(inner)? * factor),
        }
    }
}

/// Values by which exporters say "no value" (DCGM's blank constants, as doubles).
fn is_blank_sentinel(value: f64) -> bool {
    (2_147_483_632.0..=2_147_483_635.0).contains(&value)
        || (140_737_488_355_328.0..=140_737_488_355_331.0).contains(&value)
        || value >= 9.2e18
}

/// Where a signal comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source<T> {
    /// From this.
    From(T),
    /// The engine creates the family with its first request, and is known to be alive: zero.
    LazyZero,
    /// The family is absent. It is zero while the engine's heartbeat stands still and everything named is zero,
    /// since such an engine writes its gauges only when it computes.
    ZeroWhileStill,
    /// The families are absent.
    Absent(Vec<Box<str>>),
    /// The families are there, and no series is of the model that was asked for; these models are.
    NoMatch(Vec<Box<str>>),
    /// The family is there, and contradicts itself: a histogram without an infinite bucket, or with one twice.
    Malformed,
    /// The engine has no such family in any version.
    NotExported,
}

/// A gauge, in the signal's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge(pub(crate) Expression);

/// The counters of a rate: groups of slots that repeat the same fact.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(pub(crate) Vec<Vec<Slot>>);

/// The buckets of one histogram of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramGroup {
    /// Upper bounds in seconds, ascending, the last one infinite.
    pub bounds: Bounds,
    /// The slot of each bucket's cumulative count.
    pub slots: Vec<Slot>,
}

impl HistogramGroup {
    /// Sorts buckets by their bounds. `None` without an infinite bound, or with a bound twice.
    pub(crate) fn of(mut buckets: Vec<(f64, Slot)>) -> Option<Self> {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let distinct = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let whole = buckets.last().is_some_and(|(bound, _)| *bound == f64::INFINITY);
        (distinct && whole).then(|| Self {
            bounds: buckets.iter().map(|(bound, _)| *bound).collect(),
            slots: buckets.iter().map(|(_, slot)| *slot).collect(),
        })
    }
}

/// The histograms of a latency, one for each rank or model.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramPlan {
    /// In the page's order.
    pub groups: Vec<HistogramGroup>,
}

/// What the series of one page layout mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The engine; `None` = not recognised.
    pub engine: Option<Engine>,
    /// All waiting requests.
    pub waiting: Source<Gauge>,
    /// Those of them that wait for something replicas cannot give.
    pub deferred: Option<Gauge>,
    /// Running requests.
    pub running: Source<Gauge>,
    /// KV-cache occupancy of the fullest rank.
    pub kv_cache: Source<Gauge>,
    /// The mean over ranks.
    pub kv_cache_mean: Option<Gauge>,
    /// KV-cache tokens held.
    pub kv_tokens: Source<Gauge>,
    /// Output tokens.
    pub generation_tokens: Source<Rates>,
    /// Prompt tokens.
    pub prompt_tokens: Source<Rates>,
    /// Refused requests.
    pub rejected: Source<Rates>,
    /// Preemptions.
    pub preemptions: Source<Rates>,
    /// Time to first token.
    pub time_to_first_token: Source<HistogramPlan>,
    /// Time between tokens.
    pub inter_token_latency: Source<HistogramPlan>,
    /// Time in the queue.
    pub queue_time: Source<HistogramPlan>,
    /// Counters that move whenever the engine computes.
    pub heartbeat: Vec<Slot>,
    /// One-hot "awake" gauges: asleep where any is 0.
    pub awake: Vec<Slot>,
    /// Gauges that must be 0 for [`Source::ZeroWhileStill`].
    pub also_still: Vec<Slot>,
    /// When the process started.
    pub process_start: Option<Slot>,
}

/// Why a plan has no source for a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// These families are not in the page.
    Families(Vec<Box<str>>),
    /// They are there for these models only.
    Models(Vec<Box<str>>),
    /// The engine has none in any version.
    NotExported,
}

impl<T> Source<T> {
    fn absence(&self) -> Option<Absence> {
        match self {
            Self::From(_) | Self::LazyZero | Self::ZeroWhileStill | Self::Malformed => None,
            Self::Absent(names) => Some(Absence::Families(names.clone())),
            Self::NoMatch(models) => Some(Absence::Models(models.clone())),
            Self::NotExported => Some(Absence::NotExported),
        }
    }
}

impl Plan {
    /// Why there is no source for a signal; `None` where there is one.
    pub fn absence(&self, signal: Signal) -> Option<Absence> {
        match signal {
            Signal::WaitingRequests => self.waiting.absence(),
            Signal::RunningRequests => self.running.absence(),
            Signal::InFlightRequests => self.waiting.absence().or_else(|| self.running.absence()),
            Signal::KVCacheUtilization => self.kv_cache.absence(),
            Signal::KVCacheTokens => self.kv_tokens.absence(),
            Signal::GenerationTokenRate => self.generation_tokens.absence(),
            Signal::PromptTokenRate => self.prompt_tokens.absence(),
            Signal::RejectedRequestRate => self.rejected.absence(),
            Signal::PreemptionRate => self.preemptions.absence(),
            Signal::TimeToFirstToken => self.time_to_first_token.absence(),
            Signal::InterTokenLatency => self.inter_token_latency.absence(),
            Signal::QueueTime => self.queue_time.absence(),
        }
    }

    /// What to check where even the counts of requests have no source.
    pub fn absence_hint(&self) -> Option<&'static str> {
        let absent = |absence| matches!(absence, Some(Absence::Families(_)));
        if !absent(self.waiting.absence()) || !absent(self.running.absence()) {
            return None;
        }
        self.engine.map(Engine::absence_hint)
    }
}

/// Builds a [`Plan`]; what an engine does not set is not exported by it.
pub(crate) struct PlanBuilder {
    plan: Plan,
}

impl PlanBuilder {
    pub(crate) fn new(engine: Option<Engine>) -> Self {
        let plan = Plan {
            engine,
            waiting: Source::NotExported,
            deferred: None,
            running: Source::NotExported,
            kv_cache: Source::NotExported,
            kv_cache_mean: None,
            kv_tokens: Source::NotExported,
            generation_tokens: Source::NotExported,
            prompt_tokens: Source::NotExported,
            rejected: Source::NotExported,
            preemptions: Source::NotExported,
            time_to_first_token: Source::NotExported,
            inter_token_latency: Source::NotExported,
            queue_time: Source::NotExported,
            heartbeat: Vec::new(),
            awake: Vec::new(),
            also_still: Vec::new(),
            process_start: None,
        };
        Self { plan }
    }

    /// The plan, to set what needs no care.
    pub(crate) fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    /// Sets a gauge: an expression, or why there is none. `names` are the families it would be read from.
    pub(crate) fn gauge(
        &mut self,
        signal: Signal,
        expression: Option<Expression>,
        selection: &Selection<'_>,
        names: &[impl AsRef<str>],
    ) {
        let source = source(expression.map(Gauge), selection, names);
        self.set_gauge(signal, source);
    }

    /// Sets a gauge's source.
    pub(crate) fn set_gauge(&mut self, signal: Signal, source: Source<Gauge>) {
        match signal {
            Signal::WaitingRequests => self.plan.waiting = source,
            Signal::RunningRequests => self.plan.running = source,
            Signal::KVCacheUtilization => self.plan.kv_cache = source,
            Signal::KVCacheTokens => self.plan.kv_tokens = source,
            _ => debug_assert!(false, "{signal} is no gauge of a page"),
        }
    }

    /// Sets a rate from the first of these counters that is there.
    pub(crate) fn rate(&mut self, signal: Signal, selection: &Selection<'_>, names: &[impl AsRef<str>]) {
        let family = selection.first(names);
        let rates = (!family.is_empty()).then(|| Rates(family.groups()));
        self.set_rate(signal, source(rates, selection, names));
    }

    /// Sets a rate's source.
    pub(crate) fn set_rate(&mut self, signal: Signal, source: Source<Rates>) {
        match signal {
            Signal::GenerationTokenRate => self.plan.generation_tokens = source,
            Signal::PromptTokenRate => self.plan.prompt_tokens = source,
            Signal::RejectedRequestRate => self.plan.rejected = source,
            Signal::PreemptionRate => self.plan.preemptions = source,
            _ => debug_assert!(false, "{signal} is no rate"),
        }
    }

    /// Sets a latency from the first of these histograms that is there; bounds are multiplied by `to_seconds`.
    pub(crate) fn latency(
        &mut self,
        signal: Signal,
        selection: &Selection<'_>,
        names: &[impl AsRef<str>],
        to_seconds: f64,
    ) {
        let buckets: Vec<String> = names.iter().map(|name| format!("{}_bucket", name.as_ref())).collect();
        let family = selection.first(&buckets);
        let source = match family.histogram(to_seconds) {
            None if !family.is_empty() => Source::Malformed,
            histogram => source(histogram, selection, &buckets),
        };
        self.set_latency(signal, source);
    }

    /// Sets a latency's source.
    pub(crate) fn set_latency(&mut self, signal: Signal, source: Source<HistogramPlan>) {
        match signal {
            Signal::TimeToFirstToken => self.plan.time_to_first_token = source,
            Signal::InterTokenLatency => self.plan.inter_token_latency = source,
            Signal::QueueTime => self.plan.queue_time = source,
            _ => debug_assert!(false, "{signal} is no latency"),
        }
    }

    pub(crate) fn finish(mut self, selection: &Selection<'_>) -> Plan {
        self.plan.process_start = selection.family(PROCESS_START).slots().first().copied();
        self.plan
    }
}

fn source<T>(found: Option<T>, selection: &Selection<'_>, names: &[impl AsRef<str>]) -> Source<T> {
    match (found, selection.other_models(names)) {
        (Some(found), _) => Source::From(found),
        (None, Some(models)) => Source::NoMatch(models),
        (None, None) => Source::Absent(names.iter().map(|name| Box::from(name.as_ref())).collect()),
    }
}

/// Sample names of histograms: their buckets.
pub(crate) fn bucket_names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{name}_bucket")).collect()
}

/// Owned copies.
pub(crate) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
