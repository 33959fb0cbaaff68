//! One model server: its last page, its state, its signals.

use std::time::Duration;

use headroom_policies::Timestamp;
use headroom_policies::observation::UnknownReason;
use headroom_policies::policy::MetricPolicy;

use super::FleetSettings;
use super::observe::LatencyState;
use super::signal::SignalState;
use crate::engines::{Absence, Engine, EngineReader, Plan, Readings};
use crate::exposition::{LineCounts, Page, Scrutiny};
use crate::scrape::{Scraped, Target, TargetState};

/// A heartbeat must stand still for so many pages, and for so long, before busy gauges are not believed.
const STILL_PAGES: u32 = 3;
const STILL_TIME: Duration = Duration::from_secs(15);

/// One model server of a replica.
#[derive(Debug)]
pub(super) struct EngineState {
    pub(super) target: Target,
    pub(super) state: TargetState,
    pub(super) message: Option<Box<str>>,
    pub(super) engine: Option<Engine>,
    pub(super) scraped_at: Option<Timestamp>,
    pub(super) read_at: Option<Timestamp>,
    pub(super) next: Option<Timestamp>,
    pub(super) took: Duration,
    pub(super) failures: u32,
    pub(super) lines: LineCounts,
    /// One entry a tracked metric.
    pub(super) signals: Box<[SignalState]>,
    page: Option<Page>,
    still: Option<Still>,
    newest_timestamp: Option<(i64, Timestamp)>,
    looked_at_whole: bool,
}

/// Since when gauges show work while the heartbeat stands still.
#[derive(Debug, Clone, Copy)]
struct Still {
    since: Timestamp,
    pages: u32,
}

impl EngineState {
    pub(super) fn new(target: Target, tracked: usize) -> Self {
        Self {
            target,
            state: TargetState::Pending,
            message: None,
            engine: None,
            scraped_at: None,
            read_at: None,
            next: None,
            took: Duration::ZERO,
            failures: 0,
            lines: LineCounts::default(),
            signals: vec![SignalState::default(); tracked].into(),
            page: None,
            still: None,
            newest_timestamp: None,
            looked_at_whole: false,
        }
    }

    pub(super) fn record(
        &mut self,
        scraped: Scraped,
        reader: &EngineReader,
        settings: &FleetSettings,
        tracked: &[MetricPolicy],
        latencies: &mut [LatencyState],
    ) -> Scrutiny {
        self.scraped_at = Some(scraped.at);
        self.took = scraped.took;
        self.next = Some(scraped.next);
        let page = match scraped.outcome {
            Ok(page) => page,
            Err(failure) => {
                self.state = failure.state;
                self.message = Some(failure.message.into());
                self.failures = self.failures.saturating_add(1);
                self.fail_signals(failure.state.unknown_reason());
                return Scrutiny::Wanted;
            }
        };
        self.failures = 0;
        let before = self.read_at.replace(scraped.at);
        let plan = reader.plan(&page);
        self.engine = plan.engine;
        let most_behind = i64::try_from(settings.max_age.as_millis()).unwrap_or(i64::MAX);
        let previous = self.page.take();
        let readings = Readings::new(&plan, &page, previous.as_ref(), most_behind);
        let distrust = self.distrust(&readings, &page, (scraped.at, before), settings);
        match distrust {
            Some((state, _)) if state != TargetState::Sleeping => self.fail_signals(state.unknown_reason()),
            _ => {
                for (signal, metric) in self.signals.iter_mut().zip(tracked) {
                    signal.record(metric, &readings, scraped.at);
                }
            }
        }
        for latency in latencies {
            latency.record(&readings, scraped.at);
        }
        self.settle_state(distrust, &plan, &page, settings, scraped.slow);
        let scrutiny = self.next_scrutiny(&page);
        self.lines = page.lines.clone();
        self.page = Some(page);
        scrutiny
    }

    fn fail_signals(&mut self, reason: UnknownReason) {
        for signal in &mut self.signals {
            signal.fail(reason);
        }
    }

    /// Why a page that was read does not speak of the present: the engine sleeps, hangs, or its exporter repeats
    /// old samples.
    fn distrust(
        &mut self,
        readings: &Readings<'_>,
        page: &Page,
        (at, before): (Timestamp, Option<Timestamp>),
        settings: &FleetSettings,
    ) -> Option<(TargetState, String)> {
        if readings.is_asleep() {
            return Some((TargetState::Sleeping, "the engine sleeps and serves nothing until it is woken".into()));
        }
        if let Some(newest) = page.newest_timestamp() {
            let (_, first_seen) =
                *self.newest_timestamp.filter(|(known, _)| *known == newest).get_or_insert((newest, at));
            self.newest_timestamp = Some((newest, first_seen));
            if at.since(first_seen) > settings.max_age {
                let message = format!("the newest timestamp in the page has not moved for {:?}", at.since(first_seen));
                return Some((TargetState::Stale, message));
            }
        }
        if readings.shows_work() && readings.heartbeat_stands_still() == Some(true) {
            let still = self.still.get_or_insert(Still { since: before.unwrap_or(at), pages: 0 });
            still.pages += 1;
            let patience = STILL_TIME.max(settings.interval * STILL_PAGES);
            if still.pages >= STILL_PAGES && at.since(still.since) >= patience {
                let message = format!(
                    "gauges show work, but the engine has computed nothing for {:?}: it hangs, or its gauges are stale",
                    at.since(still.since)
                );
                return Some((TargetState::Frozen, message));
            }
        } else {
            self.still = None;
        }
        None
    }

    fn settle_state(
        &mut self,
        distrust: Option<(TargetState, String)>,
        plan: &Plan,
        page: &Page,
        settings: &FleetSettings,
        slow: bool,
    ) {
        let problem = distrust.or_else(|| absent(plan, page, settings));
        let (state, message) = match problem {
            Some((state, message)) => (state, Some(message.into())),
            None if slow => {
                let message = format!("answers in {:?}, so it is read less often", self.took);
                (TargetState::Slow, Some(message.into()))
            }
            None => (TargetState::Ok, None),
        };
        self.state = state;
        self.message = message;
    }

    /// A page in which something is absent is looked at whole once, to name what is similar.
    fn next_scrutiny(&mut self, page: &Page) -> Scrutiny {
        if self.state != TargetState::AbsentFamily {
            self.looked_at_whole = false;
            return Scrutiny::Wanted;
        }
        if self.looked_at_whole || !page.names.is_empty() {
            self.looked_at_whole = true;
            return Scrutiny::Wanted;
        }
        Scrutiny::Everything
    }
}

/// The first metric of the policy whose families are not there, or not of the model that was asked for.
fn absent(plan: &Plan, page: &Page, settings: &FleetSettings) -> Option<(TargetState, String)> {
    if plan.engine.is_none() {
        let message =
            "no family of a known engine is in the page; set engine.type, or engine.custom for another server";
        return Some((TargetState::AbsentFamily, message.to_owned()));
    }
    settings.metrics.iter().find_map(|metric| {
        let state = match plan.absence(metric.signal)? {
            Absence::Families(_) | Absence::NotExported => TargetState::AbsentFamily,
            Absence::Models(_) => TargetState::NoMatch,
        };
        let words = plan.absence_words(page, metric.signal)?;
        let hint = plan.absence_hint().map_or_else(String::new, |hint| format!("; {hint}"));
        Some((state, format!("{}: {words}{hint}", metric.signal)))
    })
}
