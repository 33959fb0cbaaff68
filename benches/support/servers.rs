//! Model servers to scrape: processes of their own, with an address for each server as pods have, all on loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;

use super::Fallible;
use super::arguments::Arguments;
use super::page::Template;

/// A process has a listener and a connection for each of its servers, which must stay below its limit of files.
const SERVERS_PER_PROCESS: u32 = 2_500;
/// Different pages at any moment; a server keeps to its own.
const PAGES: u32 = 16;
/// How often the values move.
const STEP: Duration = Duration::from_millis(250);

// === from the outside ===

/// What the servers saw of their scrapes, added up or the worst.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    /// Scrapes that should have come and did not: of each gap between two of a server, as many as fit in.
    pub(crate) missed: u64,
    /// The longest time a server was not scraped.
    pub(crate) longest_gap: Duration,
}

/// Running servers, ended with this.
pub(crate) struct Servers {
    processes: Vec<Process>,
    pub(crate) addresses: Vec<SocketAddr>,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Servers {
    /// Starts so many servers that expect to be scraped once in an interval.
    pub(crate) fn start(count: u32, interval: Duration) -> Fallible<Self> {
        let (mut processes, mut addresses) = (Vec::new(), Vec::new());
        for first in (0..count).step_by(SERVERS_PER_PROCESS as usize) {
            let own = SERVERS_PER_PROCESS.min(count - first);
            let mut process = Process::start(first, own, interval)?;
            let port: u16 = process.answer()?.trim().parse()?;
            addresses.extend((first..first + own).map(|index| address(index, port)));
            processes.push(process);
        }
        Ok(Self { processes, addresses })
    }

    /// Counts from now on.
    pub(crate) fn begin(&mut self) -> Fallible<()> {
        self.processes.iter_mut().try_for_each(|process| process.order("begin"))
    }

    /// What was counted until now.
    pub(crate) fn end(&mut self) -> Fallible<Seen> {
        let mut total = Seen::default();
        for process in &mut self.processes {
            process.order("end")?;
            let answer = process.answer()?;
            let numbers: Vec<u64> = answer.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let [requests, missed, longest_gap] = numbers[..] else { return Err(answer.into()) };
            total = total.and(Seen { requests, missed, longest_gap: Duration::from_micros(longest_gap) });
        }
        Ok(total)
    }
}

impl Seen {
    fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            missed: self.missed + other.missed,
            longest_gap: self.longest_gap.max(other.longest_gap),
        }
    }
}

impl Process {
    fn start(first: u32, count: u32, interval: Duration) -> Fallible<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--model-servers", &count.to_string(), "--first", &first.to_string()])
            .args(["--interval-millis", &interval.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().ok_or("no input of a server process")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output of a server process")?);
        Ok(Self { child, orders, answers })
    }

    fn order(&mut self, order: &str) -> Fallible<()> {
        Ok(writeln!(self.orders, "{order}")?)
    }

    fn answer(&mut self) -> Fallible<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a server process ended".into());
        }
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of a server: one of its own in 127.1.0.0/16, as Linux answers on all of 127.0.0.0/8.
fn address(index: u32, port: u16) -> SocketAddr {
    let [.., high, low] = (index + 1).to_be_bytes();
    (Ipv4Addr::new(127, 1, high, low), port).into()
}

// === from the inside ===

/// Serves until it is killed, if this process was started for that.
pub(crate) fn serve_if_asked(arguments: &Arguments) -> Fallible<bool> {
    if !arguments.has("--model-servers") {
        return Ok(false);
    }
    let (first, count) = (arguments.value("--first", 0)?, arguments.value("--model-servers", 0)?);
    let interval = Duration::from_millis(arguments.value("--interval-millis", 1_000)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(first, count, interval))?;
    Ok(true)
}

/// What one server saw since counting began.
struct Arrivals {
    last: Instant,
    seen: Seen,
}

impl Arrivals {
    fn since(now: Instant) -> Self {
        Self { last: now, seen: Seen::default() }
    }

    /// Takes the gap that ends now.
    fn close_gap(&mut self, now: Instant, interval: Duration) {
        let gap = now.duration_since(self.last);
        self.last = now;
        self.seen.longest_gap = self.seen.longest_gap.max(gap);
        self.seen.missed += (gap.as_secs_f64() / interval.as_secs_f64()).round().max(1.0) as u64 - 1;
    }
}

/// What the servers of a process share.
struct Shared {
    interval: Duration,
    /// Whole responses, of which each server answers one.
    responses: Mutex<Vec<Arc<[u8]>>>,
    arrivals: Mutex<Vec<Arrivals>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(first: u32, count: u32, interval: Duration) -> Fallible<()> {
    let template = Template::new();
    let responses = (0..PAGES).map(|page| response(&template.page(page, 0))).collect();
    let now = Instant::now();
    let arrivals = (0..count).map(|_| Arrivals::since(now)).collect();
    let shared = Arc::new(Shared { interval, responses: Mutex::new(responses), arrivals: Mutex::new(arrivals) });
    let port = listen(first, count, &shared).await?;
    println!("{port}");
    let (sender, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || read_orders(&sender));
    let (mut step, mut tick) = (0, tokio::time::interval(STEP));
    loop {
        tokio::select! {
            _ = tick.tick() => {
                step += 1;
                for (page, response_of) in (0..PAGES).zip(&mut *lock(&shared.responses)) {
                    *response_of = response(&template.page(page, step));
                }
            }
            order = orders.recv() => match order.as_deref() {
                Some("begin") => begin(&shared),
                Some("end") => end(&shared),
                _ => return Ok(()),
            }
        }
    }
}

fn read_orders(orders: &UnboundedSender<String>) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        if orders.send(line).is_err() {
            return;
        }
    }
}

fn begin(shared: &Shared) {
    let now = Instant::now();
    lock(&shared.arrivals).iter_mut().for_each(|arrivals| *arrivals = Arrivals::since(now));
}

fn end(shared: &Shared) {
    let (now, mut total) = (Instant::now(), Seen::default());
    for arrivals in &mut *lock(&shared.arrivals) {
        arrivals.close_gap(now, shared.interval);
        total = total.and(arrivals.seen);
    }
    println!("{} {} {}", total.requests, total.missed, total.longest_gap.as_micros());
}

/// A response with its head.
fn response(page: &str) -> Arc<[u8]> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\n\r\n",
        page.len()
    );
    [head.as_bytes(), page.as_bytes()].concat().into()
}

/// Listens on every server's address, all on one port, which is free on the first address and so almost surely on
/// the others.
async fn listen(first: u32, count: u32, shared: &Arc<Shared>) -> std::io::Result<u16> {
    let mut port = 0;
    for index in 0..count {
        let listener = TcpListener::bind(address(first + index, port)).await?;
        port = listener.local_addr()?.port();
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, index, Arc::clone(&shared)));
            }
        });
    }
    Ok(port)
}

async fn answer_all(mut stream: TcpStream, index: u32, shared: Arc<Shared>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = Vec::with_capacity(512);
    loop {
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        request.clear();
        if let Some(arrivals) = lock(&shared.arrivals).get_mut(index as usize) {
            arrivals.close_gap(Instant::now(), shared.interval);
            arrivals.seen.requests += 1;
        }
        let response = lock(&shared.responses).get((index % PAGES) as usize).cloned();
        stream.write_all(&response.unwrap_or_default()).await?;
    }
}
