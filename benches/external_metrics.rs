//! How fast one value is served over TLS: 2,000 requests a second, HTTP/1.1 over a few kept connections and HTTP/2 over
//! one.
//!
//! The server runs in a child process, on one thread: the API alone with a thousand autoscalers, or with `--targets`
//! the program itself while it scrapes so many servers. Requests are handed out at fixed times, whether or not earlier
//! ones were answered, and each is timed from then, so that a stall counts for all it delays. Beside the API alone
//! stands what the machine itself takes at that moment: as many bytes sent back as they are over plain TCP. See
//! `README.md` for flags and figures.

mod support;

use std::collections::HashMap;
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
use support::Fallible;
use support::arguments::Arguments;
use support::process::{cpu, stolen};
use support::program::{Program, configuration, write_certificate};
use support::servers::{Servers, serve_if_asked};
use support::table::Table;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const REQUESTS_PER_SECOND: u32 = 2_000;
/// Milliseconds.
const MEDIAN_GOAL: f64 = 0.3;
const P99_GOAL: f64 = 1.0;
/// Of the API alone.
const AUTOSCALERS: u32 = 1_000;
/// Of the program.
const PROGRAM_AUTOSCALERS: u32 = 10;
/// Of HTTP/1.1 and of the echo; HTTP/2 has one.
const CONNECTIONS: usize = 4;
/// About the length of a request, and of an answer.
const ECHO_BYTES: usize = 300;
const METRIC: &str = "headroom_waiting_requests";
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

