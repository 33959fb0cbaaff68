//! Decisions: the properties that must hold for any fleet, and cases with a name.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use headroom_policies::behavior::{Behavior, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy};
use headroom_policies::decision::{DecisionRecord, Published, Stage};
use headroom_policies::hpa;
use headroom_policies::observation::{
    Bound, ExternalSample, Hold, MetricObservation, Phase, Replica, Sample, UnknownReason,
};
use headroom_policies::policy::{Actuation, Fallback, MetricPolicy};
use headroom_policies::proposal::{demand, propose_demand};
use headroom_policies::units::Tolerances;
use headroom_policies::{Decision, History, Milli, Observation, Policy, Reason, Replicas, Signal, Timestamp, decide};
use proptest::prelude::*;

const TARGET: Milli = Milli::from_units(5);

fn value(units: i64) -> Sample {
    Sample::value(Milli::from_units(units))
}

fn unknown() -> Sample {
    Sample::Unknown { reason: UnknownReason::Timeout }
}

fn last(value: Milli) -> Sample {
    Sample::Last { value, age: Duration::from_secs(30), reason: UnknownReason::Timeout }
}

fn policy(min: i32, max: i32) -> Policy {
    let mut policy = Policy::new(Replicas::new(min), Replicas::new(max));
    policy.metrics = vec![MetricPolicy::new(Signal::WaitingRequests, TARGET)];
    policy
}

fn fleet(current: i32, samples: &[Sample]) -> Observation {
    let phase = |sample: &Sample| match sample {
        Sample::Starting => Phase::Starting,
        Sample::Stuck => Phase::Stuck,
        _ => Phase::Ready,
    };
    let replica = |(index, sample)| Replica { name: Arc::from(format!("pod-{index}")), phase: phase(sample) };
    let mut seen = Observation::of(Replicas::new(current));
    seen.replicas = samples.iter().enumerate().map(replica).collect();
    seen.metrics = vec![MetricObservation::Demand { samples: samples.to_vec(), external: Vec::new() }];
    seen
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_780_000_000_000 + seconds * 1000)
}

fn decide_fresh(policy: &Policy, seen: &Observation) -> Decision {
    decide(policy, seen, History::default(), at(0)).0
}

fn pods_per(value: i32, period_seconds: u32) -> ScalingRules {
    ScalingRules {
        policies: Some(vec![ScalingPolicy { kind: PolicyType::Pods, value, period_seconds }]),
        ..ScalingRules::default()
    }
}

#[test]
fn one_ready_pod_speaks_for_three_that_time_out() {
    let decision = decide_fresh(&policy(1, 50), &fleet(4, &[value(12), unknown(), unknown(), unknown()]));
    // 4 x 12 = 48 at 5 each; up to twice the size or four more at once.
    assert_eq!(decision.proposals[0].replicas, Some(Replicas::new(10)));
    let mut open = policy(1, 50);
    open.behavior = Some(Behavior { scale_up: Some(pods_per(100, 15)), scale_down: None });
    let seen = fleet(4, &[value(12), unknown(), unknown(), unknown()]);
    assert_eq!(decide_fresh(&open, &seen).desired, Replicas::new(10));
}

#[test]
fn loading_replicas_are_not_bought_twice() {
    let mut samples = vec![value(20), value(20)];
    samples.extend([Sample::Starting; 8]);
    assert_eq!(decide_fresh(&policy(1, 50), &fleet(10, &samples)).desired, Replicas::new(10));
}

#[test]
fn a_floor_is_reached_in_one_turn_whatever_the_policies() {
    let mut policy = policy(1, 50);
    policy.behavior = Some(Behavior { scale_up: Some(pods_per(1, 180)), scale_down: None });
    let mut seen = fleet(2, &[value(0), value(0)]);
    seen.floors = vec![Bound { name: Arc::from("workday"), replicas: Replicas::new(10) }];
    let decision = decide_fresh(&policy, &seen);
    assert_eq!((decision.desired, decision.binding), (Replicas::new(10), Some(Stage::Bounds)));
    assert!(decision.held_from_lower.message.contains("workday"), "{:?}", decision.held_from_lower);
}

/// A policy is validated before it gets here; one that was not must not end the process.
#[test]
fn a_hold_under_a_senseless_maximum_is_zero() {
    let mut seen = fleet(4, &[value(5); 4]);
    seen.hold = Some(Hold { replicas: Replicas::new(3), until: None, reason: None });
    assert_eq!(decide_fresh(&policy(1, -1), &seen).desired, Replicas::ZERO);
}

