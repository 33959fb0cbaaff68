//! What an engine does, by hand-worked cases and by properties.

mod naive;
mod properties;
mod scheduling;
mod timing;

use super::{Engine, EngineSettings, Event, Outcome, Request, RequestId};
use crate::step_time::StepTime;
use crate::time::ModelTime;

/// A step takes 10 ms whatever it computes.
const TEN_MILLIS: StepTime = StepTime {
    decode_base: 10.0,
    per_sequence: 0.0,
    per_context_token: 0.0,
    prefill_base: 0.0,
    per_prompt_token: 0.0,
    per_attended_token: 0.0,
};

/// Blocks of 4 tokens, 64 tokens a step, 8 sequences.
fn small(kv_pool_tokens: u32) -> EngineSettings {
    EngineSettings {
        step_time: TEN_MILLIS,
        noise_sigma: 0.0,
        seed: 0,
        kv_pool_tokens,
        block_size: 4,
        max_num_batched_tokens: 64,
        max_num_seqs: 8,
        max_model_len: 1000,
    }
}

fn request(prompt_tokens: u32, output_tokens: u32) -> Request {
    Request { arrival: ModelTime::ZERO, prompt_tokens, output_tokens, streamed: false }
}

fn millis(millis: u64) -> ModelTime {
    ModelTime::from_nanos(millis * 1_000_000)
}

/// Submits requests numbered from 0, all at once.
fn submit_all(engine: &mut Engine, requests: &[Request]) {
    for (number, request) in (0..).zip(requests) {
        engine.submit(RequestId::new(number), *request).unwrap();
    }
}

/// What happens up to `to`.
fn events_until(engine: &mut Engine, to: ModelTime) -> Vec<Event> {
    let mut events = Vec::new();
    engine.advance(to, &mut events);
    events
}

/// Runs an engine empty, and gives the outcomes by number of request.
fn run_empty(engine: &mut Engine) -> Vec<(u64, Outcome)> {
    let mut events = Vec::new();
    while let Some(next) = engine.next_event_at() {
        engine.advance(next.plus(std::time::Duration::from_nanos(1)), &mut events);
    }
    let mut outcomes: Vec<_> = events
        .into_iter()
        .filter_map(|event| match event {
            Event::Finished { id, outcome } => Some((id.get(), outcome)),
            Event::FirstToken { .. } | Event::Token { .. } => None,
        })
        .collect();
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes
}
