//! SGLang, 0.4 to 0.5.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Expression, Gauge, PlanBuilder, bucket_names, owned};
use super::select::{Family, Selection};

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const RUNNING: [&str; 1] = ["sglang:num_running_reqs"];
const WAITING: [&str; 1] = ["sglang:num_queue_reqs"];
/// Queues besides the main one; those of disaggregated prefill and decode servers under each name they had.
const MORE_WAITING: [&[&str]; 5] = [
    &["sglang:num_grammar_queue_reqs"],
    &["sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_prealloc_queue_reqs"],
    &["sglang:num_prefill_inflight_queue_reqs", "sglang:num_prefill_infight_queue_reqs"],
    &["sglang:num_decode_prealloc_queue_reqs"],
    &["sglang:num_decode_transfer_queue_reqs"],
];
const USAGE: [&str; 1] = ["sglang:token_usage"];
const USED_TOKENS: [&str; 1] = ["sglang:num_used_tokens"];
const GENERATED: [&str; 1] = ["sglang:generation_tokens_total"];
const PROMPTS: [&str; 1] = ["sglang:prompt_tokens_total"];
const RETRACTED: [&str; 1] = ["sglang:num_retracted_requests_total"];
const FIRST_TOKEN: [&str; 1] = ["sglang:time_to_first_token_seconds"];
const INTER_TOKEN: [&str; 2] = ["sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"];
const QUEUE_TIME: [&str; 2] = ["sglang:queue_time_seconds", "sglang:queue_time_s"];
/// Moves during decoding, where it exists.
const REALTIME_TOKENS: &str = "sglang:realtime_tokens_total";

fn names() -> Vec<String> {
    let single = [RUNNING, WAITING, USAGE, USED_TOKENS, GENERATED, PROMPTS, RETRACTED].concat();
    let mut wanted = owned(&single);
    wanted.extend(MORE_WAITING.iter().flat_map(|names| owned(names)));
    wanted.push(REALTIME_TOKENS.to_owned());
    wanted.extend([&FIRST_TOKEN[..], &INTER_TOKEN, &QUEUE_TIME].iter().flat_map(|names| bucket_names(names)));
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    [RUNNING[0], WAITING[0], USAGE[0], GENERATED[0]].iter().any(|name| selection.has(name))
}

/// With priority scheduling the total stands beside its split, under an empty priority.
fn whole(family: Family<'_>) -> Family<'_> {
    family.total_of("priority", "")
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    let running = whole(selection.first(&RUNNING)).sum();
    builder.gauge(Signal::RunningRequests, running, selection, &RUNNING);
    let main = whole(selection.first(&WAITING)).sum();
    let more = MORE_WAITING.iter().map(|names| whole(selection.first(names)).sum());
    let waiting = main.and_then(|main| Expression::total(std::iter::once(Some(main)).chain(more)));
    builder.gauge(Signal::WaitingRequests, waiting, selection, &WAITING);
    let usage = selection.first(&USAGE);
    builder.gauge(Signal::KVCacheUtilization, usage.max(), selection, &USAGE);
    builder.plan().kv_cache_mean = usage.mean().map(Gauge);
    builder.gauge(Signal::KVCacheTokens, selection.first(&USED_TOKENS).sum(), selection, &USED_TOKENS);
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.rate(Signal::PromptTokenRate, selection, &PROMPTS);
    builder.rate(Signal::PreemptionRate, selection, &RETRACTED);
    builder.latency(Signal::TimeToFirstToken, selection, &FIRST_TOKEN, 1.0);
    builder.latency(Signal::InterTokenLatency, selection, &INTER_TOKEN, 1.0);
    builder.latency(Signal::QueueTime, selection, &QUEUE_TIME, 1.0);
    // Only the realtime counter moves with every batch; the others wait for a request to end.
    builder.plan().heartbeat = selection.family(REALTIME_TOKENS).slots();
}
