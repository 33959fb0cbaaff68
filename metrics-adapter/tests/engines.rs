//! Every engine's pages, captured from real servers or composed from their sources, with the roll-up they must give.
//! Where the pages come from is written in `fixtures/README.md` and `fixtures/captured/README.md`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use headroom_adapter::engines::{Engine, EngineReader, EngineSettings, Reading, Readings};
use headroom_adapter::exposition::{Format, Limits, Page, PageReader, Scrutiny};
use headroom_policies::Signal;
use headroom_policies::observation::UnknownReason;

const MAX_BEHIND_MILLIS: i64 = 15_000;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read_page(reader: &EngineReader, name: &str) -> Page {
    let body = std::fs::read(fixture(name)).unwrap();
    let format = if body.windows(6).any(|window| window == b"\n# EOF") { Format::OpenMetrics } else { Format::Text };
    PageReader::new(reader.layouts().clone()).read(&body, format, Limits::default(), Scrutiny::Wanted).unwrap()
}

/// Expected value of a gauge: a number, or `None` = unknown.
type Expected = Option<f64>;

struct Row {
    page: &'static str,
    engine: Option<Engine>,
    running: Expected,
    waiting: Expected,
    kv_cache: Expected,
    preemptions: Expected,
}

const fn row(
    page: &'static str,
    engine: Engine,
    running: Expected,
    waiting: Expected,
    kv_cache: Expected,
    preemptions: Expected,
) -> Row {
    Row { page, engine: Some(engine), running, waiting, kv_cache, preemptions }
}

const NONE: Expected = None;

