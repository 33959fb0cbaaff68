//! Every folder of examples: valid as it stands, and run against servers that show a recorded page.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../metrics-adapter/tests/scrape_support/mod.rs"]
mod servers;
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use servers::{Behaviour, Server};
use support::{Running, output, stderr, stdout, until};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("metrics-adapter/tests/fixtures");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The example with servers of loopback in place of its own. Each server gets the place of an endpoint, or, where one
/// endpoint has several ports, of a port.
fn with_servers(example: &str, servers: &[Server]) -> String {
    let text = std::fs::read_to_string(examples().join(example).join("autoscaler.yaml")).unwrap();
    if text.contains("ports: [8000-8001]") {
        let ports: Vec<String> = servers.iter().map(|server| server.address.port().to_string()).collect();
        return text
            .replace("ports: [8000-8001]", &format!("ports: [{}]", ports.join(", ")))
            .replace("http://10.0.0.41", "http://127.0.0.1");
    }
    let mut addresses = servers.iter().map(|server| server.address);
    let replaced = text.lines().map(|line| match line.strip_prefix("  - http://") {
        Some(_) => format!("  - http://{}", addresses.next().unwrap()),
        None => line.to_owned(),
    });
    replaced.collect::<Vec<_>>().join("\n")
}

async fn desired(example: &'static str, pages: &[String]) -> (i64, serde_json::Value) {
    let mut servers = Vec::new();
    for page in pages {
        servers.push(Server::start(Behaviour::page(page)).await);
    }
    let text = with_servers(example, &servers);
    let answer = tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("autoscaler.yaml");
        std::fs::write(&config, text).unwrap();
        let running = Running::start(&config, &[]);
        let view = until("a decision", || {
            let overview = running.state("autoscalers")["autoscalers"][0].clone();
            let (namespace, name) = (overview["namespace"].as_str()?, overview["name"].as_str()?);
            let desired = running.desired(namespace, name)?;
            Some((desired, running.state(&format!("autoscalers/{namespace}/{name}"))["decision"].clone()))
        });
        drop(running);
        view
    });
    let answer = answer.await.unwrap();
    drop(servers);
    answer
}

#[test]
fn every_example_is_valid_and_listed() {
    let entries = std::fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap());
    let folders: BTreeSet<String> = entries
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let list = std::fs::read_to_string(examples().join("README.md")).unwrap();
    assert!(folders.len() >= 7, "{folders:?}");
    for folder in &folders {
        assert!(list.contains(&format!("({folder}/autoscaler.yaml)")), "{folder} is not in the list");
        let checked = output(&["check", "--config", examples().join(folder).to_str().unwrap()]);
        assert!(checked.status.success(), "{folder}: {}", stderr(&checked));
        assert!(stdout(&checked).contains("valid"), "{folder}: {}", stdout(&checked));
        assert!(!stdout(&checked).contains("warning"), "{folder}: {}", stdout(&checked));
    }
}

/// Two servers with 22 that wait each and 64 that run, at 88 % of their caches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vllm_by_its_queue() {
    let page = fixture("vllm-v1-0.33.0.prom");
    let (desired, decision) = desired("first-policy", &[page.clone(), page]).await;
    // 44 at 5 ask for 9; from 2 the policies allow 4 more at once, or twice as many.
    assert_eq!((desired, &decision["proposals"][0]["replicas"]), (6, &9.into()), "{decision}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vllm_by_three_signals() {
    let page =
        fixture("vllm-v1-0.33.0.prom").replace("vllm:num_requests_waiting{", "vllm:num_requests_waiting{off=\"\",");
    let (_, decision) = desired("queue-and-kv-cache", &[page.clone(), page]).await;
    let asked: Vec<i64> =
        decision["proposals"].as_array().unwrap().iter().map(|it| it["replicas"].as_i64().unwrap()).collect();
    // 44 waiting at 5, 128 running at 48, 1.7624 of two caches at 0.75.
    assert_eq!(asked, [9, 3, 3], "{decision}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_are_one_replica() {
    let page = fixture("vllm-v1-0.33.0.prom");
    let idle = "vllm:num_requests_waiting 30\nvllm:kv_cache_usage_perc 0.1\n".to_owned();
    let (_, decision) = desired("several-engines-a-replica", &[page, idle]).await;
    let proposals = &decision["proposals"];
    // 22 and 30 wait, which is 52; of the caches the fuller one counts, 0.8812.
    assert_eq!((&proposals[0]["sumUp"], &proposals[1]["sumUp"]), (&"52".into(), &"882m".into()), "{decision}");
    assert_eq!((&decision["current"], &proposals[0]["replicas"]), (&1.into(), &6.into()), "{decision}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_ones_own() {
    let page = "speech_jobs_queued{tier=\"live\"} 9\nspeech_jobs_queued{tier=\"batch\"} 500\n\
                speech_cache_used_ratio{gpu=\"0\"} 0.2\nspeech_cache_used_ratio{gpu=\"1\"} 0.5\n";
    let (desired, decision) = desired("custom-engine", &[page.to_owned()]).await;
    assert_eq!(desired, 3, "{decision}");
    assert_eq!(decision["proposals"][1]["sumUp"], "500m", "{decision}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sglang_with_behavior_and_vllm_with_a_latency() {
    let (desired_count, decision) = desired("careful-scale-down", &[fixture("sglang-0.5.9-dp2.prom")]).await;
    // 16 wait at 5; 200 % more in 30 s allow three of one.
    assert_eq!((desired_count, &decision["proposals"][0]["replicas"]), (3, &4.into()), "{decision}");
    let page = fixture("vllm-v1-0.33.0.prom");
    let (_, decision) = desired("latency", &[page.clone(), page]).await;
    assert_eq!(decision["proposals"][1]["signal"], "TimeToFirstToken", "{decision}");
}
