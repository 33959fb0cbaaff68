//! How fast a page becomes signals: the captured page of 50 kB, through the path that a scrape takes.
//!
//! Beside it, in the same run, stand the least that reading a page can be (counting its lines) and another parser.
//! See `README.md` for figures.

mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use headroom_adapter::engines::{EngineReader, EngineSettings, Reading, Readings};
use headroom_adapter::exposition::{Format, Limits, Page, PageReader, Scrutiny};
use headroom_policies::Signal;
use headroom_policies::signal::Reading as Kind;
use support::arguments::Arguments;
use support::page::{CAPTURED, Template};
use support::table::Table;
use support::timing::shortest;

/// Times the line count that reading every signal may take; 3 would be splendid.
const COUNT_GOAL: f64 = 5.0;
/// Times faster than the other parser.
const OTHER_PARSER_GOAL: f64 = 100.0;
/// A client's buffer, and so the size of a chunk.
const CHUNK: usize = 16 * 1024;
/// Age of samples with a timestamp of their own; the page has none.
const MOST_BEHIND: i64 = 15_000;
/// Servers that are read in turn.
const SERVERS: u32 = 32;

/// The signals of a policy that names none.
const DEFAULT_SIGNALS: [Signal; 2] = [Signal::WaitingRequests, Signal::KVCacheUtilization];

/// Reads the pages of one server, as a scrape task and a fleet do together.
struct Server {
    reader: PageReader,
    previous: Option<Page>,
}

impl Server {
    fn new(engines: &EngineReader) -> Self {
        Self { reader: PageReader::new(Arc::clone(engines.layouts())), previous: None }
    }

    /// From a body's chunks to these signals.
    fn read(&mut self, engines: &EngineReader, body: &[u8], signals: &[Signal]) -> f64 {
        let Some(page) = self.page(body) else { return f64::NAN };
        let plan = engines.plan(&page);
        let readings = Readings::new(&plan, &page, self.previous.as_ref(), MOST_BEHIND);
        let sum = signals.iter().map(|signal| extract(&readings, *signal)).sum();
        self.previous = Some(page);
        sum
    }

    fn page(&mut self, body: &[u8]) -> Option<Page> {
        self.reader.begin(Format::Text, Limits::default(), Scrutiny::Wanted);
        body.chunks(CHUNK).try_for_each(|chunk| self.reader.feed(chunk)).ok()?;
        self.reader.finish().ok()
    }
}

/// Everything that a page says of a signal, as one number that no compiler can do without.
fn extract(readings: &Readings<'_>, signal: Signal) -> f64 {
    match signal.reading() {
        Kind::Gauge => match readings.gauge(signal) {
            Reading::Value(value) => value,
            Reading::Zero => 0.0,
            Reading::Unknown(_) => f64::NAN,
        },
        Kind::Rate => match readings.total(signal) {
            Reading::Value(total) => {
                black_box(readings.increase(signal));
                total
            }
            Reading::Zero | Reading::Unknown(_) => f64::NAN,
        },
        Kind::Quantile => {
            let mut observed = 0.0;
            let read = readings.observed(signal, |_, increases| observed += increases.iter().sum::<f64>());
            if read.is_ok() { observed } else { f64::NAN }
        }
    }
}

fn count_lines(body: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', body).count()
}

/// The other parser drops names with colons, which are all of vLLM's.
fn parse_otherwise(page: &str) -> usize {
    let lines = page.lines().map(|line| Ok(line.to_owned()));
    prometheus_parse::Scrape::parse(lines).map_or(0, |scrape| scrape.samples.len())
}

fn main() {
    let engines = EngineReader::new(EngineSettings::default());
    let mut server = Server::new(&engines);
    let read = server.read(&engines, CAPTURED.as_bytes(), &DEFAULT_SIGNALS);
    assert!(read.is_finite(), "the page says what a default policy asks for");
    let template = Template::new();
    let pages: Vec<String> = (0..SERVERS).map(|index| template.page(index, index)).collect();
    let without_colons = CAPTURED.replace("vllm:", "vllm_");
    assert!(parse_otherwise(&without_colons) > 100, "the other parser reads the page");

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Bytes(CAPTURED.len() as u64));
    group.bench_function("lines_counted", |bencher| bencher.iter(|| count_lines(black_box(CAPTURED.as_bytes()))));
    group.bench_function("every_signal", |bencher| {
        bencher.iter(|| server.read(&engines, black_box(CAPTURED.as_bytes()), &Signal::ALL));
    });
    group.bench_function("default_signals", |bencher| {
        bencher.iter(|| server.read(&engines, black_box(CAPTURED.as_bytes()), &DEFAULT_SIGNALS));
    });
    group.bench_function("prometheus_parse", |bencher| bencher.iter(|| parse_otherwise(black_box(&without_colons))));
    group.finish();
    criterion.final_summary();

    let span = Duration::from_secs(if Arguments::of_process().is_check() { 1 } else { 10 });
    compare(&engines, &without_colons, &pages, span);
}

/// The ratios, each of two times of the same moments.
fn compare(engines: &EngineReader, without_colons: &str, pages: &[String], span: Duration) {
    let body = CAPTURED.as_bytes();
    let (mut all, mut default, mut scanned) = (Server::new(engines), Server::new(engines), Server::new(engines));
    let [count, every, usual, page_only, other] = shortest(
        [
            &mut || {
                black_box(count_lines(black_box(body)));
            },
            &mut || {
                black_box(all.read(engines, black_box(body), &Signal::ALL));
            },
            &mut || {
                black_box(default.read(engines, black_box(body), &DEFAULT_SIGNALS));
            },
            &mut || {
                black_box(scanned.page(black_box(body)));
            },
            &mut || {
                black_box(parse_otherwise(black_box(without_colons)));
            },
        ],
        span,
    );
    let mut servers: Vec<Server> = pages.iter().map(|_| Server::new(engines)).collect();
    let [count_many, every_many] = shortest(
        [
            &mut || {
                for page in pages {
                    black_box(count_lines(black_box(page.as_bytes())));
                }
            },
            &mut || {
                for (server, page) in servers.iter_mut().zip(pages) {
                    black_box(server.read(engines, black_box(page.as_bytes()), &Signal::ALL));
                }
            },
        ],
        span / 2,
    );
    let mut table = Table::default();
    table.plain("lines counted", count / 1e3, "us");
    table.plain("page read, no signal looked at", page_only / 1e3, "us");
    table.plain("default policy's signals", usual / 1e3, "us");
    table.plain("every signal", every / 1e3, "us");
    table.plain("prometheus-parse", other / 1e3, "us");
    table.at_most("every signal, times the count", every / count, COUNT_GOAL, "x");
    table.at_most("default policy's signals, times the count", usual / count, COUNT_GOAL, "x");
    table.at_most(&format!("every signal of {SERVERS} servers in turn"), every_many / count_many, COUNT_GOAL, "x");
    table.at_least("every signal, times faster than prometheus-parse", other / every, OTHER_PARSER_GOAL, "x");
    table.print("a page of 52,926 bytes");
}
