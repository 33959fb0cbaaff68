//! The page that everything is measured with, and how it changes from scrape to scrape.

use std::fmt::Write;

/// The page of a real vLLM 0.32 under load: 52,926 bytes, 614 lines.
pub(crate) const CAPTURED: &str = include_str!("../../metrics-adapter/tests/fixtures/captured/vllm-0.32.0-loaded.prom");

/// Steps after which a counter of the page has doubled.
const STEPS_TO_DOUBLE: f64 = 64.0;

/// The captured page with other values in its lines.
pub(crate) struct Template(Vec<Line>);

enum Line {
    Fixed(&'static str),
    /// Everything before the value, what the value does, and its value in the captured page.
    Changing(&'static str, Change, f64),
}

#[derive(Clone, Copy)]
enum Change {
    WholeCounter,
    Counter,
    Waiting,
    Running,
    Occupancy,
}

impl Template {
    pub(crate) fn new() -> Self {
        Self(CAPTURED.lines().map(line).collect())
    }

    /// The page of a server at a step. Counters and the buckets of histograms grow with every step, gauges go up
    /// and down, and both differ from server to server.
    pub(crate) fn page(&self, server: u32, step: u32) -> String {
        let mut page = String::with_capacity(CAPTURED.len() + CAPTURED.len() / 8);
        let grown = 1.0 + f64::from(step + server) / STEPS_TO_DOUBLE;
        let phase = f64::from((step * 7 + server * 13) % 41) / 41.0;
        for line in &self.0 {
            // Writing to a string does not fail.
            let _ = match line {
                Line::Fixed(text) => writeln!(page, "{text}"),
                Line::Changing(key, change, value) => match change {
                    Change::WholeCounter => writeln!(page, "{key} {:?}", (value * grown).floor()),
                    Change::Counter => writeln!(page, "{key} {:?}", value * grown),
                    Change::Waiting => writeln!(page, "{key} {:?}", (phase * 12.0).floor()),
                    Change::Running => writeln!(page, "{key} {:?}", 32.0 + (phase * 200.0).floor()),
                    Change::Occupancy => writeln!(page, "{key} {:?}", 0.2 + phase * 0.7),
                },
            };
        }
        page
    }
}

fn line(text: &'static str) -> Line {
    let sample = text.rsplit_once(' ').filter(|_| !text.starts_with('#'));
    let Some((key, Ok(value))) = sample.map(|(key, value)| (key, value.parse())) else { return Line::Fixed(text) };
    let name = key.split('{').next().unwrap_or_default();
    let change = match name.rsplit(':').next().unwrap_or_default() {
        "num_requests_waiting" => Change::Waiting,
        "num_requests_running" => Change::Running,
        "kv_cache_usage_perc" => Change::Occupancy,
        own if own.ends_with("_sum") => Change::Counter,
        own if ["_total", "_bucket", "_count"].iter().any(|suffix| own.ends_with(suffix)) => Change::WholeCounter,
        _ => return Line::Fixed(text),
    };
    Line::Changing(key, change, value)
}
