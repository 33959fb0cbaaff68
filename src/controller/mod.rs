//! Running autoscalers: one turn is collect, decide, publish, act.

mod autoscaler;
mod decision_log;
mod journal;
mod manager;
mod override_by_hand;
mod packed;
mod state_dir;
mod store;
mod target;

pub use autoscaler::Act;
pub use decision_log::DecisionLog;
pub use journal::{Journal, Kept, Summary};
pub use manager::{Ended, Environment, Manager, StartError};
pub use override_by_hand::{HoldRequest, OverrideByHand};
pub use state_dir::{StateDir, StateError, Stored};
pub use store::{Entry, Standing, Store, TurnTotals};
pub use target::{Listed, ScaleError, ScaleTarget};
