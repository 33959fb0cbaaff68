//! Starts, changes and stops autoscalers.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_adapter::clock::Clock;
use headroom_adapter::scrape::{Credentials, CredentialsError, RateLimit, ScrapeSettings};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::autoscaler::{Assignment, Autoscaler, Reading, StatesLog};
use super::decision_log::DecisionLog;
use super::state_dir::{StateDir, Stored};
use super::store::{Entry, Store};
use super::target::{Listed, ScaleTarget};
use crate::api::{AutoscalerSpec, Key};
use crate::config::{SecretError, Secrets};

/// What every autoscaler of a process shares.
#[derive(Debug)]
pub struct Environment {
    /// The time.
    pub clock: Clock,
    /// Where scrapes run.
    pub scrape_runtime: Handle,
    /// The most scrapes a second.
    pub scrape_limit: RateLimit,
    /// Where state is kept.
    pub state: StateDir,
    /// Where changes are written.
    pub log: Arc<DecisionLog>,
    /// Where scrape credentials are.
    pub secrets: Secrets,
    /// Decide and record, touch nothing.
    pub observe_only: bool,
}

/// Why an autoscaler cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A Secret that it names cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A credential cannot be read.
    #[error("cannot scrape for {object}: {source}")]
    Credentials {
        /// The autoscaler.
        object: String,
        /// Why.
        source: CredentialsError,
    },
}

/// An autoscaler ended although nobody stopped it.
#[derive(Debug, thiserror::Error)]
#[error("an autoscaler ended by a fault of Headroom's own: {0}")]
pub struct Ended(JoinError);

/// Runs autoscalers.
pub struct Manager {
    environment: Arc<Environment>,
    store: Arc<Store>,
    running: BTreeMap<Key, Running>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

struct Running {
    assignment: watch::Sender<Assignment>,
    listed: Option<Arc<Listed>>,
    stop: CancellationToken,
}

impl Manager {
    /// A manager without autoscalers.
    pub fn new(environment: Arc<Environment>, store: Arc<Store>) -> Self {
        Self { environment, store, running: BTreeMap::new(), tasks: JoinSet::new(), stop: CancellationToken::new() }
    }

    /// Makes these the running autoscalers: starts, changes and stops what differs. All or nothing: with an error
    /// everything stays as it was.
    ///
    /// # Errors
    /// One of them cannot be started.
    pub fn apply(&mut self, specs: Vec<AutoscalerSpec>) -> Result<(), Vec<StartError>> {
        let (mut assignments, mut errors) = (Vec::new(), Vec::new());
        for spec in specs {
            match self.assignment(spec) {
                Ok(assignment) => assignments.push(assignment),
                Err(error) => errors.push(error.into()),
            }
        }
        let mut starting = Vec::new();
        for assignment in &assignments {
            if !self.running.contains_key(&assignment.spec.key) {
                match self.reading(assignment) {
                    Ok(reading) => starting.push((assignment.clone(), reading)),
                    Err(error) => errors.push(error),
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        self.stop_all_but(&assignments);
        for assignment in assignments {
            self.change(assignment);
        }
        for (assignment, reading) in starting {
            let now = self.environment.clock.now();
            let (spec, stored) = (&assignment.spec, self.stored(&assignment.spec.key));
            let published = stored.history.last_published;
            let listed = Arc::new(Listed::new(spec.key.to_string(), &spec.endpoints, now, published));
            self.start(assignment, (reading, stored), Arc::clone(&listed) as _, Some(listed));
        }
        Ok(())
    }

    /// Starts an autoscaler of a target that is not listed in a file.
    ///
    /// # Errors
    /// It cannot be scraped for.
    pub fn run(&mut self, spec: AutoscalerSpec, target: Arc<dyn ScaleTarget>) -> Result<Arc<Entry>, StartError> {
        let assignment = self.assignment(spec)?;
        let reading = self.reading(&assignment)?;
        let stored = self.stored(&assignment.spec.key);
        Ok(self.start(assignment, (reading, stored), target, None))
    }

    /// What a process before this one left.
    fn stored(&self, key: &Key) -> Stored {
        self.environment.state.read(key).unwrap_or_else(|error| {
            warn!(%error, "starting as after a loss: nothing falls below the present size for one window");
            Stored::default()
        })
    }

    /// Makes sure that no autoscaler has ended by a fault of ours: its last count would be served for ever.
    ///
    /// # Errors
    /// One has.
    pub fn check(&mut self) -> Result<(), Ended> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.map_err(Ended)?;
        }
        Ok(())
    }

    fn assignment(&self, spec: AutoscalerSpec) -> Result<Assignment, SecretError> {
        let credentials: Credentials = self.environment.secrets.credentials(&spec)?;
        let scrape = ScrapeSettings {
            interval: spec.policy.interval,
            timeout: spec.timeout,
            max_age: spec.max_age,
            tls: spec.uses_tls(),
            credentials,
        };
        Ok(Assignment { spec: Arc::new(spec), scrape })
    }

    fn reading(&self, assignment: &Assignment) -> Result<Reading, StartError> {
        Reading::new(assignment, &self.environment)
            .map_err(|source| StartError::Credentials { object: assignment.spec.key.to_string(), source })
    }

    fn stop_all_but(&mut self, assignments: &[Assignment]) {
        let store = &self.store;
        self.running.retain(|key, running| {
            let stays = assignments.iter().any(|assignment| assignment.spec.key == *key);
            if !stays {
                running.stop.cancel();
                store.remove(key);
                info!(autoscaler = %key, "stopped");
            }
            stays
        });
    }

    fn change(&mut self, assignment: Assignment) {
        let Some(running) = self.running.get(&assignment.spec.key) else { return };
        let same = {
            let present = running.assignment.borrow();
            present.spec == assignment.spec && present.scrape == assignment.scrape
        };
        if same {
            return;
        }
        info!(autoscaler = %assignment.spec.key, "its spec changed");
        if let Some(listed) = &running.listed {
            listed.list(&assignment.spec.endpoints, self.environment.clock.now());
        }
        // The receiver ends only with the autoscaler.
        let _ = running.assignment.send(assignment);
    }

    fn start(
        &mut self,
        assignment: Assignment,
        (reading, stored): (Reading, Stored),
        target: Arc<dyn ScaleTarget>,
        listed: Option<Arc<Listed>>,
    ) -> Arc<Entry> {
        let spec = Arc::clone(&assignment.spec);
        let entry = Arc::new(Entry::new((*spec).clone(), Arc::clone(reading.fleet()), stored.by_hand.clone()));
        self.store.insert(spec.key.clone(), Arc::clone(&entry));
        let (sender, receiver) = watch::channel(assignment);
        let stop = self.stop.child_token();
        let autoscaler = Autoscaler {
            environment: Arc::clone(&self.environment),
            entry: Arc::clone(&entry),
            target,
            reading,
            stored,
            history: None,
            states: StatesLog::default(),
        };
        self.tasks.spawn(autoscaler.run(receiver, stop.clone()));
        self.running.insert(spec.key.clone(), Running { assignment: sender, listed, stop });
        info!(autoscaler = %spec.key, "started");
        entry
    }

    /// Stops every autoscaler and waits for them.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