/// B-29: integers where doubles would slip.
#[test]
fn three_tenths_at_a_tenth_are_three() {
    let samples = [Sample::value(Milli::new(100)); 3];
    let demand = demand(&samples, &[], Milli::new(100));
    let answer =
        propose_demand(Signal::WaitingRequests, Milli::new(100), &demand, Replicas::new(2), Tolerances::default());
    assert_eq!(answer.replicas, Some(Replicas::new(3)));
}

#[test]
fn the_worked_example() {
    let mut policy = policy(1, 20);
    policy.metrics[0].target = Milli::from_units(10);
    policy.behavior = Some(Behavior { scale_up: Some(pods_per(100, 15)), scale_down: None });
    let decision = decide_fresh(&policy, &fleet(4, &[value(30); 4]));
    assert_eq!(decision.desired, Replicas::new(12));
    assert_eq!(decision.proposals[0].message, "WaitingRequests: 120 at 10 a replica asks for 12");
}

/// B-25: after a restart nothing falls before a whole window has been seen; a rise is free.
#[test]
fn a_restart_forgets_no_peak() {
    let policy = policy(1, 50);
    let behavior = policy.effective_behavior(None);
    let idle = fleet(10, &[value(0); 10]);
    let mut history = History::resume(
        headroom_policies::Persisted { last_desired: Some(Replicas::new(12)), ..Default::default() },
        Replicas::new(10),
        at(0),
        &behavior,
    );
    for second in (2..600).step_by(5) {
        let (decision, next) = decide(&policy, &idle, history, at(second));
        assert_eq!(decision.desired, Replicas::new(10), "after {second} s");
        history = next;
    }
    let (decision, _) = decide(&policy, &idle, history.clone(), at(640));
    assert_eq!(decision.desired, Replicas::new(9));
    let (decision, _) = decide(&policy, &fleet(10, &[value(9); 10]), history, at(640));
    assert_eq!(decision.desired, Replicas::new(18));
}

/// B-22: "no change" means the present spec, not what is ready.
#[test]
fn a_raise_in_progress_is_not_taken_back() {
    let policy = policy(1, 50);
    let mut history = History::default();
    let mut samples = vec![value(40)];
    samples.extend([Sample::Starting; 7]);
    for turn in 0..36 {
        let (decision, next) = decide(&policy, &fleet(8, &samples), history, at(turn * 5));
        assert_eq!(decision.desired, Replicas::new(8));
        history = next;
    }
}

/// B-65: a signal that fails every second poll does not make the count flap.
#[test]
fn intermittent_failure_holds() {
    let mut policy = policy(1, 50);
    policy.metrics.push(MetricPolicy::new(Signal::KVCacheUtilization, Milli::new(750)));
    policy.fallback = Some(Fallback { after: Duration::from_secs(180), replicas: Replicas::new(4) });
    let mut history = History::default();
    for turn in 0..120 {
        let mut seen = fleet(6, &[value(5); 6]);
        let kv = if turn % 2 == 0 { Sample::value(Milli::new(700)) } else { unknown() };
        seen.metrics.push(MetricObservation::Demand { samples: vec![kv; 6], external: Vec::new() });
        let (decision, next) = decide(&policy, &seen, history, at(turn * 5));
        assert_eq!(decision.published, Published::Replicas(Replicas::new(6)), "turn {turn}");
        history = next;
    }
}

/// Blindness has no time limit; the fallback is due after its time in which somebody should have answered.
#[test]
fn the_fallback_waits_for_a_fleet_that_only_loads() {
    let mut policy = policy(1, 50);
    policy.fallback = Some(Fallback { after: Duration::from_secs(180), replicas: Replicas::new(9) });
    let mut history = History::default();
    for second in (0..600).step_by(10) {
        let (decision, next) = decide(&policy, &fleet(3, &[Sample::Starting; 3]), history, at(second));
        assert_eq!(decision.desired, Replicas::new(3));
        assert!(matches!(decision.published, Published::Error(_)));
        history = next;
    }
    for second in (600..1200).step_by(10) {
        let (decision, next) = decide(&policy, &fleet(3, &[unknown(); 3]), history, at(second));
        let due = second >= 600 + 170;
        assert_eq!(decision.desired, Replicas::new(if due { 9 } else { 3 }), "after {second} s");
        history = next;
    }
}

