//! Autoscalers from files: a file or a folder of them, read again when they change.

mod load;
mod resource;
mod secrets;

pub use load::{ConfigError, ConfigErrors, Loaded, load};
pub use secrets::{SecretError, Secrets};
