//! `llama-server` of llama.cpp. No labels. Its throughput gauges change when anybody reads them: not used.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Gauge, PlanBuilder, owned};
use super::select::Selection;

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const WAITING: [&str; 1] = ["llamacpp:requests_deferred"];
const RUNNING: [&str; 1] = ["llamacpp:requests_processing"];
/// Until May 2025.
const OCCUPANCY: [&str; 1] = ["llamacpp:kv_cache_usage_ratio"];
const TOKENS: [&str; 1] = ["llamacpp:kv_cache_tokens"];
const GENERATED: [&str; 1] = ["llamacpp:tokens_predicted_total"];
const PROMPTS: [&str; 1] = ["llamacpp:prompt_tokens_total"];
/// Moves on every decode.
const DECODES: &str = "llamacpp:n_decode_total";

fn names() -> Vec<String> {
    let mut wanted = owned(&[WAITING, RUNNING, OCCUPANCY, TOKENS, GENERATED, PROMPTS].concat());
    wanted.push(DECODES.to_owned());
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    [WAITING[0], RUNNING[0], GENERATED[0]].iter().any(|name| selection.has(name))
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    builder.gauge(Signal::WaitingRequests, selection.first(&WAITING).sum(), selection, &WAITING);
    builder.gauge(Signal::RunningRequests, selection.first(&RUNNING).sum(), selection, &RUNNING);
    if selection.has(OCCUPANCY[0]) {
        let occupancy = selection.first(&OCCUPANCY);
        builder.gauge(Signal::KVCacheUtilization, occupancy.max(), selection, &OCCUPANCY);
        builder.plan().kv_cache_mean = occupancy.mean().map(Gauge);
        builder.gauge(Signal::KVCacheTokens, selection.first(&TOKENS).sum(), selection, &TOKENS);
    }
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.rate(Signal::PromptTokenRate, selection, &PROMPTS);
    builder.plan().heartbeat = selection.family(DECODES).slots();
}
