//! NVIDIA NIM for LLMs, 1.x: vLLM's V0 names without a prefix, at `/v1/metrics`.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Gauge, PlanBuilder, bucket_names, owned};
use super::select::Selection;

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const WAITING: [&str; 1] = ["num_requests_waiting"];
const RUNNING: [&str; 1] = ["num_requests_running"];
const MOST: &str = "num_request_max";
const OCCUPANCY: [&str; 1] = ["gpu_cache_usage_perc"];
const GENERATED: [&str; 1] = ["generation_tokens_total"];
const PROMPTS: [&str; 1] = ["prompt_tokens_total"];
const FIRST_TOKEN: [&str; 1] = ["time_to_first_token_seconds"];
const PER_TOKEN: [&str; 1] = ["time_per_output_token_seconds"];

fn names() -> Vec<String> {
    let mut wanted = owned(&[WAITING, RUNNING, OCCUPANCY, GENERATED, PROMPTS].concat());
    wanted.push(MOST.to_owned());
    wanted.extend(bucket_names(&[FIRST_TOKEN, PER_TOKEN].concat()));
    wanted
}

/// Names without a prefix could be anybody's: only all of them together tell.
fn recognises(selection: &Selection<'_>) -> bool {
    [WAITING[0], RUNNING[0], MOST, OCCUPANCY[0]].iter().all(|name| selection.has(name))
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    builder.gauge(Signal::WaitingRequests, selection.first(&WAITING).sum(), selection, &WAITING);
    builder.gauge(Signal::RunningRequests, selection.first(&RUNNING).sum(), selection, &RUNNING);
    let occupancy = selection.first(&OCCUPANCY);
    builder.gauge(Signal::KVCacheUtilization, occupancy.max(), selection, &OCCUPANCY);
    builder.plan().kv_cache_mean = occupancy.mean().map(Gauge);
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.rate(Signal::PromptTokenRate, selection, &PROMPTS);
    builder.latency(Signal::TimeToFirstToken, selection, &FIRST_TOKEN, 1.0);
    builder.latency(Signal::InterTokenLatency, selection, &PER_TOKEN, 1.0);
    builder.plan().heartbeat = selection.first(&GENERATED).slots();
}
