//! Replicas over real HTTP on the loopback interface.

#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// A number that is written and read back must be the same number.
#![allow(clippy::float_cmp)]

mod http;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_lab::cold_start::StageMedians;
use headroom_lab::engine::{EngineSettings, Event, Outcome};
use headroom_lab::fleet::{Fleet, FleetSettings, ReplicaId, Routing};
use headroom_lab::profile::Profile;
use headroom_lab::server::{Clock, Fault, LiveFleet, ReplicaServer};
use headroom_lab::time::ModelTime;
use http::{Answer, get, open, post};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Longer than anything here takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server that hangs is given to show that it does.
const A_MOMENT: Duration = Duration::from_millis(100);
const MODEL: &str = "lab-8b";

type Outcomes = Arc<Mutex<Vec<Outcome>>>;

/// A live fleet of ready P2a replicas at `speed` model seconds a second, and what finishes in it.
fn fleet(replicas: u32, speed: f64) -> (LiveFleet, Outcomes) {
    let settings = FleetSettings {
        engine: EngineSettings::of(&Profile::P2A),
        gpus: 1,
        start: StageMedians::NONE,
        routing: Routing::LeastRequests,
        seed: 0,
    };
    let outcomes = Outcomes::default();
    let gathered = Arc::clone(&outcomes);
    let observe = move |happened: &headroom_lab::fleet::FleetEvent| {
        if let Event::Finished { outcome, .. } = happened.event {
            gathered.lock().unwrap().push(outcome);
        }
    };
    let clock = Clock::start(ModelTime::ZERO, speed);
    (LiveFleet::start(Fleet::new(settings, replicas), clock, observe), outcomes)
}

async fn serve(fleet: &LiveFleet, replica: u64) -> ReplicaServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    ReplicaServer::start(listener, fleet.clone(), ReplicaId::new(replica), MODEL).unwrap()
}

/// The value of a series of one page.
fn sample(page: &Answer, name: &str) -> f64 {
    let series = format!("vllm:{name}{{engine=\"0\",model_name=\"{MODEL}\"}} ");
    let line = page.body.lines().find_map(|line| line.strip_prefix(series.as_str()));
    line.unwrap_or_else(|| panic!("no {series} in {}", page.body)).parse().unwrap()
}

