//! NVIDIA Dynamo: a worker passes its engine's gauges through; a frontend sees the whole fleet behind it.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Gauge, PlanBuilder, Source, bucket_names, owned};
use super::select::Selection;
use super::vllm::{self, Names};

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const VLLM: Names = Names::new("vllm:");
const WORKER_INFLIGHT: &str = "dynamo_component_inflight_requests";
const WORKER_OCCUPANCY: [&str; 1] = ["dynamo_component_kvstats_gpu_cache_usage_percent"];
const ACTIVE: [&str; 2] = ["dynamo_frontend_active_requests", "dynamo_frontend_inflight_requests"];
/// From the entry to the first token, so prefill is in it.
const QUEUED: [&str; 1] = ["dynamo_frontend_queued_requests"];
const STAGES: [&str; 1] = ["dynamo_frontend_stage_requests"];
const MODEL_BLOCKS: &str = "dynamo_frontend_model_total_kv_blocks";
const GENERATED: [&str; 1] = ["dynamo_frontend_output_tokens_total"];
const FIRST_TOKEN: [&str; 1] = ["dynamo_frontend_time_to_first_token_seconds"];
const INTER_TOKEN: [&str; 1] = ["dynamo_frontend_inter_token_latency_seconds"];

fn names() -> Vec<String> {
    let own =
        [WORKER_INFLIGHT, WORKER_OCCUPANCY[0], ACTIVE[0], ACTIVE[1], QUEUED[0], STAGES[0], MODEL_BLOCKS, GENERATED[0]];
    let mut wanted = owned(&own);
    wanted.extend(bucket_names(&[FIRST_TOKEN, INTER_TOKEN].concat()));
    wanted.extend(vllm::names(&VLLM));
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    is_worker(selection) || is_frontend(selection)
}

fn is_worker(selection: &Selection<'_>) -> bool {
    selection.has(WORKER_INFLIGHT)
}

fn is_frontend(selection: &Selection<'_>) -> bool {
    selection.has(MODEL_BLOCKS) || ACTIVE.iter().any(|name| selection.has(name))
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    // A frontend's numbers cover its workers: never both.
    if is_frontend(selection) { plan_frontend(selection, builder) } else { plan_worker(selection, builder) }
}

fn plan_worker(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    vllm::plan(selection, builder, &VLLM);
    vllm::silent_at_rest(builder);
    let inflight = selection.family(WORKER_INFLIGHT).with("dynamo_endpoint", "generate");
    if !vllm::has_gauges(selection, &VLLM)
        && let Some(inflight_sum) = inflight.sum()
    {
        // The engine's lines come with the first request. Until then what is in flight is all there is; how it
        // splits into waiting and running is not told.
        builder.plan().running = Source::From(Gauge(inflight_sum));
        builder.plan().waiting = Source::ZeroWhileStill;
        builder.plan().also_still = inflight.slots();
        builder.plan().heartbeat = inflight.slots();
    }
    if matches!(builder.plan().kv_cache, Source::Absent(_) | Source::ZeroWhileStill) {
        let occupancy = selection.first(&WORKER_OCCUPANCY);
        if !occupancy.is_empty() {
            builder.gauge(Signal::KVCacheUtilization, occupancy.max(), selection, &WORKER_OCCUPANCY);
        }
    }
}

fn plan_frontend(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    let queued = selection.first(&QUEUED).sum().or_else(|| selection.first(&STAGES).sum());
    let active = selection.first(&ACTIVE).sum();
    let running = active.zip(queued.clone()).map(|(active, queued)| active.less(queued));
    builder.gauge(Signal::RunningRequests, running, selection, &ACTIVE);
    builder.gauge(Signal::WaitingRequests, queued, selection, &QUEUED);
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.latency(Signal::TimeToFirstToken, selection, &FIRST_TOKEN, 1.0);
    builder.latency(Signal::InterTokenLatency, selection, &INTER_TOKEN, 1.0);
}
