//! Scrapes the targets of one fleet, each in a task of its own.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota};
use headroom_policies::Timestamp;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::client::{CredentialsError, ScrapeClient};
use super::pace::{Pace, next_at_phase, phase};
use super::state::ScrapeFailure;
use super::target::{ScrapeSettings, Target, TargetId};
use crate::clock::Clock;
use crate::engines::EngineReader;
use crate::exposition::{Limits, Page, PageReader, Scrutiny};

/// Targets that come together are read first so far apart on average: pages all read at the same moment would each be
/// learnt on their own.
const FIRST_READS_APART: Duration = Duration::from_millis(1);

/// The outcome of one scrape.
#[derive(Debug)]
pub struct Scraped {
    /// The page, or why there is none.
    pub outcome: Result<Page, ScrapeFailure>,
    /// When the answer was whole, on our own clock.
    pub at: Timestamp,
    /// How long it took, in real time.
    pub took: Duration,
    /// The target is read less often because it is slow.
    pub slow: bool,
    /// When it is scraped next.
    pub next: Timestamp,
}

/// Takes what scrapes bring.
pub trait ScrapeSink: Send + Sync + 'static {
    /// Takes one outcome. Returns whether the next page should be looked at whole, to name what is absent.
    fn record(&self, target: &TargetId, scraped: Scraped) -> Scrutiny;
}

/// A limit on the scrapes of a whole process.
#[derive(Debug, Clone)]
pub struct RateLimit(Arc<DefaultDirectRateLimiter>);

impl RateLimit {
    /// At most so many scrapes a second; bursts of a tenth of that are let through.
    pub fn per_second(scrapes: NonZeroU32) -> Self {
        let burst = NonZeroU32::new(scrapes.get() / 10).unwrap_or(NonZeroU32::MIN);
        Self(Arc::new(DefaultDirectRateLimiter::direct(Quota::per_second(scrapes).allow_burst(burst))))
    }
}

/// Scrapes the targets of one fleet until it is dropped.
pub struct Scraper {
    job: Arc<Job>,
    runtime: Handle,
    tasks: HashMap<TargetId, (Target, AbortHandle)>,
}

/// What the tasks of a fleet share.
struct Job {
    settings: ScrapeSettings,
    client: ScrapeClient,
    reader: Arc<EngineReader>,
    sink: Arc<dyn ScrapeSink>,
    limit: RateLimit,
    clock: Clock,
    started: Instant,
}

impl Scraper {
    /// A scraper without targets, whose tasks run on the given runtime. The settings' interval is on the clock's
    /// time, its timeout is real.
    ///
    /// # Errors
    /// A credential cannot be read.
    pub fn new(
        settings: ScrapeSettings,
        reader: Arc<EngineReader>,
        sink: Arc<dyn ScrapeSink>,
        limit: RateLimit,
        (clock, runtime): (Clock, Handle),
    ) -> Result<Self, CredentialsError> {
        let client = {
            // The client's pool keeps time on the runtime it is made in.
            let _guard = runtime.enter();
            ScrapeClient::new(&settings)?
        };
        let job = Job { settings, client, reader, sink, limit, clock, started: Instant::now() };
        Ok(Self { job: Arc::new(job), runtime, tasks: HashMap::new() })
    }

    /// Scrapes these targets from now on, and no others.
    pub fn sync(&mut self, targets: &[Target]) {
        self.tasks.retain(|_, (known, task)| {
            let stays = targets.contains(known);
            if !stays {
                task.abort();
            }
            stays
        });
        let new = targets.iter().filter(|target| !self.tasks.contains_key(&target.id)).count();
        let spread = FIRST_READS_APART.saturating_mul(u32::try_from(new).unwrap_or(u32::MAX));
        for target in targets {
            if !self.tasks.contains_key(&target.id) {
                let task = self.runtime.spawn(scrape_forever(Arc::clone(&self.job), target.clone(), spread));
                self.tasks.insert(target.id.clone(), (target.clone(), task.abort_handle()));
            }
        }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        for (_, task) in self.tasks.values() {
            task.abort();
        }
    }
}

/// `spread` is the time over which the first reads of targets that came together are spread.
async fn scrape_forever(job: Arc<Job>, target: Target, spread: Duration) {
    let mut reader = PageReader::new(Arc::clone(job.reader.layouts()));
    let mut pace = Pace::default();
    let mut scrutiny = Scrutiny::Wanted;
    let interval = job.clock.real_duration(job.settings.interval);
    let place = phase(&target.id, interval);
    tokio::time::sleep(phase(&target.id, spread.min(interval))).await;
    loop {
        job.limit.0.until_ready().await;
        let begun = Instant::now();
        let outcome = job.client.scrape(&target.url, &mut reader, Limits::default(), scrutiny).await;
        let took = begun.elapsed();
        match &outcome {
            Ok(_) => pace.read(took),
            Err(_) => pace.failed(),
        }
        // Counted from the scrape's beginning, less half an interval so that a late one is not skipped.
        let pause = job.clock.real_duration(pace.pause(&job.settings));
        let since_start = begun.duration_since(job.started);
        let next =
            job.started + next_at_phase(since_start + pause.saturating_sub(interval.div_f64(2.0)), place, interval);
        let now = Instant::now();
        let scraped = Scraped {
            outcome,
            at: job.clock.now(),
            took,
            slow: pace.is_slow(),
            next: job.clock.now().plus(job.clock.clock_duration(next.saturating_duration_since(now))),
        };
        scrutiny = job.sink.record(&target.id, scraped);
        tokio::time::sleep_until(next).await;
    }
}
