//! The scanner on pages that are broken, tricky or arbitrary.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use headroom_adapter::engines::{Engine, EngineReader, EngineSettings, Reading, Readings};
use headroom_adapter::exposition::{
    Format, Layouts, Limits, NameSet, NotAnExposition, Page, PageError, PageReader, Scrutiny,
};
use headroom_policies::Signal;
use headroom_policies::Timestamp;
use headroom_policies::observation::UnknownReason;
use headroom_policies::window::{HistogramWindow, Quantile};
use prometheus_parse::Value;
use proptest::prelude::*;

const MAX_BEHIND_MILLIS: i64 = 15_000;

fn malformed(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/malformed").join(name)).unwrap()
}

fn read(body: &[u8], format: Format) -> Result<(EngineReader, Page), PageError> {
    let reader = EngineReader::new(EngineSettings::default());
    let page = PageReader::new(reader.layouts().clone()).read(body, format, Limits::default(), Scrutiny::Wanted)?;
    Ok((reader, page))
}

/// Running, waiting and KV cache of a page.
fn gauges(body: &[u8], format: Format) -> (Reading, Reading, Reading) {
    let (reader, page) = read(body, format).unwrap();
    let plan = reader.plan(&page);
    let readings = Readings::new(&plan, &page, None, MAX_BEHIND_MILLIS);
    (
        readings.gauge(Signal::RunningRequests),
        readings.gauge(Signal::WaitingRequests),
        readings.gauge(Signal::KVCacheUtilization),
    )
}

fn value(number: f64) -> Reading {
    Reading::Value(number)
}

const ABSENT: Reading = Reading::Unknown(UnknownReason::AbsentFamily);
const OUT_OF_RANGE: Reading = Reading::Unknown(UnknownReason::OutOfRange);

#[test]
fn what_is_certainly_good_is_kept() {
    let whole = (value(12.0), value(3.0), value(0.42));
    for name in [
        "01-truncated-line.prom",
        "01b-truncated-in-labels.prom",
        "03-duplicate-series.prom",
        "04-missing-type.prom",
        "05-crlf.prom",
        "06-huge-label.prom",
        "07-invalid-utf8.prom",
        "11-exponents.prom",
    ] {
        assert_eq!(gauges(&malformed(name), Format::Text), whole, "{name}");
    }
    assert_eq!(gauges(&malformed("13-openmetrics-exemplars-eof.prom"), Format::OpenMetrics), whole);
}

/// A counter cut to fewer digits would look like a reset: the unterminated line is left out, and said so.
#[test]
fn a_cut_last_line_is_left_out() {
    let (reader, page) = read(&malformed("01-truncated-line.prom"), Format::Text).unwrap();
    assert!(page.lines.partial);
    assert_eq!((page.lines.skipped, page.lines.skipped_numbers.as_slice()), (1, &[page.lines.read][..]));
    let plan = reader.plan(&page);
    let total = Readings::new(&plan, &page, None, MAX_BEHIND_MILLIS).total(Signal::GenerationTokenRate);
    assert_eq!(total, ABSENT);
    let (_, page) = read(&malformed("01b-truncated-in-labels.prom"), Format::Text).unwrap();
    assert!(page.lines.partial && page.lines.skipped == 1);
}

/// B-07: a gauge in a whole body without a final line feed, with CRLF, and before `# EOF`.
#[test]
fn the_last_sample_is_not_lost() {
    let waiting = |body: &str, format| gauges(body.as_bytes(), format).1;
    assert_eq!(waiting("vllm:num_requests_waiting 4", Format::Text), value(4.0));
    assert_eq!(waiting("vllm:num_requests_waiting 4\r\n", Format::Text), value(4.0));
    assert_eq!(waiting("vllm:num_requests_waiting 4\n# EOF", Format::OpenMetrics), value(4.0));
    assert_eq!(waiting("vllm:num_requests_waiting 4\n# EOF\n", Format::OpenMetrics), value(4.0));
    let (_, page) = read(b"vllm:num_requests_waiting 4\n", Format::OpenMetrics).unwrap();
    assert!(page.lines.partial, "OpenMetrics without its end is cut");
}

