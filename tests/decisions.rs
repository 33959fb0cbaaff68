//! From servers' pages to counts, on a clock of the test's own: what hours of a fleet would do.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use headroom_adapter::engines::{EngineReader, EngineSettings};
use headroom_adapter::exposition::{Format, Limits, PageReader, Scrutiny};
use headroom_adapter::fleet::{Fleet, FleetSettings, ReplicaSpec};
use headroom_adapter::scrape::{Scraped, Target, TargetId, TargetState};
use headroom_policies::observation::Phase;
use headroom_policies::policy::MetricPolicy;
use headroom_policies::{Decision, History, Milli, Observation, Policy, Replicas, Signal, Timestamp, decide};

/// A fleet under a policy, one page a second of every server.
struct Course {
    policy: Policy,
    fleet: Fleet,
    pages: PageReader,
    targets: Vec<TargetId>,
    history: History,
    now: Timestamp,
}

impl Course {
    fn new(policy: Policy, count: usize) -> Self {
        let reader = Arc::new(EngineReader::new(EngineSettings::default()));
        let settings = FleetSettings {
            metrics: policy.metrics.clone(),
            interval: Duration::from_secs(1),
            max_age: Duration::from_secs(15),
            startup_deadline: Duration::from_secs(900),
        };
        let pages = PageReader::new(Arc::clone(reader.layouts()));
        let mut fleet = Fleet::new(settings, reader);
        let now = Timestamp::from_millis(1_780_000_000_000);
        let targets: Vec<TargetId> = (0..count).map(|index| TargetId::new(format!("pod-{index}"))).collect();
        let spec = |target: &TargetId| ReplicaSpec {
            key: target.as_str().into(),
            name: target.as_str().into(),
            phase: Phase::Ready,
            since: now,
            targets: vec![Target { id: target.clone(), url: "http://127.0.0.1/metrics".parse().unwrap() }],
        };
        fleet.sync(&targets.iter().map(spec).collect::<Vec<_>>());
        Self { policy, fleet, pages, targets, history: History::default(), now }
    }

    /// A second later, with what each server shows; every so often a decision, as the present count were kept.
    fn second(&mut self, page: impl Fn(usize) -> String) -> Option<Decision> {
        self.now = self.now.plus(Duration::from_secs(1));
        for (index, target) in self.targets.iter().enumerate() {
            let read = self.pages.read(page(index).as_bytes(), Format::Text, Limits::default(), Scrutiny::Wanted);
            let scraped = Scraped {
                outcome: Ok(read.unwrap()),
                at: self.now,
                took: Duration::from_millis(3),
                slow: false,
                next: self.now.plus(Duration::from_secs(1)),
            };
            self.fleet.record(target, scraped);
        }
        let seconds = self.now.as_millis() / 1000;
        (seconds % 5 == 0).then(|| self.turn())
    }

    fn turn(&mut self) -> Decision {
        let seen = self.fleet.observe(self.now);
        let current = Replicas::count_of(self.targets.len());
        let observation = Observation { replicas: seen.replicas, metrics: seen.metrics, ..Observation::of(current) };
        let (decision, history) = decide(&self.policy, &observation, self.history.clone(), self.now);
        self.history = history;
        decision
    }

    fn state(&self, index: usize) -> Option<TargetState> {
        self.fleet.state_of(&self.targets[index])
    }
}

fn vllm(waiting: u32, generated: i64) -> String {
    format!(
        "vllm:num_requests_waiting{{engine=\"0\"}} {waiting}\nvllm:num_requests_running{{engine=\"0\"}} 8\n\
         vllm:kv_cache_usage_perc{{engine=\"0\"}} 0.6\nvllm:generation_tokens_total{{engine=\"0\"}} {generated}\n"
    )
}

/// A burst of 3 s of twice what a fleet is sized for, once a minute, is not worth a replica that takes minutes to
/// load: the window of waiting requests is longer, and the tolerance takes the rest.
#[test]
fn short_bursts_change_nothing() {
    let policy = || Policy::new(Replicas::new(1), Replicas::new(50));
    // (replicas, waiting on each between bursts): at rest one cannot be fewer; four have work for four.
    for (count, between) in [(1, 0), (4, 2)] {
        let mut course = Course::new(policy(), count);
        for second in 10..3610 {
            let waiting = if second % 60 < 3 { 10 } else { between };
            if let Some(decision) = course.second(|_| vllm(waiting, second * 100)) {
                let desired = decision.desired;
                assert_eq!(desired, Replicas::count_of(count), "{count} replicas, after {second} s: {decision:#?}");
            }
        }
    }
    // A burst that lasts is a load.
    let mut course = Course::new(policy(), 4);
    let rises =
        (0..60).filter_map(|second| course.second(|_| vllm(10, second * 100))).any(|it| it.desired > Replicas::new(4));
    assert!(rises);
}

/// An idle night: latencies are silent because nobody asks, which forbids nothing.
#[test]
fn silent_latencies_let_an_idle_fleet_fall() {
    let mut policy = Policy::new(Replicas::new(1), Replicas::new(50));
    policy.metrics.push(MetricPolicy::new(Signal::TimeToFirstToken, Milli::new(800)));
    let mut course = Course::new(policy, 6);
    let page = |_| {
        "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n\
         vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} 90\n\
         vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 100\n"
            .to_owned()
    };
    let decisions: Vec<Decision> = (0..900).filter_map(|_| course.second(page)).collect();
    let last = decisions.last().unwrap();
    assert!(last.desired < Replicas::new(6), "{last:#?}");
    assert!(last.proposals.iter().all(|proposal| !proposal.vetoes_down), "{:#?}", last.proposals);
}

/// B-16: a server whose queue climbs while it computes nothing hangs. It is named, its queue buys nothing, and while
/// it is not understood nothing falls.
#[test]
fn a_hung_replica_does_not_drag_the_fleet_to_its_maximum() {
    let mut policy = Policy::new(Replicas::new(1), Replicas::new(100));
    policy.metrics = vec![MetricPolicy::new(Signal::WaitingRequests, Milli::from_units(10))];
    policy.metrics[0].window = Duration::ZERO;
    let mut course = Course::new(policy, 4);
    let page = |second: i64, index: usize| {
        let (queue, done) = if index == 3 { (5 + second * 2, 100) } else { (6, 100 + second) };
        format!(
            "tgi_queue_size {queue}\ntgi_batch_current_size 4\ntgi_request_success {done}\n\
             tgi_batch_inference_count{{method=\"decode\"}} {done}\n"
        )
    };
    let mut highest = Replicas::ZERO;
    for second in 0..400 {
        let Some(decision) = course.second(|index| page(second, index)) else { continue };
        assert!(decision.desired >= Replicas::new(4), "{decision:#?}");
        highest = highest.max(decision.desired);
        if second > 30 {
            assert_eq!(course.state(3), Some(TargetState::Frozen));
            assert_eq!(decision.proposals[0].counts.read, 3);
        }
    }
    // Until it is known to hang its queue is believed, and what it was then is remembered for five minutes.
    assert!(highest <= Replicas::new(7), "{highest}");
    assert_eq!(course.turn().desired, Replicas::new(4));
}
