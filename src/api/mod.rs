//! The resource `InferenceAutoscaler`, `headroom.dev/v1alpha1`: as it is written, and validated.
//!
//! One form for the cluster and for files. Unknown fields are refused. A field whose feature this version does not
//! have is refused by name.

mod quantities;
mod spec;
mod unsupported;
mod validate;
mod wire;

pub use spec::{AutoscalerSpec, Endpoint, Key, ScrapeSecrets, SecretRef};
pub use wire::{API_VERSION, InferenceAutoscaler, KIND};

use std::fmt;

/// A mistake in a resource: where it is, what is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FieldError {
    /// The field's path, e.g. `spec.metrics[0].target`.
    pub field: String,
    /// What is wrong, with the remedy.
    pub message: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
