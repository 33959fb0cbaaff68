//! A real HPA asks a real API server, which asks `headroom run`, and moves a Deployment.

#![allow(clippy::unwrap_used)]

mod support;

use std::process::Command;
use std::time::Duration;

use headroom_cluster::{Cluster, Process, Settings, Subject, wait_until};
use serde_json::Value;
use support::{ModelServer, headroom_program};

const PATIENCE: Duration = Duration::from_secs(90);
/// In the range of services; the API server connects to it as it would to a Service of a cluster.
const SERVICE_ADDRESS: &str = "127.96.40.1";
const SERVICE_NAME: &str = "headroom.headroom.svc";

/// A count, or what there is in its place.
fn equals(expected: u64, found: &Value) -> Result<(), String> {
    if found.as_u64() == Some(expected) { Ok(()) } else { Err(found.to_string()) }
}

fn deployment(cluster: &Cluster, field: &str) -> Value {
    let object = cluster.get(&["deployment", "chat-8b", "--namespace=chat"]).unwrap();
    object.pointer(field).cloned().unwrap_or_default()
}

/// A condition of the HPA as `STATUS REASON MESSAGE`.
fn hpa_condition(cluster: &Cluster, kind: &str) -> String {
    let object = cluster.get(&["hpa", "chat-8b", "--namespace=chat"]).unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
    let text = |field: &str| condition[field].as_str().unwrap_or("none").to_owned();
    format!("{} {} {}", text("status"), text("reason"), text("message"))
}

fn run_headroom(cluster: &Cluster, servers: &[ModelServer]) -> Process {
    let folder = cluster.folder().join("headroom");
    std::fs::create_dir(&folder).unwrap();
    let mut configuration = String::from(include_str!("manifests/autoscaler.yaml"));
    for server in servers {
        configuration.extend(["  - ", &server.url(), "\n"]);
    }
    let file = folder.join("autoscaler.yaml");
    std::fs::write(&file, configuration).unwrap();
    let serving = Subject { name: SERVICE_NAME, group: None, serves: &[SERVICE_NAME] };
    let identity = cluster.authority.sign("headroom", serving).unwrap();
    let mut command = Command::new(headroom_program());
    command
        .args(["run", "--address=127.0.0.1:0", "--config"])
        .arg(&file)
        .arg(format!("--external-metrics-address={SERVICE_ADDRESS}:6443"))
        .arg("--tls-cert-file")
        .arg(&identity.certificate)
        .arg("--tls-private-key-file")
        .arg(&identity.key)
        .arg("--client-ca-file")
        .arg(&cluster.front_proxy_authority.certificate);
    Process::start("headroom", &mut command, &folder).unwrap()
}

/// What the API server answers for a metric of the autoscaler.
fn published(cluster: &Cluster, metric: &str) -> Result<String, String> {
    let path = format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/{metric}?labelSelector=headroom.dev%2Fautoscaler%3Dchat-8b"
    );
    let answer = cluster.kubectl(&["get", "--raw", &path]).map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_str(&answer).map_err(|_| answer.clone())?;
    answer["items"][0]["value"].as_str().map(str::to_owned).ok_or_else(|| answer.to_string())
}

#[test]
fn a_real_hpa_follows_the_count_and_holds_while_it_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), &Settings { hpa_period: "2s".into() }).unwrap();
    cluster.apply(include_str!("../src/node.yaml")).unwrap();
    cluster.apply(include_str!("manifests/fleet.yaml")).unwrap();
    let authority = std::fs::read_to_string(&cluster.authority.certificate).unwrap();
    cluster
        .apply(&include_str!("manifests/api-service.yaml").replace("CA_BUNDLE", &support::base64(&authority)))
        .unwrap();
    wait_until("two pods are ready", PATIENCE, || equals(2, &deployment(&cluster, "/status/readyReplicas"))).unwrap();

    // 44 waiting at 5 a replica ask for 9; from 2, the default policies allow 6 in the first 15 seconds.
    let servers = [ModelServer::start(22).unwrap(), ModelServer::start(22).unwrap()];
    let headroom = run_headroom(&cluster, &servers);
    let first = wait_until("the API server answers with the count", PATIENCE, || {
        published(&cluster, "headroom_desired_replicas")
    })
    .unwrap();
    assert_eq!(first, "6", "{}", headroom.log());
    cluster.apply(include_str!("manifests/hpa.yaml")).unwrap();
    wait_until("the HPA has moved the Deployment", PATIENCE, || equals(6, &deployment(&cluster, "/spec/replicas")))
        .unwrap();
    wait_until("six pods are ready", PATIENCE, || equals(6, &deployment(&cluster, "/status/readyReplicas"))).unwrap();

    // The queue is gone, and then both servers hang: with no last value that asks for more, no number is published,
    // the HPA says so in our words, and nothing falls.
    for server in &servers {
        server.answer(0);
    }
    let waiting = || published(&cluster, "headroom_waiting_requests");
    wait_until("no request waits", PATIENCE, || {
        waiting().and_then(|count| if count == "0" { Ok(()) } else { Err(count) })
    })
    .unwrap();
    servers.iter().for_each(ModelServer::hang);
    let condition = wait_until("the HPA has no number", PATIENCE, || {
        let condition = hpa_condition(&cluster, "ScalingActive");
        if condition.starts_with("False FailedGetExternalMetric") { Ok(condition) } else { Err(condition) }
    })
    .unwrap();
    for part in ["autoscaler \"chat-8b\"", "WaitingRequests: none of 2 Ready replicas was read (first: timeout)"] {
        assert!(condition.contains(part), "{part}: {condition}");
    }
    assert_eq!(deployment(&cluster, "/spec/replicas"), 6);

    // They answer again: the count is back, and stays up for its window.
    for server in &servers {
        server.answer(0);
    }
    wait_until("the HPA has a number again", PATIENCE, || {
        let condition = hpa_condition(&cluster, "ScalingActive");
        if condition.starts_with("True ValidMetricFound") { Ok(()) } else { Err(condition) }
    })
    .unwrap();
    assert_eq!(deployment(&cluster, "/spec/replicas"), 6);
}
