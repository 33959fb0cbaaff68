//! The demonstration: a simulated fleet on loopback, scaled by the whole real path.
//!
//! Requests of a recorded trace are dealt to simulated vLLM engines that serve their metrics over HTTP. Headroom scrapes
//! them, decides, and changes the fleet's size; a new replica takes its cold start. All of it runs faster than real
//! time on one clock.

mod load;
mod sample;
mod summary;
mod target;

pub use load::{Load, LoadError};
pub use sample::Row;
pub use summary::Summary;
pub use target::SimulatedTarget;

use std::sync::Arc;
use std::time::Duration;

use headroom_adapter::engines::{Engine, EngineSettings};
use headroom_lab::profile::Profile;
use headroom_policies::behavior::{Behavior, PolicyType, ScalingPolicy, ScalingRules};
use headroom_policies::policy::{Actuation, MetricPolicy, Policy};
use headroom_policies::quantity::Decimal;
use headroom_policies::{Milli, Replicas, Signal};

use crate::api::{AutoscalerSpec, Key, ScrapeSecrets};

/// The namespace of the demonstration's autoscaler.
pub const NAMESPACE: &str = "demo";
/// Its name.
pub const NAME: &str = "chat";
/// The model its engines say they serve.
pub const MODEL: &str = "demo/chat";
/// The share of a minute's requests that should meet the profile's limits.
pub const TARGET_ATTAINMENT: f64 = 0.99;

const MIN_REPLICAS: i32 = 2;
const MAX_REPLICAS: i32 = 16;

/// The autoscaler of the demonstration: the default metrics, and running requests by what a replica of the profile
/// carries.
pub fn autoscaler(profile: &Profile) -> AutoscalerSpec {
    let mut policy = Policy::new(Replicas::new(MIN_REPLICAS), Replicas::new(MAX_REPLICAS));
    policy.actuation = Actuation::Direct;
    policy.behavior = Some(behavior());
    policy.metrics.push(MetricPolicy::new(Signal::RunningRequests, Milli::from_units(carried(profile))));
    AutoscalerSpec {
        key: Key { namespace: Arc::from(NAMESPACE), name: Arc::from(NAME) },
        policy,
        default_metrics: false,
        engine: EngineSettings { engine: Some(Engine::VLLM), ..EngineSettings::default() },
        endpoints: Vec::new(),
        timeout: Duration::from_secs(1),
        // On the fast clock a busy machine is late by many seconds; only a scrape that fails is.
        max_age: Duration::from_secs(60),
        startup_deadline: Duration::from_secs(1200),
        secrets: ScrapeSecrets::default(),
        paused: false,
        hold: None,
        warnings: Vec::new(),
    }
}

/// The day of the demonstration lasts 39 minutes, so its scale-down is quicker than the default for real days: one
/// replica each half minute, after two minutes.
fn behavior() -> Behavior {
    let policy = ScalingPolicy { kind: PolicyType::Pods, value: 1, period_seconds: 30 };
    let down = ScalingRules {
        stabilization_window_seconds: Some(120),
        policies: Some(vec![policy]),
        ..ScalingRules::default()
    };
    Behavior { scale_up: None, scale_down: Some(down) }
}

/// Running requests with which a replica keeps its limits under this traffic, less a margin of three tenths: 17, 56,
/// 172, 98 and 40 in the steady state of the simulation.
fn carried(profile: &Profile) -> i64 {
    match profile.name {
        "P1" => 10,
        "P2a" => 34,
        "P2b" => 103,
        "P3" => 59,
        _ => 24,
    }
}

/// How many copies of each request of the shipped trace make a fleet of a few replicas of a profile.
pub fn copies(profile: &Profile) -> u32 {
    match profile.name {
        "P1" => 1,
        "P4" => 4,
        "P2b" => 24,
        _ => 12,
    }
}

/// The targets of a policy, for people.
pub fn targets(policy: &Policy) -> String {
    let show = |metric: &MetricPolicy| format!("{} {}", metric.signal, Decimal(metric.target));
    policy.metrics.iter().map(show).collect::<Vec<_>>().join(", ")
}
