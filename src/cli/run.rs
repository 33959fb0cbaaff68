//! `headroom run`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use headroom_adapter::clock::Clock;
use headroom_adapter::scrape::RateLimit;
use headroom_adapter::serve::{ApiGroup, Limits, Tls, TlsFiles, Transport, external_metrics};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::AutoscalerSpec;
use crate::config::{Secrets, load};
use crate::controller::{DecisionLog, Ended, Environment, Manager, StateDir, Store};
use crate::serve::{Health, StoreMetrics, router};
use crate::telemetry::{LogFormat, OwnMetrics, ProcessState, init_logging};

/// How often files are looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// Scrape the model servers of a configuration, decide, and serve the counts. The configuration is read again when it
/// changes; each change of a count is one JSON line on standard output.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// A file, or a folder of .yaml, .yml and .json files.
    #[arg(long, short)]
    config: PathBuf,
    /// Where own metrics, health and state are shown.
    #[arg(long, default_value = "0.0.0.0:8080")]
    address: SocketAddr,
    /// Where the external metrics API is served: by default port 6443, on loopback only while there is no certificate.
    #[arg(long)]
    external_metrics_address: Option<SocketAddr>,
    /// The certificate of the external metrics API; read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Authorities of clients: with it every client of the external metrics API must show a certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    client_ca_file: Option<PathBuf>,
    /// A folder of scrape Secrets, as NAMESPACE/NAME/KEY.
    #[arg(long, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
    /// A folder for what should survive a restart.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Decide and record for every autoscaler, and publish only what is there already.
    #[arg(long)]
    observe_only: bool,
    /// The most scrapes a second.
    #[arg(long, default_value = "2000", value_name = "COUNT")]
    scrape_rate_limit: NonZeroU32,
    /// How logs are written on standard error.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// The level of logs, or a list of module=level.
    #[arg(long, env = "HEADROOM_LOG", default_value = "info")]
    log_level: String,
}

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let loaded = load(&args.config)?;
    init_logging(args.log_format, &args.log_level)?;
    let tls = tls(args)?;
    for (object, warning) in
        loaded.autoscalers.iter().flat_map(|spec| spec.warnings.iter().map(|warning| (&spec.key, warning)))
    {
        warn!(autoscaler = %object, "{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(args, loaded.autoscalers, loaded.fingerprint, tls))?;
    Ok(ExitCode::SUCCESS)
}

fn tls(args: &RunArgs) -> anyhow::Result<Option<Arc<Tls>>> {
    let (Some(certificate), Some(key)) = (&args.tls_cert_file, &args.tls_private_key_file) else { return Ok(None) };
    let files = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: args.client_ca_file.clone() };
    Ok(Some(Arc::new(Tls::load(files)?)))
}

/// A runtime of its own thread for work that must not wait for other work.
pub(super) fn own_thread(name: &str, stop: &CancellationToken) -> anyhow::Result<tokio::runtime::Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (handle, stop) = (runtime.handle().clone(), stop.clone());
    std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(stop.cancelled()))?;
    Ok(handle)
}

async fn serve(
    args: &RunArgs,
    specs: Vec<AutoscalerSpec>,
    fingerprint: u64,
    tls: Option<Arc<Tls>>,
) -> anyhow::Result<()> {
    let (stop, clock) = (CancellationToken::new(), Clock::real());
    let state = args.state_dir.as_deref().map_or_else(|| Ok(StateDir::none()), StateDir::open)?;
    let log = Arc::new(DecisionLog::standard_output());
    let environment = Arc::new(Environment {
        clock,
        scrape_runtime: own_thread("scrape", &stop)?,
        scrape_limit: RateLimit::per_second(args.scrape_rate_limit),
        state,
        log: Arc::clone(&log),
        secrets: Secrets::new(args.secrets_dir.clone()),
        observe_only: args.observe_only,
    });
    let store = Arc::new(Store::default());
    let process = Arc::new(ProcessState::default());
    let health = Arc::new(Health::default());
    let listener = bind(args.address).await?;
    info!(address = %listener.local_addr()?, "serving own metrics, health and state");
    let metrics = OwnMetrics::new(Arc::clone(&store), clock, Arc::clone(&process), tls.clone(), log);
    let app = router(Arc::clone(&store), clock, Arc::new(metrics), Arc::clone(&health));
    let http = tokio::spawn(serve_http(listener, app, stop.clone()));
    let api = serve_external_metrics(args, &store, clock, tls, &stop).await?;

    let mut manager = Manager::new(environment, store);
    if let Err(errors) = manager.apply(specs.clone()) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("{}", errors.join("\n"));
    }
    process.config_reloads.fetch_add(1, Ordering::Relaxed);
    health.set_ready(true);
    let reload = Reload { path: &args.config, process: &process, fingerprint, specs, refused: None };
    tokio::select! {
        ended = reload.watch(&mut manager) => return Err(ended.into()),
        result = stopped() => result?,
    }
    info!("stopping");
    health.set_ready(false);
    manager.stop().await;
    stop.cancel();
    let _ = http.await;
    let _ = api.await;
    Ok(())
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Serves a router in the clear until `stop`.
pub(super) async fn serve_http(listener: TcpListener, app: axum::Router, stop: CancellationToken) {
    let served = headroom_adapter::serve::serve(listener, app, Transport::Plain, Limits::default(), stop).await;
    if let Err(error) = served {
        warn!(%error, "own metrics, health and state are no longer served");
    }
}

