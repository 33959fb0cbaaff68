//! Routing, scaling, draining and billing.

use std::time::Duration;

use super::{Fleet, FleetSettings, ReplicaId, ReplicaState, Routing, SubmitError};
use crate::cold_start::{StageMedians, StartCondition};
use crate::engine::{EngineSettings, Event, Outcome, Request};
use crate::profile::Profile;
use crate::time::ModelTime;

fn settings(routing: Routing, start: StageMedians) -> FleetSettings {
    FleetSettings { engine: EngineSettings::of(&Profile::P2A), gpus: 2, start, routing, seed: 4 }
}

fn warm() -> FleetSettings {
    settings(Routing::RoundRobin, Profile::P2A.stage_medians(StartCondition::Warm))
}

fn at(seconds: f64) -> ModelTime {
    ModelTime::from_seconds(seconds)
}

/// A request that arrives at a fleet's present; its decoding takes about 12.6 ms a token.
fn arrive(fleet: &mut Fleet, output_tokens: u32) {
    let request = Request { arrival: fleet.now(), prompt_tokens: 100, output_tokens, streamed: false };
    fleet.arrive(request).unwrap();
}

fn in_flight(fleet: &Fleet) -> Vec<usize> {
    fleet.replicas().iter().map(|replica| replica.engine().in_flight()).collect()
}

fn numbers(fleet: &Fleet) -> Vec<u64> {
    fleet.replicas().iter().map(|replica| replica.id().get()).collect()
}

fn outcomes(fleet: &mut Fleet) -> Vec<(u64, Outcome)> {
    let events = fleet.take_events().into_iter();
    let outcomes = events.filter_map(|happened| match happened.event {
        Event::Finished { outcome, .. } => Some((happened.replica.get(), outcome)),
        Event::FirstToken { .. } | Event::Token { .. } => None,
    });
    outcomes.collect()
}

#[test]
fn requests_are_dealt_in_turn() {
    let mut fleet = Fleet::new(warm(), 3);
    for _ in 0..4 {
        arrive(&mut fleet, 10);
    }
    assert_eq!(in_flight(&fleet), [2, 1, 1]);
    // The turn goes on where it was when a replica in between is gone.
    fleet.scale_to(2);
    arrive(&mut fleet, 10);
    arrive(&mut fleet, 10);
    assert_eq!(in_flight(&fleet), [3, 2, 1]);
}

#[test]
fn requests_go_to_the_replica_with_the_fewest() {
    let mut fleet = Fleet::new(settings(Routing::LeastRequests, StageMedians::NONE), 2);
    arrive(&mut fleet, 1000);
    arrive(&mut fleet, 1);
    fleet.advance(at(1.0));
    assert_eq!(in_flight(&fleet), [1, 0]);
    arrive(&mut fleet, 10);
    arrive(&mut fleet, 10);
    assert_eq!(in_flight(&fleet), [2, 1]);
}

#[test]
fn requests_wait_for_the_first_replica_to_be_ready() {
    let mut fleet = Fleet::new(warm(), 0);
    arrive(&mut fleet, 5);
    fleet.advance(at(1.0));
    arrive(&mut fleet, 5);
    assert_eq!((fleet.pending(), fleet.in_flight(), fleet.next_event_at()), (2, 2, None));
    fleet.scale_to(1);
    let ReplicaState::Starting { ready_at } = fleet.replicas()[0].state() else { panic!("it starts") };
    assert_eq!(ready_at, at(1.0).plus(fleet.replicas()[0].start().total()));
    assert_eq!(fleet.next_event_at(), Some(ready_at));
    fleet.advance(at(1000.0));
    assert_eq!((fleet.pending(), fleet.longest_pending()), (0, 2));
    // Both prompts in one step, from the instant of readiness.
    let step = Profile::P2A.step_time.of(&crate::step_time::StepLoad {
        prompt_tokens: 200,
        attended_tokens: 2.0 * 100.0 * 50.0,
        ..Default::default()
    });
    let outcomes = outcomes(&mut fleet);
    assert_eq!(outcomes.len(), 2);
    for (_, outcome) in outcomes {
        assert_eq!(outcome.first_token_at, Some(ready_at.plus(step)));
        assert_eq!(outcome.time_to_first_token(), Some(ready_at.plus(step).since(outcome.request.arrival)));
    }
}

