//! When tokens come out.

use super::{events_until, millis, request, run_empty, small, submit_all};
use crate::engine::{Engine, EngineSettings, Event, Request, RequestId};
use crate::profile::Profile;
use crate::time::{ModelTime, milliseconds};

fn idle(profile: &Profile) -> Engine {
    Engine::new(EngineSettings::of(profile), ModelTime::ZERO)
}

#[test]
fn alone_on_an_idle_engine() {
    // P1: c + d x 1000 + e x 1000^2 / 2 = 20 + 250 + 3 ms; then a + b + k x 1001 and a + b + k x 1002.
    let mut engine = idle(&Profile::P1);
    submit_all(&mut engine, &[request(1000, 3)]);
    let [(_, outcome)] = run_empty(&mut engine)[..] else { panic!("one request") };
    let first = milliseconds(273.0);
    let second = milliseconds(61.0 + 0.041 + 5.3e-4 * 1001.0);
    let third = milliseconds(61.0 + 0.041 + 5.3e-4 * 1002.0);
    assert_eq!(outcome.time_to_first_token(), Some(first));
    assert_eq!(outcome.finished_at, Some(ModelTime::ZERO.plus(first + second + third)));
    assert_eq!(outcome.time_per_output_token(), Some((second + third) / 2));
    assert_eq!((outcome.tokens, outcome.preemptions), (3, 0));
}

#[test]
fn a_long_prompt_is_computed_in_chunks() {
    // 3,000 tokens in chunks of 2,048 and 952, the second attending to the first.
    let mut engine = idle(&Profile::P1);
    submit_all(&mut engine, &[request(3000, 1)]);
    let chunks = milliseconds(20.0 + 0.25 * 2048.0 + 6e-6 * 2048.0 * 1024.0)
        + milliseconds(20.0 + 0.25 * 952.0 + 6e-6 * 952.0 * (2048.0 + 476.0));
    let [(_, outcome)] = run_empty(&mut engine)[..] else { panic!("one request") };
    assert_eq!(outcome.time_to_first_token(), Some(chunks));
    assert_eq!(outcome.time_per_output_token(), Some(std::time::Duration::ZERO));
    assert_eq!(engine.statistics().steps, 2);
}

#[test]
fn requests_of_one_instant_share_a_step_and_later_ones_wait_for_the_next() {
    let mut engine = Engine::new(small(400), ModelTime::ZERO);
    let mut events = events_until(&mut engine, millis(5));
    engine.submit(RequestId::new(0), request(8, 2)).unwrap();
    engine.advance(millis(5), &mut events);
    engine.submit(RequestId::new(1), request(8, 2)).unwrap();
    engine.advance(millis(6), &mut events);
    assert_eq!(engine.next_event_at(), Some(millis(15)));
    engine.submit(RequestId::new(2), request(8, 1)).unwrap();
    engine.advance(millis(25), &mut events);
    let told: Vec<(u64, ModelTime)> = events
        .iter()
        .map(|event| match event {
            Event::FirstToken { id, at } | Event::Token { id, at } => (id.get(), *at),
            Event::Finished { id, outcome } => (100 + id.get(), outcome.finished_at.unwrap()),
        })
        .collect();
    let expected =
        [(0, 15), (1, 15), (100, 25), (101, 25), (2, 25), (102, 25)].map(|(number, at)| (number, millis(at)));
    assert_eq!(told, expected);
    assert_eq!(engine.next_event_at(), None);
}

#[test]
fn streams_are_told_every_token() {
    let mut engine = Engine::new(small(400), ModelTime::ZERO);
    let streamed = Request { streamed: true, ..request(8, 4) };
    submit_all(&mut engine, &[streamed, request(8, 4)]);
    let events = events_until(&mut engine, millis(1000));
    let of = |number: u64| {
        let tokens = events.iter().filter(move |event| match event {
            Event::FirstToken { id, .. } | Event::Token { id, .. } => id.get() == number,
            Event::Finished { .. } => false,
        });
        tokens.count()
    };
    assert_eq!((of(0), of(1)), (4, 1));
    let last_token = events.iter().rposition(|event| matches!(event, Event::Token { .. })).unwrap();
    let end = events.iter().position(|event| matches!(event, Event::Finished { id, .. } if id.get() == 0)).unwrap();
    assert!(last_token < end);
}

#[test]
fn gauges_change_at_the_end_of_a_step() {
    let mut engine = Engine::new(small(400), ModelTime::ZERO);
    submit_all(&mut engine, &[request(60, 3), request(60, 3)]);
    engine.advance(millis(9), &mut Vec::new());
    assert_eq!((engine.gauges().running, engine.gauges().waiting, engine.in_flight()), (0, 0, 2));
    engine.advance(millis(10), &mut Vec::new());
    // The first prompt, and 4 tokens of the second, in 16 of 100 blocks.
    assert_eq!((engine.gauges().running, engine.gauges().waiting), (2, 0));
    assert!((engine.gauges().kv_usage - 0.16).abs() < 1e-12);
    run_empty(&mut engine);
    assert_eq!(engine.gauges(), crate::engine::Gauges::default());
}

#[test]
fn phases_of_a_request_add_up() {
    // The first computes its 64 tokens for a step; the second waits that long, is computed in one step and decodes
    // in two.
    let mut engine = Engine::new(small(400), ModelTime::ZERO);
    submit_all(&mut engine, &[request(64, 1), request(64, 3)]);
    run_empty(&mut engine);
    let statistics = engine.statistics();
    let close = |histogram: &crate::histogram::Histogram, millis: f64| {
        assert_eq!(histogram.count(), 2);
        assert!((histogram.sum() - millis / 1e3).abs() < 1e-9, "{}", histogram.sum());
    };
    close(&statistics.request_queue_time, 10.0);
    close(&statistics.request_prefill_time, 10.0 + 10.0);
    close(&statistics.request_decode_time, 20.0);
    close(&statistics.request_inference_time, 10.0 + 30.0);
    close(&statistics.request_latency, 10.0 + 40.0);
    close(&statistics.time_to_first_token, 10.0 + 20.0);
    close(&statistics.request_time_per_output_token, 10.0);
    assert_eq!((statistics.prompt_tokens, statistics.generation_tokens, statistics.finished), (128, 4, 2));
    assert!((statistics.iteration_tokens.sum() - 130.0).abs() < 1e-9);
}

#[test]
fn noise_is_a_factor_around_one_and_repeats_with_its_seed() {
    let noisy = |seed| {
        let settings = EngineSettings { noise_sigma: 0.1, seed, ..small(400) };
        let mut engine = Engine::new(settings, ModelTime::ZERO);
        submit_all(&mut engine, &[request(8, 200)]);
        run_empty(&mut engine)[0].1.finished_at.unwrap()
    };
    assert_eq!(noisy(1), noisy(1));
    assert_ne!(noisy(1), noisy(2));
    let mean = noisy(3).as_seconds() / 200.0;
    assert!((0.0095..0.0106).contains(&mean), "{mean}");
}
