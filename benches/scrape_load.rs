//! What scraping, parsing and deciding cost: `headroom run` over 1,000 servers that each show a 50 kB page and are read
//! once a second.
//!
//! The measured process is the program itself, with ten autoscalers. The servers are in processes of their own, which
//! count the scrapes that should have come and did not. Processor time and memory are the program's, as the system
//! tells them. See `README.md` for flags and figures.

mod support;

use std::time::Duration;

use support::Fallible;
use support::arguments::Arguments;
use support::process::{cpu, cpu_by_thread, memory};
use support::program::{Program, configuration};
use support::servers::{Servers, serve_if_asked};
use support::table::Table;

/// Of one core, for scraping, parsing and deciding together.
const CPU_GOAL: f64 = 25.0;
/// MiB resident at most, in the whole life of the process.
const MEMORY_GOAL: f64 = 56.0;
/// The load that the goals are for: targets read each second.
const GOAL_RATE: f64 = 1_000.0;
/// Turns and scrapes of the start are over after this.
const SETTLING: Duration = Duration::from_secs(3);

/// One load.
struct Load {
    targets: u32,
    autoscalers: usize,
    interval: Duration,
    span: Duration,
}

/// What the program took under it.
struct Taken {
    missed: f64,
    failed: f64,
    longest_gap: Duration,
    scrapes: f64,
    turns: f64,
    /// Percent of a core.
    cpu: f64,
    cpu_by_thread: Vec<(String, f64)>,
    resident: f64,
    peak: f64,
}

fn main() -> Fallible<()> {
    let arguments = Arguments::of_process();
    if serve_if_asked(&arguments)? {
        return Ok(());
    }
    let (targets, seconds) = if arguments.is_check() { (20, 2) } else { (1_000, 60) };
    let interval = Duration::from_secs_f64(arguments.value("--interval", 1.0)?);
    let autoscalers = arguments.value("--autoscalers", 10)?;
    let span = Duration::from_secs(arguments.value("--seconds", seconds)?);
    for targets in arguments.values("--targets", targets)? {
        let load = Load { targets, autoscalers, interval, span };
        show(&load, &measure(&load)?);
    }
    Ok(())
}

fn measure(load: &Load) -> Fallible<Taken> {
    let mut servers = Servers::start(load.targets, load.interval)?;
    let program = Program::start(&configuration(load.autoscalers, &servers.addresses, load.interval))?;
    program.wait_until_read(load.targets)?;
    std::thread::sleep(SETTLING.max(load.interval));
    let totals = || -> Fallible<[f64; 2]> {
        let [all, good, turns] = program.sums([
            ("headroom_scrapes_total{", ""),
            ("headroom_scrapes_total{", "state=\"ok\""),
            ("headroom_turns_total{", ""),
        ])?;
        Ok([all - good, turns])
    };
    let (totals_before, cpu_before, threads_before) = (totals()?, cpu(program.pid())?, cpu_by_thread(program.pid())?);
    servers.begin()?;
    std::thread::sleep(load.span);
    let seen = servers.end()?;
    let (cpu_after, threads_after, totals_after) = (cpu(program.pid())?, cpu_by_thread(program.pid())?, totals()?);
    let memory = memory(program.pid())?;
    let seconds = load.span.as_secs_f64();
    let share = |used: Duration| used.as_secs_f64() / seconds * 100.0;
    let by_thread = threads_after.into_iter().map(|(name, after)| {
        let before = threads_before.get(&name).copied().unwrap_or_default();
        (name, share(after.saturating_sub(before)))
    });
    Ok(Taken {
        missed: seen.missed as f64,
        failed: totals_after[0] - totals_before[0],
        longest_gap: seen.longest_gap,
        scrapes: seen.requests as f64 / seconds,
        turns: (totals_after[1] - totals_before[1]) / seconds,
        cpu: share(cpu_after.saturating_sub(cpu_before)),
        cpu_by_thread: by_thread.collect(),
        resident: memory.resident,
        peak: memory.peak,
    })
}

fn show(load: &Load, taken: &Taken) {
    let mut table = Table::default();
    table.at_most("scrapes missed", taken.missed, 0.0, "");
    table.at_most("scrapes that failed or were slow", taken.failed, 0.0, "");
    // The goals are for the load that they were set for, and for smaller ones.
    if f64::from(load.targets) <= GOAL_RATE && f64::from(load.targets) <= GOAL_RATE * load.interval.as_secs_f64() {
        table.at_most("CPU, of one core", taken.cpu, CPU_GOAL, "%");
        table.at_most("memory, at its peak", taken.peak, MEMORY_GOAL, "MiB");
    } else {
        table.plain("CPU, of one core", taken.cpu, "%");
        table.plain("memory, at its peak", taken.peak, "MiB");
    }
    table.plain("memory, at the end", taken.resident, "MiB");
    table.plain("scrapes a second", taken.scrapes, "");
    table.plain("CPU a scrape, with its share of decisions", taken.cpu * 1e4 / taken.scrapes, "us");
    table.plain("decisions a second", taken.turns, "");
    table.plain("longest time a target was not read", taken.longest_gap.as_secs_f64(), "s");
    for (thread, share) in taken.cpu_by_thread.iter().filter(|(_, share)| *share >= 0.05) {
        table.plain(&format!("CPU of the threads {thread}"), *share, "%");
    }
    table.print(&format!(
        "{} targets every {:?} for {:?}, {} autoscalers",
        load.targets, load.interval, load.span, load.autoscalers
    ));
}
