//! Who is admitted, who is preempted, who is refused.

use super::{events_until, millis, request, run_empty, small, submit_all};
use crate::engine::{Engine, EngineSettings, Event, Refusal, RequestId};
use crate::profile::Profile;
use crate::time::ModelTime;

#[test]
fn the_first_that_does_not_fit_stops_those_behind() {
    // 10 blocks: the first takes 8, the second needs 5 and blocks the third, which would fit.
    let mut engine = Engine::new(small(40), ModelTime::ZERO);
    submit_all(&mut engine, &[request(30, 2), request(20, 1), request(4, 1)]);
    engine.advance(millis(10), &mut Vec::new());
    assert_eq!((engine.gauges().running, engine.gauges().waiting), (1, 2));
    let finished: Vec<_> = run_empty(&mut engine).into_iter().map(|(_, outcome)| outcome.finished_at).collect();
    assert_eq!(finished, [20, 30, 30].map(|at| Some(millis(at))));
}

#[test]
fn no_more_than_the_sequences_of_the_setting_run() {
    let mut engine = Engine::new(EngineSettings { max_num_seqs: 2, ..small(400) }, ModelTime::ZERO);
    submit_all(&mut engine, &[request(4, 3); 5]);
    engine.advance(millis(10), &mut Vec::new());
    assert_eq!((engine.gauges().running, engine.gauges().waiting), (2, 3));
    let last = run_empty(&mut engine).into_iter().filter_map(|(_, outcome)| outcome.finished_at).max();
    assert_eq!(last, Some(millis(90)));
}

#[test]
fn the_most_recently_admitted_is_preempted_and_computed_again() {
    // 4 blocks. Two prompts of 8 tokens fill them; the first's next token needs a fifth. The second goes, with the one
    // token it made, and comes back when the first has ended.
    let mut engine = Engine::new(small(16), ModelTime::ZERO);
    submit_all(&mut engine, &[request(8, 5), request(8, 3), request(4, 1)]);
    engine.advance(millis(11), &mut Vec::new());
    assert_eq!(engine.statistics().preemptions, 1);
    assert_eq!(engine.in_flight(), 3);
    engine.advance(millis(20), &mut Vec::new());
    // Nobody is admitted in the step that preempted, though the third would fit.
    assert_eq!((engine.gauges().running, engine.gauges().waiting), (1, 2));
    let outcomes = run_empty(&mut engine);
    assert_eq!(outcomes.iter().map(|(_, outcome)| outcome.preemptions).collect::<Vec<_>>(), [0, 1, 0]);
    // The second is at the head of the queue again: 9 tokens need 3 blocks while the first holds 3, so it waits until
    // 50 ms; its first token stays the one of 10 ms.
    assert_eq!(outcomes[0].1.finished_at, Some(millis(50)));
    assert_eq!(outcomes[1].1.first_token_at, Some(millis(10)));
    assert_eq!(outcomes[1].1.finished_at, Some(millis(70)));
    assert_eq!(outcomes[2].1.finished_at, Some(millis(60)));
    assert_eq!(outcomes.iter().map(|(_, outcome)| outcome.tokens).collect::<Vec<_>>(), [5, 3, 1]);
    // The gap over the preemption, from 10 to 60 ms, is an inter-token latency like the others.
    let statistics = engine.statistics();
    assert_eq!(statistics.generation_tokens, 9);
    assert_eq!(statistics.inter_token_latency.count(), 6);
    assert!((statistics.inter_token_latency.sum() - 0.1).abs() < 1e-9);
}

#[test]
fn a_prompt_that_finds_no_block_for_its_next_chunk_gives_way() {
    // 20 blocks, 64 tokens a step. The first holds 1 block; the second computes 60 of 76 tokens in the first step, in
    // 15 blocks. When the first has filled its blocks, the second's last chunk and the first's token do not both fit.
    let mut engine = Engine::new(small(80), ModelTime::ZERO);
    submit_all(&mut engine, &[request(4, 10), request(76, 1)]);
    engine.advance(millis(20), &mut Vec::new());
    assert_eq!(engine.statistics().preemptions, 1);
    assert_eq!((engine.gauges().running, engine.gauges().waiting), (1, 1));
    let outcomes = run_empty(&mut engine);
    assert_eq!(outcomes[0].1.preemptions, 0);
    assert!(outcomes[1].1.preemptions >= 1);
    assert_eq!(outcomes[1].1.tokens, 1);
}

#[test]
fn what_can_never_fit_is_refused_with_the_reason() {
    let mut engine = Engine::new(EngineSettings::of(&Profile::P1), ModelTime::ZERO);
    let id = RequestId::new(1);
    assert_eq!(
        engine.submit(id, request(26_000, 1)),
        Err(Refusal::ExceedsKvPool { prompt_tokens: 26_000, needed: 26_001, limit: 26_000 })
    );
    assert_eq!(
        engine.submit(id, request(131_000, 73)),
        Err(Refusal::ExceedsContext { prompt_tokens: 131_000, needed: 131_073, limit: 131_072 })
    );
    assert_eq!(engine.submit(id, request(5, 0)), Err(Refusal::Empty { prompt_tokens: 5, output_tokens: 0 }));
    assert_eq!(
        engine.submit(id, request(26_000, 1)).unwrap_err().to_string(),
        "the request needs 26001 tokens (26000 of prompt), but the KV cache holds 26000; shorten the prompt or ask for \
         fewer tokens"
    );
    assert_eq!(engine.submit(id, request(25_999, 1)), Ok(()));
    assert_eq!(engine.in_flight(), 1);
}

#[test]
fn an_aborted_request_leaves_nothing_but_its_tokens() {
    let mut engine = Engine::new(small(400), ModelTime::ZERO);
    submit_all(&mut engine, &[request(8, 50), request(8, 50), request(300, 2)]);
    events_until(&mut engine, millis(25));
    // One decodes, one is partly computed, and the step of both is under way.
    let outcome = engine.abort(RequestId::new(0)).unwrap();
    assert_eq!((outcome.tokens, outcome.finished_at, outcome.first_token_at), (2, None, Some(millis(10))));
    assert_eq!(engine.abort(RequestId::new(2)).unwrap().tokens, 0);
    assert_eq!(engine.abort(RequestId::new(2)), None);
    let events = events_until(&mut engine, millis(30));
    assert_eq!(events, []);
    assert_eq!((engine.gauges().running, engine.in_flight()), (1, 1));
    engine.abort(RequestId::new(1)).unwrap();
    assert_eq!(engine.gauges(), crate::engine::Gauges::default());
    assert!(!events_until(&mut engine, millis(100)).iter().any(|event| matches!(event, Event::Finished { .. })));
    assert_eq!(engine.statistics().finished, 0);
    assert_eq!(engine.statistics().generation_tokens, 2 + 3);
}
