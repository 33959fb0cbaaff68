//! `headroom demo`.

use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use headroom_adapter::clock::Clock;
use headroom_adapter::scrape::RateLimit;
use headroom_adapter::serve::{ApiGroup, Limits, Transport, external_metrics};
use headroom_lab::cold_start::StartCondition;
use headroom_lab::engine::{EngineSettings, Event, Request};
use headroom_lab::fleet::{Fleet, FleetSettings, Routing};
use headroom_lab::profile::Profile;
use headroom_lab::score::Scorer;
use headroom_lab::server::{Clock as ModelClock, LiveFleet};
use headroom_lab::time::ModelTime;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::run::{own_thread, serve_http};
use crate::config::Secrets;
use crate::controller::{DecisionLog, Entry, Environment, Manager, StateDir, Store};
use crate::demo::{
    Load, NAME, NAMESPACE, Row, SimulatedTarget, Summary, TARGET_ATTAINMENT, autoscaler, copies, targets,
};
use crate::serve::{Health, StoreMetrics, router};
use crate::telemetry::{LogFormat, OwnMetrics, ProcessState, init_logging};

/// The ports that `headroom run` has by default; another one is taken where they are in use.
const STATE_PORT: u16 = 8080;
const EXTERNAL_METRICS_PORT: u16 = 6443;
/// Requests are dealt, and replicas looked at, so often.
const LOAD_STEP: Duration = Duration::from_millis(2);
const HOST_STEP: Duration = Duration::from_millis(10);
const ROW_STEP: Duration = Duration::from_secs(1);
/// Replicas at the beginning.
const FIRST_REPLICAS: u32 = 3;
/// Characters of a row's last column.
const MESSAGE_SHOWN: usize = 90;
/// Every so many rows the head of the table is shown again.
const ROWS_A_HEAD: usize = 20;

/// Show a simulated fleet being scaled: recorded traffic, real HTTP scrapes, real decisions, cold starts, all faster
/// than real time and on this machine alone.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// How long it takes.
    #[arg(long, value_parser = humantime::parse_duration, default_value = "60s")]
    duration: Duration,
    /// How many times faster than real time; by default so fast that the whole trace fits, at most 60.
    #[arg(long)]
    speed: Option<f64>,
    /// The model and accelerator: P1 (8B on L4), P2a (8B on A100), P2b (8B on H100), P3 (70B on 4 H100), P4 (13B on A100).
    #[arg(long, default_value = "P2a")]
    profile: Profile,
    /// One JSON object a line, the last one the summary.
    #[arg(long)]
    json: bool,
    /// Keep serving what was decided after the summary, until interrupted.
    #[arg(long)]
    keep: bool,
}

/// Faster than this a scrape in time is a race with the scheduler.
const MOST_DEFAULT_SPEED: f64 = 60.0;

/// Where the demonstration is served.
struct Addresses {
    state: SocketAddr,
    external_metrics: SocketAddr,
}

impl Addresses {
    fn external_metrics_url(&self) -> String {
        format!(
            "http://{}/apis/external.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/headroom_desired_replicas?labelSelector=headroom.dev%2Fautoscaler%3D{NAME}",
            self.external_metrics
        )
    }

    fn state_url(&self) -> String {
        format!("http://{}/api/v1/autoscalers/{NAMESPACE}/{NAME}", self.state)
    }
}

pub(super) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if args.duration < Duration::from_secs(1) {
        bail!("--duration must be at least 1s");
    }
    let whole = Load::length().as_seconds() / args.duration.as_secs_f64();
    let speed = args.speed.unwrap_or_else(|| whole.clamp(1.0, MOST_DEFAULT_SPEED));
    if !(1.0..=1000.0).contains(&speed) {
        bail!("--speed must be from 1 to 1000, not {speed}; a longer --duration asks for less");
    }
    init_logging(LogFormat::Text, "error")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(demonstrate(args, speed))?;
    Ok(ExitCode::SUCCESS)
}

async fn demonstrate(args: &DemoArgs, speed: f64) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let until = ModelTime::from_seconds(args.duration.as_secs_f64() * speed);
    let load = Load::shipped(&args.profile, copies(&args.profile), until)?;
    let clock = Clock::real().at_speed(speed);
    let scorer = Arc::new(Mutex::new(Scorer::new(args.profile, TARGET_ATTAINMENT)));
    let target = Arc::new(start_fleet(&args.profile, speed, clock, &scorer));
    target.host().await.context("cannot serve the simulated replicas")?;

    let store = Arc::new(Store::default());
    let addresses = serve(&store, clock, &stop).await?;
    let mut manager = Manager::new(environment(clock, &stop)?, Arc::clone(&store));
    let entry = manager.run(autoscaler(&args.profile), Arc::clone(&target) as _)?;
    let shown = Shown { args, speed, addresses, bar: bar(args) };
    shown.head(&entry)?;

    let driving = drive(&target, &entry, load.requests().to_vec(), until);
    tokio::pin!(driving);
    let mut rows = tokio::time::interval(ROW_STEP);
    rows.tick().await;
    let mut arrived = 0;
    loop {
        tokio::select! {
            result = &mut driving => {
                result?;
                break;
            }
            _ = rows.tick() => {
                let now = target.fleet().with(|fleet| fleet.now());
                let total = load.requests().partition_point(|request| request.arrival <= now);
                let rate = (total - arrived) as f64 / (ROW_STEP.as_secs_f64() * speed);
                arrived = total;
                shown.row(&Row::now(&target, &entry, rate))?;
            }
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    }
    // The size stays as it is while the fleet finishes what it has.
    manager.stop().await;
    let scorer = scorer.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let requests = load.requests();
    let summary =
        target.fleet().with(|fleet| Summary::of(&args.profile, fleet, scorer, requests, target.times_scaled()));
    shown.summary(&summary)?;
    if args.keep {
        shown.say("\nNothing is decided any more. What was decided is served until interrupted.")?;
        tokio::signal::ctrl_c().await?;
    }
    stop.cancel();
    Ok(())
}

