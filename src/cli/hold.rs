//! `headroom hold` and `headroom resume`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use headroom_policies::{Replicas, Timestamp};
use reqwest::Method;
use serde_json::Value;

use super::client::{ServerArgs, ask, split_name};
use super::{say, small_runtime, time};
use crate::controller::HoldRequest;

/// Hold an autoscaler at a count from 0 to its maxReplicas, in every mode, until `resume` or a time.
#[derive(Debug, Args)]
pub(super) struct HoldArgs {
    /// NAMESPACE/NAME.
    autoscaler: String,
    /// The count; the present one where none is given.
    #[arg(long)]
    replicas: Option<i32>,
    /// For so long, e.g. 2h; without it and --until, until `resume`.
    #[arg(long = "for", value_parser = humantime::parse_duration, conflicts_with = "until")]
    duration: Option<Duration>,
    /// Until this time, e.g. 2026-03-08T18:00:00Z.
    #[arg(long)]
    until: Option<String>,
    /// Why; shown wherever the count is.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// End what `hold` began.
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// NAMESPACE/NAME.
    autoscaler: String,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn run(args: &HoldArgs) -> anyhow::Result<ExitCode> {
    let (namespace, name) = split_name(&args.autoscaler)?;
    let now = time::local_now();
    let until = match (&args.until, args.duration) {
        (Some(text), _) => Some(
            Timestamp::parse(text).with_context(|| format!("{text:?} is not a time such as 2026-03-08T18:00:00Z"))?,
        ),
        (None, Some(duration)) => Some(Timestamp::from_millis(now.timestamp().as_millisecond()).plus(duration)),
        (None, None) => None,
    };
    let request = HoldRequest {
        replicas: args.replicas.map(Replicas::new),
        until,
        reason: args.reason.as_deref().map(Arc::from),
    };
    let path = ["autoscalers", &namespace, &name, "hold"];
    let body = serde_json::to_value(&request)?;
    let answer = small_runtime()?.block_on(ask(&args.server.server, Method::PUT, &path, &[], Some(body)))?;
    let hold = &answer["hold"];
    let until = until.map_or_else(|| "until it is resumed".to_owned(), |until| format!("until {}", time::show(until)));
    say(&format!("{namespace}/{name} is held at {} {until}", hold["replicas"]))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn resume(args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    let (namespace, name) = split_name(&args.autoscaler)?;
    let path = ["autoscalers", &namespace, &name, "hold"];
    let answer = small_runtime()?.block_on(ask(&args.server.server, Method::DELETE, &path, &[], None))?;
    match &answer["ended"] {
        Value::Null => say(&format!("{namespace}/{name} was not held by hand"))?,
        hold => say(&format!("{namespace}/{name} is no longer held at {}", hold["replicas"]))?,
    }
    if !answer["hold"].is_null() {
        say("its annotation headroom.dev/hold-replicas still holds it; remove it from the file")?;
    }
    if answer["paused"] == Value::Bool(true) {
        say("its annotation headroom.dev/paused still pauses it; remove it from the file")?;
    }
    Ok(ExitCode::SUCCESS)
}