/// The follower of the published number takes a step when an HPA with the same policy would.
#[test]
fn a_follower_climbs_as_fast_as_the_policy_says() {
    let mut policy = policy(1, 100);
    policy.behavior = Some(Behavior { scale_up: Some(pods_per(4, 15)), scale_down: None });
    let (mut history, mut current, mut published) = (History::default(), 4, 4);
    let mut seen_at = Vec::new();
    for second in (0..120).step_by(5) {
        // The follower reads every 15 s, between two turns.
        if second % 15 == 10 {
            current = published;
        }
        let samples = vec![value(500); current as usize];
        let (decision, next) = decide(&policy, &fleet(current, &samples), history, at(second));
        published = decision.published.replicas().unwrap().get();
        seen_at.push(current);
        history = next;
    }
    let steps: Vec<i32> = seen_at.iter().skip(2).step_by(3).copied().collect();
    assert_eq!(steps, [8, 12, 16, 20, 24, 28, 32, 36]);
}

/// A raise by somebody else is a recommendation, not an event: it is held for a window, then given back.
#[test]
fn a_foreign_raise_is_kept_for_one_window() {
    let mut policy = policy(1, 50);
    policy.behavior = Some(Behavior::default());
    let (mut history, idle) = (History::default(), |count: i32| fleet(count, &vec![value(2); count as usize]));
    for second in (0..400).step_by(5) {
        history = decide(&policy, &idle(3), history, at(second)).1;
    }
    for second in (400..700).step_by(5) {
        let (decision, next) = decide(&policy, &idle(9), history, at(second));
        assert_eq!(decision.desired, Replicas::new(9), "after {second} s");
        history = next;
    }
    assert!(decide(&policy, &idle(9), history, at(720)).0.desired < Replicas::new(9));
}

/// B-32 (iii): a zero that somebody else set is a pause; one of ours is not.
#[test]
fn zero_belongs_to_whoever_set_it() {
    let mut policy = policy(0, 10);
    policy.idle_for = Some(Duration::from_secs(60));
    let queue = |waiting: i64| MetricObservation::Demand {
        samples: Vec::new(),
        external: vec![ExternalSample { name: Arc::from("gateway"), sample: value(waiting) }],
    };
    let mut asleep = fleet(0, &[]);
    asleep.metrics = vec![queue(7)];
    let foreign = decide(&policy, &fleet(2, &[value(3); 2]), History::default(), at(0)).1;
    let (decision, _) = decide(&policy, &asleep, foreign, at(5));
    assert_eq!((decision.desired, decision.summary().0), (Replicas::ZERO, Reason::ForeignZero));

    let (mut history, mut current, mut second) = (History::default(), 1, 0);
    while current > 0 {
        let mut seen = fleet(current, &[value(0)]);
        seen.metrics = vec![MetricObservation::Demand {
            samples: vec![value(0)],
            external: vec![ExternalSample { name: Arc::from("gateway"), sample: Sample::Zero }],
        }];
        let (decision, next) = decide(&policy, &seen, history, at(second));
        history = next;
        current = decision.desired.get();
        second += 5;
        assert!(second < 2000, "never went to zero");
    }
    let (decision, _) = decide(&policy, &asleep, history, at(second));
    assert_eq!(decision.desired, Replicas::new(2));
}

/// B-31: gradually down, and to zero only after the idle time.
#[test]
fn down_to_one_by_policy_then_to_zero_by_idleness() {
    let mut policy = policy(0, 10);
    policy.idle_for = Some(Duration::from_secs(300));
    let down = ScalingRules { stabilization_window_seconds: Some(0), ..pods_per(1, 60) };
    policy.behavior = Some(Behavior { scale_up: None, scale_down: Some(down) });
    policy.actuation = Actuation::Direct;
    let (mut history, mut current, mut changes) = (History::default(), 5, Vec::new());
    for second in (0..900).step_by(5) {
        let samples = vec![value(0); current as usize];
        let (decision, next) = decide(&policy, &fleet(current, &samples), history, at(second));
        history = next;
        if decision.desired.get() != current {
            history.record_write(Replicas::new(current), decision.desired, at(second));
            current = decision.desired.get();
            changes.push((second, current));
        }
    }
    assert_eq!(changes, [(0, 4), (60, 3), (120, 2), (180, 1), (300, 0)]);
}