fn main() -> Fallible<()> {
    let arguments = Arguments::of_process();
    if serve_if_asked(&arguments)? {
        return Ok(());
    }
    if let Some(folder) = arguments.text("--serve-values") {
        return serve_until_stdin_ends(Path::new(folder));
    }
    let seconds = arguments.value("--seconds", if arguments.is_check() { 1 } else { 10 })?;
    let server = match arguments.value("--targets", 0)? {
        0 => Server::alone(arguments.text("--server-core"))?,
        targets => Server::program(targets)?,
    };
    measure(&server, seconds)
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
    let files = TlsFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key"), client_ca: None };
    let tls = Tls::load(files)?;
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

/// As the program's configurations name them.
fn autoscaler(index: u32) -> String {
    format!("model-{index:04}")
}

/// What serves, ended with this.
struct Server {
    what: String,
    pid: u32,
    address: SocketAddr,
    echo_address: Option<SocketAddr>,
    autoscalers: u32,
    certificate: PathBuf,
    _running: Box<dyn std::any::Any>,
}

/// The process of the API alone, and the folder of its certificate.
struct Alone {
    process: Child,
    _folder: TempDir,
}

impl Server {
    /// The API alone, on one core where it is named: a thread that is moved between cores at every request is late once
    /// in a while, which is none of its own.
    fn alone(core: Option<&str>) -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        write_certificate(folder.path())?;
        let program = std::env::current_exe()?;
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", core]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let mut process =
            command.arg("--serve-values").arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("the server has no output")?).read_line(&mut line)?;
        let (address, echo_address) = line.trim().split_once(' ').ok_or("the server did not start")?;
        Ok(Self {
            what: format!("the API alone with {AUTOSCALERS} autoscalers"),
            pid: process.id(),
            address: address.parse()?,
            echo_address: Some(echo_address.parse()?),
            autoscalers: AUTOSCALERS,
            certificate: folder.path().join("tls.crt"),
            _running: Box::new(Alone { process, _folder: folder }),
        })
    }

    /// The program, while it scrapes so many targets.
    fn program(targets: u32) -> Fallible<Self> {
        let servers = Servers::start(targets, SCRAPE_INTERVAL)?;
        let configuration = configuration(PROGRAM_AUTOSCALERS as usize, &servers.addresses, SCRAPE_INTERVAL);
        let program = Program::start(&configuration)?;
        program.wait_until_read(targets)?;
        Ok(Self {
            what: format!("the program with {PROGRAM_AUTOSCALERS} autoscalers and {targets} targets every second"),
            pid: program.pid(),
            address: program.external_metrics,
            echo_address: None,
            autoscalers: PROGRAM_AUTOSCALERS.min(targets),
            certificate: program.folder.path().join("tls.crt"),
            _running: Box::new((program, servers)),
        })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

// === the load ===

fn measure(server: &Server, seconds: u32) -> Fallible<()> {
    let runtime = one_thread()?;
    let mut table = Table::default();
    for protocol in [Protocol::Echo, Protocol::Http1, Protocol::Http2] {
        if matches!(protocol, Protocol::Echo) && server.echo_address.is_none() {
            continue;
        }
        runtime.block_on(protocol.drive(server, REQUESTS_PER_SECOND / 4))?;
        let cpu_before = cpu(server.pid)?;
        let driven = runtime.block_on(protocol.drive(server, REQUESTS_PER_SECOND * seconds))?;
        let used = cpu(server.pid)?.saturating_sub(cpu_before).as_secs_f64() * 100.0 / f64::from(seconds);
        show(&mut table, protocol, &driven);
        table.plain(&format!("{protocol}: CPU of the server, of one core"), used, "%");
    }
    table.print(&format!("{REQUESTS_PER_SECOND} requests/s for {seconds} s over TLS, {}", server.what));
    Ok(())
}

/// The goals are for seconds in which this machine had its processors for itself; what its host kept from it in
/// the others is shown beside all of them.
fn show(table: &mut Table, protocol: Protocol, driven: &Driven) {
    let quiet = |answered: &&Answered| driven.stolen.get(answered.second).is_some_and(Duration::is_zero);
    let of_quiet_seconds = sorted(driven.answered.iter().filter(quiet));
    let of_all = sorted(driven.answered.iter());
    let quiet_seconds = driven.stolen.iter().filter(|stolen| stolen.is_zero()).count();
    let name = format!("{protocol}, {quiet_seconds} quiet seconds");
    let (p50, p99) = (quantile(&of_quiet_seconds, 0.5), quantile(&of_quiet_seconds, 0.99));
    if matches!(protocol, Protocol::Echo) {
        table.plain(&format!("{name}: p50"), p50, "ms");
        table.plain(&format!("{name}: p99"), p99, "ms");
    } else {
        table.at_most(&format!("{name}: p50"), p50, MEDIAN_GOAL, "ms");
        table.at_most(&format!("{name}: p99"), p99, P99_GOAL, "ms");
    }
    table.plain(&format!("{protocol}, all seconds: p50"), quantile(&of_all, 0.5), "ms");
    table.plain(&format!("{protocol}, all seconds: p99"), quantile(&of_all, 0.99), "ms");
    table.plain(&format!("{protocol}, all seconds: longest"), quantile(&of_all, 1.0), "ms");
    let kept = driven.stolen.iter().sum::<Duration>().as_secs_f64() * 100.0 / driven.stolen.len().max(1) as f64;
    table.plain(&format!("{protocol}, all seconds: CPU that the host kept"), kept, "%");
}

fn sorted<'a>(answered: impl Iterator<Item = &'a Answered>) -> Vec<Duration> {
    let mut times: Vec<Duration> = answered.map(|answered| answered.took).collect();
    times.sort_unstable();
    times
}

/// Milliseconds.
fn quantile(times: &[Duration], quantile: f64) -> f64 {
    let index = (times.len().saturating_sub(1) as f64 * quantile) as usize;
    times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
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
    second: usize,
    autoscaler: u32,
}

impl Due {
    fn answered(&self) -> Answered {
        Answered { second: self.second, took: self.at.elapsed() }
    }
}

struct Answered {
    /// Of the load.
    second: usize,
    took: Duration,
}

/// What came of a load.
struct Driven {
    answered: Vec<Answered>,
    /// For each second, what the host kept from this machine.
    stolen: Vec<Duration>,
}

impl Protocol {
    fn connections(self) -> usize {
        match self {
            Self::Echo | Self::Http1 => CONNECTIONS,
            Self::Http2 => 1,
        }
    }

