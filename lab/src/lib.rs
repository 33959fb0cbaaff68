//! Headroom's laboratory: simulated vLLM engines and fleets, request traces and scores.
//!
//! A policy can be tried here against recorded traffic before it touches a cluster, and a demonstration can run against
//! replicas that look real. Everything but [`server`] is pure: no runtime, no clock, no sockets. Time is an argument
//! ([`time::ModelTime`]), randomness has a seed, and the same run gives the same numbers on every platform.
//!
//! | module | what it holds |
//! |---|---|
//! | [`profile`] | five models on accelerators, `P1` to `P4`: step times, memory, limits, start-up |
//! | [`step_time`] | how long a step of an engine takes |
//! | [`engine`] | continuous batching as in vLLM's V1 scheduler: chunked prefill, KV blocks, preemption |
//! | [`exposition`] | an engine's metrics page, as vLLM writes it |
//! | [`cold_start`] | how long a new replica takes until it serves |
//! | [`fleet`] | replicas that start, serve, drain and go; routing; accelerator time |
//! | [`trace`] | request traces: reading, multiplying, spreading |
//! | [`score`] | attainment of the objectives, latencies, cost; fixed fleets over a whole trace |
//! | [`server`] | replicas as HTTP servers, the model's time running with the wall clock (feature `server`) |
//!
//! # A fixed fleet over a trace
//!
//! ```
//! use std::num::NonZeroU32;
//! use std::path::Path;
//!
//! use headroom_lab::engine::Request;
//! use headroom_lab::profile::Profile;
//! use headroom_lab::score::static_fleet;
//! use headroom_lab::trace::Trace;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
//! let trace = Trace::read(&folder.join("traces/azure_conv_2023_dev.csv.gz"))?;
//! let two = NonZeroU32::new(2).ok_or("no replicas")?;
//! let score = static_fleet(&"P2a".parse()?, two, 0.99, trace.requests().iter().copied().map(Request::from));
//! assert!(score.attainment() > 0.99);
//! # Ok(())
//! # }
//! ```
//!
//! # A fleet that grows
//!
//! ```
//! use headroom_lab::cold_start::StartCondition;
//! use headroom_lab::engine::{EngineSettings, Request};
//! use headroom_lab::fleet::{Fleet, FleetSettings, Routing};
//! use headroom_lab::profile::Profile;
//! use headroom_lab::time::ModelTime;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let profile = Profile::P1;
//! let settings = FleetSettings {
//!     engine: EngineSettings::of(&profile),
//!     gpus: profile.gpus,
//!     start: profile.stage_medians(StartCondition::Warm),
//!     routing: Routing::RoundRobin,
//!     seed: 1,
//! };
//! let mut fleet = Fleet::new(settings, 1);
//! for half_second in 0..1200 {
//!     fleet.advance(ModelTime::from_seconds(f64::from(half_second) / 2.0));
//!     let request = Request { arrival: fleet.now(), prompt_tokens: 1000, output_tokens: 200, streamed: false };
//!     fleet.arrive(request)?;
//!     if fleet.replicas().iter().any(|replica| replica.engine().gauges().waiting > 5) {
//!         fleet.scale_to(3);
//!     }
//! }
//! assert_eq!(fleet.replicas().len(), 3);
//! # Ok(())
//! # }
//! ```

pub mod cold_start;
pub mod engine;
pub mod exposition;
pub mod fleet;
pub mod histogram;
pub mod profile;
pub mod random;
pub mod score;
#[cfg(feature = "server")]
pub mod server;
pub mod step_time;
pub mod time;
pub mod trace;
