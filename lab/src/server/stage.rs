//! How far a server's stop has come.

use tokio::sync::watch;

/// How far a server's stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It serves.
    Running,
    /// It takes no new connection; completions go on to their end.
    Stopping,
    /// Completions are cut off.
    Killed,
}

/// Waits until the stop has come so far.
pub(super) async fn reached(stage: &watch::Receiver<Stage>, wanted: Stage) {
    // The sender goes with the server, which has then stopped.
    let _ = stage.clone().wait_for(|stage| *stage >= wanted).await;
}
