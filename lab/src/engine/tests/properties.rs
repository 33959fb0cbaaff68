//! What always holds.

use proptest::prelude::*;

use super::{TEN_MILLIS, naive, run_empty};
use crate::engine::{Engine, EngineSettings, Event, Outcome, Phase, Request, RequestId};
use crate::step_time::StepTime;
use crate::time::ModelTime;

/// Numbers whose sums are exact, so that the order of additions does not matter.
const EXACT: StepTime = StepTime {
    decode_base: 8.0,
    per_sequence: 0.5,
    per_context_token: 0.015_625,
    prefill_base: 2.0,
    per_prompt_token: 0.25,
    per_attended_token: 0.000_976_562_5,
};

prop_compose! {
    fn settings()(
        blocks in 6_u32..60,
        block_size in 1_u32..9,
        max_num_seqs in 1_u32..10,
        spare_budget in 0_u32..40,
        is_exact in any::<bool>(),
    ) -> EngineSettings {
        EngineSettings {
            step_time: if is_exact { EXACT } else { TEN_MILLIS },
            noise_sigma: 0.0,
            seed: 0,
            kv_pool_tokens: blocks * block_size,
            block_size,
            max_num_batched_tokens: max_num_seqs + 1 + spare_budget,
            max_num_seqs,
            max_model_len: 10_000,
        }
    }
}

/// Requests that the settings admit, arriving within 0.4 s.
fn requests(settings: EngineSettings) -> impl Strategy<Value = (EngineSettings, Vec<Request>)> {
    let longest = settings.longest_request();
    let one = (0_u64..400, 1..longest, 0.0..1.0_f64).prop_map(move |(arrival, prompt_tokens, share)| Request {
        arrival: ModelTime::from_nanos(arrival * 1_000_000),
        prompt_tokens,
        output_tokens: 1 + (f64::from(longest - prompt_tokens - 1) * share) as u32,
        streamed: false,
    });
    proptest::collection::vec(one, 1..25).prop_map(move |mut requests| {
        requests.sort_by_key(|request| request.arrival);
        (settings, requests)
    })
}

fn check(engine: &Engine) {
    let held: u32 = engine.running.iter().map(|slot| engine.blocks_held(&engine.sequences[*slot])).sum();
    assert_eq!(held + engine.free_blocks, engine.settings.kv_blocks(), "blocks are lost or made");
    assert!(engine.running.len() <= engine.settings.max_num_seqs as usize, "too many sequences run");
    let phase_is = |slot: &usize, decodes| matches!(engine.sequences[*slot].phase, Phase::Decoding(_)) == decodes;
    let decoding = engine.running.iter().filter(|slot| phase_is(slot, true)).count();
    assert_eq!(decoding, engine.decoding.sequences() as usize);
    assert_eq!(engine.running.len(), decoding + engine.prefilling.len());
    assert!(engine.waiting.iter().all(|slot| engine.blocks_held(&engine.sequences[*slot]) == 0));
}

/// Numbers that must not fall.
fn counters(engine: &Engine) -> [u64; 8] {
    let statistics = engine.statistics();
    [
        statistics.steps,
        statistics.prompt_tokens,
        statistics.generation_tokens,
        statistics.finished,
        statistics.preemptions,
        statistics.inter_token_latency.count(),
        statistics.iteration_tokens.count(),
        statistics.time_to_first_token.count(),
    ]
}

/// Runs the requests through an engine, checking it at each of its instants; `abort` names those whose client hangs up
/// at the arrival of the next. The outcomes of the others, by number.
fn run_checked(settings: EngineSettings, requests: &[Request], abort: &[bool]) -> Vec<(u64, Outcome)> {
    let mut engine = Engine::new(settings, ModelTime::ZERO);
    let mut events = Vec::new();
    let mut before = counters(&engine);
    let mut step_to = |engine: &mut Engine, to: ModelTime, events: &mut Vec<Event>| {
        while let Some(next) = engine.next_event_at().filter(|next| *next < to) {
            engine.advance(next.plus(std::time::Duration::from_nanos(1)).min(to), events);
            check(engine);
            let after = counters(engine);
            assert!(before.iter().zip(after).all(|(before, after)| *before <= after), "{before:?} {after:?}");
            before = after;
        }
        engine.advance(to, events);
    };
    for (number, request) in (0..).zip(requests) {
        step_to(&mut engine, request.arrival, &mut events);
        if number > 0 && abort.get(number as usize - 1) == Some(&true) {
            engine.abort(RequestId::new(number - 1));
            check(&engine);
        }
        engine.submit(RequestId::new(number), *request).unwrap();
    }
    let mut outcomes = run_empty(&mut engine);
    check(&engine);
    assert_eq!(engine.free_blocks, settings.kv_blocks());
    outcomes.extend(events.into_iter().filter_map(|event| match event {
        Event::Finished { id, outcome } => Some((id.get(), outcome)),
        Event::FirstToken { .. } | Event::Token { .. } => None,
    }));
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes
}

proptest! {
    #[test]
    fn running_sums_agree_with_the_rules_written_plainly((settings, requests) in settings().prop_flat_map(requests)) {
        let outcomes = run_checked(settings, &requests, &[]);
        let plain = naive::run(settings, &requests);
        prop_assert_eq!(outcomes.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), plain);
    }

    #[test]
    fn who_is_not_aborted_gets_what_it_asked_for(
        (settings, requests) in settings().prop_flat_map(requests),
        abort in proptest::collection::vec(any::<bool>(), 25),
    ) {
        let outcomes = run_checked(settings, &requests, &abort);
        prop_assert!(outcomes.iter().all(|(_, outcome)| outcome.tokens == outcome.request.output_tokens));
        for (number, is_aborted) in (0..requests.len() as u64).zip(&abort) {
            prop_assert!(*is_aborted || outcomes.iter().any(|(finished, _)| *finished == number));
        }
    }

    #[test]
    fn a_seed_gives_the_same_run_however_time_is_cut(
        (settings, requests) in settings().prop_flat_map(requests),
        seed in any::<u64>(),
    ) {
        let settings = EngineSettings { noise_sigma: 0.1, seed, ..settings };
        let fine = run_checked(settings, &requests, &[]);
        let mut engine = Engine::new(settings, ModelTime::ZERO);
        let mut events = Vec::new();
        for (number, request) in (0..).zip(&requests) {
            engine.advance(request.arrival, &mut events);
            engine.submit(RequestId::new(number), *request).unwrap();
        }
        engine.advance(ModelTime::from_seconds(1e6), &mut events);
        let coarse = events.into_iter().filter_map(|event| match event {
            Event::Finished { id, outcome } => Some((id.get(), outcome)),
            Event::FirstToken { .. } | Event::Token { .. } => None,
        });
        let mut coarse: Vec<_> = coarse.collect();
        coarse.sort_unstable_by_key(|(number, _)| *number);
        prop_assert_eq!(coarse, fine);
    }
}
