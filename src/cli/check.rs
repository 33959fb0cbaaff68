//! `headroom check`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use headroom_adapter::engines::{Engine, EngineReader, Readings};
use headroom_adapter::exposition::{Limits, PageReader, Scrutiny};
use headroom_adapter::scrape::{ScrapeClient, ScrapeFailure, ScrapeSettings};
use headroom_policies::Signal;
use headroom_policies::policy::MetricPolicy;
use headroom_policies::quantity::Decimal;
use headroom_policies::signal::Reading as Kind;
use http::Uri;
use serde_json::{Value, json};

use super::{Output, say, say_json, small_runtime};
use crate::api::AutoscalerSpec;
use crate::config::{Secrets, load};

const MOST_BEHIND_MILLIS: i64 = 15_000;

/// Check a configuration: every mistake with its field and its remedy.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// A file, or a folder of .yaml, .yml and .json files.
    #[arg(long, short)]
    config: PathBuf,
    /// Also try each server, and say what it showed.
    #[arg(long)]
    connect: bool,
    /// A folder of Secrets, as NAMESPACE/NAME/KEY.
    #[arg(long, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
    /// How to answer.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let loaded = match load(&args.config) {
        Ok(loaded) => loaded,
        Err(errors) => {
            match args.output {
                Output::Json => {
                    let errors: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
                    say_json(&json!({ "valid": false, "errors": errors }))?;
                }
                Output::Text => eprintln!("{errors}"),
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    let secrets = Secrets::new(args.secrets_dir.clone());
    let (mut reports, mut good) = (Vec::new(), true);
    for spec in &loaded.autoscalers {
        let mut report = report(spec);
        if args.connect {
            let servers = small_runtime()?.block_on(connect(spec, &secrets))?;
            good &= servers.iter().all(|server| server["readable"] == Value::Bool(true));
            report["servers"] = json!(servers);
        }
        reports.push(report);
    }
    match args.output {
        Output::Json => say_json(&json!({ "valid": true, "autoscalers": reports }))?,
        Output::Text => say(&reports.iter().map(as_text).collect::<String>())?,
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(spec: &AutoscalerSpec) -> Value {
    let policy = &spec.policy;
    let metrics: Vec<String> = policy.metrics.iter().map(metric_words).collect();
    let warnings: Vec<String> = spec.warnings.iter().map(ToString::to_string).collect();
    json!({
        "autoscaler": spec.key.to_string(),
        "replicas": spec.endpoints.len(),
        "minReplicas": policy.min_replicas,
        "maxReplicas": policy.max_replicas,
        "actuation": policy.actuation,
        "metrics": metrics,
        "behavior": policy.effective_behavior(None),
        "warnings": warnings,
    })
}

fn metric_words(metric: &MetricPolicy) -> String {
    let (signal, target) = (metric.signal, Decimal(metric.target));
    match signal.reading() {
        Kind::Quantile => format!("{signal}: {target} s at most, over the fleet"),
        Kind::Gauge | Kind::Rate => format!("{signal}: {target} a replica"),
    }
}

/// Reads each server once, all at the same time.
async fn connect(spec: &AutoscalerSpec, secrets: &Secrets) -> anyhow::Result<Vec<Value>> {
    let settings = ScrapeSettings {
        interval: spec.policy.interval,
        timeout: spec.timeout,
        max_age: spec.max_age,
        tls: spec.uses_tls(),
        credentials: secrets.credentials(spec)?,
    };
    let client = ScrapeClient::new(&settings)?;
    let reader = Arc::new(EngineReader::new(spec.engine.clone()));
    let mut tasks = tokio::task::JoinSet::new();
    let signals: Vec<Signal> = spec.policy.metrics.iter().map(|metric| metric.signal).collect();
    for (place, url) in spec.endpoints.iter().flat_map(|endpoint| &endpoint.urls).cloned().enumerate() {
        let (client, reader, signals) = (client.clone(), Arc::clone(&reader), signals.clone());
        tasks.spawn(async move { (place, try_server(&client, &reader, &url, &signals).await) });
    }
    let mut servers: Vec<(usize, Value)> = Vec::new();
    while let Some(done) = tasks.join_next().await {
        servers.push(done?);
    }
    servers.sort_by_key(|(place, _)| *place);
    Ok(servers.into_iter().map(|(_, server)| server).collect())
}

async fn try_server(client: &ScrapeClient, reader: &EngineReader, url: &Uri, signals: &[Signal]) -> Value {
    let mut pages = PageReader::new(Arc::clone(reader.layouts()));
    let page = match client.scrape(url, &mut pages, Limits::default(), Scrutiny::Everything).await {
        Ok(page) => page,
        Err(ScrapeFailure { state, message }) => {
            return json!({ "url": url.to_string(), "readable": false, "state": state, "message": message });
        }
    };
    let plan = reader.plan(&page);
    let readings = Readings::new(&plan, &page, None, MOST_BEHIND_MILLIS);
    let (mut told, mut missing) = (serde_json::Map::new(), Vec::new());
    for signal in signals {
        let known = match (signal.reading(), plan.absence(*signal)) {
            (Kind::Gauge, _) => readings.gauge(*signal).number().map(Value::from),
            (_, Some(_)) => None,
            (_, None) => Some(json!("there")),
        };
        match known {
            Some(value) => drop(told.insert(signal.to_string(), value)),
            None => {
                let why = plan.absence_words(&page, *signal).unwrap_or_else(|| "its value is not usable".to_owned());
                missing.push(format!("{signal} ({why})"));
            }
        }
    }
    let unrecognised = "no family of a known engine is in the page; set spec.engine.type";
    let hint = plan.engine.map_or(Some(unrecognised), |_| plan.absence_hint());
    let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
    let message = (!missing.is_empty()).then(|| format!("{} cannot be read{hint}", missing.join(", ")));
    json!({
        "url": url.to_string(),
        "readable": missing.is_empty(),
        "engine": plan.engine.map(Engine::name),
        "signals": told,
        "message": message,
    })
}

fn as_text(report: &Value) -> String {
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    let mut lines = vec![format!(
        "{}: valid; replicas: {} listed, {} to {} wanted; actuation {}",
        text("autoscaler"),
        report["replicas"],
        report["minReplicas"],
        report["maxReplicas"],
        text("actuation")
    )];
    for metric in report["metrics"].as_array().into_iter().flatten() {
        lines.push(format!("  metric {}", metric.as_str().unwrap_or_default()));
    }
    for warning in report["warnings"].as_array().into_iter().flatten() {
        lines.push(format!("  warning: {}", warning.as_str().unwrap_or_default()));
    }
    for server in report["servers"].as_array().into_iter().flatten() {
        let engine = server["engine"].as_str().unwrap_or("engine not recognised");
        let url = server["url"].as_str().unwrap_or_default();
        let signals = server["signals"].as_object().into_iter().flatten();
        let signals: Vec<String> = signals.map(|(name, value)| format!("{name} {value}")).collect();
        lines.push(match server["message"].as_str() {
            Some(message) => format!("  {url}: {} {message}", server["state"].as_str().unwrap_or(engine)),
            None => format!("  {url}: {engine}, {}", signals.join(", ")),
        });
    }
    lines.join("\n") + "\n"
}
