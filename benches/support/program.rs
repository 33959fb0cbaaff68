//! The program itself, as its users run it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Fallible;

/// What nothing here should take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `headroom run`, killed when dropped.
pub(crate) struct Program {
    child: Child,
    state: SocketAddr,
    pub(crate) external_metrics: SocketAddr,
    pub(crate) folder: TempDir,
}

impl Program {
    /// Runs it on a configuration, with a certificate for its external metrics, and waits until it listens.
    pub(crate) fn start(configuration: &str) -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("autoscalers.yaml"), configuration)?;
        write_certificate(folder.path())?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .args(["run", "--address", "127.0.0.1:0", "--external-metrics-address", "127.0.0.1:0"])
            .args(["--log-format", "json", "--config"])
            .arg(file("autoscalers.yaml"))
            .arg("--tls-cert-file")
            .arg(file("tls.crt"))
            .arg("--tls-private-key-file")
            .arg(file("tls.key"))
            .arg("--state-dir")
            .arg(file("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let logs = read_logs(&mut child)?;
        let nowhere: SocketAddr = ([0, 0, 0, 0], 0).into();
        let mut program = Self { child, state: nowhere, external_metrics: nowhere, folder };
        program.state = address_in(&logs, "serving own metrics")?;
        program.external_metrics = address_in(&logs, "serving the external metrics")?;
        // What it says later is read, so that it never waits to be rid of it, and dropped.
        std::thread::spawn(move || logs.iter().for_each(drop));
        Ok(program)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sums over its own metrics, all of one moment: for each of these, the series that begin so and have such labels.
    pub(crate) fn sums<const N: usize>(&self, wanted: [(&str, &str); N]) -> Fallible<[f64; N]> {
        let page = self.own_metrics()?;
        Ok(wanted.map(|(beginning, labels)| {
            let matching = page.lines().filter(|line| line.starts_with(beginning) && line.contains(labels));
            matching.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
        }))
    }

    /// Waits until so many of its targets were read.
    pub(crate) fn wait_until_read(&self, targets: u32) -> Fallible<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.sums([("headroom_targets{", "state=\"ok\"")])?[0] < f64::from(targets) {
            if Instant::now() > deadline {
                return Err(format!("{targets} targets are not read\n{}", self.own_metrics()?).into());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn own_metrics(&self) -> Fallible<String> {
        let mut stream = TcpStream::connect(self.state)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer for /metrics")?;
        if head.starts_with("HTTP/1.1 200") { Ok(body.to_owned()) } else { Err(head.into()) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate for localhost, as `tls.crt` and `tls.key`.
pub(crate) fn write_certificate(folder: &Path) -> Fallible<()> {
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(folder.join("tls.crt"), cert.pem())?;
    std::fs::write(folder.join("tls.key"), signing_key.serialize_pem())?;
    Ok(())
}

fn read_logs(child: &mut Child) -> Fallible<Receiver<String>> {
    let errors = BufReader::new(child.stderr.take().ok_or("no log of the program")?);
    let (sender, logs) = channel();
    std::thread::spawn(move || {
        for line in errors.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(logs)
}

/// The address in the log line with this text.
fn address_in(logs: &Receiver<String>, text: &str) -> Fallible<SocketAddr> {
    let mut said = String::new();
    while let Ok(line) = logs.recv_timeout(PATIENCE) {
        if line.contains(text) {
            let line: serde_json::Value = serde_json::from_str(&line)?;
            return Ok(line["address"].as_str().ok_or("no address in the log")?.parse()?);
        }
        said.push_str(&line);
        said.push('\n');
    }
    Err(format!("the program did not say that it is {text}\n{said}").into())
}

/// A configuration of so many autoscalers with default metrics and behavior, over servers dealt out evenly.
pub(crate) fn configuration(autoscalers: usize, servers: &[SocketAddr], interval: Duration) -> String {
    let mut text = String::new();
    for (index, own) in servers.chunks(servers.len().div_ceil(autoscalers).max(1)).enumerate() {
        let _ = write!(
            text,
            "---\napiVersion: headroom.dev/v1alpha1\nkind: InferenceAutoscaler\n\
             metadata: {{name: model-{index:04}, namespace: llm}}\nspec:\n  maxReplicas: {most}\n  \
             engine: {{interval: {interval:?}}}\n  endpoints:\n",
            most = own.len() * 2
        );
        for server in own {
            let _ = writeln!(text, "  - http://{server}");
        }
    }
    text
}
