//! `headroom run`, from servers' pages to the number an HPA is given.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../metrics-adapter/tests/scrape_support/mod.rs"]
mod servers;
mod support;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use servers::{Behaviour, Server};
use support::{Running, get, output, stderr, stdout, until};

/// A page on which so many wait.
fn page(waiting: u64) -> String {
    format!(
        "vllm:num_requests_running{{engine=\"0\"}} 4.0\nvllm:num_requests_waiting{{engine=\"0\"}} {waiting}\n\
         vllm:kv_cache_usage_perc{{engine=\"0\"}} 0.25\n"
    )
}

/// A server whose queue a test can change.
async fn queue(waiting: &Arc<AtomicU64>) -> Server {
    let waiting = Arc::clone(waiting);
    Server::start(Behaviour::Changing(Arc::new(move |_| Behaviour::page(&page(waiting.load(Ordering::Relaxed)))))).await
}

/// A resource over these servers.
fn resource(name: &str, servers: &[&Server], spec: &str) -> String {
    let mut text = format!(
        "apiVersion: headroom.dev/v1alpha1\nkind: InferenceAutoscaler\nmetadata: {{name: {name}, namespace: chat}}\n\
         spec:\n  maxReplicas: 20\n  engine: {{interval: 1s}}\n{spec}  endpoints:\n"
    );
    for server in servers {
        writeln!(text, "  - http://{}", server.address).unwrap();
    }
    text
}

const ONE_METRIC: &str = "  metrics: [{signal: WaitingRequests, target: 5, window: 0s}]\n";
/// Up and down at once.
const OPEN: &str = "  behavior:\n    scaleUp: {policies: [{type: Pods, value: 100, periodSeconds: 15}]}\n    \
                    scaleDown: {stabilizationWindowSeconds: 0}\n";