/// Scrapes until a page satisfies a condition.
async fn scrape_until(server: &ReplicaServer, is_seen: impl Fn(&Answer) -> bool) -> Answer {
    let scraping = async {
        loop {
            let page = get(server.address(), "/metrics").await;
            if is_seen(&page) {
                return page;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, scraping).await.expect("the condition is never seen")
}

/// Lets everything in flight end now. The fleet is then ahead of the clock, and stands still.
fn run_ahead(fleet: &LiveFleet) {
    fleet.with(|fleet| fleet.advance(fleet.now().plus(Duration::from_secs(3600))));
}

fn completion(max_tokens: u32, stream: bool) -> Value {
    json!({"model": MODEL, "prompt": [1, 2, 3, 4, 5], "max_tokens": max_tokens, "stream": stream})
}

#[tokio::test]
async fn gauges_are_read_back_while_requests_run_and_after() {
    let (fleet, outcomes) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    let address = server.address();
    let clients: Vec<_> = (0..3)
        .map(|_| tokio::spawn(async move { post(address, "/v1/completions", &completion(2000, false)).await }))
        .collect();
    let busy = scrape_until(&server, |page| sample(page, "num_requests_running") == 3.0).await;
    assert_eq!(busy.status, 200);
    assert_eq!(busy.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(sample(&busy, "kv_cache_usage_perc") > 0.0);
    run_ahead(&fleet);
    for client in clients {
        let answer = client.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        let body = answer.json();
        assert_eq!(body["usage"], json!({"prompt_tokens": 5, "completion_tokens": 2000, "total_tokens": 2005}));
        assert_eq!(body["choices"][0]["finish_reason"], "length");
    }
    let idle = get(address, "/metrics").await;
    assert_eq!(sample(&idle, "num_requests_running"), 0.0);
    assert_eq!(sample(&idle, "kv_cache_usage_perc"), 0.0);
    assert_eq!(sample(&idle, "generation_tokens_total"), 6000.0);
    assert_eq!(sample(&idle, "e2e_request_latency_seconds_count"), 3.0);
    let outcomes = outcomes.lock().unwrap();
    assert_eq!(outcomes.len(), 3);
    // 2,000 tokens of at least 12.5 ms each, on the model's clock.
    assert!(outcomes.iter().all(|outcome| outcome.time_per_output_token() >= Some(Duration::from_micros(12_500))));
}

#[tokio::test]
async fn a_completion_is_streamed_token_by_token() {
    let (fleet, _) = fleet(1, 20.0);
    let server = serve(&fleet, 0).await;
    let answer = post(server.address(), "/v1/completions", &completion(25, true)).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let mut events: Vec<&str> = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(events.pop(), Some("[DONE]"));
    let chunks: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    assert_eq!(chunks.len(), 25);
    let (last, others) = chunks.split_last().unwrap();
    assert!(others.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    assert!(chunks.iter().all(|chunk| chunk["choices"][0]["text"] == " token" && chunk["id"] == chunks[0]["id"]));
}

#[tokio::test]
async fn a_client_that_hangs_up_is_aborted() {
    let (fleet, outcomes) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    let mut client = open(server.address(), "POST /v1/completions", "", &completion(100_000, true).to_string()).await;
    let mut first = [0; 16];
    timeout(PATIENCE, client.read_exact(&mut first)).await.unwrap().unwrap();
    scrape_until(&server, |page| sample(page, "num_requests_running") == 1.0).await;
    drop(client);
    let after = scrape_until(&server, |page| sample(page, "num_requests_running") == 0.0).await;
    assert!(sample(&after, "generation_tokens_total") >= 1.0);
    assert_eq!(fleet.with(|fleet| fleet.in_flight()), 0);
    assert!(outcomes.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_asked_wrongly_is_answered_with_what_to_do() {
    let (fleet, _) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    let address = server.address();
    let cases = [
        (completion(200_000, false), 400, "the model's context ends at 131072"),
        (completion(0, false), 400, "at least 1 prompt token and 1 output token"),
        (json!({"model": "other", "prompt": "x"}), 404, "this server has \"lab-8b\""),
        (json!({"model": MODEL}), 400, "send JSON with a prompt"),
    ];
    for (body, status, message) in cases {
        let answer = post(address, "/v1/completions", &body).await;
        assert_eq!(answer.status, status);
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(message), "{}", answer.body);
    }
    assert_eq!(get(address, "/health").await.status, 200);
    assert_eq!(get(address, "/version").await.json(), json!({"version": "0.32.0"}));
    let models = get(address, "/v1/models").await.json();
    assert_eq!((&models["data"][0]["id"], &models["data"][0]["max_model_len"]), (&json!(MODEL), &json!(131_072)));
    assert_eq!(get(address, "/nothing").await.status, 404);
}

#[tokio::test]
async fn each_replica_of_a_fleet_has_its_own_page_and_ends_with_it() {
    let (fleet, _) = fleet(2, 1.0);
    let (first, second) = (serve(&fleet, 0).await, serve(&fleet, 1).await);
    assert_eq!((first.replica(), second.replica()), (ReplicaId::new(0), ReplicaId::new(1)));
    let address = second.address();
    let client = tokio::spawn(async move { post(address, "/v1/completions", &completion(3000, false)).await });
    scrape_until(&second, |page| sample(page, "num_requests_running") == 1.0).await;
    assert_eq!(sample(&get(first.address(), "/metrics").await, "num_requests_running"), 0.0);
    fleet.with(|fleet| fleet.scale_to(1));
    // The second drains: it takes nothing new, but ends what it holds.
    assert_eq!(post(address, "/v1/completions", &completion(1, false)).await.status, 503);
    run_ahead(&fleet);
    assert_eq!(client.await.unwrap().json()["usage"]["completion_tokens"], 3000);
    let gone = get(address, "/metrics").await;
    assert_eq!((gone.status, get(address, "/health").await.status), (503, 503));
    assert!(gone.body.contains("the replica is gone"));
    assert_eq!(get(first.address(), "/health").await.status, 200);
}

#[tokio::test]
async fn faults_are_those_that_servers_have() {
    let (fleet, _) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    let address = server.address();

    server.set_fault(Fault::Unauthorized { token: "secret".to_owned() });
    assert_eq!(get(address, "/metrics").await.status, 401);
    let mut known = open(address, "GET /metrics", "Bearer secret", "").await;
    assert_eq!(Answer::read(&mut known).await.status, 200);

    server.set_fault(Fault::Loading);
    let loading = get(address, "/health").await;
    assert_eq!((loading.status, &loading.json()["error"]["message"]), (503, &json!("Loading model")));

    server.set_fault(Fault::Html);
    let html = get(address, "/metrics").await;
    assert_eq!((html.status, html.header("content-type")), (200, Some("text/html; charset=utf-8")));

    server.set_fault(Fault::Truncated);
    let truncated = get(address, "/metrics").await;
    let promised: usize = truncated.header("content-length").unwrap().parse().unwrap();
    assert!((1..promised).contains(&truncated.body.len()), "{} of {promised}", truncated.body.len());

    server.set_fault(Fault::Endless);
    let mut endless = open(address, "GET /metrics", "", "").await;
    let mut much = vec![0; 4 * 1024 * 1024];
    timeout(PATIENCE, endless.read_exact(&mut much)).await.unwrap().unwrap();
    drop(endless);

    server.set_fault(Fault::Slow(A_MOMENT));
    let asked_at = std::time::Instant::now();
    assert_eq!(get(address, "/metrics").await.status, 200);
    assert!(asked_at.elapsed() >= A_MOMENT);

    server.set_fault(Fault::None);
    assert_eq!(get(address, "/metrics").await.status, 200);
}

#[tokio::test]
async fn a_server_that_hangs_can_be_stopped() {
    let (fleet, _) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    server.set_fault(Fault::Hang);
    let mut client = open(server.address(), "GET /metrics", "", "").await;
    assert!(timeout(A_MOMENT, client.read_u8()).await.is_err());
    timeout(PATIENCE, server.stop(PATIENCE)).await.unwrap();
    assert_eq!(Answer::read(&mut client).await.status, 503);
}

#[tokio::test]
async fn a_stop_waits_for_completions() {
    let (fleet, _) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    let address = server.address();
    let client = tokio::spawn(async move { post(address, "/v1/completions", &completion(5000, true)).await });
    scrape_until(&server, |page| sample(page, "num_requests_running") == 1.0).await;
    let stopping = tokio::spawn(server.stop(PATIENCE));
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!stopping.is_finished());
    run_ahead(&fleet);
    stopping.await.unwrap();
    assert!(client.await.unwrap().body.contains("data: [DONE]"));
}

#[tokio::test]
async fn a_stop_cuts_off_completions_beyond_its_grace() {
    let (fleet, _) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    let address = server.address();
    let client = tokio::spawn(async move { post(address, "/v1/completions", &completion(100_000, true)).await });
    scrape_until(&server, |page| sample(page, "num_requests_running") == 1.0).await;
    server.stop(Duration::ZERO).await;
    assert!(!client.await.unwrap().body.contains("data: [DONE]"));
    assert_eq!(fleet.with(|fleet| fleet.in_flight()), 0);
}

#[tokio::test]
async fn what_is_not_http_is_no_harm() {
    let (fleet, _) = fleet(1, 1.0);
    let server = serve(&fleet, 0).await;
    let mut client = TcpStream::connect(server.address()).await.unwrap();
    client.write_all(b"\x16\x03\x01 no http at all\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, client.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert_eq!(get(server.address(), "/health").await.status, 200);
}
