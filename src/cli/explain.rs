//! `headroom explain`.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use headroom_policies::observation::{MetricObservation, Phase, Sample, UnknownReason};
use headroom_policies::proposal::Proposal;
use headroom_policies::quantity::Decimal;
use headroom_policies::units::HumanDuration;
use headroom_policies::{DecisionRecord, Published};
use reqwest::Method;
use serde_json::Value;

use super::client::{ServerArgs, ask, split_name};
use super::{Output, say, say_json, small_runtime, time};

/// Replicas listed in full.
const REPLICAS_SHOWN: usize = 20;

/// Say why the count is what it is, stage by stage, or what it was at an earlier time.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// NAMESPACE/NAME.
    autoscaler: String,
    /// The time: 2026-03-08T03:12:00Z, 03:12 (the last one, local) or -10m.
    #[arg(long, allow_hyphen_values = true)]
    at: Option<String>,
    /// How to answer; json is the whole record, from which the decision can be made again.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let (namespace, name) = split_name(&args.autoscaler)?;
    let now = time::local_now();
    let at = match &args.at {
        Some(text) => time::parse(text, &now)?,
        None => now.timestamp() + jiff::SignedDuration::from_hours(1),
    };
    let path = ["autoscalers", &namespace, &name, "decisions"];
    let at = at.to_string();
    let answer = small_runtime()?.block_on(ask(&args.server.server, Method::GET, &path, &[("at", &at)], None))?;
    if args.output == Output::Json {
        say_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record = serde_json::from_value(answer["record"].clone()).context("the record is of another version")?;
    say(&explanation(&namespace, &name, &record, answer["summary"]["id"].as_u64()))?;
    Ok(ExitCode::SUCCESS)
}

/// The record in words.
fn explanation(namespace: &str, name: &str, record: &DecisionRecord, id: Option<u64>) -> String {
    let decision = &record.decision;
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(text, "{namespace}/{name} at {} (decision {})", time::show(decision.at), id.unwrap_or_default());
    let published = match &decision.published {
        Published::Replicas(replicas) => format!("published {replicas}"),
        Published::Error(error) => format!("published an error: {error}"),
    };
    let bounds = decision.bounds;
    let _ = writeln!(
        text,
        "current {}  desired {}  {published}  (from {} to {})\n",
        decision.current, decision.desired, bounds.min_replicas, bounds.max_replicas
    );
    let _ = writeln!(text, "What the metrics ask for");
    for proposal in &decision.proposals {
        let _ = writeln!(text, "  {}", proposal.message);
        let _ = writeln!(text, "    {}", sums(proposal));
    }
    let _ = writeln!(text, "\nWhat became of it");
    for stage in &decision.stages {
        let mark = if Some(stage.stage) == decision.binding { '*' } else { ' ' };
        let change = if stage.input == stage.output {
            format!("{:>4}        ", stage.output.get())
        } else {
            format!("{:>4} -> {:<4}", stage.input.get(), stage.output.get())
        };
        let _ = writeln!(
            text,
            "{mark} {:<14} {change} {:<20} {}",
            stage.stage.name(),
            stage.reason.to_string(),
            stage.message
        );
    }
    let (higher, lower) = (&decision.held_from_higher, &decision.held_from_lower);
    let _ = writeln!(text, "\nNot more, because of {}: {}", higher.stage, higher.message);
    let _ = writeln!(text, "Not fewer, because of {}: {}\n", lower.stage, lower.message);
    replicas(&mut text, record);
    text
}

fn sums(proposal: &Proposal) -> String {
    let counts = proposal.counts;
    match (proposal.sum_up, proposal.sum_down) {
        (Some(up), Some(down)) => format!(
            "total {} counted for a rise, {} for a fall, target {} a replica; {} read, {} last value, {} unknown, \
             {} starting, {} stuck",
            Decimal(up),
            Decimal(down),
            Decimal(proposal.target),
            counts.read,
            counts.last,
            counts.unknown,
            counts.starting,
            counts.stuck
        ),
        (Some(value), None) => format!("{} s, target {} s", value.to_f64(), proposal.target.to_f64()),
        _ => format!("target {}", Decimal(proposal.target)),
    }
}

