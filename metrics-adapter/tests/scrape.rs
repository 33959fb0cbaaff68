//! Scraping servers that misbehave: each fault costs its own target and nothing else.

#![allow(clippy::unwrap_used, clippy::panic)]

mod scrape_support;

use std::io::Write;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use headroom_adapter::clock::Clock;
use headroom_adapter::engines::{EngineReader, EngineSettings};
use headroom_adapter::exposition::{Limits, Page, PageReader, Scrutiny};
use headroom_adapter::fleet::{Fleet, FleetSettings, RawReading, ReplicaSpec, SharedFleet};
use headroom_adapter::scrape::{
    RateLimit, ScrapeClient, ScrapeFailure, ScrapeSettings, Scraper, Target, TargetId, TargetState,
};
use headroom_policies::observation::{MetricObservation, Phase, Sample, UnknownReason};
use headroom_policies::policy::MetricPolicy;
use headroom_policies::{Milli, Signal, Timestamp};
use scrape_support::{Behaviour, Server};

const PAGE: &str = "vllm:num_requests_running{engine=\"0\"} 4.0\nvllm:num_requests_waiting{engine=\"0\"} 7.0\n\
                    vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";

async fn scrape_with(url: &http::Uri, limits: Limits) -> Result<Page, ScrapeFailure> {
    let reader = EngineReader::new(EngineSettings::default());
    let settings = ScrapeSettings { timeout: Duration::from_millis(500), ..ScrapeSettings::default() };
    let client = ScrapeClient::new(&settings).unwrap();
    client.scrape(url, &mut PageReader::new(Arc::clone(reader.layouts())), limits, Scrutiny::Wanted).await
}

async fn failure(behaviour: Behaviour) -> ScrapeFailure {
    let server = Server::start(behaviour).await;
    scrape_with(&server.url(), Limits::default()).await.unwrap_err()
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn gzip_answer(body: Vec<u8>) -> Behaviour {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Behaviour::Answer { head, body }
}

#[tokio::test]
async fn a_page_is_read_plain_and_compressed() {
    for behaviour in [Behaviour::page(PAGE), gzip_answer(gzip(PAGE.as_bytes()))] {
        let server = Server::start(behaviour).await;
        let page = scrape_with(&server.url(), Limits::default()).await.unwrap();
        assert_eq!((page.series().len(), page.lines.read), (3, 3));
    }
}

/// B-86 and its kin: every refusal is told apart, and none of them is an empty queue.
#[tokio::test]
async fn refusals_are_told_apart() {
    let html = "<html><p>vllm:num_requests_waiting 0</p></html>";
    let json = "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}";
    for (behaviour, state, says) in [
        (Behaviour::status("401 Unauthorized", "", "no"), TargetState::Unauthorized, "bearerTokenSecretRef"),
        (Behaviour::status("403 Forbidden", "", ""), TargetState::Unauthorized, "403"),
        (
            Behaviour::status("403 Forbidden", "server: istio-envoy\r\n", "RBAC: access denied"),
            TargetState::Blocked,
            "RBAC",
        ),
        (Behaviour::status("302 Found", "location: http://169.254.169.254/\r\n", ""), TargetState::Blocked, "redirect"),
        (Behaviour::status("502 Bad Gateway", "", html), TargetState::Blocked, "proxy"),
        (Behaviour::status("503 Service Unavailable", "", json), TargetState::Loading, "Loading model"),
        (Behaviour::status("503 Service Unavailable", "", "scaling"), TargetState::HttpError, "scaling"),
        (Behaviour::status("404 Not Found", "", ""), TargetState::HttpError, "engine.path"),
        (Behaviour::status("501 Not Implemented", "", ""), TargetState::HttpError, "--metrics"),
        (Behaviour::status("200 OK", "content-type: text/html\r\n", html), TargetState::Blocked, "HTML"),
        (Behaviour::status("200 OK", "content-type: text/plain\r\n", html), TargetState::Blocked, "HTML"),
        (Behaviour::status("200 OK", "content-type: application/json\r\n", "[]"), TargetState::Malformed, "JSON"),
        (Behaviour::status("200 OK", "", "[]"), TargetState::Malformed, "/prometheus/metrics"),
        (Behaviour::status("200 OK", "content-encoding: br\r\n", "x"), TargetState::Malformed, "br"),
    ] {
        let failure = failure(behaviour).await;
        assert_eq!(failure.state, state, "{failure}");
        assert!(failure.message.contains(says), "{says:?} is not in {failure}");
    }
}

#[tokio::test]
async fn a_closed_port_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    assert_eq!(scrape_with(&url, Limits::default()).await.unwrap_err().state, TargetState::Refused);
}