    /// Makes so many requests at the usual rate, and tells how long each took.
    async fn drive(self, server: &Server, requests: u32) -> Fallible<Driven> {
        let mut senders = Vec::new();
        let mut connections = tokio::task::JoinSet::new();
        for _ in 0..self.connections() {
            let (sender, receiver) = unbounded_channel();
            senders.push(sender);
            match self {
                Self::Echo => {
                    let address = server.echo_address.ok_or("nothing echoes")?;
                    connections.spawn(drive_echo(connect(address).await?, receiver));
                }
                Self::Http1 => {
                    connections.spawn(drive_http1(connect_tls(server, "http/1.1").await?, receiver));
                }
                Self::Http2 => {
                    connections.spawn(drive_http2(connect_tls(server, "h2").await?, receiver));
                }
            }
        }
        let autoscalers = server.autoscalers;
        let pacer = std::thread::spawn(move || pace(&senders, requests, autoscalers));
        let mut answered = Vec::new();
        while let Some(times) = connections.join_next().await {
            answered.extend(times??);
        }
        let stolen = pacer.join().map_err(|_| "the pacer failed")??;
        Ok(Driven { answered, stolen })
    }
}

/// Hands out requests when they are due, in turn to each connection. A thread of its own, since a runtime's timers
/// are no finer than a millisecond.
///
/// Answers what the host kept from this machine in each second.
fn pace(connections: &[UnboundedSender<Due>], requests: u32, autoscalers: u32) -> Fallible<Vec<Duration>> {
    let start = Instant::now();
    let mut stolen_until = vec![stolen()?];
    for (index, connection) in (0..requests).zip(connections.iter().cycle()) {
        let due = start + Duration::from_secs(1) * index / REQUESTS_PER_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let second = (index / REQUESTS_PER_SECOND) as usize;
        if second == stolen_until.len() {
            stolen_until.push(stolen()?);
        }
        if connection.send(Due { at: Instant::now(), second, autoscaler: index % autoscalers }).is_err() {
            break;
        }
    }
    stolen_until.push(stolen()?);
    Ok(stolen_until.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect())
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect_tls(server: &Server, alpn: &str) -> Fallible<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&server.certificate)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let stream = connect(server.address).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost")?, stream).await?)
}

fn request(index: u32, base: &str) -> Fallible<Request<Empty<Bytes>>> {
    let autoscaler = autoscaler(index);
    let uri = format!(
        "{base}/apis/external.metrics.k8s.io/v1beta1/namespaces/llm/{METRIC}\
         ?labelSelector=headroom.dev%2Fautoscaler%3D{autoscaler}"
    );
    let accept = "application/vnd.kubernetes.protobuf, */*";
    Ok(Request::get(uri).header("host", "localhost").header("accept", accept).body(Empty::new())?)
}

async fn drive_echo(mut stream: TcpStream, mut due: UnboundedReceiver<Due>) -> Fallible<Vec<Answered>> {
    let mut times = Vec::new();
    let mut bytes = [0; ECHO_BYTES];
    while let Some(due) = due.recv().await {
        stream.write_all(&bytes).await?;
        stream.read_exact(&mut bytes).await?;
        times.push(due.answered());
    }
    Ok(times)
}

async fn drive_http1(stream: TlsStream<TcpStream>, mut due: UnboundedReceiver<Due>) -> Fallible<Vec<Answered>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut times = Vec::new();
    while let Some(due) = due.recv().await {
        sender.ready().await?;
        let response = sender.send_request(request(due.autoscaler, "")?).await?;
        check(response).await?;
        times.push(due.answered());
    }
    Ok(times)
}

async fn drive_http2(stream: TlsStream<TcpStream>, mut due: UnboundedReceiver<Due>) -> Fallible<Vec<Answered>> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut running = tokio::task::JoinSet::new();
    let mut times = Vec::new();
    loop {
        // Those that are answered are taken at once: kept, they would grow the memory while it is measured.
        let due = tokio::select! {
            biased;
            due = due.recv() => due,
            Some(answered) = running.join_next() => {
                times.push(answered??);
                continue;
            }
        };
        let Some(due) = due else { break };
        let mut sender = sender.clone();
        running.spawn(async move {
            sender.ready().await?;
            let response = sender.send_request(request(due.autoscaler, "https://localhost")?).await?;
            check(response).await?;
            Fallible::Ok(due.answered())
        });
    }
    while let Some(answered) = running.join_next().await {
        times.push(answered??);
    }
    Ok(times)
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
