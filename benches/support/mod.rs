//! What the benchmark programs share.

// No program uses all of it.
#![allow(dead_code)]

pub(crate) mod arguments;
pub(crate) mod page;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod servers;
pub(crate) mod table;
pub(crate) mod timing;

/// A result of a program that only says what went wrong.
pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