#[tokio::test]
async fn a_hanging_server_costs_its_timeout() {
    assert_eq!(failure(Behaviour::Hang).await.state, TargetState::Timeout);
}

/// B-07: a body cut in the middle is a failed scrape, not a smaller number.
#[tokio::test]
async fn a_body_that_breaks_off_counts_for_nothing() {
    let body = PAGE.as_bytes().to_vec();
    let length = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", PAGE.len() + 5);
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n", PAGE.len() + 5);
    for head in [length, chunked] {
        let failure = failure(Behaviour::AnswerAndClose { head, body: body.clone() }).await;
        assert_eq!(failure.state, TargetState::Malformed, "{failure}");
    }
    let mut cut = gzip(PAGE.as_bytes());
    cut.truncate(cut.len() - 6);
    assert_eq!(failure(gzip_answer(cut)).await.state, TargetState::Malformed);
}

/// B-07 where no length is told and the end of the connection is all there is: a line cut in two, or a rank of before
/// that is not there, is a body cut short.
#[tokio::test]
async fn a_body_that_ends_with_its_connection_is_whole_or_nothing() {
    let head = || "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\n\r\n".to_owned();
    let answer = |body: &str| Behaviour::AnswerAndClose { head: head(), body: body.as_bytes().to_vec() };
    let server = Server::start(answer(PAGE)).await;
    assert!(scrape_with(&server.url(), Limits::default()).await.is_ok());
    let cut = failure(answer("vllm:num_requests_running 3\nvllm:num_requests_waiting 1")).await;
    assert!(cut.state == TargetState::Malformed && cut.message.contains("middle of a line"), "{cut}");

    let (one, both) = ("vllm:num_requests_waiting{engine=\"0\"} 3\n", "vllm:num_requests_waiting{engine=\"1\"} 9\n");
    let both = format!("{one}{both}");
    let pages = [answer(&both), answer(&both), answer(one)];
    let changing = move |request: u64| pages[(request as usize).min(2)].clone();
    let server = Server::start(Behaviour::Changing(Arc::new(changing))).await;
    let scraping = scrape_fleet(&[server.url()], settings(Duration::from_millis(100)));
    let malformed = |fleet: &Fleet| state(fleet, &server.url()) == TargetState::Malformed;
    scraping.until(malformed).await;
    assert!(
        matches!(scraping.samples()[..], [Sample::Value { value, .. } | Sample::Last { value, .. }] if value == Milli::from_units(12))
    );
}

#[tokio::test]
async fn endless_and_inflated_bodies_are_cut_off() {
    let small = Limits { body: 1 << 20, ..Limits::default() };
    for body in [b"vllm:num_requests_waiting 3\n".repeat(500), vec![b'x'; 16_384]] {
        let server = Server::start(Behaviour::Endless(body)).await;
        let failure = scrape_with(&server.url(), small).await.unwrap_err();
        assert_eq!(failure.state, TargetState::TooLarge, "{failure}");
    }
    let server = Server::start(gzip_answer(gzip(&vec![b'\n'; 64 << 20]))).await;
    let failure = scrape_with(&server.url(), small).await.unwrap_err();
    assert_eq!(failure.state, TargetState::TooLarge, "{failure}");
}

// === a fleet ===

fn demand_metric(signal: Signal, target: i64, window: Duration) -> MetricPolicy {
    MetricPolicy { window, ..MetricPolicy::new(signal, Milli::from_units(target)) }
}

fn settings(interval: Duration) -> FleetSettings {
    FleetSettings {
        metrics: vec![demand_metric(Signal::WaitingRequests, 5, Duration::ZERO)],
        interval,
        max_age: interval * 3,
        startup_deadline: Duration::from_secs(1200),
    }
}

struct Scraping {
    fleet: Arc<SharedFleet>,
    clock: Clock,
    _scraper: Scraper,
}

