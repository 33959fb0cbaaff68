//! What a process has used, as Linux tells it in `/proc`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::Fallible;

/// Processor time is told in hundredths of a second (`USER_HZ`, which is 100 for every program).
const TICK: Duration = Duration::from_millis(10);

/// Processor time used so far, by the name of the thread, in threads that still run.
pub(crate) fn cpu_by_thread(pid: u32) -> Fallible<BTreeMap<String, Duration>> {
    let mut used = BTreeMap::new();
    for task in std::fs::read_dir(folder(pid).join("task"))? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        let (before, _) = stat.rsplit_once(')').unwrap_or_default();
        let name = before.split_once('(').unwrap_or_default().1.to_owned();
        *used.entry(name).or_default() += cpu_in(&stat);
    }
    Ok(used)
}

/// Processor time used so far by the whole process.
pub(crate) fn cpu(pid: u32) -> Fallible<Duration> {
    Ok(cpu_in(&std::fs::read_to_string(folder(pid).join("stat"))?))
}

/// User and system time of a `stat` file: the 12th and 13th field after the command in parentheses (proc(5)).
fn cpu_in(stat: &str) -> Duration {
    let (_, after) = stat.rsplit_once(')').unwrap_or_default();
    let ticks: u32 = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// Processor time that the host of this machine has kept from it so far: the 8th figure of `/proc/stat` (proc(5)).
pub(crate) fn stolen() -> Fallible<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<u32>().ok());
    Ok(TICK * ticks.ok_or("no stolen time in /proc/stat")?)
}

/// Memory in MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Resident now (`VmRSS`).
    pub(crate) resident: f64,
    /// The most that was ever resident (`VmHWM`).
    pub(crate) peak: f64,
}

/// The memory of a process.
pub(crate) fn memory(pid: u32) -> Fallible<Memory> {
    let status = std::fs::read_to_string(folder(pid).join("status"))?;
    let mebibytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kibibytes.map(|kibibytes| kibibytes / 1024.0).ok_or_else(|| format!("no {name} of process {pid}"))
    };
    Ok(Memory { resident: mebibytes("VmRSS:")?, peak: mebibytes("VmHWM:")? })
}

fn folder(pid: u32) -> PathBuf {
    ["/proc", &pid.to_string()].iter().collect()
}
