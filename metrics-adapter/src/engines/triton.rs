//! NVIDIA Triton: with the TensorRT-LLM backend a signal is a label of one family; with the vLLM backend only
//! tokens and latencies are shown; with any other, only the generic queue.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Expression, Gauge, PlanBuilder, Source, bucket_names, owned};
use super::select::Selection;

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const REQUESTS: &str = "nv_trt_llm_request_metrics";
const BLOCKS: &str = "nv_trt_llm_kv_cache_block_metrics";
const GENERAL: &str = "nv_trt_llm_general_metrics";
const PENDING: [&str; 1] = ["nv_inference_pending_request_count"];
const SUCCEEDED: &str = "nv_inference_request_success";
const GENERATED: [&str; 1] = ["vllm:generation_tokens_total"];
const PROMPTS: [&str; 1] = ["vllm:prompt_tokens_total"];
const FIRST_RESPONSE: [&str; 1] = ["nv_inference_first_response_histogram_ms"];
const FIRST_TOKEN: [&str; 1] = ["vllm:time_to_first_token_seconds"];
const PER_TOKEN: [&str; 2] = ["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"];

fn names() -> Vec<String> {
    let mut wanted = owned(&[REQUESTS, BLOCKS, GENERAL, PENDING[0], SUCCEEDED, GENERATED[0], PROMPTS[0]]);
    wanted.extend([&FIRST_RESPONSE[..], &FIRST_TOKEN, &PER_TOKEN].iter().flat_map(|names| bucket_names(names)));
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    [REQUESTS, PENDING[0], SUCCEEDED].iter().any(|name| selection.has(name))
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    if selection.has(REQUESTS) {
        plan_tensorrt_llm(selection, builder);
    } else if selection.has(GENERATED[0]) || selection.has("vllm:time_to_first_token_seconds_bucket") {
        // Continuous batching takes every request at once: the generic queue stays at 0 while the engine queues.
        builder.set_gauge(Signal::WaitingRequests, Source::NotExported);
    } else {
        builder.gauge(Signal::WaitingRequests, pending(selection), selection, &PENDING);
    }
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.rate(Signal::PromptTokenRate, selection, &PROMPTS);
    if selection.has("nv_inference_first_response_histogram_ms_bucket") {
        builder.latency(Signal::TimeToFirstToken, selection, &FIRST_RESPONSE, 0.001);
    } else {
        builder.latency(Signal::TimeToFirstToken, selection, &FIRST_TOKEN, 1.0);
    }
    builder.latency(Signal::InterTokenLatency, selection, &PER_TOKEN, 1.0);
}

/// One stage's queue: an ensemble's stages see the same requests, so the largest counts.
fn pending(selection: &Selection<'_>) -> Option<Expression> {
    selection.first(&PENDING).max()
}

fn plan_tensorrt_llm(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    let requests = |kind: &str| selection.family(REQUESTS).with("request_type", kind).sum();
    let difference = requests("active").zip(requests("scheduled")).map(|(active, scheduled)| active.less(scheduled));
    let waiting = requests("waiting").or(difference);
    builder.gauge(Signal::WaitingRequests, waiting, selection, &[REQUESTS]);
    builder.gauge(Signal::RunningRequests, requests("scheduled"), selection, &[REQUESTS]);
    let blocks = |kind: &str| selection.family(BLOCKS).with("kv_cache_block_type", kind);
    let ratio = blocks("used").sum().zip(blocks("max").sum()).map(|(used, most)| used.over(most));
    let occupancy = ratio.or_else(|| blocks("fraction").max());
    builder.plan().kv_cache_mean = occupancy.clone().map(Gauge);
    builder.gauge(Signal::KVCacheUtilization, occupancy, selection, &[BLOCKS]);
    let tokens = blocks("used").sum().zip(blocks("tokens_per").max()).map(|(used, each)| used.product(each));
    builder.gauge(Signal::KVCacheTokens, tokens, selection, &[BLOCKS]);
    builder.plan().heartbeat = selection.family(GENERAL).with("general_type", "iteration_counter").slots();
}