#[test]
fn a_draining_replica_ends_what_it_holds_and_is_billed_until_then() {
    let mut fleet = Fleet::new(warm(), 2);
    arrive(&mut fleet, 10);
    arrive(&mut fleet, 1000);
    fleet.advance(at(2.0));
    outcomes(&mut fleet);
    fleet.scale_to(1);
    assert_eq!(fleet.replicas()[1].state(), ReplicaState::Draining { since: at(2.0) });
    for _ in 0..3 {
        arrive(&mut fleet, 10);
    }
    assert_eq!(in_flight(&fleet), [3, 1]);
    assert_eq!(
        fleet.submit_to(
            ReplicaId::new(1),
            Request { arrival: at(2.0), prompt_tokens: 1, output_tokens: 1, streamed: false }
        ),
        Err(SubmitError::NotReady(ReplicaId::new(1)))
    );
    fleet.advance(at(100.0));
    assert_eq!(numbers(&fleet), [0]);
    assert!(fleet.replica(ReplicaId::new(1)).is_none());
    let ended_at = outcomes(&mut fleet).into_iter().find_map(
        |(replica, outcome)| {
            if replica == 1 { outcome.finished_at } else { None }
        },
    );
    let second = ended_at.unwrap().since(ModelTime::ZERO);
    assert_eq!(fleet.gpu_time(), 2 * (Duration::from_secs(100) + second));
}

#[test]
fn an_idle_replica_goes_at_once() {
    let mut fleet = Fleet::new(warm(), 2);
    arrive(&mut fleet, 10);
    arrive(&mut fleet, 10);
    fleet.advance(at(50.0));
    fleet.scale_to(0);
    assert_eq!(fleet.replicas().len(), 0);
    fleet.advance(at(80.0));
    assert_eq!(fleet.gpu_time(), 2 * 2 * Duration::from_secs(50));
}

#[test]
fn those_that_leave_first_are_not_ready_then_newest() {
    // With this seed the third replica takes longer to start than the fourth.
    let mut fleet = Fleet::new(FleetSettings { seed: 1, ..warm() }, 2);
    fleet.advance(at(10.0));
    fleet.scale_to(4);
    fleet.advance(at(1000.0));
    fleet.scale_to(6);
    assert_eq!(numbers(&fleet), [0, 1, 2, 3, 4, 5]);
    let ready_since = |fleet: &Fleet, number| match fleet.replica(ReplicaId::new(number)).unwrap().state() {
        ReplicaState::Ready { since } => since,
        other => panic!("{number} is {other:?}"),
    };
    assert!(ready_since(&fleet, 2) > ready_since(&fleet, 3));
    fleet.scale_to(5);
    assert_eq!(numbers(&fleet), [0, 1, 2, 3, 4]);
    fleet.scale_to(3);
    assert_eq!(numbers(&fleet), [0, 1, 3]);
    fleet.scale_to(1);
    assert_eq!(numbers(&fleet), [0]);
    // Numbers are not given twice.
    fleet.scale_to(2);
    assert_eq!(numbers(&fleet), [0, 6]);
}

#[test]
fn an_aborted_request_frees_its_replica_to_go() {
    let mut fleet = Fleet::new(warm(), 1);
    let request = Request { arrival: at(0.0), prompt_tokens: 10, output_tokens: 10_000, streamed: false };
    let running = fleet.arrive(request).unwrap();
    fleet.advance(at(5.0));
    fleet.scale_to(0);
    let pending = fleet.arrive(Request { arrival: at(5.0), ..request }).unwrap();
    fleet.advance(at(6.0));
    assert_eq!(fleet.abort(pending).map(|outcome| outcome.tokens), Some(0));
    assert!(fleet.abort(running).is_some_and(|outcome| outcome.tokens > 100 && outcome.finished_at.is_none()));
    assert_eq!(fleet.abort(running), None);
    assert_eq!((fleet.replicas().len(), fleet.in_flight()), (0, 0));
    fleet.advance(at(60.0));
    assert_eq!(fleet.gpu_time(), 2 * Duration::from_secs(6));
}

#[test]
fn totals_keep_what_gone_replicas_have_seen() {
    let engine = EngineSettings { kv_pool_tokens: 320, max_model_len: 320, ..EngineSettings::of(&Profile::P2A) };
    let mut fleet = Fleet::new(FleetSettings { engine, ..warm() }, 1);
    for _ in 0..4 {
        arrive(&mut fleet, 200);
    }
    fleet.advance(at(60.0));
    let (preemptions, peaks) = (fleet.preemptions(), fleet.peaks());
    assert!(preemptions > 0 && peaks.waiting == 4 && peaks.kv_usage > 0.9);
    fleet.scale_to(0);
    assert_eq!((fleet.preemptions(), fleet.peaks()), (preemptions, peaks));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let engine = EngineSettings { noise_sigma: 0.08, ..warm().engine };
        let mut fleet = Fleet::new(FleetSettings { engine, seed, ..warm() }, 1);
        fleet.scale_to(3);
        for second in 0..300 {
            fleet.advance(at(f64::from(second)));
            arrive(&mut fleet, 50);
        }
        fleet.advance(at(1000.0));
        outcomes(&mut fleet)
    };
    assert_eq!(run(1).len(), 300);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
