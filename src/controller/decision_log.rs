//! Each change as one JSON line with the whole record, on standard output.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use headroom_policies::DecisionRecord;
use serde::Serialize;
use tracing::warn;

use crate::api::Key;

/// Lines that wait to be written; more are dropped and counted, so that a reader that hangs stops nothing.
const WAITING_LINES: usize = 256;

/// Where changes are written.
#[derive(Debug)]
pub struct DecisionLog {
    lines: Option<SyncSender<String>>,
    dropped: Arc<AtomicU64>,
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
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        std::thread::spawn(move || {
            let mut failed = false;
            for line in received {
                // A closed pipe or a full disk costs lines, not the program.
                let mut output = std::io::stdout().lock();
                if let Err(error) = writeln!(output, "{line}").and_then(|()| output.flush()) {
                    lost.fetch_add(1, Ordering::Relaxed);
                    if !failed {
                        warn!(%error, "a decision was not written; further ones are counted in headroom_decision_log_dropped_total");
                    }
                    failed = true;
                } else {
                    failed = false;
                }
            }
        });
        Self { lines: Some(lines), dropped }
    }

    /// Writes nothing.
    pub fn none() -> Self {
        Self { lines: None, dropped: Arc::default() }
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