/// Scrapes these servers' URLs, one a replica.
fn scrape_fleet(urls: &[http::Uri], settings: FleetSettings) -> Scraping {
    let clock = Clock::real();
    let reader = Arc::new(EngineReader::new(EngineSettings::default()));
    let scrape_settings = ScrapeSettings {
        interval: settings.interval,
        timeout: settings.interval,
        max_age: settings.max_age,
        ..ScrapeSettings::default()
    };
    let fleet = Arc::new(SharedFleet::new(Fleet::new(settings, Arc::clone(&reader))));
    let targets: Vec<Target> =
        urls.iter().map(|url| Target { id: TargetId::new(url.to_string()), url: url.clone() }).collect();
    let specs: Vec<ReplicaSpec> = targets
        .iter()
        .map(|target| ReplicaSpec {
            key: target.id.as_str().into(),
            name: target.id.as_str().into(),
            phase: Phase::Ready,
            since: clock.now(),
            targets: vec![target.clone()],
        })
        .collect();
    fleet.update(|fleet| fleet.sync(&specs));
    let limit = RateLimit::per_second(NonZeroU32::new(5000).unwrap());
    let handle = tokio::runtime::Handle::current();
    let mut scraper = Scraper::new(scrape_settings, reader, Arc::clone(&fleet) as _, limit, (clock, handle)).unwrap();
    scraper.sync(&targets);
    Scraping { fleet, clock, _scraper: scraper }
}