/// B-04, B-05: what is not finite, or not a fraction, is not a sample.
#[test]
fn values_that_are_no_values() {
    let (running, waiting, kv_cache) = gauges(&malformed("02-nan-inf.prom"), Format::Text);
    assert_eq!((running, waiting, kv_cache), (OUT_OF_RANGE, OUT_OF_RANGE, OUT_OF_RANGE));
    for number in ["+Inf", "-Inf", "1e400", "1.5", "-0.2", "NaN"] {
        let body = format!("vllm:num_requests_running 1\nvllm:kv_cache_usage_perc {number}\n");
        assert_eq!(gauges(body.as_bytes(), Format::Text).2, OUT_OF_RANGE, "{number}");
    }
    let (running, waiting, kv_cache) = gauges(&malformed("10-negative-queue.prom"), Format::Text);
    assert_eq!((running, waiting, kv_cache), (value(12.0), OUT_OF_RANGE, value(1.0)));
}

/// Quantiles still work from buckets when a sum is NaN.
#[test]
fn quantiles_need_no_sum() {
    let (reader, page) = read(&malformed("02-nan-inf.prom"), Format::Text).unwrap();
    let plan = reader.plan(&page);
    let mut window = HistogramWindow::default();
    let (now, hour) = (Timestamp::from_millis(0), std::time::Duration::from_secs(3600));
    for _ in 0..3 {
        Readings::new(&plan, &page, None, MAX_BEHIND_MILLIS)
            .observed_since_start(Signal::TimeToFirstToken, |bounds, counts| window.record(now, bounds, counts, hour))
            .unwrap();
    }
    let Quantile::Value(median) = window.quantile(0.5) else { panic!("no quantile") };
    assert!((median.seconds - 0.28).abs() < 1e-9, "{median:?}");
}

#[test]
fn a_broken_histogram_is_dropped() {
    let (reader, page) = read(&malformed("14-histogram-broken.prom"), Format::Text).unwrap();
    let readings_plan = reader.plan(&page);
    let readings = Readings::new(&readings_plan, &page, None, MAX_BEHIND_MILLIS);
    let result = readings.observed_since_start(Signal::TimeToFirstToken, |_, _| panic!("observed"));
    assert_eq!(result, Err(UnknownReason::Malformed));
    let falling = "vllm:time_to_first_token_seconds_bucket{le=\"0.1\"} 9\n\
                   vllm:time_to_first_token_seconds_bucket{le=\"1\"} 5\n\
                   vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 9\n";
    let (reader, page) = read(falling.as_bytes(), Format::Text).unwrap();
    let plan = reader.plan(&page);
    let readings = Readings::new(&plan, &page, None, MAX_BEHIND_MILLIS);
    let result = readings.observed_since_start(Signal::TimeToFirstToken, |_, _| panic!("observed"));
    assert_eq!(result, Err(UnknownReason::Malformed));
}

#[test]
fn bodies_that_are_something_else() {
    for (name, expected) in [
        ("08-html-error-page.prom", NotAnExposition::Html),
        ("08b-json-instead.prom", NotAnExposition::Json),
        ("08c-json-escaped-exposition.prom", NotAnExposition::JsonString),
        ("08d-json-empty-array.prom", NotAnExposition::JsonArray),
    ] {
        let error = read(&malformed(name), Format::Text).unwrap_err();
        assert_eq!(error, PageError::NotAnExposition(expected), "{name}");
    }
}

#[test]
fn an_empty_body_says_nothing() {
    let (reader, page) = read(&malformed("09-empty.prom"), Format::Text).unwrap();
    assert!(page.is_empty());
    assert_eq!(reader.plan(&page).engine, None);
    assert_eq!(page.lines.read, 0);
}

#[test]
fn duplicates_are_counted_and_the_first_counts() {
    let (_, page) = read(&malformed("03-duplicate-series.prom"), Format::Text).unwrap();
    assert_eq!(page.lines.duplicates, 2);
}

/// Staleness by the samples' own times, where they have any.
#[test]
fn a_sample_far_behind_its_page_is_stale() {
    let (running, waiting, kv_cache) = gauges(&malformed("12-timestamps.prom"), Format::Text);
    assert_eq!(running, value(12.0));
    assert_eq!(waiting, Reading::Unknown(UnknownReason::Stale));
    assert_eq!(kv_cache, value(0.42));
}

#[test]
fn nothing_counts_after_the_end() {
    let body = malformed("13b-after-eof.prom");
    assert_eq!(gauges(&body, Format::OpenMetrics).0, value(12.0));
    assert_eq!(read(&body, Format::OpenMetrics).unwrap().1.lines.after_end, 1);
}

