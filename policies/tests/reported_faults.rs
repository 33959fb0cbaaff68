//! Faults that other autoscalers were reported for, and what is right.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use headroom_policies::behavior::{Behavior, PolicyType, ScalingPolicy, ScalingRules};
use headroom_policies::decision::Stage;
use headroom_policies::observation::{Bound, MetricObservation, Phase, Replica, Sample, UnknownReason};
use headroom_policies::policy::{Actuation, MetricPolicy};
use headroom_policies::{History, Milli, Observation, Policy, Reason, Replicas, Signal, Timestamp, decide};

const TARGET: Milli = Milli::from_units(5);
const UNKNOWN: Sample = Sample::Unknown { reason: UnknownReason::Timeout };

fn value(units: i64) -> Sample {
    Sample::value(Milli::from_units(units))
}

/// A policy that moves at once in both directions.
fn open_policy(max: i32) -> Policy {
    let mut policy = Policy::new(Replicas::new(1), Replicas::new(max));
    policy.metrics = vec![MetricPolicy::new(Signal::WaitingRequests, TARGET)];
    let at_once = |kind, value| ScalingRules {
        stabilization_window_seconds: Some(0),
        policies: Some(vec![ScalingPolicy { kind, value, period_seconds: 15 }]),
        ..ScalingRules::default()
    };
    let (scale_up, scale_down) = (at_once(PolicyType::Pods, 1000), at_once(PolicyType::Percent, 100));
    policy.behavior = Some(Behavior { scale_up: Some(scale_up), scale_down: Some(scale_down) });
    policy
}

fn fleet(samples: &[Sample]) -> Observation {
    let replica = |(index, sample): (usize, &Sample)| Replica {
        name: Arc::from(format!("pod-{index}")),
        phase: if *sample == Sample::Starting { Phase::Starting } else { Phase::Ready },
    };
    let mut seen = Observation::of(Replicas::count_of(samples.len()));
    seen.replicas = samples.iter().enumerate().map(replica).collect();
    seen.metrics = vec![MetricObservation::Demand { samples: samples.to_vec(), external: Vec::new() }];
    seen
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_780_000_000_000 + seconds * 1000)
}

fn bound(replicas: i32) -> Vec<Bound> {
    vec![Bound { name: Arc::from("workday"), replicas: Replicas::new(replicas) }]
}

/// B-19: the dead band is for measured ratios; floors and ceilings are reached exactly.
#[test]
fn floors_and_ceilings_know_no_tolerance() {
    let policy = open_policy(100);
    for (current, floor) in [(22, 24), (88, 89)] {
        let mut seen = fleet(&vec![value(0); current]);
        seen.floors = bound(floor);
        assert_eq!(decide(&policy, &seen, History::default(), at(0)).0.desired, Replicas::new(floor));
    }
    let mut seen = fleet(&[value(5); 11]);
    seen.ceilings = bound(10);
    let decision = decide(&policy, &seen, History::default(), at(0)).0;
    assert_eq!((decision.desired, decision.binding), (Replicas::new(10), Some(Stage::Bounds)));
}

/// B-20: a metric that cannot be read forbids a fall and no rise.
#[test]
fn a_missing_metric_vetoes_down_only() {
    let mut policy = open_policy(100);
    policy.metrics.push(MetricPolicy::new(Signal::KVCacheUtilization, Milli::new(700)));
    for (waiting, expected) in [(1, 3), (10, 6)] {
        let mut seen = fleet(&[value(waiting); 3]);
        seen.metrics.push(MetricObservation::Demand { samples: vec![UNKNOWN; 3], external: Vec::new() });
        let decision = decide(&policy, &seen, History::default(), at(0)).0;
        assert_eq!(decision.desired, Replicas::new(expected));
        let kv_cache = &decision.proposals[1];
        assert!(!kv_cache.readable && kv_cache.vetoes_down);
        assert!(kv_cache.message.contains("KVCacheUtilization"), "{}", kv_cache.message);
    }
}

