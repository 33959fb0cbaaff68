//! What the program answers: the external metrics API, its own metrics and health, its state as JSON.

mod external;
mod http;
mod state;

pub use external::StoreMetrics;
pub use http::{Health, router};