#[test]
fn quoted_and_escaped_names_are_read() {
    let (running, waiting, _) = gauges(&malformed("15-utf8-quoted-names.prom"), Format::Text);
    assert_eq!((running, waiting), (value(12.0), value(3.0)));
}

/// B-01: ranks are added up, in whatever order they stand.
#[test]
fn ranks_are_added_up_in_any_order() {
    let one = "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 9\n";
    let two = "vllm:num_requests_waiting{engine=\"1\",model_name=\"m\"} 3\n";
    let full = "vllm:kv_cache_usage_perc{engine=\"0\"} 0.90\n";
    let empty = "vllm:kv_cache_usage_perc{engine=\"1\"} 0.10\n";
    for body in [[one, two, full, empty].concat(), [empty, two, full, one].concat()] {
        let (_, waiting, kv_cache) = gauges(body.as_bytes(), Format::Text);
        assert_eq!((waiting, kv_cache), (value(12.0), value(0.9)));
    }
}

/// B-02: either name of the occupancy; both count once.
#[test]
fn occupancy_under_either_name() {
    for (body, expected) in [
        ("vllm:gpu_cache_usage_perc 0.8\n", 0.8),
        ("vllm:kv_cache_usage_perc 0.6\n", 0.6),
        ("vllm:gpu_cache_usage_perc 0.7\nvllm:kv_cache_usage_perc 0.7\n", 0.7),
    ] {
        assert_eq!(gauges(body.as_bytes(), Format::Text).2, value(expected), "{body}");
    }
}

/// B-08: a family's siblings are not the family.
#[test]
fn siblings_of_a_family_are_not_it() {
    let body = "vllm:num_requests_waiting 2\n\
                vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 2\n\
                vllm:num_requests_waiting_created 1.7537e+09\n";
    assert_eq!(gauges(body.as_bytes(), Format::Text).1, value(2.0));
}

/// B-13: a family that no page has is absent, never zero.
#[test]
fn an_absent_family_is_not_zero() {
    let body = "nv_inference_request_success{model=\"m\",version=\"1\"} 310\n";
    assert_eq!(gauges(body.as_bytes(), Format::Text).1, ABSENT);
}

/// Tensor-parallel ranks that all report the same requests count once; priorities are a split of their total.
#[test]
fn repeated_facts_count_once() {
    let body = "sglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"0\"} 7\n\
                sglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"1\"} 7\n\
                sglang:num_queue_reqs{dp_rank=\"1\",tp_rank=\"2\"} 5\n\
                sglang:num_running_reqs{priority=\"\"} 9\n\
                sglang:num_running_reqs{priority=\"1\"} 4\n\
                sglang:num_running_reqs{priority=\"2\"} 5\n";
    let (running, waiting, _) = gauges(body.as_bytes(), Format::Text);
    assert_eq!((running, waiting), (value(9.0), value(12.0)));
}

#[test]
fn caps_refuse_or_skip() {
    let small = Limits { body: 100, line: 40, series: 2 };
    let reader = EngineReader::new(EngineSettings::default());
    let read =
        |body: &[u8]| PageReader::new(reader.layouts().clone()).read(body, Format::Text, small, Scrutiny::Wanted);
    assert_eq!(read(&[b'x'; 101]).unwrap_err(), PageError::TooLarge(100));
    let many = "tgi_queue_size{a=\"1\"} 1\ntgi_queue_size{a=\"2\"} 1\ntgi_queue_size{a=\"3\"} 1\n";
    assert_eq!(read(many.as_bytes()).unwrap_err(), PageError::TooManySeries(2));
    let long = "tgi_queue_size{a=\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"} 1\ntgi_queue_size 2\n";
    let page = read(long.as_bytes()).unwrap();
    assert_eq!((page.lines.skipped, page.lines.skipped_numbers.as_slice()), (1, &[1][..]));
    assert_eq!(page.value(0), Some(2.0));
}

