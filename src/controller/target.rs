//! What is scaled.

use std::sync::{Arc, Mutex, PoisonError};

use headroom_adapter::fleet::ReplicaSpec;
use headroom_adapter::scrape::{Target, TargetId};
use headroom_policies::observation::Phase;
use headroom_policies::{Replicas, Timestamp};

use crate::api::Endpoint;

/// Why a target was not scaled.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// It cannot be scaled by us.
    #[error("{0} cannot be scaled by Headroom")]
    NotScalable(String),
}

/// A workload: its size, its replicas, and a way to change the one to get the other.
pub trait ScaleTarget: Send + Sync + 'static {
    /// `spec.replicas`.
    fn size(&self) -> Replicas;
    /// Differs whenever the replicas or their phases do.
    fn revision(&self) -> u64;
    /// The replicas.
    fn replicas(&self) -> Vec<ReplicaSpec>;
    /// Sets the size.
    ///
    /// # Errors
    /// It was not set.
    fn scale(&self, to: Replicas) -> Result<(), ScaleError>;
    /// A count was published for others to follow.
    fn published(&self, _count: Replicas) {}
}

/// Replicas listed in a file, taken for Ready since they were listed.
///
/// What follows the published count cannot be seen from here, so the size is that count, until the list gets longer
/// or shorter: then it is the list's length. Were it always the list's, a count above it would be bound by no
/// scale-down rule.
#[derive(Debug)]
pub struct Listed {
    name: String,
    state: Mutex<ListedState>,
}

#[derive(Debug)]
struct ListedState {
    replicas: Vec<ReplicaSpec>,
    revision: u64,
    /// The count last published for a list of this length.
    followed: Option<Replicas>,
}

impl Listed {
    /// The endpoints of an autoscaler, listed at this time.
    /// `published` is the count that a process before this one published last.
    pub fn new(name: String, endpoints: &[Endpoint], now: Timestamp, published: Option<Replicas>) -> Self {
        let replicas: Vec<ReplicaSpec> = endpoints.iter().map(|endpoint| replica(endpoint, now)).collect();
        // The list may have got longer since then.
        let followed = published.map(|published| published.max(Replicas::count_of(replicas.len())));
        Self { name, state: Mutex::new(ListedState { replicas, revision: 0, followed }) }
    }

    /// Lists these from now on; those that were listed before keep their time.
    pub fn list(&self, endpoints: &[Endpoint], now: Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = |endpoint: &Endpoint| {
            let mut spec = replica(endpoint, now);
            if let Some(known) = state.replicas.iter().find(|known| known.key == spec.key) {
                spec.since = known.since;
            }
            spec
        };
        let replicas: Vec<ReplicaSpec> = endpoints.iter().map(listed).collect();
        if replicas != state.replicas {
            if replicas.len() != state.replicas.len() {
                state.followed = None;
            }
            state.replicas = replicas;
            state.revision += 1;
        }
    }
}

fn replica(endpoint: &Endpoint, since: Timestamp) -> ReplicaSpec {
    let target = |url: &http::Uri| Target { id: TargetId::new(url.to_string()), url: url.clone() };
    ReplicaSpec {
        key: Arc::clone(&endpoint.name),
        name: Arc::clone(&endpoint.name),
        phase: Phase::Ready,
        since,
        targets: endpoint.urls.iter().map(target).collect(),
    }
}

impl ScaleTarget for Listed {
    fn size(&self) -> Replicas {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.followed.unwrap_or_else(|| Replicas::count_of(state.replicas.len()))
    }

    fn revision(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).revision
    }

    fn replicas(&self) -> Vec<ReplicaSpec> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).replicas.clone()
    }

    fn scale(&self, _to: Replicas) -> Result<(), ScaleError> {
        Err(ScaleError::NotScalable(self.name.clone()))
    }

    fn published(&self, count: Replicas) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).followed = Some(count);
    }
}
