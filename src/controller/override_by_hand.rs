//! Pause and hold: by annotation in the resource, or by `headroom hold` in a running process.

use std::sync::Arc;

use headroom_policies::observation::Hold;
use headroom_policies::{Replicas, Timestamp};
use serde::{Deserialize, Serialize};

use crate::api::AutoscalerSpec;

/// What `headroom hold` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HoldRequest {
    /// The count to hold; the present one where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// What was set by hand in a running process; kept over a restart with a state folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideByHand {
    /// A hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

impl OverrideByHand {
    /// The hold that applies at an instant: that of the running process, else the annotation's, unless it ended.
    pub fn effective(&self, spec: &AutoscalerSpec, now: Timestamp) -> Option<Hold> {
        let lasts = |hold: &&Hold| hold.until.is_none_or(|until| until > now);
        let own = self.hold.as_ref().filter(lasts);
        own.or_else(|| spec.hold.as_ref().filter(lasts)).cloned()
    }
}
