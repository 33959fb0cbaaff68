//! `headroom evaluate`.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use headroom_policies::evaluate::{Case, evaluate};
use serde_json::Value;

/// Reads `[{id, kind, input}]` and prints `[{id, desiredReplicas, limited, reason, ...}]`.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    let cases: Vec<Case> = serde_json::from_str(&text)
        .context("standard input must be a JSON array of {\"id\": ..., \"kind\": ..., \"input\": {...}}")?;
    let answers: Vec<Value> = cases.iter().map(evaluate).collect();
    let failed = answers.iter().any(|answer| answer.get("error").is_some());
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &answers)?;
    writeln!(output)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
