//! Placeholder.
pub mod clock;
pub mod engines;
pub mod exposition;
pub mod fleet;
pub mod scrape;
pub mod serve;