impl Scraping {
    /// Waits until what the fleet says fits, for at most 20 s.
    async fn until(&self, fits: impl Fn(&Fleet) -> bool) {
        let waiting = async {
            while !self.fleet.with(|fleet| fits(fleet)) {
                self.fleet.changed().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        let targets = || self.fleet.with(|fleet| fleet.targets(self.clock.now()));
        assert!(waited.is_ok(), "not within 20 s: {:#?}", targets());
    }

    fn samples(&self) -> Vec<Sample> {
        let observed = self.fleet.with(|fleet| fleet.observe(self.clock.now()));
        match observed.metrics.into_iter().next() {
            Some(MetricObservation::Demand { samples, .. }) => samples,
            other => panic!("{other:?}"),
        }
    }
}

fn state(fleet: &Fleet, url: &http::Uri) -> TargetState {
    fleet.state_of(&TargetId::new(url.to_string())).unwrap()
}

/// Three that answer, one that hangs, one that refuses, one that wants a token: each keeps its own state, and the
/// good ones are read all the while.
#[tokio::test]
async fn one_bad_target_costs_nothing_else() {
    let good = Server::start(Behaviour::page(PAGE)).await;
    let hanging = Server::start(Behaviour::Hang).await;
    let guarded = Server::start(Behaviour::status("401 Unauthorized", "", "")).await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/metrics", listener.local_addr().unwrap()).parse::<http::Uri>().unwrap()
    };
    let urls = [good.url(), hanging.url(), guarded.url(), closed.clone()];
    let interval = Duration::from_millis(300);
    let scraping = scrape_fleet(&urls, settings(interval));
    scraping
        .until(|fleet| {
            state(fleet, &urls[0]) == TargetState::Ok
                && state(fleet, &urls[1]) == TargetState::Timeout
                && state(fleet, &urls[2]) == TargetState::Unauthorized
                && state(fleet, &closed) == TargetState::Refused
                && good.requests() > 6
        })
        .await;
    // One connection is kept for all of them.
    assert_eq!(good.connections.load(std::sync::atomic::Ordering::Relaxed), 1);
    let samples = scraping.samples();
    assert!(matches!(samples[0], Sample::Value { value, .. } if value == Milli::from_units(7)), "{samples:?}");
    for (index, reason) in [(1, UnknownReason::Timeout), (2, UnknownReason::Unauthorized), (3, UnknownReason::Refused)]
    {
        assert_eq!(samples[index], Sample::Unknown { reason });
    }
}

/// B-94, B-53: a value that can no longer be read ages: fresh, then the last one, and a raw signal is refused in
/// the end.
#[tokio::test]
async fn a_value_ages() {
    let server = Server::start(Behaviour::Changing(Arc::new(|number| match number {
        0 => Behaviour::page(PAGE),
        _ => Behaviour::status("500 Internal Server Error", "", ""),
    })))
    .await;
    let scraping = scrape_fleet(&[server.url()], settings(Duration::from_millis(200)));
    scraping.until(|fleet| state(fleet, &server.url()) == TargetState::HttpError).await;
    let at = |later: Duration| scraping.clock.now().plus(later);
    let observed = |now: Timestamp| {
        scraping.fleet.with(|fleet| match fleet.observe(now).metrics.remove(0) {
            MetricObservation::Demand { samples, .. } => samples[0],
            MetricObservation::Latency(latency) => panic!("{latency:?}"),
        })
    };
    let later = observed(at(Duration::from_secs(1)));
    assert!(
        matches!(later, Sample::Last { value, reason: UnknownReason::HttpError, .. } if value == Milli::from_units(7))
    );
    assert_eq!(observed(at(Duration::from_secs(301))), Sample::Unknown { reason: UnknownReason::HttpError });
    let raw = |now: Timestamp| scraping.fleet.with(|fleet| fleet.raw(Signal::WaitingRequests, now)).unwrap();
    assert!(
        matches!(raw(at(Duration::from_secs(1))), RawReading::Served(signal) if signal.total == Milli::from_units(7))
    );
    assert!(matches!(raw(at(Duration::from_secs(301))), RawReading::Unreadable(names) if names.len() == 1));
}

/// An engine whose gauges show work while it computes nothing is not believed.
#[tokio::test]
async fn a_hung_engine_is_frozen() {
    let page = |number: u64| {
        let steps = number.min(2);
        Behaviour::page(&format!("{PAGE}vllm:iteration_tokens_total_count{{engine=\"0\"}} {steps}\n"))
    };
    let server = Server::start(Behaviour::Changing(Arc::new(page))).await;
    // The fleet's clock runs fast: the heartbeat must stand still for 15 s of it.
    let interval = Duration::from_secs(5);
    let settings = settings(interval);
    let clock = Clock::real().at_speed(100.0);
    let reader = Arc::new(EngineReader::new(EngineSettings::default()));
    let fleet = Arc::new(SharedFleet::new(Fleet::new(settings, Arc::clone(&reader))));
    let target = Target { id: TargetId::new("pod/8000"), url: server.url() };
    fleet.update(|fleet| {
        fleet.sync(&[ReplicaSpec {
            key: "pod".into(),
            name: "pod".into(),
            phase: Phase::Ready,
            since: clock.now(),
            targets: vec![target.clone()],
        }]);
    });
    let limit = RateLimit::per_second(NonZeroU32::new(100).unwrap());
    let handle = tokio::runtime::Handle::current();
    let scrape_settings = ScrapeSettings { interval, ..ScrapeSettings::default() };
    let mut scraper = Scraper::new(scrape_settings, reader, Arc::clone(&fleet) as _, limit, (clock, handle)).unwrap();
    scraper.sync(std::slice::from_ref(&target));
    let waiting = async {
        while fleet.with(|fleet| fleet.state_of(&target.id)) != Some(TargetState::Frozen) {
            fleet.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("never frozen");
    let report = fleet.with(|fleet| fleet.targets(clock.now())).remove(0);
    assert!(report.message.unwrap().contains("computed nothing"));
}

/// B-13: an absent family is named with what is similar; B-14: so are the models that are there.
#[tokio::test]
async fn what_is_absent_is_named() {
    let body = "nv_inference_request_success{model=\"m\",version=\"1\"} 3\n\
                nv_inference_queue_duration_us{model=\"m\",version=\"1\"} 3\n";
    let server = Server::start(Behaviour::page(body)).await;
    let scraping = scrape_fleet(&[server.url()], settings(Duration::from_millis(100)));
    scraping
        .until(|fleet| {
            let report = fleet.targets(scraping.clock.now()).remove(0);
            let message = report.message.unwrap_or_default();
            report.state == TargetState::AbsentFamily
                && message.contains("nv_inference_pending_request_count")
                && message.contains("similar: nv_inference")
        })
        .await;
}

/// B-10: what left the fleet is forgotten at once, and its late answers are dropped.
#[tokio::test]
async fn a_deleted_replica_is_forgotten() {
    let (one, two) = (Server::start(Behaviour::page(PAGE)).await, Server::start(Behaviour::page(PAGE)).await);
    let scraping = scrape_fleet(&[one.url(), two.url()], settings(Duration::from_millis(100)));
    scraping
        .until(|fleet| state(fleet, &one.url()) == TargetState::Ok && state(fleet, &two.url()) == TargetState::Ok)
        .await;
    let total = || scraping.fleet.with(|fleet| fleet.raw(Signal::WaitingRequests, scraping.clock.now())).unwrap();
    assert!(matches!(total(), RawReading::Served(signal) if signal.total == Milli::from_units(14)));
    let id = TargetId::new(two.url().to_string());
    scraping.fleet.update(|fleet| {
        fleet.sync(&[ReplicaSpec {
            key: id.as_str().into(),
            name: "two".into(),
            phase: Phase::Ready,
            since: scraping.clock.now(),
            targets: vec![Target { id: id.clone(), url: two.url() }],
        }]);
    });
    // It keeps its own sample, though it is read anew only since it is Ready again.
    assert_eq!(scraping.fleet.with(|fleet| fleet.state_of(&TargetId::new(one.url().to_string()))), None);
    scraping
        .until(|fleet| {
            matches!(fleet.raw(Signal::WaitingRequests, scraping.clock.now()), Some(RawReading::Served(signal)) if signal.total == Milli::from_units(7))
        })
        .await;
}
