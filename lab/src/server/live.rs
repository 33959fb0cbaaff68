//! A fleet whose time runs with the wall clock, and clients that wait for its tokens.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::clock::Clock;
use crate::engine::{Event, Request, RequestId};
use crate::fleet::{Fleet, FleetEvent, ReplicaId, SubmitError};

/// While clients wait, time moves at most so often.
const SHORTEST_TURN: Duration = Duration::from_millis(1);
/// While none waits, time moves at least so often.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// A fleet whose time runs with the wall clock. Clones share it; it stops with the last of them.
#[derive(Clone)]
pub struct LiveFleet {
    shared: Arc<Shared>,
    _driver: Arc<Driver>,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    /// A client began to wait.
    followed: Notify,
}

struct State {
    fleet: Fleet,
    followers: HashMap<RequestId, Follower>,
    observe: Box<dyn FnMut(&FleetEvent) + Send>,
}

/// A client that waits for a request.
#[derive(Default)]
struct Follower {
    progress: Progress,
    sender: watch::Sender<Progress>,
}

/// The task that moves time on.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Tokens that came out.
    pub(super) tokens: u32,
    /// They were the last ones.
    pub(super) finished: bool,
}

impl LiveFleet {
    /// Sets a fleet's time going, on the present tokio runtime. `observe` is given every event, with the fleet locked.
    pub fn start(fleet: Fleet, clock: Clock, observe: impl FnMut(&FleetEvent) + Send + 'static) -> Self {
        let state = State { fleet, followers: HashMap::new(), observe: Box::new(observe) };
        let shared = Arc::new(Shared { clock, state: Mutex::new(state), followed: Notify::new() });
        let driver = tokio::spawn(drive(Arc::clone(&shared)));
        Self { shared, _driver: Arc::new(Driver(driver.abort_handle())) }
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Does something with the fleet as it is now. No other client sees it meanwhile.
    pub fn with<R>(&self, act: impl FnOnce(&mut Fleet) -> R) -> R {
        let mut state = self.shared.lock_now();
        let answer = act(&mut state.fleet);
        state.tell();
        answer
    }

    /// Gives a request that arrives now to a replica, and follows it.
    pub(super) fn follow(
        &self,
        replica: ReplicaId,
        prompt_tokens: u32,
        output_tokens: u32,
        streamed: bool,
    ) -> Result<Following, SubmitError> {
        let mut state = self.shared.lock_now();
        let request = Request { arrival: state.fleet.now(), prompt_tokens, output_tokens, streamed };
        let id = state.fleet.submit_to(replica, request)?;
        let follower = Follower::default();
        let progress = follower.sender.subscribe();
        state.followers.insert(id, follower);
        drop(state);
        self.shared.followed.notify_one();
        Ok(Following { id, fleet: self.clone(), progress })
    }
}

impl fmt::Debug for LiveFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveFleet").field("clock", &self.shared.clock).finish_non_exhaustive()
    }
}

impl Shared {
    /// Locks the fleet and moves it to the present.
    fn lock_now(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves a fleet that is still good enough to look at.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        state.fleet.advance(now);
        state.tell();
        state
    }

    /// Moves time on, and says when it is worth doing so again.
    fn turn(&self) -> Instant {
        let state = self.lock_now();
        let now = Instant::now();
        let next = if state.followers.is_empty() { None } else { state.fleet.next_event_at() };
        let latest = now + LONGEST_TURN;
        next.map_or(latest, |next| self.clock.instant_of(next, now + SHORTEST_TURN).min(latest))
    }
}

impl State {
    /// Tells what happened to those who wait for it: of each all at once, so that the last token comes with the end.
    fn tell(&mut self) {
        let mut touched = Vec::new();
        for happened in self.fleet.take_events() {
            (self.observe)(&happened);
            let (Event::FirstToken { id, .. } | Event::Token { id, .. } | Event::Finished { id, .. }) = happened.event;
            let Some(follower) = self.followers.get_mut(&id) else { continue };
            match happened.event {
                Event::Finished { outcome, .. } => {
                    follower.progress = Progress { tokens: outcome.tokens, finished: true };
                }
                Event::FirstToken { .. } | Event::Token { .. } => follower.progress.tokens += 1,
            }
            touched.push(id);
        }
        for id in touched {
            let Some(follower) = self.followers.get(&id) else { continue };
            follower.sender.send_replace(follower.progress);
            if follower.progress.finished {
                self.followers.remove(&id);
            }
        }
    }
}

async fn drive(shared: Arc<Shared>) {
    loop {
        let next = shared.turn();
        tokio::select! {
            () = sleep_until(next) => {}
            () = shared.followed.notified() => {}
        }
    }
}

/// A request that a client waits for. It is aborted when this is dropped before its end, as when the client hangs up.
pub(super) struct Following {
    id: RequestId,
    fleet: LiveFleet,
    progress: watch::Receiver<Progress>,
}

impl Following {
    /// The request.
    pub(super) fn id(&self) -> RequestId {
        self.id
    }

    /// Waits until more than `seen` tokens came out, or the last did.
    pub(super) async fn beyond(&mut self, seen: u32) -> Progress {
        let is_news = |progress: &Progress| progress.tokens > seen || progress.finished;
        match self.progress.wait_for(is_news).await {
            Ok(progress) => *progress,
            // The sender is gone once the request is: finished, which is news, or aborted by this follower.
            Err(_) => Progress { tokens: seen, finished: true },
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if self.progress.borrow().finished {
            return;
        }
        let mut state = self.fleet.shared.lock_now();
        if state.followers.remove(&self.id).is_some() {
            state.fleet.abort(self.id);
        }
    }
}