#[expect(clippy::too_many_lines, reason = "one line a page")]
fn rows() -> Vec<Row> {
    use Engine::{Dynamo, LMDeploy, LlamaCpp, NIM, RayServe, SGLang, TGI, TensorRTLLM, Triton, VLLM};
    vec![
        row("vllm-v0-0.6.6.prom", VLLM, Some(42.0), Some(7.0), Some(0.8731), Some(19.0)),
        row("vllm-v1-0.9.2.prom", VLLM, Some(61.0), Some(12.0), Some(0.9416), Some(44.0)),
        row("vllm-v1-0.11.2-dp2.prom", VLLM, Some(134.0), Some(23.0), Some(0.9733), Some(131.0)),
        row("vllm-v1-0.11.0-multiapi-pid.prom", VLLM, Some(88.0), Some(5.0), Some(0.653_045_588_047_503_5), Some(2.0)),
        row("vllm-v1-0.33.0.prom", VLLM, Some(64.0), Some(31.0), Some(0.8812), Some(57.0)),
        row("vllm-v1-0.33.0-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row("vllm-v1-0.33.0-sleeping.prom", VLLM, Some(0.0), Some(0.0), NONE, Some(57.0)),
        row("vllm-rust-frontend-0.33.0-openmetrics.prom", VLLM, Some(64.0), Some(31.0), Some(0.8812), Some(57.0)),
        row("sglang-0.5.9-dp2.prom", SGLang, Some(93.0), Some(16.0), Some(0.9144), Some(37.0)),
        row("sglang-0.4.3.prom", SGLang, Some(33.0), Some(4.0), Some(0.28), NONE),
        row("tgi-3.3.7.prom", TGI, Some(27.0), Some(11.0), NONE, NONE),
        row("tgi-3.3.7-cold.prom", TGI, Some(0.0), Some(0.0), NONE, NONE),
        row("triton-trtllm-24.x.prom", Triton, Some(64.0), Some(18.0), Some(5429.0 / 6239.0), NONE),
        row("triton-vllm-backend-24.x.prom", Triton, NONE, NONE, NONE, NONE),
        row("trtllm-serve-1.3.prom", TensorRTLLM, Some(48.0), Some(6.0), Some(0.6625), NONE),
        row("llamacpp-2026.prom", LlamaCpp, Some(4.0), Some(46.0), NONE, NONE),
        row("llamacpp-b5000.prom", LlamaCpp, Some(2.0), Some(0.0), Some(0.341_797), NONE),
        row("lmdeploy-main-2026.prom", LMDeploy, Some(96.0), Some(41.0), Some(0.7731), NONE),
        row("dynamo-frontend-1.x.prom", Dynamo, Some(24.0), Some(17.0), NONE, NONE),
        row("dynamo-worker-vllm-0.7.prom", Dynamo, Some(16.0), Some(7.0), Some(0.725_391_216_557_274_3), NONE),
        row("nim-llm-1.x.prom", NIM, Some(12.0), Some(3.0), Some(0.1822), NONE),
        row("rayserve-llm-2.52.prom", RayServe, Some(62.0), Some(6.0), Some(0.8102), Some(12.0)),
        row("captured/vllm-0.32.0-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row("captured/vllm-0.32.0-burst.prom", VLLM, Some(4.0), Some(20.0), Some(0.005_372_405_372_405_353), Some(0.0)),
        row(
            "captured/vllm-0.32.0-loaded.prom",
            VLLM,
            Some(4.0),
            Some(16.0),
            Some(0.007_814_407_814_407_787),
            Some(0.0),
        ),
        row("captured/vllm-0.8.5-v0-cold.prom", VLLM, NONE, NONE, NONE, NONE),
        row("captured/vllm-0.8.5-v0-burst.prom", VLLM, Some(4.0), Some(20.0), Some(0.000_976_562_5), Some(0.0)),
        row("captured/vllm-0.9.2-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row("captured/vllm-0.9.2-burst.prom", VLLM, Some(4.0), Some(20.0), Some(0.001_220_703_125), Some(0.0)),
        row("captured/vllm-0.9.2-openmetrics.prom", VLLM, Some(4.0), Some(4.0), Some(0.002_197_265_625), Some(0.0)),
        row("captured/vllm-0.9.2-engine-killed.prom", VLLM, Some(4.0), Some(16.0), Some(0.002_197_265_625), Some(0.0)),
        row("captured/vllm-0.11.2-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row(
            "captured/vllm-0.11.2-burst.prom",
            VLLM,
            Some(4.0),
            Some(20.0),
            Some(0.000_976_800_976_800_973_3),
            Some(0.0),
        ),
        row(
            "captured/vllm-0.11.2-openmetrics-underscores.prom",
            VLLM,
            Some(4.0),
            Some(4.0),
            Some(0.001_953_601_953_601_946_7),
            Some(0.0),
        ),
        row("captured/vllm-0.11.2-pressure-loaded.prom", VLLM, Some(4.0), Some(16.0), Some(2.0 / 3.0), Some(1.0)),
        row("captured/vllm-0.14.1-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row(
            "captured/vllm-0.14.1-burst.prom",
            VLLM,
            Some(4.0),
            Some(20.0),
            Some(0.000_976_800_976_800_973_3),
            Some(0.0),
        ),
        row("captured/vllm-0.20.2-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row(
            "captured/vllm-0.20.2-burst.prom",
            VLLM,
            Some(4.0),
            Some(20.0),
            Some(0.000_976_800_976_800_973_3),
            Some(0.0),
        ),
        row("captured/vllm-0.24.0-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row(
            "captured/vllm-0.24.0-burst.prom",
            VLLM,
            Some(4.0),
            Some(20.0),
            Some(0.000_976_800_976_800_973_3),
            Some(0.0),
        ),
        row("captured/vllm-0.24.0-first-step.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        Row {
            page: "captured/vllm-0.24.0-nostats.prom",
            engine: None,
            running: NONE,
            waiting: NONE,
            kv_cache: NONE,
            preemptions: NONE,
        },
        row("captured/vllm-0.9.2-api2-cold.prom", VLLM, NONE, NONE, Some(0.0), Some(0.0)),
        row("captured/vllm-0.9.2-api2-loaded.prom", VLLM, Some(4.0), Some(16.0), Some(0.001_953_125), Some(0.0)),
        row("captured/vllm-0.11.2-dp2-cold.prom", VLLM, Some(0.0), Some(0.0), Some(0.0), Some(0.0)),
        row(
            "captured/vllm-0.11.2-dp2-burst.prom",
            VLLM,
            Some(8.0),
            Some(16.0),
            Some(0.000_976_800_976_800_973_3),
            Some(0.0),
        ),
        row("captured/vllm-0.11.2-api2-cold.prom", VLLM, NONE, NONE, NONE, Some(0.0)),
        row(
            "captured/vllm-0.11.2-api2-burst.prom",
            VLLM,
            Some(4.0),
            Some(20.0),
            Some(0.000_976_800_976_800_973_3),
            Some(0.0),
        ),
        row("captured/llamacpp-b11434-cold.prom", LlamaCpp, Some(0.0), Some(0.0), NONE, NONE),
        row("captured/llamacpp-b11434-burst.prom", LlamaCpp, Some(2.0), Some(22.0), NONE, NONE),
        row("captured/triton-2.51-python-cold.prom", Triton, NONE, Some(0.0), NONE, NONE),
        row("captured/triton-2.51-python-burst.prom", Triton, NONE, Some(23.0), NONE, NONE),
        row(
            "captured/rayserve-2.52.1-vllm-0.11.2-burst.prom",
            RayServe,
            Some(8.0),
            Some(4.0),
            Some(0.001_953_601_953_601_946_7),
            NONE,
        ),
        row("captured/rayserve-2.52.1-vllm-0.11.2-idle-no-gauges.prom", RayServe, NONE, NONE, NONE, NONE),
        row("captured/dynamo-1.6.1-frontend-cold.prom", Dynamo, NONE, NONE, NONE, NONE),
        row("captured/dynamo-1.6.1-frontend-burst.prom", Dynamo, Some(5.0), Some(19.0), NONE, NONE),
        row("captured/dynamo-1.6.1-worker-mocker-cold.prom", Dynamo, Some(0.0), NONE, NONE, NONE),
        row("captured/dynamo-1.6.1-worker-mocker-burst.prom", Dynamo, Some(8.0), Some(16.0), Some(0.12), Some(0.0)),
    ]
}

#[test]
fn every_page_gives_its_roll_up() {
    let mut wrong = Vec::new();
    for row in rows() {
        let reader = EngineReader::new(EngineSettings::default());
        let page = read_page(&reader, row.page);
        let plan = reader.plan(&page);
        let readings = Readings::new(&plan, &page, None, MAX_BEHIND_MILLIS);
        if plan.engine != row.engine {
            wrong.push(format!("{}: recognised {:?}", row.page, plan.engine));
        }
        for (name, reading, expected) in [
            ("running", readings.gauge(Signal::RunningRequests), row.running),
            ("waiting", readings.gauge(Signal::WaitingRequests), row.waiting),
            ("KV cache", readings.gauge(Signal::KVCacheUtilization), row.kv_cache),
            ("preemptions", readings.total(Signal::PreemptionRate), row.preemptions),
        ] {
            let agrees = match (reading.number(), expected) {
                (Some(value), Some(expected)) => (value - expected).abs() < 1e-12,
                (None, None) => true,
                _ => false,
            };
            if !agrees {
                wrong.push(format!("{} {name}: {reading:?}, expected {expected:?}", row.page));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The composed pages and the captured ones in this folder, all of them but those about GPUs, are in the table.
#[test]
fn no_page_is_left_out() {
    let listed: Vec<PathBuf> = rows().iter().map(|row| fixture(row.page)).collect();
    for folder in ["", "captured"] {
        for entry in std::fs::read_dir(fixture(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "prom") {
                assert!(listed.contains(&path), "{} is not in the table", path.display());
            }
        }
    }
}

fn gauge(settings: EngineSettings, page: &str, signal: Signal) -> Reading {
    let reader = EngineReader::new(settings);
    let page = read_page(&reader, page);
    Readings::new(&reader.plan(&page), &page, None, MAX_BEHIND_MILLIS).gauge(signal)
}

#[test]
fn means_over_ranks_and_deferred_requests() {
    let reader = EngineReader::new(EngineSettings::default());
    let mean = |name: &str| {
        let page = read_page(&reader, name);
        Readings::new(&reader.plan(&page), &page, None, MAX_BEHIND_MILLIS).kv_cache_mean().unwrap()
    };
    assert!((mean("vllm-v1-0.11.2-dp2.prom") - 0.643).abs() < 5e-4);
    assert!((mean("rayserve-llm-2.52.prom") - 0.525).abs() < 5e-4);
    let page = read_page(&reader, "vllm-v1-0.33.0.prom");
    let deferred = Readings::new(&reader.plan(&page), &page, None, MAX_BEHIND_MILLIS).deferred();
    assert!((deferred - 9.0).abs() < 1e-12);
}

/// Two ranks' lines each say the sum of their blocks; it counts once.
#[test]
fn tokens_in_the_cache() {
    let tokens = |page| gauge(EngineSettings::default(), page, Signal::KVCacheTokens);

    let Reading::Value(two_ranks) = tokens("captured/vllm-0.11.2-dp2-burst.prom") else { panic!("unknown") };
    let Reading::Value(one_rank) = tokens("captured/vllm-0.11.2-burst.prom") else { panic!("unknown") };
    assert!((one_rank - 0.000_976_800_976_800_973_3 * 4096.0 * 128.0).abs() < 200.0, "{one_rank}");
    assert!((two_ranks - 2.0 * one_rank).abs() < 1e-6, "{two_ranks} {one_rank}");
    assert_eq!(tokens("sglang-0.5.9-dp2.prom"), Reading::Value(402_331.0 + 97_240.0));
    assert_eq!(tokens("trtllm-serve-1.3.prom"), Reading::Value(15_208.0 * 32.0));
    assert_eq!(tokens("triton-trtllm-24.x.prom"), Reading::Value(5429.0 * 64.0));
    assert_eq!(tokens("llamacpp-b5000.prom"), Reading::Value(2800.0));
    assert_eq!(tokens("tgi-3.3.7.prom"), Reading::Unknown(UnknownReason::NotExported));
}

/// B-14: a filter that matches nothing is a state of its own, not an empty queue.
#[test]
fn a_model_that_is_not_there() {
    let settings = || EngineSettings { model: Some("Llama-3.3-70B".into()), ..EngineSettings::default() };
    let waiting = gauge(settings(), "vllm-v1-0.33.0.prom", Signal::WaitingRequests);
    assert_eq!(waiting, Reading::Unknown(UnknownReason::NoMatch));
    let exact = EngineSettings { model: Some("meta-llama/Llama-3.3-70B-Instruct".into()), ..EngineSettings::default() };
    assert_eq!(gauge(exact, "vllm-v1-0.33.0.prom", Signal::WaitingRequests), Reading::Value(31.0));
}
