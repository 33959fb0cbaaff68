//! Logs and own metrics.

mod logging;
mod metrics;

pub use logging::{LogFormat, init_logging};
pub use metrics::{OwnMetrics, ProcessState};
