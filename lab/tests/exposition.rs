//! The page of an engine, read back line by line.

#![allow(clippy::unwrap_used, clippy::panic)]
// A number that is written and read back must be the same number.
#![allow(clippy::float_cmp)]

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_lab::engine::{Engine, EngineSettings, Request, RequestId};
use headroom_lab::exposition::Page;
use headroom_lab::profile::Profile;
use headroom_lab::time::ModelTime;

/// A P1 engine with so many requests of 1,000 prompt tokens, advanced to `seconds`.
fn loaded(requests: u64, output_tokens: u32, seconds: f64) -> Engine {
    let mut engine = Engine::new(EngineSettings::of(&Profile::P1), ModelTime::ZERO);
    let request = Request { arrival: ModelTime::ZERO, prompt_tokens: 1000, output_tokens, streamed: false };
    for number in 0..requests {
        engine.submit(RequestId::new(number), request).unwrap();
    }
    engine.advance(ModelTime::from_seconds(seconds), &mut Vec::new());
    engine
}

fn page_of(engine: &Engine) -> String {
    let mut out = String::from("what stood here before");
    Page::new("llama \"8b\"", Duration::from_millis(1_796_028_796_863)).write(engine, &mut out);
    out
}

/// Value by series, as written.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples: Vec<_> = lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series, value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect();
    let count = samples.len();
    let by_series: BTreeMap<_, _> = samples.into_iter().collect();
    assert_eq!(by_series.len(), count, "a series stands twice");
    by_series
}

const LABELS: &str = r#"{engine="0",model_name="llama \"8b\""}"#;

#[test]
fn what_an_autoscaler_reads_is_the_engines_state() {
    let engine = loaded(40, 400, 20.0);
    let gauges = engine.gauges();
    assert!(gauges.running > 0 && gauges.waiting > 0 && gauges.kv_usage > 0.5);
    let page = page_of(&engine);
    let samples = samples(&page);
    let read = |name: &str| samples[format!("vllm:{name}{LABELS}").as_str()];
    assert_eq!(read("num_requests_running"), f64::from(gauges.running));
    assert_eq!(read("num_requests_waiting"), f64::from(gauges.waiting));
    assert_eq!(read("kv_cache_usage_perc"), gauges.kv_usage);
    assert_eq!(read("num_preemptions_total"), engine.statistics().preemptions as f64);
    assert_eq!(read("prompt_tokens_total"), engine.statistics().prompt_tokens as f64);
    assert_eq!(read("generation_tokens_total"), engine.statistics().generation_tokens as f64);
    assert_eq!(read("iteration_tokens_total_count"), engine.statistics().steps as f64);
    assert_eq!(read("time_to_first_token_seconds_count"), engine.statistics().time_to_first_token.count() as f64);
    assert_eq!(read("generation_tokens_created"), 1_796_028_796.863);
    let capacity =
        samples[r#"vllm:num_requests_waiting_by_reason{engine="0",model_name="llama \"8b\"",reason="capacity"}"#];
    assert_eq!(capacity, f64::from(gauges.waiting));
}

#[test]
fn every_child_is_there_from_the_start() {
    let cold = page_of(&loaded(0, 1, 0.0));
    let busy = page_of(&loaded(40, 10, 60.0));
    let series = |page| samples(page).into_keys().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(series(&cold), series(&busy));
    let finished = r#"vllm:request_success_total{engine="0",finished_reason="length",model_name="llama \"8b\""}"#;
    assert_eq!((samples(&cold)[finished], samples(&busy)[finished]), (0.0, 40.0));
    for state in [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)] {
        let series =
            format!(r#"vllm:engine_sleep_state{{engine="0",model_name="llama \"8b\"",sleep_state="{}"}}"#, state.0);
        assert_eq!(samples(&cold)[series.as_str()], state.1);
    }
}

#[test]
fn a_page_is_as_large_as_a_real_one() {
    let page = page_of(&loaded(40, 10, 60.0));
    // The captured page of vLLM 0.32.0 has 52,926 bytes in 614 lines, ten families of the web server among them.
    assert!((40_000..60_000).contains(&page.len()), "{}", page.len());
    assert!((500..650).contains(&page.lines().count()), "{}", page.lines().count());
    assert!(page.starts_with("# HELP python_gc_objects_collected_total "));
    assert!(page.ends_with("} 1.0\n"));
}

#[test]
fn every_sample_belongs_to_the_family_above_it() {
    let page = page_of(&loaded(10, 10, 5.0));
    let (mut family, mut families) = (String::new(), Vec::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            name.clone_into(&mut family);
            families.push(name.to_owned());
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let ending = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{line} is under {family}"));
            assert!(["", "_bucket", "_count", "_sum"].contains(&ending), "{line}");
        }
    }
    let count = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), count, "a family stands twice");
    for expected in
        ["vllm:cache_config_info", "vllm:iteration_tokens_total", "process_start_time_seconds", "python_info"]
    {
        assert!(families.iter().any(|family| family == expected), "{expected}");
    }
}

#[test]
fn buckets_are_cumulative_and_end_with_all() {
    let engine = loaded(40, 100, 30.0);
    let page = page_of(&engine);
    let buckets: Vec<(&str, f64)> = page
        .lines()
        .filter_map(|line| line.strip_prefix(r#"vllm:inter_token_latency_seconds_bucket{engine="0",le=""#))
        .map(|rest| (rest.split('"').next().unwrap(), rest.rsplit(' ').next().unwrap().parse().unwrap()))
        .collect();
    let bounds: Vec<&str> = buckets.iter().map(|(bound, _)| *bound).collect();
    let expected = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 +Inf";
    assert_eq!(bounds.join(" "), expected);
    assert!(buckets.is_sorted_by(|one, next| one.1 <= next.1));
    assert_eq!(buckets.last().unwrap().1, engine.statistics().inter_token_latency.count() as f64);
    // No step of P1 is below 61 ms.
    assert_eq!(buckets[2].1, 0.0);
    assert!(buckets[3].1 > 0.0);
}