/// B-23: what waits asks for so many replicas in all; those that load count towards them, turn after turn.
#[test]
fn a_ready_mean_is_not_multiplied_by_loading_replicas() {
    let mut policy = open_policy(100);
    policy.behavior = Some(Behavior {
        scale_down: None,
        scale_up: Some(ScalingRules {
            policies: Some(vec![ScalingPolicy { kind: PolicyType::Pods, value: 1000, period_seconds: 15 }]),
            ..ScalingRules::default()
        }),
    });
    let mut history = History::default();
    let samples: Vec<Sample> = std::iter::once(value(40)).chain([Sample::Starting; 7]).collect();
    for turn in 0..20 {
        let (decision, next) = decide(&policy, &fleet(&samples), history, at(turn * 15));
        assert_eq!(decision.desired, Replicas::new(8), "turn {turn}");
        history = next;
    }
}

/// B-26: what a scale-down window remembers keeps the present count up to what it is, never above.
#[test]
fn memory_of_a_peak_raises_nothing() {
    let mut policy = open_policy(100);
    policy.behavior = Some(Behavior {
        scale_up: Some(ScalingRules { stabilization_window_seconds: Some(300), ..ScalingRules::default() }),
        scale_down: Some(ScalingRules { stabilization_window_seconds: Some(600), ..ScalingRules::default() }),
    });
    let history = decide(&policy, &fleet(&[value(6); 17]), History::default(), at(0)).1;
    let peak = decide(&policy, &fleet(&[value(6); 17]), history, at(1)).1;
    let (decision, _) = decide(&policy, &fleet(&[value(4); 17]), peak, at(501));
    assert_eq!(decision.desired, Replicas::new(17));
}

/// B-28: a percentage of a small fleet is at least one replica; 0 % is a freeze, and says so.
#[test]
fn a_percentage_moves_at_least_one() {
    for (samples, expected) in [(vec![value(0); 3], [3, 2, 1, 1]), (vec![value(15); 3], [3, 4, 5, 6])] {
        let mut policy = open_policy(9);
        let percent = ScalingRules {
            stabilization_window_seconds: Some(0),
            policies: Some(vec![ScalingPolicy { kind: PolicyType::Percent, value: 10, period_seconds: 60 }]),
            ..ScalingRules::default()
        };
        policy.behavior = Some(Behavior { scale_up: Some(percent.clone()), scale_down: Some(percent) });
        policy.actuation = Actuation::Direct;
        let (mut history, mut count, mut seen_counts) = (History::default(), 3, vec![3]);
        for second in (0..181).step_by(20) {
            let mut seen = fleet(&vec![samples[0]; count as usize]);
            // The queue is what it is, however many share it.
            if samples[0] != value(0) {
                seen.metrics = vec![MetricObservation::Demand {
                    samples: (0..count).map(|index| if index == 0 { value(45) } else { value(0) }).collect(),
                    external: Vec::new(),
                }];
            }
            let (decision, next) = decide(&policy, &seen, history, at(second));
            history = next;
            if decision.desired.get() != count {
                history.record_write(Replicas::new(count), decision.desired, at(second));
                count = decision.desired.get();
                seen_counts.push(count);
            }
        }
        seen_counts.resize(4, *seen_counts.last().unwrap());
        assert_eq!(seen_counts, expected);
    }
    let mut frozen = open_policy(9);
    let none = ScalingRules {
        policies: Some(vec![ScalingPolicy { kind: PolicyType::Percent, value: 0, period_seconds: 60 }]),
        ..ScalingRules::default()
    };
    frozen.behavior = Some(Behavior { scale_up: Some(none), scale_down: None });
    let decision = decide(&frozen, &fleet(&[value(15); 3]), History::default(), at(0)).0;
    assert_eq!(decision.desired, Replicas::new(3));
    assert_eq!(decision.held_from_higher.stage, Stage::RatePolicies);
    assert_eq!(decision.held_from_higher.reason, Reason::ScaleUpLimit);
}
