//! What the program takes while nothing happens: `headroom run` with ten autoscalers of two servers each, read every
//! five seconds, served with a certificate and kept in a state folder as in a cluster.
//!
//! See `README.md` for flags and figures.

mod support;

use std::time::Duration;

use support::Fallible;
use support::arguments::Arguments;
use support::process::{cpu, memory};
use support::program::{Program, configuration};
use support::servers::{Servers, serve_if_asked};
use support::table::Table;

/// MiB resident.
const MEMORY_GOAL: f64 = 18.0;
const INTERVAL: Duration = Duration::from_secs(5);

fn main() -> Fallible<()> {
    let arguments = Arguments::of_process();
    if serve_if_asked(&arguments)? {
        return Ok(());
    }
    let seconds = arguments.value("--seconds", if arguments.is_check() { 1 } else { 60 })?;
    for autoscalers in arguments.values("--autoscalers", 10_u32)? {
        let targets = autoscalers * 2;
        let servers = Servers::start(targets, INTERVAL)?;
        let program = Program::start(&configuration(autoscalers as usize, &servers.addresses, INTERVAL))?;
        program.wait_until_read(targets)?;
        let before = cpu(program.pid())?;
        std::thread::sleep(Duration::from_secs(seconds));
        let used = cpu(program.pid())?.saturating_sub(before);
        let memory = memory(program.pid())?;
        let mut table = Table::default();
        if autoscalers <= 10 {
            table.at_most("memory", memory.resident, MEMORY_GOAL, "MiB");
        } else {
            table.plain("memory", memory.resident, "MiB");
        }
        table.plain("memory, at its peak", memory.peak, "MiB");
        table.plain("CPU, of one core", used.as_secs_f64() / seconds as f64 * 100.0, "%");
        table.print(&format!("{autoscalers} autoscalers after {seconds} s"));
    }
    Ok(())
}
