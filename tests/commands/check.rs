//! `headroom check`.

use std::fmt::Write;

use crate::servers::{Behaviour, Server};
use crate::support::{output, stderr, stdout};

fn resource(spec: &str) -> String {
    format!(
        "apiVersion: headroom.dev/v1alpha1\nkind: InferenceAutoscaler\nmetadata: {{name: m, namespace: chat}}\n\
         spec:\n  maxReplicas: 5\n{spec}"
    )
}

fn check(text: &str, more: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("autoscaler.yaml");
    std::fs::write(&file, text).unwrap();
    output(&[&["check", "--config", file.to_str().unwrap()], more].concat())
}

#[test]
fn a_valid_file_is_summed_up() {
    let checked = check(&resource("  endpoints: [http://10.0.0.1:8000, http://10.0.0.2:8000]\n"), &[]);
    let text = stdout(&checked);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(
        text.contains("chat/m: valid; replicas: 2 listed, 1 to 5 wanted")
            && text.contains("WaitingRequests: 5 a replica"),
        "{text}"
    );
}

/// Every mistake at once, each with its object, its field and what to write, whether decoding or checking finds it.
#[test]
fn mistakes_are_all_named() {
    let text = resource(
        "  minReplicas: 7\n  metrics: [{signal: KVCacheUtilization, target: 75}, {signal: Waiting, target: 5}]\n  \
         endpoints: [ftp://x]\n  engine: {type: vllm}\n  cooldown: 5m\n",
    );
    let checked = check(&text, &[]);
    assert_eq!(checked.status.code(), Some(1));
    for part in [
        "chat/m in ",
        "metrics[1].signal",
        "WaitingRequests",
        "spec.maxReplicas: 5 must not be below minReplicas, 7",
        "spec.endpoints[0]",
        "spec.engine.type: there is no engine \"vllm\"; write one of Auto, ",
        "unknown field `cooldown`",
    ] {
        assert!(stderr(&checked).contains(part), "{part}: {}", stderr(&checked));
    }
    let text = text.replace("Waiting,", "WaitingRequests,");
    for part in ["spec.maxReplicas", "spec.metrics[0].target", "75%", "spec.endpoints[0]"] {
        assert!(stderr(&check(&text, &[])).contains(part), "{part}: {}", stderr(&check(&text, &[])));
    }
}

/// A file of a folder that says nothing could be one that is being written: it stops nothing, and is named.
#[test]
fn files_that_say_nothing_are_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("good.yaml"), resource("  endpoints: [http://10.0.0.1:8000]\n")).unwrap();
    std::fs::write(file("empty.yaml"), "").unwrap();
    std::os::unix::fs::symlink("nowhere", file("dangling.yaml")).unwrap();
    std::fs::create_dir(file("folder.yaml")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(file("pipe.yaml")).status().unwrap().success());
    let checked = output(&["check", "--config", folder.path().to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    for part in ["empty.yaml", "dangling.yaml", "folder.yaml", "pipe.yaml"] {
        assert!(stderr(&checked).contains(part), "{part}: {}", stderr(&checked));
    }
    assert!(!stderr(&checked).contains("good.yaml"), "{}", stderr(&checked));
}

/// A list is never taken for an object, entry by entry.
#[test]
fn lists_are_no_objects() {
    for (spec, field) in [
        ("  endpoints: [http://10.0.0.1:8000]\n  behavior: {scaleUp: [0]}\n", "spec.behavior.scaleUp"),
        ("  endpoints: [http://10.0.0.1:8000]\n  metrics: [[WaitingRequests, 5]]\n", "spec.metrics[0]"),
        ("  endpoints: [http://10.0.0.1:8000]\n  engine: [Auto]\n", "spec.engine"),
    ] {
        let checked = check(&resource(spec), &[]);
        let says = format!("{field}: a list, where an object belongs");
        assert!(stderr(&checked).contains(&says), "{says}: {}", stderr(&checked));
    }
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    for (spec, field) in [
        ("  minReplicas: 0\n", "spec.minReplicas"),
        ("  actuation: Direct\n", "spec.actuation"),
        ("  schedules: [{name: a}]\n", "spec.schedules"),
    ] {
        let checked = check(&resource(&format!("{spec}  endpoints: [http://10.0.0.1]\n")), &[]);
        assert!(!checked.status.success() && stderr(&checked).contains(field), "{field}: {}", stderr(&checked));
    }
}

/// With --connect each server says what it showed, and one that cannot be read makes the check fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_tried() {
    let good = Server::start(Behaviour::page("vllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n")).await;
    let guarded = Server::start(Behaviour::status("403 Forbidden", "", "")).await;
    let empty = Server::start(Behaviour::page("go_goroutines 3\n")).await;
    tokio::task::spawn_blocking(move || {
        let endpoints = |servers: &[&Server]| {
            servers.iter().fold("  endpoints:\n".to_owned(), |mut text, server| {
                writeln!(text, "  - http://{}", server.address).unwrap();
                text
            })
        };
        let one = check(&resource(&endpoints(&[&good])), &["--connect"]);
        assert!(one.status.success(), "{}{}", stdout(&one), stderr(&one));
        assert!(stdout(&one).contains("vLLM") && stdout(&one).contains("WaitingRequests 3"), "{}", stdout(&one));
        let all = check(&resource(&endpoints(&[&good, &guarded, &empty])), &["--connect"]);
        assert!(!all.status.success());
        for part in ["unauthorized", "no family of a known engine", "vLLM"] {
            assert!(stdout(&all).contains(part), "{part}: {}", stdout(&all));
        }
    })
    .await
    .unwrap();
}
