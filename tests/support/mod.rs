//! Runs the program as its users do.

#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What nothing here should ever take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program with these arguments.
pub(crate) fn headroom(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn output(args: &[&str]) -> Output {
    headroom(args).output().unwrap()
}

/// Runs it to its end with something on standard input.
pub(crate) fn output_with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = headroom(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || {
        // A program that ends early does not read all of it.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A running `headroom run`, killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) state: SocketAddr,
    pub(crate) external_metrics: SocketAddr,
    logs: Receiver<String>,
    seen: Vec<String>,
    /// The decision lines of standard output.
    pub(crate) decisions: Receiver<Value>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts it on a configuration, on free ports, and waits until it listens.
    pub(crate) fn start(config: &Path, more: &[&str]) -> Self {
        let mut args = vec!["run", "--config", config.to_str().unwrap(), "--address", "127.0.0.1:0"];
        args.extend(["--external-metrics-address", "127.0.0.1:0", "--log-format", "json"]);
        args.extend(more);
        let mut child = headroom(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, logs) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if log.send(line).is_err() {
                    return;
                }
            }
        });
        let (decision, decisions) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = decision.send(serde_json::from_str(&line).unwrap());
            }
        });
        let nowhere: SocketAddr = ([0, 0, 0, 0], 0).into();
        let mut running = Self { child, state: nowhere, external_metrics: nowhere, logs, seen: Vec::new(), decisions };
        running.state = running.address("serving own metrics, health and state");
        running.external_metrics = running.address("serving the external metrics API");
        running
    }

    fn address(&mut self, message: &str) -> SocketAddr {
        let line = self.wait_for_log(message);
        line["address"].as_str().unwrap().parse().unwrap()
    }

    /// Waits for a log line that contains a text.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        if let Some(line) = self.seen.iter().find(|line| line.contains(text)) {
            return serde_json::from_str(line).unwrap();
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.logs.recv_timeout(left) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return serde_json::from_str(&line).unwrap();
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no log line with {text:?} in\n{}", self.seen.join("\n"))
                }
            }
        }
    }

    /// Every log line so far.
    pub(crate) fn logs(&mut self) -> Vec<String> {
        while let Ok(line) = self.logs.try_recv() {
            self.seen.push(line);
        }
        self.seen.clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The JSON at a path of the state.
    pub(crate) fn state(&self, path: &str) -> Value {
        get_json(&format!("http://{}/api/v1/{path}", self.state)).1
    }

    /// Status and JSON of a metric of the external metrics API.
    pub(crate) fn metric(&self, namespace: &str, autoscaler: &str, metric: &str) -> (u16, Value) {
        let selector = format!("labelSelector=headroom.dev%2Fautoscaler%3D{autoscaler}");
        let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?{selector}");
        get_json(&format!("http://{}{path}", self.external_metrics))
    }

    /// The desired count that an HPA would be given, if it would.
    pub(crate) fn desired(&self, namespace: &str, autoscaler: &str) -> Option<i64> {
        let (status, answer) = self.metric(namespace, autoscaler, "headroom_desired_replicas");
        (status == 200).then(|| answer["items"][0]["value"].as_str().unwrap().parse().unwrap())
    }

    /// The page of its own metrics.
    pub(crate) fn own_metrics(&self) -> String {
        get(&format!("http://{}/metrics", self.state)).1
    }

    /// The value of one of its own metrics, by its whole series.
    pub(crate) fn own_metric(&self, series: &str) -> Option<f64> {
        let page = self.own_metrics();
        let line = page.lines().find(|line| line.rsplit_once(' ').is_some_and(|(own, _)| own == series));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
    }
}

/// Status and body of a URL.
pub(crate) fn get(url: &str) -> (u16, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let response = client.get(url).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    })
}

pub(crate) fn get_json(url: &str) -> (u16, Value) {
    let (status, body) = get(url);
    (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{url} answered no JSON: {body}")))
}

/// Waits until a condition holds.
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
