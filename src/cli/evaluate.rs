//! `headroom evaluate`.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use headroom_policies::evaluate::{Case, KINDS, evaluate};
use serde_json::Value;

/// Answer cases of the arithmetic: reads `[{id, kind, input}]`, prints `[{id, desiredReplicas, limited, reason, ...}]`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(super) struct EvaluateArgs {
    /// A file, or - for standard input.
    #[arg(default_value = "-")]
    cases: PathBuf,
}

fn help() -> String {
    format!(
        "Kinds: {}.\n\n\
         A case and its answer:\n  \
         [{{\"id\": \"a\", \"kind\": \"external_average_value\", \"input\": {{\n    \
         \"specReplicas\": 4, \"statusReplicas\": 4, \"readyPods\": 4, \"metricType\": \"External\", \
         \"targetType\": \"AverageValue\",\n    \
         \"targetMilli\": 10000, \"metricValuesMilli\": [120000], \"tolerance\": {{\"up\": 0.1, \"down\": 0.1}}}}}}]\n  \
         [{{\"id\": \"a\", \"desiredReplicas\": 12, \"reportedAverageMilli\": 30000, ...}}]\n\n\
         A field that is missing or does not fit its kind is named in the answer's `error`, and the exit code is 1.",
        KINDS.join(", ")
    )
}

pub(super) fn run(args: &EvaluateArgs) -> anyhow::Result<ExitCode> {
    let (mut text, mut name) = (String::new(), "standard input".to_owned());
    if args.cases.as_os_str() == "-" {
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        name = args.cases.display().to_string();
        text = std::fs::read_to_string(&args.cases).with_context(|| format!("cannot read {name}"))?;
    }
    let cases: Vec<Case> = serde_json::from_str(&text).with_context(|| {
        format!("{name} must be a JSON array of {{\"id\": ..., \"kind\": ..., \"input\": {{...}}}}")
    })?;
    let answers: Vec<Value> = cases.iter().map(evaluate).collect();
    let failed = answers.iter().any(|answer| answer.get("error").is_some());
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &answers)?;
    writeln!(output)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