#[test]
fn a_changed_page_is_read_right_at_once() {
    let reader = EngineReader::new(EngineSettings::default());
    let mut pages = PageReader::new(reader.layouts().clone());
    let mut waiting = |body: &str| {
        let page = pages.read(body.as_bytes(), Format::Text, Limits::default(), Scrutiny::Wanted).unwrap();
        Readings::new(&reader.plan(&page), &page, None, MAX_BEHIND_MILLIS).gauge(Signal::WaitingRequests)
    };
    let rank = |rank: u32, value: u32| format!("vllm:num_requests_waiting{{engine=\"{rank}\"}} {value}\n");
    assert_eq!(waiting(&rank(0, 4)), value(4.0));
    // A rank appears before the one that was there.
    assert_eq!(waiting(&[rank(1, 5), rank(0, 4)].concat()), value(9.0));
    assert_eq!(waiting(&[rank(0, 4), rank(1, 6)].concat()), value(10.0));
    // One is missing: not known, until it is clear that it went away.
    assert_eq!(waiting(&rank(0, 4)), ABSENT);
    assert_eq!(waiting(&rank(0, 4)), ABSENT);
    assert_eq!(waiting(&rank(0, 4)), value(4.0));
    assert_eq!(waiting(&rank(0, 7)), value(7.0));
}

/// A server of another kind behind the same address must not be read by the layout of the one before.
#[test]
fn a_new_reader_takes_nothing_over_from_another_server() {
    let reader = EngineReader::new(EngineSettings::default());
    let read = |body: &str| {
        let page = PageReader::new(reader.layouts().clone())
            .read(body.as_bytes(), Format::Text, Limits::default(), Scrutiny::Wanted)
            .unwrap();
        (reader.plan(&page).engine.map(Engine::name), page.series().len())
    };
    assert_eq!(read("vllm:num_requests_waiting 1\nvllm:num_requests_running 1\n"), (Some("vLLM"), 2));
    assert_eq!(read("sglang:num_queue_reqs 1\n"), (Some("SGLang"), 1));
    assert_eq!(read("vllm:num_requests_running 1\n"), (Some("vLLM"), 1));
}

/// The same page in any chunks gives the same values.
#[test]
fn chunks_do_not_matter() {
    let body =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/captured/vllm-0.11.2-dp2-burst.prom"))
            .unwrap();
    let reader = EngineReader::new(EngineSettings::default());
    let values = |size: usize| {
        let mut pages = PageReader::new(reader.layouts().clone());
        pages.begin(Format::Text, Limits::default(), Scrutiny::Wanted);
        for chunk in body.chunks(size) {
            pages.feed(chunk).unwrap();
        }
        let page = pages.finish().unwrap();
        let all: Vec<_> = (0..page.series().len()).map(|slot| page.value(slot as u32)).collect();
        (all, page.lines)
    };
    let whole = values(body.len());
    for size in [1, 7, 64, 100, 1000, 16_384] {
        assert_eq!(values(size), whole, "chunks of {size}");
    }
}

/// The values of every series of a page that another parser reads right: names without a colon, labels without a
/// comma, brace, quote or equals sign.
fn by_the_peer(body: &str) -> BTreeMap<String, f64> {
    let lines = body.lines().map(|line| Ok(line.to_owned()));
    let scrape = prometheus_parse::Scrape::parse(lines).unwrap();
    let mut values = BTreeMap::new();
    for sample in scrape.samples {
        let (Value::Counter(number) | Value::Gauge(number) | Value::Untyped(number)) = sample.value else { continue };
        let mut labels: Vec<String> = sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        labels.sort();
        values.entry(format!("{}{{{}}}", sample.metric, labels.join(","))).or_insert(number);
    }
    values
}

fn by_us(body: &str, names: &[&str]) -> BTreeMap<String, f64> {
    let layouts = Arc::new(Layouts::new(NameSet::new(names.iter().copied())));
    let page = PageReader::new(layouts.clone())
        .read(body.as_bytes(), Format::Text, Limits::default(), Scrutiny::Wanted)
        .unwrap();
    let mut values = BTreeMap::new();
    for (slot, series) in page.series().iter().enumerate() {
        let labels: Vec<String> = series.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let name = layouts.names().name(series.name);
        values.insert(format!("{name}{{{}}}", labels.join(",")), page.value(slot as u32).unwrap());
    }
    values
}

/// A second opinion on captured pages, with colons replaced (the peer drops every name with a colon).
#[test]
fn another_parser_reads_the_same() {
    for name in
        ["captured/vllm-0.24.0-burst.prom", "captured/vllm-0.9.2-burst.prom", "captured/triton-2.51-python-burst.prom"]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let body = std::fs::read_to_string(path).unwrap().replace("vllm:", "vllm_");
        let theirs = by_the_peer(&body);
        let plain: Vec<&str> = body
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(['{', ' ']).next())
            .collect();
        let ours = by_us(&body, &plain);
        let mut compared = 0;
        for (series, value) in &theirs {
            let Some(own) = ours.get(series) else { continue };
            assert!(own == value || own.is_nan() && value.is_nan(), "{name} {series}: {own} and {value}");
            compared += 1;
        }
        assert!(compared > 20, "{name}: only {compared} series compared");
    }
}

