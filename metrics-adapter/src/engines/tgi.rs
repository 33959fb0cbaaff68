//! Hugging Face Text Generation Inference, 3.x. No labels; series appear with their first use.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{PlanBuilder, Rates, Source, bucket_names, owned};
use super::select::Selection;

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const QUEUE: [&str; 1] = ["tgi_queue_size"];
const BATCH: [&str; 1] = ["tgi_batch_current_size"];
/// Any of these proves that the server is alive; the first is there from its start.
const ALIVE: [&str; 4] =
    ["tgi_batch_max_total_tokens", "tgi_request_count", "tgi_request_success", "tgi_batch_inference_count"];
const GENERATED: [&str; 1] = ["tgi_request_generated_tokens_sum"];
const PROMPTS: [&str; 1] = ["tgi_request_input_length_sum"];
const FAILED: &str = "tgi_request_failure";
const PER_TOKEN: [&str; 1] = ["tgi_request_mean_time_per_token_duration"];
const QUEUE_TIME: [&str; 1] = ["tgi_request_queue_duration"];

fn names() -> Vec<String> {
    let mut wanted = owned(&[&QUEUE[..], &BATCH, &ALIVE, &GENERATED, &PROMPTS, &[FAILED]].concat());
    wanted.extend(bucket_names(&[PER_TOKEN, QUEUE_TIME].concat()));
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    QUEUE.iter().chain(&BATCH).chain(&ALIVE).any(|name| selection.has(name))
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    builder.gauge(Signal::WaitingRequests, selection.first(&QUEUE).sum(), selection, &QUEUE);
    builder.gauge(Signal::RunningRequests, selection.first(&BATCH).sum(), selection, &BATCH);
    builder.rate(Signal::GenerationTokenRate, selection, &GENERATED);
    builder.rate(Signal::PromptTokenRate, selection, &PROMPTS);
    let refused = selection.family(FAILED).with("err", "overloaded");
    let refused = if refused.is_empty() { Source::LazyZero } else { Source::From(Rates(refused.groups())) };
    builder.set_rate(Signal::RejectedRequestRate, refused);
    builder.latency(Signal::InterTokenLatency, selection, &PER_TOKEN, 1.0);
    builder.latency(Signal::QueueTime, selection, &QUEUE_TIME, 1.0);
    let plan = builder.plan();
    plan.heartbeat = selection.family("tgi_batch_inference_count").slots();
    if recognises(selection) {
        for gauge in [&mut plan.waiting, &mut plan.running] {
            lazily_zero(gauge);
        }
        for rate in [&mut plan.generation_tokens, &mut plan.prompt_tokens] {
            lazily_zero(rate);
        }
    }
}

fn lazily_zero<T>(source: &mut Source<T>) {
    if matches!(source, Source::Absent(_)) {
        *source = Source::LazyZero;
    }
}