fn write(folder: &Path, text: &str) -> std::path::PathBuf {
    let file = folder.join("autoscalers.yaml");
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_becomes_a_number_and_an_explanation() {
    let waiting = Arc::new(AtomicU64::new(3));
    let (one, two) = (queue(&waiting).await, queue(&waiting).await);
    let folder = tempfile::tempdir().unwrap();
    let spec = [ONE_METRIC, OPEN].concat();
    let config = write(folder.path(), &resource("m", &[&one, &two], &spec));
    tokio::task::spawn_blocking(move || {
        let mut running = Running::start(&config, &[]);
        until("two are wanted", || (running.desired("chat", "m") == Some(2)).then_some(()));
        waiting.store(30, Ordering::Relaxed);
        until("twelve are wanted", || (running.desired("chat", "m") == Some(12)).then_some(()));
        let (status, total) = running.metric("chat", "m", "headroom_waiting_requests");
        assert_eq!((status, total["items"][0]["value"].as_str()), (200, Some("60")), "{total}");
        let (status, latency) = running.metric("chat", "m", "headroom_time_to_first_token");
        assert_eq!(status, 404);
        assert!(latency["message"].as_str().unwrap().contains("headroom_desired_replicas"), "{latency}");

        // Each change is one line with the whole record, from which it can be made again.
        let change = until("the change is logged", || {
            running.decisions.try_iter().find(|line| line["record"]["decision"]["desired"] == 12)
        });
        let record: headroom_policies::DecisionRecord = serde_json::from_value(change["record"].clone()).unwrap();
        assert_eq!(record.execute(), record.decision);
        assert_eq!(record.decision.proposals[0].message, "WaitingRequests: 60 at 5 a replica asks for 12");

        let server = format!("http://{}", running.state);
        let explained = output(&["explain", "chat/m", "--server", &server]);
        let text = stdout(&explained);
        for part in ["desired 12", "WaitingRequests: 60 ", "Not more", "Not fewer"] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let before = output(&["explain", "chat/m", "--server", &server, "--at", "-1d"]);
        assert!(
            !before.status.success() && stderr(&before).contains("no decision of chat/m is kept"),
            "{}",
            stderr(&before)
        );
        let unknown = output(&["explain", "chat/other", "--server", &server]);
        assert!(stderr(&unknown).contains("there are chat/m"), "{}", stderr(&unknown));

        assert_eq!(running.own_metric("headroom_desired_replicas{namespace=\"chat\",autoscaler=\"m\"}"), Some(12.0));
        assert_eq!(running.own_metric("headroom_targets{namespace=\"chat\",autoscaler=\"m\",state=\"ok\"}"), Some(2.0));
        assert_eq!(get(&format!("http://{}/readyz", running.state)).0, 200);
        running.signal("TERM");
        assert!(running.wait().success());
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_and_resume() {
    let waiting = Arc::new(AtomicU64::new(0));
    let server = queue(&waiting).await;
    let folder = tempfile::tempdir().unwrap();
    let config = write(folder.path(), &resource("m", &[&server], &[ONE_METRIC, OPEN].concat()));
    let state = folder.path().join("state");
    tokio::task::spawn_blocking(move || {
        let state = state.to_str().unwrap();
        let running = Running::start(&config, &["--state-dir", state]);
        until("one is wanted", || (running.desired("chat", "m") == Some(1)).then_some(()));
        let server = format!("http://{}", running.state);
        let held =
            output(&["hold", "chat/m", "--replicas", "7", "--for", "1h", "--reason", "load test", "--server", &server]);
        assert!(stdout(&held).contains("held at 7 until"), "{}{}", stdout(&held), stderr(&held));
        until("seven are published", || (running.desired("chat", "m") == Some(7)).then_some(()));
        let view = running.state("autoscalers/chat/m");
        assert_eq!(view["hold"]["reason"], "load test");
        for wrong in [&["--replicas", "99"][..], &["--until", "2020-01-01T00:00:00Z"], &["--replicas", "-1"]] {
            let refused = headroom_hold(wrong, &server);
            assert!(!refused.status.success(), "{wrong:?}");
        }
        // A hold outlives a crash.
        running.signal("KILL");
        let running = Running::start(&config, &["--state-dir", state]);
        until("seven are published again", || (running.desired("chat", "m") == Some(7)).then_some(()));
        let server = format!("http://{}", running.state);
        let resumed = output(&["resume", "chat/m", "--server", &server]);
        assert!(stdout(&resumed).contains("no longer held at 7"), "{}", stdout(&resumed));
        // Back by the usual way down, not at once: the hold was a recommendation.
        until("the hold is over", || running.state("autoscalers/chat/m")["hold"].is_null().then_some(()));
    })
    .await
    .unwrap();
}

fn headroom_hold(more: &[&str], server: &str) -> std::process::Output {
    output(&[&["hold", "chat/m", "--server", server], more].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_is_taken_and_a_wrong_one_is_not() {
    let waiting = Arc::new(AtomicU64::new(30));
    let (one, two) = (queue(&waiting).await, queue(&waiting).await);
    let folder = tempfile::tempdir().unwrap();
    let good = resource("m", &[&one], &[ONE_METRIC, OPEN].concat());
    let config = write(folder.path(), &good);
    let more = resource("m", &[&one, &two], &[ONE_METRIC, OPEN].concat());
    let other = resource("other", &[&one], ONE_METRIC);
    let path = folder.path().to_owned();
    tokio::task::spawn_blocking(move || {
        let mut running = Running::start(&config, &[]);
        until("six are wanted", || (running.desired("chat", "m") == Some(6)).then_some(()));
        write(&path, &good.replace("maxReplicas: 20", "maxReplicas: 0"));
        let log = running.wait_for_log("the old one stays in force");
        assert!(log["message"].as_str().unwrap().contains("spec.maxReplicas: 0 must be 1 or more"), "{log}");
        assert_eq!(running.own_metric("headroom_config_last_reload_successful"), Some(0.0));
        assert_eq!(running.desired("chat", "m"), Some(6));
        write(&path, &format!("{more}---\n{other}"));
        until("twelve are wanted of two", || (running.desired("chat", "m") == Some(12)).then_some(()));
        until("the other one is there", || running.desired("chat", "other"));
        until("the reload is told", || {
            (running.own_metric("headroom_config_last_reload_successful") == Some(1.0)).then_some(())
        });
        write(&path, &more);
        until("the other one is gone", || {
            (running.metric("chat", "other", "headroom_desired_replicas").0 == 404).then_some(())
        });
        let text = running.own_metrics();
        assert!(!text.contains("autoscaler=\"other\""), "what was removed leaves nothing behind");
    })
    .await
    .unwrap();
}

/// A published count that nothing in the file follows still falls by the rules only; and killed in mid-run and started
/// again with its state, no step down is made that the lost process would not have made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_forgets_no_peak() {
    let waiting = Arc::new(AtomicU64::new(20));
    let (one, two) = (queue(&waiting).await, queue(&waiting).await);
    let folder = tempfile::tempdir().unwrap();
    // The default for scale-down: nothing falls within ten minutes.
    let config = write(folder.path(), &resource("m", &[&one, &two], ONE_METRIC));
    let state = folder.path().join("state");
    tokio::task::spawn_blocking(move || {
        let more = ["--state-dir", state.to_str().unwrap()];
        let running = Running::start(&config, &more);
        until("six are wanted", || (running.desired("chat", "m") == Some(6)).then_some(()));
        waiting.store(0, Ordering::Relaxed);
        let desired_on_idle_samples = |running: &Running| {
            until("it has decided on fresh samples", || {
                let view = running.state("autoscalers/chat/m");
                let proposal = &view["decision"]["proposals"][0];
                let idle = proposal["counts"]["read"] == 2 && proposal["sumUp"] == "0";
                idle.then(|| view["decision"]["desired"].as_i64().unwrap())
            })
        };
        assert_eq!(desired_on_idle_samples(&running), 6);
        running.signal("KILL");
        drop(running);
        let running = Running::start(&config, &more);
        assert_eq!(desired_on_idle_samples(&running), 6);
        let record = running.state("autoscalers/chat/m/decisions?limit=1000");
        let decisions = record["decisions"].as_array().unwrap();
        assert!(decisions.iter().all(|decision| decision["desired"] == 6), "{record}");
        let highest = running.state(&format!("autoscalers/chat/m/decisions?at={}", "2999-01-01T00:00:00Z"));
        let entries = highest["record"]["history"]["highest"]["entries"].as_array().unwrap();
        assert!(entries.iter().any(|entry| entry["replicas"] == 6), "{entries:?}");
    })
    .await
    .unwrap();
}

/// Silence from the start is an error that names its reason, never a number; once there were values they stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_never_zero() {
    let guarded = Server::start(Behaviour::status("401 Unauthorized", "", "")).await;
    let folder = tempfile::tempdir().unwrap();
    let spec = format!("{ONE_METRIC}  behavior: {{scaleDown: {{stabilizationWindowSeconds: 0}}}}\n");
    let text = resource("m", &[&guarded, &guarded], &spec);
    // The same server twice would be refused; it is another replica by its path.
    let text = text.replacen(&format!("{}\n", guarded.address), &format!("{}/metrics?replica=1\n", guarded.address), 1);
    let config = write(folder.path(), &text);
    tokio::task::spawn_blocking(move || {
        let running = Running::start(&config, &[]);
        let answer = until("it says why", || {
            let (status, answer) = running.metric("chat", "m", "headroom_desired_replicas");
            assert_ne!(status, 200, "{answer}");
            answer["message"].as_str().unwrap().contains("no metric is readable").then_some(answer)
        });
        assert_eq!(answer["code"], 503);
        let (status, total) = running.metric("chat", "m", "headroom_waiting_requests");
        assert_eq!(status, 503, "{total}");
        let view = running.state("autoscalers/chat/m");
        assert_eq!(view["targetStates"]["unauthorized"], 2, "{view}");
        assert_eq!(view["decision"]["desired"], 2);
    })
    .await
    .unwrap();
}

#[test]
fn a_wrong_configuration_is_refused_with_every_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let text = "apiVersion: headroom.dev/v1alpha1\nkind: InferenceAutoscaler\nmetadata: {name: m}\nspec:\n  \
                maxReplicas: 5\n  minReplicas: 9\n  metrics: [{signal: KVCacheUtilization, target: 75}]\n  \
                endpoints: [ftp://x]\n";
    let config = write(folder.path(), text);
    let refused = output(&["run", "--config", config.to_str().unwrap()]);
    assert!(!refused.status.success());
    let text = stderr(&refused);
    for part in [
        "spec.maxReplicas: 5 must not be below minReplicas, 9",
        "spec.metrics[0].target",
        "75% or \"0.75\"",
        "spec.endpoints[0]",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}