#[test]
fn the_record_of_a_decision_makes_it_again() {
    let policy = policy(2, 20);
    let seen = fleet(5, &[value(9), last(TARGET), unknown(), Sample::Starting, Sample::NoTraffic]);
    let history = decide(&policy, &fleet(4, &[value(8); 4]), History::default(), at(0)).1;
    let (decision, _) = decide(&policy, &seen, history.clone(), at(5));
    let record = DecisionRecord { policy, observation: seen, history, decision };
    let read: DecisionRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(read, record);
    assert_eq!(read.execute(), record.decision);
}

fn any_sample() -> impl Strategy<Value = Sample> {
    prop_oneof![
        4 => (0_i64..40_000).prop_map(|milli| Sample::value(Milli::new(milli))),
        1 => (0_i64..40_000).prop_map(|milli| last(Milli::new(milli))),
        1 => Just(unknown()),
        1 => Just(Sample::Zero),
        1 => Just(Sample::NoTraffic),
        1 => Just(Sample::Starting),
        1 => Just(Sample::Stuck),
    ]
}

fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    proptest::collection::vec(any_sample(), 0..14)
}

fn any_rules() -> impl Strategy<Value = ScalingRules> {
    let policy = (any::<bool>(), 1..60_i32, 1..600_u32).prop_map(|(pods, value, period_seconds)| ScalingPolicy {
        kind: if pods { PolicyType::Pods } else { PolicyType::Percent },
        value,
        period_seconds,
    });
    let select = prop_oneof![Just(SelectPolicy::Max), Just(SelectPolicy::Min), Just(SelectPolicy::Disabled)];
    (
        proptest::option::of(0..900_u32),
        proptest::option::of(select),
        proptest::option::of(proptest::collection::vec(policy, 1..3)),
    )
        .prop_map(|(stabilization_window_seconds, select_policy, policies)| ScalingRules {
            stabilization_window_seconds,
            select_policy,
            policies,
            tolerance: None,
        })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let behavior = (proptest::option::of(any_rules()), proptest::option::of(any_rules()))
        .prop_map(|(scale_up, scale_down)| Behavior { scale_up, scale_down });
    let mode =
        prop_oneof![Just(Actuation::HPA), Just(Actuation::Metrics), Just(Actuation::Direct), Just(Actuation::Observe)];
    let fallback = proptest::option::of((0..300_u64, 1..30_i32));
    (1..6_i32, 0..20_i32, 0..3_i32, proptest::option::of(behavior), mode, fallback).prop_map(
        |(min, above, pool, behavior, actuation, fallback)| Policy {
            behavior,
            warm_pool: Replicas::new(pool),
            actuation,
            fallback: fallback.map(|(after, replicas)| Fallback {
                after: Duration::from_secs(after),
                replicas: Replicas::new(replicas),
            }),
            ..policy(min, min + above)
        },
    )
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let bound = || proptest::collection::vec(0..40_i32, 0..2);
    let hand = (proptest::bool::weighted(0.1), proptest::option::weighted(0.1, 0..60_i32));
    (0..25_i32, any_samples(), bound(), bound(), proptest::option::weighted(0.2, 0..30_i32), hand).prop_map(
        |(current, samples, floors, ceilings, provable, (paused, hold))| {
            let named = |counts: Vec<i32>| {
                counts
                    .into_iter()
                    .map(|count| Bound { name: Arc::from("window"), replicas: Replicas::new(count) })
                    .collect()
            };
            Observation {
                floors: named(floors),
                ceilings: named(ceilings),
                provable_ceiling: provable
                    .map(|count| Bound { name: Arc::from("quota"), replicas: Replicas::new(count) }),
                paused,
                hold: hold.map(|count| Hold { replicas: Replicas::new(count), until: None, reason: None }),
                ..fleet(current, &samples)
            }
        },
    )
}

/// What the metrics ask for after vetoes.
fn asked(current: i32, samples: &[Sample]) -> Replicas {
    decide_fresh(&policy(1, 1000), &fleet(current, samples)).stages[0].output
}

