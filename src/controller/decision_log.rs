//! Each change as one JSON line with the whole record, on standard output.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use headroom_policies::DecisionRecord;
use serde::Serialize;

use crate::api::Key;

/// Lines that wait to be written; more are dropped and counted, so that a reader that hangs stops nothing.
const WAITING_LINES: usize = 256;

/// Where changes are written.
#[derive(Debug)]
pub struct DecisionLog {
    lines: Option<SyncSender<String>>,
    dropped: AtomicU64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event: &'static str,
    namespace: &'a str,
    autoscaler: &'a str,
    id: u64,
    record: &'a DecisionRecord,
}

impl DecisionLog {
    /// Writes to standard output, from a thread of its own.
    pub fn standard_output() -> Self {
        let (lines, received) = sync_channel::<String>(WAITING_LINES);
        std::thread::spawn(move || {
            for line in received {
                // A closed pipe ends the log, not the program.
                let mut output = std::io::stdout().lock();
                if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
                    return;
                }
            }
        });
        Self { lines: Some(lines), dropped: AtomicU64::new(0) }
    }

    /// Writes nothing.
    pub fn none() -> Self {
        Self { lines: None, dropped: AtomicU64::new(0) }
    }

    /// Writes a change.
    pub fn write(&self, key: &Key, id: u64, record: &DecisionRecord) {
        let Some(lines) = &self.lines else { return };
        let line = Line { event: "decision", namespace: &key.namespace, autoscaler: &key.name, id, record };
        let sent = serde_json::to_string(&line).map(|line| lines.try_send(line));
        if matches!(sent, Err(_) | Ok(Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Changes that could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
