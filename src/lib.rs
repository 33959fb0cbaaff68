//! The program `headroom`.

pub mod api;
pub mod cli;
pub mod config;
pub mod controller;
pub mod demo;
pub mod serve;
pub mod telemetry;