fn start_fleet(profile: &Profile, speed: f64, clock: Clock, scorer: &Arc<Mutex<Scorer>>) -> SimulatedTarget {
    let settings = FleetSettings {
        engine: EngineSettings::of(profile),
        gpus: profile.gpus,
        start: profile.stage_medians(StartCondition::Warm),
        routing: Routing::LeastRequests,
        seed: 1,
    };
    let scorer = Arc::clone(scorer);
    let fleet = Fleet::new(settings, FIRST_REPLICAS);
    let fleet = LiveFleet::start(fleet, ModelClock::start(ModelTime::ZERO, speed), move |happened| {
        if let Event::Finished { outcome, .. } = happened.event {
            scorer.lock().unwrap_or_else(PoisonError::into_inner).record(&outcome);
        }
    });
    SimulatedTarget::new(fleet, clock, FIRST_REPLICAS)
}

fn environment(clock: Clock, stop: &CancellationToken) -> anyhow::Result<Arc<Environment>> {
    Ok(Arc::new(Environment {
        clock,
        scrape_runtime: own_thread("scrape", stop)?,
        scrape_limit: RateLimit::per_second(NonZeroU32::new(2000).unwrap_or(NonZeroU32::MIN)),
        state: StateDir::none(),
        log: Arc::new(DecisionLog::none()),
        secrets: Secrets::default(),
        observe_only: false,
    }))
}

/// Serves state and the external metrics API on loopback.
async fn serve(store: &Arc<Store>, clock: Clock, stop: &CancellationToken) -> anyhow::Result<Addresses> {
    let (state, api) = (bind(STATE_PORT).await?, bind(EXTERNAL_METRICS_PORT).await?);
    let addresses = Addresses { state: state.local_addr()?, external_metrics: api.local_addr()? };
    let health = Arc::new(Health::default());
    health.set_ready(true);
    let log = Arc::new(DecisionLog::none());
    let metrics = OwnMetrics::new(Arc::clone(store), clock, Arc::new(ProcessState::default()), None, log);
    let app = router(Arc::clone(store), clock, Arc::new(metrics), health);
    tokio::spawn(serve_http(state, app, stop.clone()));
    let source = Arc::new(StoreMetrics::new(Arc::clone(store), clock));
    let app = external_metrics(source, &ApiGroup::default())?;
    let limits = Limits::default();
    tokio::spawn(headroom_adapter::serve::serve(api, app, Transport::Plain, limits, stop.clone()));
    Ok(addresses)
}

/// A port of loopback, or another where it is in use.
async fn bind(port: u16) -> anyhow::Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen on loopback"),
    }
}

/// Deals the requests as they arrive, and keeps a server at each ready replica, until the end.
async fn drive(
    target: &SimulatedTarget,
    entry: &Entry,
    requests: Vec<Request>,
    until: ModelTime,
) -> anyhow::Result<()> {
    let mut requests = requests.into_iter().peekable();
    let mut steps = tokio::time::interval(LOAD_STEP);
    steps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut next_look = tokio::time::Instant::now();
    loop {
        let now = steps.tick().await;
        let model_now = target.fleet().with(|fleet| {
            while let Some(request) = requests.next_if(|request| request.arrival <= fleet.now()) {
                // What the profile cannot hold was left out before.
                let _ = fleet.arrive(request);
            }
            fleet.now()
        });
        if model_now >= until {
            return Ok(());
        }
        if now >= next_look {
            next_look = now + HOST_STEP;
            if target.host().await.context("cannot serve a simulated replica")? {
                entry.wake.notify_one();
            }
        }
    }
}

fn bar(args: &DemoArgs) -> ProgressBar {
    if args.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("[{elapsed}] {bar:40} {percent}% of the trace");
    let bar = ProgressBar::new(u64::try_from(args.duration.as_millis()).unwrap_or(u64::MAX));
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// What the demonstration writes.
struct Shown<'a> {
    args: &'a DemoArgs,
    speed: f64,
    addresses: Addresses,
    bar: ProgressBar,
}

