//! From model servers' metrics pages to samples, and from samples to the APIs that autoscalers read.
//!
//! - [`exposition`]: the scanner of the Prometheus text format and `OpenMetrics`.
//! - [`engines`]: what each engine's families mean, version by version.
//! - [`scrape`]: reading many servers at once, each at its own cost.
//! - [`fleet`]: the newest samples of one fleet, and what a decision sees of them.
//! - [`serve`]: the external metrics API, from memory.
//! - [`clock`]: the time of all this, which a demonstration can speed up.

pub mod clock;
pub mod engines;
pub mod exposition;
pub mod fleet;
pub mod scrape;
pub mod serve;