/// Each replica with its samples; of a large fleet those first that are not read.
fn replicas(text: &mut String, record: &DecisionRecord) {
    let seen = &record.observation;
    let samples_of = |index: usize| -> Vec<Option<Sample>> {
        let sample = |metric: &MetricObservation| match metric {
            MetricObservation::Demand { samples, .. } => samples.get(index).copied(),
            MetricObservation::Latency(_) => None,
        };
        seen.metrics.iter().map(sample).collect()
    };
    let is_fine = |index: usize| samples_of(index).into_iter().flatten().all(Sample::is_read);
    let mut order: Vec<usize> = (0..seen.replicas.len()).collect();
    order.sort_by_key(|index| is_fine(*index));
    if order.is_empty() {
        let _ = writeln!(text, "There are no replicas.");
        return;
    }
    let _ = writeln!(text, "Replicas");
    for index in order.iter().take(REPLICAS_SHOWN) {
        let replica = &seen.replicas[*index];
        let phase = match replica.phase {
            Phase::Ready => "",
            Phase::Starting => " (starting)",
            Phase::Stuck => " (stuck)",
        };
        let told = record.policy.metrics.iter().zip(samples_of(*index));
        let told: Vec<String> =
            told.filter_map(|(metric, sample)| Some(format!("{} {}", metric.signal, words(sample?)))).collect();
        let _ = writeln!(text, "  {}{phase}  {}", replica.name, told.join(", "));
    }
    if order.len() > REPLICAS_SHOWN {
        let _ = writeln!(text, "  and {} more", order.len() - REPLICAS_SHOWN);
    }
}

fn words(sample: Sample) -> String {
    match sample {
        Sample::Starting => "not read yet".into(),
        Sample::Stuck => "stuck".into(),
        Sample::Value { value, age } => format!("{} ({} old)", Decimal(value), HumanDuration(age)),
        Sample::Last { value, age, reason } => {
            format!("last {} ({} old, now {})", Decimal(value), HumanDuration(age), reason_word(reason))
        }
        Sample::Unknown { reason } => format!("unknown ({})", reason_word(reason)),
        Sample::Zero => "0 (known)".into(),
        Sample::NoTraffic => "no traffic".into(),
    }
}

fn reason_word(reason: UnknownReason) -> String {
    match serde_json::to_value(reason) {
        Ok(Value::String(word)) => word,
        _ => format!("{reason:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headroom_policies::observation::{Observation, Replica, UnknownReason};
    use headroom_policies::{History, Milli, Policy, Replicas, Timestamp, decide};

    use super::*;

    #[test]
    fn every_stage_and_every_replica_is_told() {
        let policy = Policy::new(Replicas::ONE, Replicas::new(20));
        let samples = vec![Sample::value(Milli::from_units(12)), Sample::Unknown { reason: UnknownReason::Timeout }];
        let mut observation = Observation::of(Replicas::new(2));
        observation.replicas = ["a", "b"].map(|name| Replica { name: Arc::from(name), phase: Phase::Ready }).to_vec();
        let demand = || MetricObservation::Demand { samples: samples.clone(), external: Vec::new() };
        observation.metrics = vec![demand(), demand()];
        let history = History::default();
        let (decision, _) = decide(&policy, &observation, history.clone(), Timestamp::from_millis(0));
        let text = explanation("chat", "m", &DecisionRecord { policy, observation, history, decision }, Some(7));
        for part in [
            "decision 7",
            "ratePolicies",
            "Not more",
            "Not fewer",
            "  b  WaitingRequests unknown (timeout)",
            "a  WaitingRequests 12",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}
