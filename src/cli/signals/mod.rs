//! `headroom signals`.

mod text;

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use headroom_adapter::engines::{Absence, Engine, EngineReader, EngineSettings, Plan, Reading, Readings};
use headroom_adapter::exposition::{Format, Limits, Page, PageReader, Scrutiny};
use headroom_adapter::scrape::{Credentials, ScrapeClient, ScrapeSettings};
use headroom_policies::observation::UnknownReason;
use headroom_policies::signal::Reading as Kind;
use headroom_policies::window::{HistogramWindow, Quantile};
use headroom_policies::{Signal, Timestamp};
use http::Uri;
use serde_json::{Map, Value, json};

use super::{Output, say, say_json, small_runtime};

/// Samples far behind the rest of their page are stale.
const MOST_BEHIND_MILLIS: i64 = 15_000;
/// The quantile shown of a latency.
const QUANTILE: f64 = 0.95;

/// Show what is read from one metrics page: the engine recognised, each signal's value and unit, or why it is unknown.
#[derive(Debug, Args)]
pub(super) struct SignalsArgs {
    /// A URL such as `http://10.0.0.7:8000/metrics`, a file, or - for standard input. Exits with 1 where no signal is
    /// found.
    source: String,
    /// The engine, where it is not recognised: vLLM, SGLang, TGI, Triton, `TensorRTLLM`, `LlamaCpp`, `LMDeploy`,
    /// `RayServe`, Dynamo or NIM.
    #[arg(long, value_parser = engine)]
    engine: Option<Engine>,
    /// Only series of this model.
    #[arg(long)]
    model: Option<String>,
    /// Read a URL twice, so far apart, to tell rates and what is new.
    #[arg(long, value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// The time a scrape may take.
    #[arg(long, value_parser = humantime::parse_duration, default_value = "5s")]
    timeout: Duration,
    /// A file with a bearer token.
    #[arg(long, value_name = "FILE")]
    bearer_token_file: Option<PathBuf>,
    /// A file with the authorities to trust.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How to answer.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// An engine by its name, in any case.
pub(super) fn engine(text: &str) -> Result<Engine, String> {
    let known = || Engine::KNOWN.into_iter();
    known().find(|engine| engine.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
        let names: Vec<&str> = known().map(Engine::name).collect();
        format!("there is {}", names.join(", "))
    })
}

/// One or two pages of a server.
struct Pages {
    reader: EngineReader,
    first: Option<Page>,
    last: Page,
}

pub(super) fn run(args: &SignalsArgs) -> anyhow::Result<ExitCode> {
    let model = args.model.as_deref().map(Box::from);
    let reader = EngineReader::new(EngineSettings { engine: args.engine, model, custom: Vec::new() });
    let pages = if args.source.contains("://") {
        small_runtime()?.block_on(scrape(args, reader))?
    } else {
        read(&args.source, reader)?
    };
    let plan = pages.reader.plan(&pages.last);
    let answer = answer(&pages, &plan, args.interval);
    match args.output {
        Output::Json => say_json(&answer)?,
        Output::Text => say(&text::page(&answer))?,
    }
    // As grep: what was looked for is not there.
    let nothing = Signal::ALL.iter().all(|signal| plan.absence(*signal).is_some());
    Ok(if nothing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn scrape(args: &SignalsArgs, reader: EngineReader) -> anyhow::Result<Pages> {
    let mut url: Uri = args.source.parse().with_context(|| format!("{:?} is not a URL", args.source))?;
    if matches!(url.path(), "" | "/") {
        let path = args.engine.map_or("/metrics", Engine::default_path);
        let mut parts = url.into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static(path));
        url = Uri::from_parts(parts)?;
    }
    let mut credentials = Credentials::default();
    if let Some(path) = &args.bearer_token_file {
        let token = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        credentials.authorization =
            Some(Credentials::bearer(&token).context("the token has characters that no header can carry")?);
    }
    if let Some(path) = &args.ca_file {
        let pem = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        credentials.authorities = Some(Arc::from(pem));
    }
    let tls = url.scheme_str() == Some("https");
    let settings = ScrapeSettings { timeout: args.timeout, tls, credentials, ..ScrapeSettings::default() };
    let client = ScrapeClient::new(&settings)?;
    let mut pages = PageReader::new(Arc::clone(reader.layouts()));
    let mut last = None;
    for pause in std::iter::once(Duration::ZERO).chain(args.interval) {
        tokio::time::sleep(pause).await;
        let page = client
            .scrape(&url, &mut pages, Limits::default(), Scrutiny::Everything)
            .await
            .map_err(|failure| anyhow::anyhow!("{url}: {} ({})", failure.message, failure.state))?;
        last = Some((last.map(|(_, page)| page), page));
    }
    let (first, last) = last.context("nothing was read")?;
    Ok(Pages { reader, first, last })
}

fn read(source: &str, reader: EngineReader) -> anyhow::Result<Pages> {
    let mut body = Vec::new();
    if source == "-" {
        io::stdin().read_to_end(&mut body).context("cannot read standard input")?;
    } else {
        let url = if source.contains(':') {
            format!("; a server is named by its URL, http://{source}")
        } else {
            String::new()
        };
        body = std::fs::read(source).with_context(|| format!("cannot read the file {source}{url}"))?;
    }
    // A file does not say what it is; only OpenMetrics has an end.
    let has_end = body.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == b"# EOF");
    let format = if has_end { Format::OpenMetrics } else { Format::Text };
    let page =
        PageReader::new(Arc::clone(reader.layouts())).read(&body, format, Limits::default(), Scrutiny::Everything);
    match page {
        Ok(page) => Ok(Pages { reader, first: None, last: page }),
        Err(error) => bail!("{source}: {error}"),
    }
}

