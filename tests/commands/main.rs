//! The commands that end by themselves, run as their users run them.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../metrics-adapter/tests/scrape_support/mod.rs"]
mod servers;
#[path = "../support/mod.rs"]
mod support;

mod check;
mod evaluate;
mod kv;
mod signals;
