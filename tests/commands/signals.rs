//! `headroom signals`.

use serde_json::Value;

use crate::servers::{Behaviour, Server};
use crate::support::{output, output_with_input, stderr, stdout};

fn fixture(name: &str) -> String {
    format!("{}/metrics-adapter/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What is told of a page in which something was found.
fn read(source: &str, more: &[&str]) -> Value {
    told(source, more, 0)
}

fn told(source: &str, more: &[&str], code: i32) -> Value {
    let answer = output(&[&["signals", source, "--output", "json"], more].concat());
    assert_eq!(answer.status.code(), Some(code), "{}", stderr(&answer));
    serde_json::from_str(&stdout(&answer)).unwrap()
}

#[test]
fn each_engine_is_recognised_and_read() {
    for (name, engine, waiting, running) in [
        ("vllm-v1-0.33.0.prom", "vLLM", 31.0, 64.0),
        ("sglang-0.5.9-dp2.prom", "SGLang", 16.0, 93.0),
        ("tgi-3.3.7.prom", "TGI", 11.0, 27.0),
        ("triton-trtllm-24.x.prom", "Triton", 18.0, 64.0),
        ("trtllm-serve-1.3.prom", "TensorRTLLM", 6.0, 48.0),
        ("llamacpp-2026.prom", "LlamaCpp", 46.0, 4.0),
        ("lmdeploy-main-2026.prom", "LMDeploy", 41.0, 96.0),
        ("rayserve-llm-2.52.prom", "RayServe", 6.0, 62.0),
        ("dynamo-frontend-1.x.prom", "Dynamo", 17.0, 24.0),
        ("nim-llm-1.x.prom", "NIM", 3.0, 12.0),
    ] {
        let answer = read(&fixture(name), &[]);
        assert_eq!(answer["engine"], engine, "{name}");
        let signals = &answer["signals"];
        assert_eq!(signals["WaitingRequests"]["value"].as_f64(), Some(waiting), "{name}");
        assert_eq!(signals["RunningRequests"]["value"].as_f64(), Some(running), "{name}");
    }
}

#[test]
fn what_is_unknown_says_why() {
    let asleep = read(&fixture("vllm-v1-0.33.0-sleeping.prom"), &[]);
    assert_eq!(asleep["asleep"], true);
    assert!(asleep["signals"]["KVCacheUtilization"]["value"].is_null());
    let broken = read(&fixture("malformed/14-histogram-broken.prom"), &[]);
    assert!(broken["signals"]["TimeToFirstToken"]["reason"].as_str().unwrap().contains("contradicts itself"));
    assert!(broken["hint"].as_str().unwrap().contains("--disable-log-stats"));
    let other = told(&fixture("vllm-v1-0.33.0.prom"), &["--model", "elsewhere"], 1);
    assert!(other["signals"]["WaitingRequests"]["reason"].as_str().unwrap().contains("there are"), "{other}");
    assert!(other["hint"].is_null(), "{other}");
    let renamed = output_with_input(&["signals", "-"], b"vllm:num_requests_queued 3\nvllm:num_requests_running 1\n");
    assert!(stdout(&renamed).contains("vllm:num_requests_queued"), "{}", stdout(&renamed));
    let tgi = read(&fixture("tgi-3.3.7.prom"), &[]);
    assert_eq!(tgi["signals"]["KVCacheUtilization"]["state"], "unknown");
    assert_eq!(tgi["signals"]["KVCacheUtilization"]["exported"], false);
    let nothing = output_with_input(&["signals", "-"], b"");
    assert!(stdout(&nothing).contains("engine: not recognised"), "{}", stdout(&nothing));
}

#[test]
fn bodies_that_are_something_else_are_refused() {
    for (name, says) in [
        ("malformed/08-html-error-page.prom", "HTML page"),
        ("malformed/08b-json-instead.prom", "JSON document"),
        ("malformed/08d-json-empty-array.prom", "/prometheus/metrics"),
        ("nowhere.prom", "cannot read"),
    ] {
        let refused = output(&["signals", &fixture(name)]);
        assert!(!refused.status.success() && stderr(&refused).contains(says), "{name}: {}", stderr(&refused));
    }
}

/// Two pages tell rates; a server that refuses is named with its state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_read_twice() {
    let page = |total: u64| {
        Behaviour::page(&format!("vllm:num_requests_waiting 3\nvllm:generation_tokens_total {}\n", total * 1000))
    };
    let server = Server::start(Behaviour::Changing(std::sync::Arc::new(page))).await;
    let guarded = Server::start(Behaviour::status("401 Unauthorized", "", "")).await;
    tokio::task::spawn_blocking(move || {
        let answer = read(&format!("http://{}", server.address), &["--interval", "500ms"]);
        assert_eq!(answer["signals"]["GenerationTokenRate"]["value"], 2000.0, "{answer}");
        let refused = output(&["signals", &format!("http://{}/metrics", guarded.address)]);
        assert!(stderr(&refused).contains("unauthorized"), "{}", stderr(&refused));
    })
    .await
    .unwrap();
}