async fn serve_external_metrics(
    args: &RunArgs,
    store: &Arc<Store>,
    clock: Clock,
    tls: Option<Arc<Tls>>,
    stop: &CancellationToken,
) -> anyhow::Result<tokio::task::JoinHandle<std::io::Result<()>>> {
    let default = if tls.is_some() { ([0, 0, 0, 0], 6443) } else { ([127, 0, 0, 1], 6443) };
    let address = args.external_metrics_address.unwrap_or_else(|| default.into());
    if tls.is_none() && !address.ip().is_loopback() {
        warn!(%address, "the external metrics API is served in the clear; give --tls-cert-file and --tls-private-key-file");
    }
    let runtime = own_thread("external-metrics", stop)?;
    let source = Arc::new(StoreMetrics::new(Arc::clone(store), clock));
    let app = external_metrics(source, &ApiGroup::default())?;
    if let Some(tls) = &tls {
        let watch = Arc::clone(tls).watch(headroom_adapter::serve::tls::RELOAD_INTERVAL, stop.clone());
        runtime.spawn(watch);
    }
    let transport = tls.map_or(Transport::Plain, Transport::Tls);
    let listener = bind(address).await?;
    info!(address = %listener.local_addr()?, "serving the external metrics API");
    let listener = listener.into_std()?;
    let stop = stop.clone();
    Ok(runtime.spawn(async move {
        // The listener belongs to the runtime that polls it.
        let listener = TcpListener::from_std(listener)?;
        headroom_adapter::serve::serve(listener, app, transport, Limits::default(), stop).await
    }))
}

async fn stopped() -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Takes a changed configuration; keeps the old one if the new is wrong, and says so once.
struct Reload<'a> {
    path: &'a Path,
    process: &'a ProcessState,
    fingerprint: u64,
    specs: Vec<AutoscalerSpec>,
    /// What was last said to be wrong.
    refused: Option<String>,
}

impl Reload<'_> {
    /// Until an autoscaler has ended by a fault.
    async fn watch(mut self, manager: &mut Manager) -> Ended {
        let mut tick = tokio::time::interval(RELOAD_INTERVAL);
        loop {
            tick.tick().await;
            if let Err(ended) = manager.check() {
                return ended;
            }
            self.look(manager);
        }
    }

    fn look(&mut self, manager: &mut Manager) {
        // A pipe gives its configuration once, and would then be waited for without end.
        if std::fs::metadata(self.path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return;
        }
        match load(self.path) {
            Err(errors) => self.refuse(errors.to_string()),
            Ok(loaded) => {
                let changed = loaded.fingerprint != self.fingerprint;
                let specs = if changed { loaded.autoscalers } else { self.specs.clone() };
                // Unchanged files still name Secrets, which can change on their own.
                match manager.apply(specs.clone()) {
                    Ok(()) => self.take(specs, loaded.fingerprint, changed),
                    Err(errors) => {
                        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                        self.refuse(errors.join("\n"));
                    }
                }
            }
        }
    }

    fn take(&mut self, specs: Vec<AutoscalerSpec>, fingerprint: u64, changed: bool) {
        if changed || self.refused.is_some() {
            self.process.config_reloads.fetch_add(1, Ordering::Relaxed);
            self.process.config_refused.store(false, Ordering::Relaxed);
            info!(path = %self.path.display(), "the configuration was read again");
        }
        self.refused = None;
        self.specs = specs;
        self.fingerprint = fingerprint;
    }

    fn refuse(&mut self, errors: String) {
        if self.refused.as_ref() == Some(&errors) {
            return;
        }
        self.process.config_failures.fetch_add(1, Ordering::Relaxed);
        self.process.config_refused.store(true, Ordering::Relaxed);
        warn!(path = %self.path.display(), "the changed configuration is wrong, so the old one stays in force: {errors}");
        self.refused = Some(errors);
    }
}