proptest! {
    #[test]
    fn hiding_a_sample_never_lowers(current in 0..20_i32, samples in any_samples(), index in any::<prop::sample::Index>()) {
        prop_assume!(!samples.is_empty());
        let index = index.index(samples.len());
        let Some(read) = samples[index].as_read() else { return Ok(()) };
        let floor = asked(current, &samples).min(Replicas::new(current));
        let with = |sample: Sample| {
            let mut changed = samples.clone();
            changed[index] = sample;
            asked(current, &changed)
        };
        prop_assert!(with(last(read)) >= floor);
        if read <= TARGET {
            prop_assert!(with(unknown()) >= floor);
        }
    }

    #[test]
    fn a_replica_that_does_not_serve_never_lowers(current in 0..20_i32, samples in any_samples(), stuck in any::<bool>()) {
        let mut more = samples.clone();
        more.push(if stuck { Sample::Stuck } else { Sample::Starting });
        prop_assert!(asked(current, &more) >= asked(current, &samples));
    }

    #[test]
    fn monotone_in_every_value(current in 0..20_i32, samples in any_samples(), index in any::<prop::sample::Index>(), more in 1_i64..50_000) {
        prop_assume!(!samples.is_empty());
        let index = index.index(samples.len());
        let raise = |value: Milli| Milli::new(value.get() + more);
        let mut changed = samples.clone();
        changed[index] = match samples[index] {
            Sample::Value { value, age } => Sample::Value { value: raise(value), age },
            Sample::Last { value, age, reason } => Sample::Last { value: raise(value), age, reason },
            Sample::Zero | Sample::NoTraffic => Sample::value(Milli::new(more)),
            other => other,
        };
        prop_assert!(asked(current, &changed) >= asked(current, &samples));
    }

    #[test]
    fn with_everything_read_it_is_the_hpas_answer(values in proptest::collection::vec(0_i64..60_000, 1..30), target in 1_i64..20_000) {
        let current = Replicas::count_of(values.len());
        let values: Vec<Milli> = values.into_iter().map(Milli::new).collect();
        let target = Milli::new(target);
        let samples: Vec<Sample> = values.iter().copied().map(Sample::value).collect();
        let mut policy = policy(1, 1000);
        policy.metrics[0].target = target;
        let ours = decide_fresh(&policy, &fleet(current.get(), &samples)).stages[0].output;
        // With as many in the status as in the spec the HPA answers the present count inside tolerance, as we do.
        let theirs = hpa::average_value(hpa::sum_for_average_value(&values), target, current, Tolerances::default().into());
        prop_assert_eq!(ours, theirs.replicas);
    }

    #[test]
    fn any_course_of_turns_stays_in_bounds_and_can_be_repeated(
        policy in any_policy(),
        turns in proptest::collection::vec((1_i64..400, any_observation()), 1..12),
    ) {
        let (mut history, mut second) = (History::default(), 0);
        for (step, seen) in turns {
            second += step;
            let before = history.clone();
            let (decision, after) = decide(&policy, &seen, history, at(second));
            check_bounds(&policy, &seen, &decision)?;
            let record = DecisionRecord { policy: policy.clone(), observation: seen, history: before, decision };
            let read: DecisionRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
            prop_assert_eq!(&read.execute(), &record.decision);
            prop_assert_eq!(read, record);
            history = after;
        }
    }
}

/// Within the effective bounds, except where an override, impossibility or blindness says otherwise.
fn check_bounds(policy: &Policy, seen: &Observation, decision: &Decision) -> Result<(), TestCaseError> {
    let (desired, bounds) = (decision.desired, decision.bounds);
    prop_assert!(bounds.min_replicas <= bounds.max_replicas);
    prop_assert!(bounds.max_replicas <= policy.max_replicas);
    let overridden = decision.stages.last().unwrap().reason != Reason::NoOverride;
    if seen.paused {
        prop_assert_eq!(desired, seen.current);
    } else if !overridden {
        let impossible = decision.stages[5].reason == Reason::CapacityImpossible;
        prop_assert!(desired >= bounds.min_replicas || impossible);
        prop_assert!(desired <= bounds.max_replicas || decision.blind && desired == seen.current);
        prop_assert!(desired >= seen.current || !decision.blind);
        prop_assert!(!impossible || desired >= seen.current);
    }
    if let Published::Replicas(published) = decision.published {
        let expected = if policy.actuation == Actuation::Observe { seen.current } else { desired };
        prop_assert_eq!(published, expected);
    } else {
        prop_assert!(decision.blind && desired <= seen.current && !overridden);
    }
    Ok(())
}
