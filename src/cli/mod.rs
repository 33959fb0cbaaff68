//! The command line: one file a subcommand.

mod check;
mod client;
mod demo;
mod evaluate;
mod explain;
mod hold;
mod kv;
mod run;
mod signals;
mod time;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::Value;

/// Autoscaler for LLM inference servers: scales on what waits, what runs and how full the KV cache is.
#[derive(Debug, Parser)]
#[command(name = "headroom", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Scrape, decide and serve for the autoscalers of a file or folder.
    Run(run::RunArgs),
    /// Show a simulated fleet being scaled, on this machine alone.
    Demo(demo::DemoArgs),
    /// Check a configuration, and with --connect the servers it names.
    Check(check::CheckArgs),
    /// Show what is read from one metrics page.
    Signals(signals::SignalsArgs),
    /// Work out how many conversations fit in a KV cache, and targets for it.
    Kv(kv::KvArgs),
    /// Answer cases of the arithmetic, from standard input, as JSON.
    Evaluate(evaluate::EvaluateArgs),
    /// Say why the count is what it is, or was.
    Explain(explain::ExplainArgs),
    /// Hold an autoscaler at a count.
    Hold(hold::HoldArgs),
    /// End a hold.
    Resume(hold::ResumeArgs),
}

/// How a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Writes to standard output. A reader that went away is an error, where `println!` would panic.
fn say(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        output.write_all(b"\n")?;
    }
    output.flush()
}

fn say_json(json: &Value) -> anyhow::Result<()> {
    Ok(say(&serde_json::to_string_pretty(json)?)?)
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Signals(args) => signals::run(&args),
        Command::Kv(args) => kv::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Hold(args) => hold::run(&args),
        Command::Resume(args) => hold::resume(&args),
    };
    match result {
        Ok(code) => code,
        // A reader that has seen enough, such as `head`, is no failure.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}

/// A runtime for a command that asks something and ends.
fn small_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