impl Shown<'_> {
    fn say(&self, line: &str) -> anyhow::Result<()> {
        self.bar.suspend(|| {
            let mut output = std::io::stdout().lock();
            writeln!(output, "{line}")?;
            output.flush()
        })?;
        Ok(())
    }

    fn head(&self, entry: &Entry) -> anyhow::Result<()> {
        let spec = entry.spec.load();
        if self.args.json {
            return self.say(&serde_json::to_string(&json!({
                "kind": "start",
                "profile": self.args.profile.name,
                "speed": self.speed,
                "stateUrl": self.addresses.state_url(),
                "externalMetricsUrl": self.addresses.external_metrics_url(),
            }))?);
        }
        // As it can be typed, installed or not.
        let program = std::env::args().next().unwrap_or_else(|| "headroom".to_owned());
        self.say(&format!(
            "A simulated fleet of {} ({}), scaled by Headroom at {:.0} times real time.\n\
             Targets a replica: {}; {} to {} replicas.\n\
             The load is {:.0} minutes of recorded chat requests, thinned to a quiet start, a peak and a quiet end.\n\
             Times that it tells are the fleet's own: they begin now, and pass so much faster.\n\n\
             While it runs, in another terminal:\n  curl '{}'\n  {program} explain {NAMESPACE}/{NAME} --server http://{}\n",
            self.args.profile.name,
            self.args.profile.title,
            self.speed,
            targets(&spec.policy),
            spec.policy.min_replicas,
            spec.policy.max_replicas,
            self.args.duration.as_secs_f64() * self.speed / 60.0,
            self.addresses.external_metrics_url(),
            self.addresses.state,
        ))
    }

    fn row(&self, row: &Row) -> anyhow::Result<()> {
        let done = row.seconds / self.speed * 1000.0;
        self.bar.set_position(done as u64);
        if self.args.json {
            let mut line = serde_json::to_value(row)?;
            line["kind"] = json!("row");
            return self.say(&serde_json::to_string(&line)?);
        }
        let number = (done / 1000.0).round() as usize;
        if number % ROWS_A_HEAD == 1 {
            self.say(" time   req/s  waiting  running    KV  ready/desired  last change")?;
        }
        let minutes = row.seconds as u64 / 60;
        let desired = row.desired.map_or_else(|| "-".to_owned(), |desired| desired.to_string());
        self.say(&format!(
            "{:>2}:{:02}  {:>6.1}  {:>7}  {:>7}  {:>3.0}%  {:>5}/{:<7}  {}",
            minutes,
            row.seconds as u64 % 60,
            row.requests_per_second,
            row.waiting,
            row.running,
            row.kv_cache * 100.0,
            row.ready,
            desired,
            row.message.as_deref().map(first_words).unwrap_or_default(),
        ))
    }

    fn summary(&self, summary: &Summary) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        if self.args.json {
            let mut line = serde_json::to_value(summary)?;
            line["kind"] = json!("summary");
            return self.say(&serde_json::to_string(&line)?);
        }
        let slo = self.args.profile.slo;
        let (scaled, fixed) = (&summary.scaled, &summary.fixed);
        self.say(&format!(
            "\n{} requests in {:.0} minutes; limits: first token {:?}, between tokens {:?}\n\n\
             {:<26}{:>12}{:>14}\n\
             {:<26}{:>12.1}{:>14}\n\
             {:<26}{:>11.1}%{:>13.1}%\n\
             {:<26}{:>12.2}{:>14.2}\n\
             {:<26}{:>12}{:>14}\n\
             {:<26}{:>12}{:>14}\n\
             {:<26}{:>12}{:>14}\n\n\
             The size was changed {} times. The fixed fleet has the scaled one's mean size, rounded, from the first minute to the last.",
            summary.requests,
            summary.minutes,
            slo.time_to_first_token,
            slo.time_per_output_token,
            "",
            "scaled",
            "fixed",
            "replicas, mean",
            summary.mean_replicas,
            summary.fixed_replicas,
            "requests within limits",
            scaled.attainment * 100.0,
            fixed.attainment * 100.0,
            "GPU-hours",
            scaled.gpu_hours,
            fixed.gpu_hours,
            "first token p50 / p99",
            format!("{:.2}/{:.1}s", scaled.time_to_first_token_p50, scaled.time_to_first_token_p99),
            format!("{:.2}/{:.1}s", fixed.time_to_first_token_p50, fixed.time_to_first_token_p99),
            "between tokens p50 / p99",
            format!("{:.0}/{:.0}ms", scaled.time_per_output_token_p50_millis, scaled.time_per_output_token_p99_millis),
            format!("{:.0}/{:.0}ms", fixed.time_per_output_token_p50_millis, fixed.time_per_output_token_p99_millis),
            "preemptions",
            scaled.preemptions,
            fixed.preemptions,
            summary.times_scaled,
        ))
    }
}

/// A message without what stands in parentheses at its end, and not longer than a line holds.
fn first_words(message: &str) -> String {
    let head = message.split(" (").next().unwrap_or_default();
    head.chars().take(MESSAGE_SHOWN).collect()
}
