//! What readers see: the standing decision of each autoscaler, its fleet, its journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use headroom_adapter::fleet::SharedFleet;
use headroom_policies::DecisionRecord;
use tokio::sync::Notify;

use super::journal::Journal;
use super::override_by_hand::OverrideByHand;
use crate::api::{AutoscalerSpec, Key};

/// The decision that stands.
#[derive(Debug)]
pub struct Standing {
    /// With everything it was made from.
    pub record: DecisionRecord,
}

/// What the turns of an autoscaler have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnTotals {
    /// Turns.
    pub turns: u64,
    /// Turns after which the decision was higher than before.
    pub rises: u64,
    /// Turns after which it was lower.
    pub falls: u64,
    /// Scale calls that failed.
    pub scale_failures: u64,
    /// States that could not be written.
    pub state_failures: u64,
}

/// One autoscaler as readers see it.
#[derive(Debug)]
pub struct Entry {
    /// Its spec.
    pub spec: ArcSwap<AutoscalerSpec>,
    /// Its fleet; another one when what is read of it changes.
    pub fleet: ArcSwap<SharedFleet>,
    /// The decision that stands; none before the first turn.
    pub standing: ArcSwapOption<Standing>,
    journal: Mutex<Journal>,
    by_hand: Mutex<OverrideByHand>,
    totals: Mutex<TurnTotals>,
    /// Wakes the autoscaler for a turn at once.
    pub wake: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// An autoscaler before its first turn.
    pub fn new(spec: AutoscalerSpec, fleet: Arc<SharedFleet>, by_hand: OverrideByHand) -> Self {
        Self {
            spec: ArcSwap::from_pointee(spec),
            fleet: ArcSwap::from(fleet),
            standing: ArcSwapOption::empty(),
            journal: Mutex::default(),
            by_hand: Mutex::new(by_hand),
            totals: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// The kept decisions.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// What was set by hand.
    pub fn by_hand(&self) -> OverrideByHand {
        lock(&self.by_hand).clone()
    }

    /// Sets what is set by hand and asks for a turn.
    pub fn set_by_hand(&self, by_hand: OverrideByHand) {
        *lock(&self.by_hand) = by_hand;
        self.wake.notify_one();
    }

    /// What the turns have come to.
    pub fn totals(&self) -> TurnTotals {
        *lock(&self.totals)
    }

    /// Adds to what the turns have come to.
    pub fn count(&self, add: impl FnOnce(&mut TurnTotals)) {
        add(&mut lock(&self.totals));
    }
}

/// Every autoscaler.
#[derive(Debug, Default)]
pub struct Store {
    entries: RwLock<BTreeMap<Key, Arc<Entry>>>,
}

impl Store {
    /// An autoscaler.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        let key = Key { namespace: namespace.into(), name: name.into() };
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Every autoscaler, in the order of their keys.
    pub fn all(&self) -> Vec<(Key, Arc<Entry>)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().map(|(key, entry)| (key.clone(), Arc::clone(entry))).collect()
    }

    /// The names of a namespace's autoscalers.
    pub fn names_in(&self, namespace: &str) -> Vec<Arc<str>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.keys().filter(|key| &*key.namespace == namespace).map(|key| Arc::clone(&key.name)).collect()
    }

    pub(super) fn insert(&self, key: Key, entry: Arc<Entry>) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(key, entry);
    }

    pub(super) fn remove(&self, key: &Key) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
