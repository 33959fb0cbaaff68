//! How fast one value is served over TLS: 2,000 requests a second, HTTP/1.1 over a few kept connections and HTTP/2 over
//! one.
//!
//! The server runs in a child process, on one thread. Requests are handed out at fixed times, whether or not earlier
//! ones were answered, and each is timed from then, so that a stall counts for all it delays. The first line is of
//! as many bytes sent back as they are over plain TCP: what the machine itself takes, at that moment. On a busy one
//! run it at real-time priority, or other programs are what is measured:
//!
//! ```text
//! cargo bench -p headroom-adapter --bench external_metrics --no-run
//! chrt -f 10 cargo bench -p headroom-adapter --bench external_metrics -- --seconds 20
//! ```

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headroom_adapter::serve::{
    ApiGroup, ExternalMetrics, Limits, MetricError, MetricValue, Tls, TlsFiles, Transport, external_metrics, serve,
};
use headroom_policies::{Milli, Timestamp};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const REQUESTS_PER_SECOND: u32 = 2_000;
const AUTOSCALERS: u32 = 1_000;
/// Of HTTP/1.1 and of the echo; HTTP/2 has one.
const CONNECTIONS: usize = 4;
/// About the length of a request, and of an answer.
const ECHO_BYTES: usize = 300;
const METRIC: &str = "headroom_waiting_requests";

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    if let Some(folder) = after("--serve") {
        return serve_until_stdin_ends(Path::new(folder));
    }
    // Without cargo's `--bench` this is only a check that the program works.
    let usual = if arguments.iter().any(|argument| argument == "--bench") { 10 } else { 1 };
    let seconds = after("--seconds").map_or(Ok(usual), |text| text.parse())?;
    measure(seconds)
}

// === the server ===

/// Values of many autoscalers in one namespace.
struct Values(HashMap<String, MetricValue>);

impl ExternalMetrics for Values {
    fn metric_names(&self) -> &[&'static str] {
        &["headroom_desired_replicas", METRIC]
    }

    fn autoscalers(&self, _namespace: &str, visit: &mut dyn FnMut(&str)) {
        self.0.keys().for_each(|name| visit(name));
    }

    fn read(&self, _namespace: &str, autoscaler: &str, _metric: &'static str) -> Result<MetricValue, MetricError> {
        self.0.get(autoscaler).copied().ok_or(MetricError::NoSuchAutoscaler)
    }
}

fn one_thread() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Serves on a free port, which it prints, for as long as its parent holds its standard input.
fn serve_until_stdin_ends(folder: &Path) -> Fallible<()> {
    let shutdown = CancellationToken::new();
    let parent_gone = shutdown.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        parent_gone.cancel();
    });
    let value = |index| MetricValue {
        value: Milli::new(i64::from(index) * 125),
        at: Timestamp::from_millis(1_796_032_800_000),
        window: Some(Duration::from_secs(10)),
    };
    let values = (0..AUTOSCALERS).map(|index| (autoscaler(index), value(index))).collect();
    let router = external_metrics(Arc::new(Values(values)), &ApiGroup::default())?;
    let tls = Tls::load(files(folder))?;
    one_thread()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let echo_listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{} {}", listener.local_addr()?, echo_listener.local_addr()?);
        tokio::spawn(echo(echo_listener));
        serve(listener, router, Transport::Tls(Arc::new(tls)), Limits::default(), shutdown).await?;
        Ok(())
    })
}

/// Sends back what comes in.
async fn echo(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut bytes = [0; ECHO_BYTES];
            let _ = stream.set_nodelay(true);
            while stream.read_exact(&mut bytes).await.is_ok() && stream.write_all(&bytes).await.is_ok() {}
        });
    }
}

fn autoscaler(index: u32) -> String {
    format!("model-{index:04}")
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key"), client_ca: None }
}

/// The child that serves, ended with this.
struct Server {
    process: Child,
    address: SocketAddr,
    echo_address: SocketAddr,
}