fn any_label() -> impl Strategy<Value = String> {
    "[a-z]{1,6}=\"[^\"\\\\\n]{0,12}\""
}

proptest! {
    /// Any bytes at all, in any chunks: never a panic, and lines are counted.
    #[test]
    fn any_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..2000), size in 1_usize..200, openmetrics in any::<bool>()) {
        let format = if openmetrics { Format::OpenMetrics } else { Format::Text };
        let reader = EngineReader::new(EngineSettings::default());
        for scrutiny in [Scrutiny::Wanted, Scrutiny::Everything] {
            let mut pages = PageReader::new(reader.layouts().clone());
            pages.begin(format, Limits::default(), scrutiny);
            let fed = body.chunks(size).try_for_each(|chunk| pages.feed(chunk));
            if let Ok(page) = fed.and_then(|()| pages.finish()) {
                let _ = Readings::new(&reader.plan(&page), &page, None, MAX_BEHIND_MILLIS).gauge(Signal::WaitingRequests);
                prop_assert!(page.lines.skipped <= page.lines.read);
            }
        }
    }

    /// A real page with bytes changed, removed or doubled: never a panic, and good lines far from the damage stay.
    #[test]
    fn a_damaged_page_keeps_its_good_lines(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/captured/vllm-0.24.0-burst.prom");
        let original = std::fs::read(path).unwrap();
        let at = original.windows(27).position(|window| window == b"\nvllm:num_requests_running{").unwrap();
        let end = at + 1 + original[at + 1..].iter().position(|byte| *byte == b'\n').unwrap();
        let mut body = original.clone();
        let mut hit = false;
        for (index, byte, kind) in damage {
            let place = index.index(original.len() - 10);
            hit |= (at..=end).contains(&place) || place < 200;
            match kind {
                0 => body[place] = byte,
                1 => body[place] = b' ',
                _ => body[place..place + 3].fill(b'"'),
            }
            hit |= (at..=end).contains(&(place + 2));
        }
        let (running, ..) = match read(&body, Format::Text) {
            Ok(_) => gauges(&body, Format::Text),
            Err(_) => { prop_assert!(hit); return Ok(()) }
        };
        prop_assert!(hit || running == value(4.0), "{running:?}");
    }

    /// One bad line costs that line.
    #[test]
    fn a_bad_line_costs_itself(garbage in "[^\n\r#]{1,60}", labels in proptest::collection::vec(any_label(), 0..3)) {
        prop_assume!(!garbage.trim().is_empty() && !garbage.contains("tgi_") && !garbage.starts_with(['<', '[', '"', '{']));
        let body = format!("tgi_request_count 1\n{garbage}\ntgi_queue_size{{{}}} 7\n", labels.join(","));
        let names = ["tgi_queue_size"];
        let values = by_us(&body, &names);
        let distinct = labels.iter().map(|label| label.split('=').next().unwrap()).collect::<std::collections::BTreeSet<_>>();
        if distinct.len() == labels.len() {
            prop_assert_eq!(values.values().copied().collect::<Vec<_>>(), vec![7.0]);
        }
    }

    /// What the peer reads right, we read alike.
    #[test]
    fn differential(samples in proptest::collection::vec(("[a-z_]{3,20}", proptest::collection::btree_map("[a-z]{1,5}", "[A-Za-z0-9/._-]{1,8}", 1..3), -1e6..1e6_f64), 1..20)) {
        let line = |(name, labels, value): &(String, BTreeMap<String, String>, f64)| {
            let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            format!("{name}{{{}}} {value}", labels.join(","))
        };
        let body = samples.iter().map(line).collect::<Vec<_>>().join("\n") + "\n";
        let names: Vec<&str> = samples.iter().map(|(name, ..)| name.as_str()).collect();
        let (ours, theirs) = (by_us(&body, &names), by_the_peer(&body));
        for (series, value) in theirs {
            if let Some(own) = ours.get(&series) {
                prop_assert_eq!(*own, value);
            }
        }
        prop_assert!(!ours.is_empty());
    }
}
