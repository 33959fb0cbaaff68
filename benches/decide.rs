//! What a decision costs, and how it grows with the fleet.
//!
//! A fleet with the default metrics and behavior is decided for, with what ten minutes of turns left in its history.
//! See `README.md` for figures.

mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use headroom_policies::observation::{MetricObservation, Phase, Replica, Sample};
use headroom_policies::{History, Milli, Observation, Policy, Replicas, Timestamp, decide};
use support::arguments::Arguments;
use support::table::Table;
use support::timing::shortest;

const SIZES: [u32; 4] = [10, 100, 1_000, 10_000];
/// From one turn to the next: an interval of ten seconds, and one of a second.
const INTERVALS: [i64; 2] = [10, 1];
/// Seconds of turns behind a decision: the scale-down window while no cold start is known.
const PAST: i64 = 600;

/// A decision about to be made.
struct Case {
    policy: Policy,
    seen: Observation,
    history: History,
    now: Timestamp,
}

impl Case {
    /// A fleet of so many after ten minutes of turns.
    fn new(pods: u32, interval: i64) -> Self {
        let most = Replicas::count_of(2 * pods as usize);
        let policy = Policy::new(Replicas::ONE, most);
        let names: Vec<Arc<str>> = (0..pods).map(|index| Arc::from(format!("model-7d9f8b6c5d-{index:05}"))).collect();
        let (mut history, mut current) = (History::default(), Replicas::count_of(pods as usize));
        for turn in 0..PAST / interval {
            let seen = observation(&names, current, turn * interval);
            let (decision, after) = decide(&policy, &seen, history, at(turn * interval));
            history = after;
            current = decision.published.replicas().unwrap_or(current);
        }
        Self { policy, seen: observation(&names, current, PAST), history, now: at(PAST) }
    }

    fn decide(&self) -> Replicas {
        let (decision, history) =
            decide(black_box(&self.policy), black_box(&self.seen), self.history.clone(), self.now);
        black_box(history);
        decision.desired
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_796_000_000_000 + seconds * 1_000)
}

/// Most replicas read, one in twenty starting; their load swings over some minutes around what they can take.
fn observation(names: &[Arc<str>], current: Replicas, second: i64) -> Observation {
    let starts = |index: usize| index % 20 == 19;
    let phase = |index: usize| if starts(index) { Phase::Starting } else { Phase::Ready };
    let load = |index: usize| {
        let angle = (second as f64 / 47.0).sin() + (second as f64 / 7.0 + index as f64).sin() * 0.5;
        1.0 + angle * 0.4
    };
    let samples = |most: f64| {
        let sample = |index: usize| match Milli::from_measured(load(index) * most) {
            Some(value) if !starts(index) => Sample::Value { value, age: Duration::from_millis(700) },
            _ => Sample::Starting,
        };
        MetricObservation::Demand { samples: (0..names.len()).map(sample).collect(), external: Vec::new() }
    };
    let replica = |(index, name): (usize, &Arc<str>)| Replica { name: Arc::clone(name), phase: phase(index) };
    Observation {
        replicas: names.iter().enumerate().map(replica).collect(),
        metrics: vec![samples(5.0), samples(0.7)],
        ..Observation::of(current)
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for interval in INTERVALS {
        let mut group = criterion.benchmark_group(format!("decide_every_{interval}s"));
        for pods in SIZES {
            let case = Case::new(pods, interval);
            group.bench_function(BenchmarkId::from_parameter(pods), |bencher| bencher.iter(|| case.decide()));
        }
        group.finish();
    }
    criterion.final_summary();
    let span = Duration::from_secs(if Arguments::of_process().is_check() { 1 } else { 5 });
    for interval in INTERVALS {
        show_growth(interval, span);
    }
}

fn show_growth(interval: i64, span: Duration) {
    let cases = SIZES.map(|pods| Case::new(pods, interval));
    let mut calls = cases.each_ref().map(|case| {
        || {
            black_box(case.decide());
        }
    });
    let [a, b, c, d] = &mut calls;
    let times = shortest([a, b, c, d], span);
    let mut table = Table::default();
    for (pods, time) in SIZES.iter().zip(times) {
        table.plain(&format!("{pods} pods"), time / 1e3, "us");
    }
    // A part that does not grow makes it less than tenfold.
    for (pair, sizes) in times.windows(2).zip(SIZES.windows(2)) {
        let name = format!("{} pods, times {} pods", sizes[1], sizes[0]);
        table.at_most(&name, pair[1] / pair[0], 10.0, "x");
    }
    table.print(&format!("a decision, one every {interval} s"));
}
