//! TensorRT-LLM's own server, `trtllm-serve`, whose exposition is at `/prometheus/metrics`.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Gauge, PlanBuilder, bucket_names, owned};
use super::select::Selection;

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const WAITING: [&str; 2] = ["trtllm_num_requests_waiting", "trtllm:num_requests_waiting"];
const RUNNING: [&str; 2] = ["trtllm_num_requests_running", "trtllm:num_requests_running"];
const UTILIZATION: [&str; 2] = ["trtllm_kv_cache_utilization", "trtllm:kv_cache_utilization"];
const USED_BLOCKS: [&str; 1] = ["trtllm_kv_cache_used_blocks"];
const BLOCK_TOKENS: [&str; 1] = ["trtllm_kv_cache_tokens_per_block"];
const GENERATED: [&str; 1] = ["trtllm_generation_tokens_total"];
const PROMPTS: [&str; 1] = ["trtllm_prompt_tokens_total"];
/// The last ones are those of 1.0 and 1.1, which had no prefix.
const FIRST_TOKEN: [&str; 3] =
    ["trtllm_time_to_first_token_seconds", "trtllm:time_to_first_token_seconds", "time_to_first_token_seconds"];
const PER_TOKEN: [&str; 3] =
    ["trtllm_time_per_output_token_seconds", "trtllm:time_per_output_token_seconds", "time_per_output_token_seconds"];
const QUEUE_TIME: [&str; 3] =
    ["trtllm_request_queue_time_seconds", "trtllm:request_queue_time_seconds", "request_queue_time_seconds"];
const TELLING: [&str; 2] = ["trtllm_request_success_total", "trtllm:request_success_total"];

fn names() -> Vec<String> {
    let gauges = [WAITING, RUNNING, UTILIZATION, TELLING].concat();
    let mut wanted = owned(&[gauges, [USED_BLOCKS, BLOCK_TOKENS, GENERATED, PROMPTS].concat()].concat());
    wanted.extend(bucket_names(&[FIRST_TOKEN, PER_TOKEN, QUEUE_TIME].concat()));
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    let prefixed = [&WAITING[..], &RUNNING, &UTILIZATION, &TELLING, &GENERATED, &PROMPTS].concat();
    prefixed.iter().any(|name| selection.has(name))
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    builder.gauge(Signal::WaitingRequests, selection.first(&WAITING).sum(), selection, &WAITING);
    builder.gauge(Signal::RunningRequests, selection.first(&RUNNING).sum(), selection, &RUNNING);
    let occupancy = selection.first(&UTILIZATION);
    builder.gauge(Signal::KVCacheUtilization, occupancy.max(), selection, &UTILIZATION);
    builder.plan().kv_cache_mean = occupancy.mean().map(Gauge);
    let (used, each) = (selection.first(&USED_BLOCKS).sum(), selection.first(&BLOCK_TOKENS).max());
    let tokens = used.zip(each).map(|(used, each)| used.product(each));
    builder.gauge(Signal::KVCacheTokens, tokens, selection, &USED_BLOCKS);
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.rate(Signal::PromptTokenRate, selection, &PROMPTS);
    builder.latency(Signal::TimeToFirstToken, selection, &FIRST_TOKEN, 1.0);
    builder.latency(Signal::InterTokenLatency, selection, &PER_TOKEN, 1.0);
    builder.latency(Signal::QueueTime, selection, &QUEUE_TIME, 1.0);
}
