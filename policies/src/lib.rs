//! Headroom's decisions, pure: from what was seen of a fleet to a number of replicas and the reasons for it.
//!
//! - [`quantity`], [`units`], [`signal`]: numbers with a meaning.
//! - [`policy`], [`behavior`]: what an autoscaler asks for.
//! - [`observation`]: what was seen; [`history`]: what earlier turns left behind.
//! - [`window`]: from successive samples to one number.
//! - [`proposal`]: what one metric asks for; [`decide()`]: the stages; [`decision`]: their record.
//! - [`hpa`]: the rules of the Kubernetes HPA as they are; [`evaluate`]: both behind one JSON format.
//!
//! Nothing here reads a clock, a file, the network or the environment: time is an argument.

pub mod behavior;
mod decide;
pub mod decision;
pub mod evaluate;
pub mod history;
pub mod hpa;
pub mod observation;
pub mod policy;
pub mod proposal;
pub mod quantity;
mod reason;
pub mod signal;
pub mod units;
pub mod window;

pub use decide::decide;
pub use decision::{Decision, DecisionRecord, Published, Stage};
pub use history::{History, Persisted};
pub use observation::Observation;
pub use policy::Policy;
pub use quantity::{Milli, Quantity};
pub use reason::Reason;
pub use signal::Signal;
pub use units::{Replicas, Timestamp};
