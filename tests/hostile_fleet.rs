//! A fleet of which two fifths misbehave, each in a way of its own.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../metrics-adapter/tests/scrape_support/mod.rs"]
mod servers;
mod support;

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use servers::{Behaviour, Server};
use support::{Running, until};

/// How many misbehave in each way.
const EACH: usize = 20;
const GOOD: usize = 120;
const ALL: usize = GOOD + 4 * EACH;

struct Fleet {
    /// Kept so that they go on answering.
    _servers: Vec<Server>,
    addresses: Vec<SocketAddr>,
}

async fn fleet(waiting: &Arc<AtomicU64>) -> Fleet {
    let (mut servers, mut addresses) = (Vec::new(), Vec::new());
    for _ in 0..GOOD {
        let waiting = Arc::clone(waiting);
        let page = move |_| {
            let waiting = waiting.load(Ordering::Relaxed);
            Behaviour::page(&format!("vllm:num_requests_waiting {waiting}\nvllm:kv_cache_usage_perc 0.2\n"))
        };
        servers.push(Server::start(Behaviour::Changing(Arc::new(page))).await);
    }
    for behaviour in [
        Behaviour::Hang,
        Behaviour::status("401 Unauthorized", "", ""),
        Behaviour::Endless(b"vllm:num_requests_waiting{engine=\"0\"} 0\n# more and more and more\n".repeat(500)),
    ] {
        for _ in 0..EACH {
            servers.push(Server::start(behaviour.clone()).await);
        }
    }
    addresses.extend(servers.iter().map(|server| server.address));
    for _ in 0..EACH {
        // A port that was free a moment ago, and on which nobody listens.
        addresses.push(std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    }
    Fleet { _servers: servers, addresses }
}

/// The most memory the process ever held, in KiB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn states(view: &Value) -> Vec<(String, u64)> {
    let states = view["targetStates"].as_object().into_iter().flatten();
    states.map(|(state, count)| (state.clone(), count.as_u64().unwrap())).collect()
}

/// Each misbehaving target costs its own timeout and nothing else: the good ones stay fresh, every state is told for
/// each target and counted, memory is bounded, and the count holds or rises.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_good_are_read_and_nothing_falls() {
    let waiting = Arc::new(AtomicU64::new(0));
    let fleet = fleet(&waiting).await;
    let mut text = "apiVersion: headroom.dev/v1alpha1\nkind: InferenceAutoscaler\n\
                    metadata: {name: m, namespace: chat}\nspec:\n  maxReplicas: 1000\n  \
                    engine: {interval: 1s, timeout: 1s, maxAge: 5s}\n  \
                    metrics: [{signal: WaitingRequests, target: 5, window: 0s}]\n  \
                    behavior: {scaleDown: {stabilizationWindowSeconds: 0}}\n  endpoints:\n"
        .to_owned();
    for address in &fleet.addresses {
        writeln!(text, "  - http://{address}").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("fleet.yaml");
    std::fs::write(&config, text).unwrap();
    tokio::task::spawn_blocking(move || {
        let running = Running::start(&config, &[]);
        let all = i64::try_from(ALL).unwrap();
        let view = until("every target was tried", || {
            let view = running.state("autoscalers/chat/m");
            let good = view["targetStates"]["ok"] == GOOD;
            let bad = states(&view).into_iter().filter(|(state, _)| state != "ok" && state != "pending");
            (good && bad.map(|(_, count)| count).sum::<u64>() == 4 * EACH as u64).then_some(view)
        });
        for (state, count) in [("unauthorized", EACH), ("refused", EACH), ("timeout", EACH), ("ok", GOOD)] {
            let told = view["targetStates"][state].as_u64().unwrap_or_default();
            assert!(told >= count as u64, "{state}: {:?}", states(&view));
            let series = format!("headroom_targets{{namespace=\"chat\",autoscaler=\"m\",state=\"{state}\"}}");
            assert_eq!(running.own_metric(&series), Some(told as f64));
        }
        let targets = view["targets"].as_array().unwrap();
        assert_eq!(targets.len(), ALL);
        assert!(targets.iter().all(|it| it["state"] == "ok" || it["message"].is_string()), "each says why");

        // With all of the good at rest nothing falls, from the first decision on.
        let mut newest = view["decision"]["at"].clone();
        for _ in 0..5 {
            let seen = until("another turn", || {
                let view = running.state("autoscalers/chat/m");
                (view["decision"]["at"] != newest).then_some(view)
            });
            assert_eq!(seen["decision"]["proposals"][0]["counts"]["read"], GOOD, "the good stay fresh");
            newest = seen["decision"]["at"].clone();
        }
        let kept = running.state("autoscalers/chat/m/decisions?limit=1000");
        let decisions = kept["decisions"].as_array().unwrap();
        assert!(!decisions.is_empty() && decisions.iter().all(|it| it["desired"].as_i64() >= Some(all)), "{kept}");
        waiting.store(9, Ordering::Relaxed);
        until("a queue still raises", || running.desired("chat", "m").filter(|desired| *desired > all));
        let peak = peak_memory(running.pid());
        println!("peak memory with {ALL} targets: {peak} KiB");
        // 20 endless bodies held whole would be 640 MiB.
        assert!(peak < 200 * 1024, "{peak} KiB");
    })
    .await
    .unwrap();
}