impl Server {
    fn start(folder: &Path) -> Fallible<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("the server has no output")?).read_line(&mut line)?;
        let (address, echo_address) = line.trim().split_once(' ').ok_or("the server did not start")?;
        Ok(Self { process, address: address.parse()?, echo_address: echo_address.parse()? })
    }

    /// Processor time used so far, to a hundredth of a second; zero where the system does not tell.
    fn cpu(&self) -> Duration {
        let path: PathBuf = ["/proc", &self.process.id().to_string(), "stat"].iter().collect();
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        // User and system time are the 12th and 13th field after the command's closing parenthesis.
        let after_command = stat.rsplit(')').next().unwrap_or_default();
        let ticks: u64 =
            after_command.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

// === the load ===

fn measure(seconds: u32) -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(folder.path().join("tls.crt"), cert.pem())?;
    std::fs::write(folder.path().join("tls.key"), signing_key.serialize_pem())?;
    let server = Server::start(folder.path())?;
    println!("{REQUESTS_PER_SECOND} requests/s for {seconds} s over TLS, the server in a process of one thread");
    let runtime = one_thread()?;
    for protocol in [Protocol::Echo, Protocol::Http1, Protocol::Http2] {
        runtime.block_on(protocol.drive(&server, folder.path(), REQUESTS_PER_SECOND / 4))?;
        let cpu_before = server.cpu();
        let requests = REQUESTS_PER_SECOND * seconds;
        let mut times = runtime.block_on(protocol.drive(&server, folder.path(), requests))?;
        let cpu = server.cpu().saturating_sub(cpu_before).as_secs_f64();
        times.sort_unstable();
        let quantile = |q: f64| times[((times.len() - 1) as f64 * q) as usize].as_secs_f64() * 1000.0;
        println!(
            "{protocol}: p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, max {:.3} ms; server CPU {:.1} % of a core, {:.0} us a request",
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            quantile(1.0),
            cpu * 100.0 / f64::from(seconds),
            cpu * 1e6 / f64::from(requests),
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Protocol {
    Echo,
    Http1,
    Http2,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Echo => write!(f, "echo, {CONNECTIONS} connections"),
            Self::Http1 => write!(f, "HTTP/1.1, {CONNECTIONS} connections"),
            Self::Http2 => f.write_str("HTTP/2, 1 connection"),
        }
    }
}

/// A request to be made, and when it was handed out.
struct Due {
    at: Instant,
    index: u32,
}

impl Protocol {
    fn connections(self) -> usize {
        match self {
            Self::Echo | Self::Http1 => CONNECTIONS,
            Self::Http2 => 1,
        }
    }

    /// Makes so many requests at the usual rate, and tells how long each took.
    async fn drive(self, server: &Server, folder: &Path, requests: u32) -> Fallible<Vec<Duration>> {
        let mut senders = Vec::new();
        let mut connections = tokio::task::JoinSet::new();
        for _ in 0..self.connections() {
            let (sender, receiver) = unbounded_channel();
            senders.push(sender);
            match self {
                Self::Echo => {
                    connections.spawn(drive_echo(connect(server.echo_address).await?, receiver));
                }
                Self::Http1 => {
                    connections.spawn(drive_http1(connect_tls(server.address, folder, "http/1.1").await?, receiver));
                }
                Self::Http2 => {
                    connections.spawn(drive_http2(connect_tls(server.address, folder, "h2").await?, receiver));
                }
            }
        }
        let pacer = std::thread::spawn(move || pace(&senders, requests));
        let mut times = Vec::new();
        while let Some(driven) = connections.join_next().await {
            times.extend(driven??);
        }
        pacer.join().map_err(|_| "the pacer failed")?;
        Ok(times)
    }
}

/// Hands out requests when they are due, in turn to each connection. A thread of its own, since a runtime's timers
/// are no finer than a millisecond.
fn pace(connections: &[UnboundedSender<Due>], requests: u32) {
    let start = Instant::now();
    for (index, connection) in (0..requests).zip(connections.iter().cycle()) {
        let due = start + Duration::from_secs(1) * index / REQUESTS_PER_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if connection.send(Due { at: Instant::now(), index }).is_err() {
            return;
        }
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect_tls(address: SocketAddr, folder: &Path, alpn: &str) -> Fallible<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("tls.crt"))?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let stream = connect(address).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost")?, stream).await?)
}

fn request(index: u32, base: &str) -> Fallible<Request<Empty<Bytes>>> {
    let autoscaler = autoscaler(index % AUTOSCALERS);
    let uri = format!(
        "{base}/apis/external.metrics.k8s.io/v1beta1/namespaces/llm/{METRIC}\
         ?labelSelector=headroom.dev%2Fautoscaler%3D{autoscaler}"
    );
    let accept = "application/vnd.kubernetes.protobuf, */*";
    Ok(Request::get(uri).header("host", "localhost").header("accept", accept).body(Empty::new())?)
}

async fn drive_echo(mut stream: TcpStream, mut due: UnboundedReceiver<Due>) -> Fallible<Vec<Duration>> {
    let mut times = Vec::new();
    let mut bytes = [0; ECHO_BYTES];
    while let Some(Due { at, .. }) = due.recv().await {
        stream.write_all(&bytes).await?;
        stream.read_exact(&mut bytes).await?;
        times.push(at.elapsed());
    }
    Ok(times)
}

async fn drive_http1(stream: TlsStream<TcpStream>, mut due: UnboundedReceiver<Due>) -> Fallible<Vec<Duration>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut times = Vec::new();
    while let Some(Due { at, index }) = due.recv().await {
        sender.ready().await?;
        let response = sender.send_request(request(index, "")?).await?;
        check(response).await?;
        times.push(at.elapsed());
    }
    Ok(times)
}

async fn drive_http2(stream: TlsStream<TcpStream>, mut due: UnboundedReceiver<Due>) -> Fallible<Vec<Duration>> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut running = tokio::task::JoinSet::new();
    while let Some(Due { at, index }) = due.recv().await {
        let mut sender = sender.clone();
        running.spawn(async move {
            sender.ready().await?;
            let response = sender.send_request(request(index, "https://localhost")?).await?;
            check(response).await?;
            Ok(at.elapsed())
        });
    }
    running.join_all().await.into_iter().collect()
}

/// Reads an answer whole, and makes sure that it is one.
async fn check(response: hyper::Response<hyper::body::Incoming>) -> Fallible<()> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if status == StatusCode::OK && body.starts_with(b"{\"kind\":\"ExternalMetricValueList\"") {
        Ok(())
    } else {
        Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into())
    }
}