/// Everything that is shown, as JSON.
fn answer(pages: &Pages, plan: &Plan, interval: Option<Duration>) -> Value {
    let page = &pages.last;
    let readings = Readings::new(plan, page, pages.first.as_ref(), MOST_BEHIND_MILLIS);
    let mut signals = Map::new();
    for signal in Signal::ALL {
        let mut shown = match signal.reading() {
            Kind::Gauge => gauge(readings.gauge(signal)),
            Kind::Rate => rate(&readings, signal, interval),
            Kind::Quantile => latency(&readings, signal, pages.first.is_some()),
        };
        shown["unit"] = json!(signal.unit());
        if shown["state"] == "unknown"
            && let Some(absence) = plan.absence(signal)
        {
            shown["reason"] = json!(plan.absence_words(page, signal));
            if absence == Absence::NotExported {
                shown["exported"] = json!(false);
            }
        }
        if signal == Signal::WaitingRequests && readings.deferred() > 0.0 {
            shown["deferred"] = json!(readings.deferred());
        }
        if signal == Signal::KVCacheUtilization
            && let Some(mean) = readings.kv_cache_mean()
        {
            shown["mean"] = json!(mean);
        }
        signals.insert(signal.to_string(), shown);
    }
    let lines = &page.lines;
    let mut answer = json!({
        "engine": plan.engine.map(Engine::name),
        "signals": signals,
        "lines": {
            "read": lines.read,
            "skipped": lines.skipped,
            "skippedNumbers": lines.skipped_numbers,
            "duplicates": lines.duplicates,
            "afterEnd": lines.after_end,
            "partial": lines.partial,
        },
    });
    if readings.is_asleep() {
        answer["asleep"] = json!(true);
    }
    if let Some(hint) = plan.absence_hint() {
        answer["hint"] = json!(hint);
    }
    if plan.engine.is_none() {
        let families = page.names.iter().take(20).collect::<Vec<_>>();
        answer["hint"] = json!("no family of a known engine is in the page; name the engine with --engine");
        answer["names"] = json!(families);
    }
    answer
}

fn gauge(reading: Reading) -> Value {
    match reading {
        Reading::Value(value) => json!({ "state": "value", "value": value }),
        Reading::Zero => json!({ "state": "zero", "value": 0 }),
        Reading::Unknown(reason) => unknown(reason),
    }
}

fn unknown(reason: UnknownReason) -> Value {
    json!({ "state": "unknown", "reason": words(reason) })
}

fn rate(readings: &Readings<'_>, signal: Signal, interval: Option<Duration>) -> Value {
    use headroom_adapter::engines::Increase;
    let total = readings.total(signal);
    let mut shown = match (readings.increase(signal), interval) {
        (Increase::By(increase), Some(interval)) => {
            json!({ "state": "value", "value": increase / interval.as_secs_f64().max(0.001) })
        }
        (Increase::Unknown(reason), _) => unknown(reason),
        (Increase::Reset, _) => unknown(UnknownReason::CounterReset),
        (Increase::By(_) | Increase::First, _) => {
            json!({ "state": "unknown", "reason": "a rate needs two pages; read a URL with --interval 5s" })
        }
    };
    match total {
        Reading::Value(total) => shown["total"] = json!(total),
        Reading::Zero => shown["total"] = json!(0),
        Reading::Unknown(_) => {}
    }
    shown
}

/// Over what was observed between two pages, or since the server started.
fn latency(readings: &Readings<'_>, signal: Signal, two_pages: bool) -> Value {
    let mut window = HistogramWindow::default();
    let mut observations = 0.0;
    let (now, all) = (Timestamp::from_millis(0), Duration::from_secs(1));
    let record = |bounds: &headroom_policies::window::Bounds, counts: &[f64]| {
        observations += counts.last().copied().unwrap_or_default();
        window.record(now, bounds, counts, all);
    };
    let read =
        if two_pages { readings.observed(signal, record) } else { readings.observed_since_start(signal, record) };
    if let Err(reason) = read {
        return unknown(reason);
    }
    let span = if two_pages { "between the two pages" } else { "since the server started" };
    if observations <= 0.0 {
        return json!({ "state": "unknown", "reason": format!("nothing was observed {span}"), "observations": 0 });
    }
    match window.quantile_of_any(QUANTILE) {
        Quantile::Value(value) => json!({
            "state": "value",
            "value": value.seconds,
            "atLeast": value.at_least,
            "quantile": QUANTILE,
            "observations": observations,
            "reason": format!("the {QUANTILE} quantile of {observations} observations {span}"),
        }),
        Quantile::NoObservations | Quantile::TooFewObservations => unknown(UnknownReason::TooFewObservations),
    }
}

fn words(reason: UnknownReason) -> String {
    match reason {
        UnknownReason::AbsentFamily => "its family is not in the page".into(),
        UnknownReason::OutOfRange => "the value is not finite, or not what the signal can be".into(),
        UnknownReason::Sleeping => "the engine sleeps and left the gauge as it was".into(),
        UnknownReason::Stale => "the sample's own timestamp is far behind the rest of the page".into(),
        UnknownReason::NotExported => "the engine does not export it".into(),
        UnknownReason::Malformed => {
            "the histogram contradicts itself: its buckets fall, repeat, or lack the infinite one".into()
        }
        UnknownReason::CounterReset => "the counter began again between the two pages".into(),
        other => format!("{other:?}"),
    }
}
