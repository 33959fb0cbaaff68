//! LMDeploy: vLLM-like names, and a second queue in front of the engine.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Expression, Gauge, PlanBuilder, bucket_names, owned};
use super::select::Selection;

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const WAITING: [&str; 1] = ["lmdeploy:num_requests_waiting"];
/// Requests that wait for a handle before they reach the engine.
const WAITING_FOR_HANDLE: [&str; 1] = ["lmdeploy:num_api_requests_waiting"];
const RUNNING: [&str; 1] = ["lmdeploy:num_requests_running"];
const OCCUPANCY: [&str; 1] = ["lmdeploy:gpu_cache_usage_perc"];
const GENERATED: [&str; 1] = ["lmdeploy:generation_tokens_total"];
const PROMPTS: [&str; 1] = ["lmdeploy:prompt_tokens_total"];
const FIRST_TOKEN: [&str; 1] = ["lmdeploy:time_to_first_token_seconds"];
const PER_TOKEN: [&str; 2] = ["lmdeploy:inter_token_latency_seconds", "lmdeploy:time_per_output_token_seconds"];
const QUEUE_TIME: [&str; 1] = ["lmdeploy:request_queue_time_seconds"];

fn names() -> Vec<String> {
    let mut wanted = owned(&[WAITING, WAITING_FOR_HANDLE, RUNNING, OCCUPANCY, GENERATED, PROMPTS].concat());
    wanted.extend([&FIRST_TOKEN[..], &PER_TOKEN, &QUEUE_TIME].iter().flat_map(|names| bucket_names(names)));
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    [WAITING[0], RUNNING[0], OCCUPANCY[0], GENERATED[0]].iter().any(|name| selection.has(name))
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    let (engine, handle) = (selection.first(&WAITING).sum(), selection.first(&WAITING_FOR_HANDLE).sum());
    let waiting = engine.and_then(|engine| Expression::total([Some(engine), handle]));
    builder.gauge(Signal::WaitingRequests, waiting, selection, &WAITING);
    builder.gauge(Signal::RunningRequests, selection.first(&RUNNING).sum(), selection, &RUNNING);
    let occupancy = selection.first(&OCCUPANCY);
    builder.gauge(Signal::KVCacheUtilization, occupancy.max(), selection, &OCCUPANCY);
    builder.plan().kv_cache_mean = occupancy.mean().map(Gauge);
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.rate(Signal::PromptTokenRate, selection, &PROMPTS);
    builder.latency(Signal::TimeToFirstToken, selection, &FIRST_TOKEN, 1.0);
    builder.latency(Signal::InterTokenLatency, selection, &PER_TOKEN, 1.0);
    builder.latency(Signal::QueueTime, selection, &QUEUE_TIME, 1.0);
    builder.plan().heartbeat = selection.first(&GENERATED).slots();
}
