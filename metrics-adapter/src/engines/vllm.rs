//! vLLM, V0 and V1, 0.6 to 0.33.

use headroom_policies::Signal;

use super::EngineMap;
use super::plan::{Gauge, PlanBuilder, Source, bucket_names};
use super::select::Selection;

pub(super) const MAP: EngineMap = EngineMap {
    names: || names(&Names::new("vllm:")),
    recognises: |selection| recognises(selection, &Names::new("vllm:")),
    plan: |selection, builder| {
        plan(selection, builder, &Names::new("vllm:"));
        silent_at_rest(builder);
    },
};

/// vLLM's names behind a prefix: other servers pass its metrics through under their own.
pub(super) struct Names {
    prefix: &'static str,
}

/// Occupancy: the new name first; 0.9.2 to 0.10.2 show both.
const KV_CACHE: [&str; 2] = ["kv_cache_usage_perc", "gpu_cache_usage_perc"];
const INTER_TOKEN: [&str; 2] = ["inter_token_latency_seconds", "time_per_output_token_seconds"];
const GAUGES: [&str; 6] = [
    "num_requests_running",
    "num_requests_waiting",
    "num_requests_waiting_by_reason",
    "engine_sleep_state",
    "cache_config_info",
    "iteration_tokens_total_count",
];
const COUNTERS: [&str; 4] = ["generation_tokens", "prompt_tokens", "num_preemptions", "admission_rejections"];

impl Names {
    pub(super) const fn new(prefix: &'static str) -> Self {
        Self { prefix }
    }

    fn one(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn several(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.one(name)).collect()
    }

    /// A counter's name on the wire first, then as documentation writes it.
    fn counter(&self, name: &str) -> [String; 2] {
        [self.one(&format!("{name}_total")), self.one(name)]
    }
}

pub(super) fn names(names: &Names) -> Vec<String> {
    let histograms = ["time_to_first_token_seconds", INTER_TOKEN[0], INTER_TOKEN[1], "request_queue_time_seconds"];
    let mut wanted = names.several(&GAUGES);
    wanted.extend(names.several(&KV_CACHE));
    wanted.extend(COUNTERS.iter().flat_map(|counter| names.counter(counter)));
    wanted.extend(bucket_names(&histograms).iter().map(|name| names.one(name)));
    wanted
}

pub(super) fn recognises(selection: &Selection<'_>, names: &Names) -> bool {
    let counters = names.counter("generation_tokens");
    let histogram = [names.one("time_to_first_token_seconds_bucket")];
    let gauges = names.several(&[&GAUGES[..], &KV_CACHE].concat());
    gauges.iter().chain(&counters).chain(&histogram).any(|name| selection.has(name))
}

pub(super) fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder, names: &Names) {
    set_heartbeat(selection, builder, names);
    for (signal, name) in
        [(Signal::WaitingRequests, "num_requests_waiting"), (Signal::RunningRequests, "num_requests_running")]
    {
        let own = [names.one(name)];
        builder.gauge(signal, selection.first(&own).sum(), selection, &own);
    }
    let deferred = selection.family(&names.one("num_requests_waiting_by_reason")).with("reason", "deferred");
    builder.plan().deferred = deferred.sum().map(Gauge);
    plan_cache(selection, builder, names);
    builder.rate(Signal::GenerationTokenRate, selection, &names.counter("generation_tokens"));
    builder.rate(Signal::PromptTokenRate, selection, &names.counter("prompt_tokens"));
    builder.rate(Signal::PreemptionRate, selection, &names.counter("num_preemptions"));
    builder.rate(Signal::RejectedRequestRate, selection, &names.counter("admission_rejections"));
    builder.latency(Signal::TimeToFirstToken, selection, &[names.one("time_to_first_token_seconds")], 1.0);
    builder.latency(Signal::InterTokenLatency, selection, &names.several(&INTER_TOKEN), 1.0);
    builder.latency(Signal::QueueTime, selection, &[names.one("request_queue_time_seconds")], 1.0);
}

/// Several API servers share gauges that appear only with the first step: while the counters are there and stand
/// still, absent gauges are zero. (V0 has no counters either until then, so of it nothing is known.)
pub(super) fn silent_at_rest(builder: &mut PlanBuilder) {
    let plan = builder.plan();
    let alive = !plan.heartbeat.is_empty();
    for source in [&mut plan.waiting, &mut plan.running, &mut plan.kv_cache] {
        if alive && matches!(source, Source::Absent(_)) {
            *source = Source::ZeroWhileStill;
        }
    }
}

/// A step moves the histogram of its tokens and, in decoding, the output tokens.
fn set_heartbeat(selection: &Selection<'_>, builder: &mut PlanBuilder, names: &Names) {
    let mut slots = selection.family(&names.one("iteration_tokens_total_count")).slots();
    slots.extend(selection.first(&names.counter("generation_tokens")).slots());
    slots.extend(selection.first(&names.counter("prompt_tokens")).slots());
    builder.plan().heartbeat = slots;
    builder.plan().awake = selection.family(&names.one("engine_sleep_state")).with("sleep_state", "awake").slots();
}

fn plan_cache(selection: &Selection<'_>, builder: &mut PlanBuilder, names: &Names) {
    let (new, old) = (selection.family(&names.one(KV_CACHE[0])), selection.family(&names.one(KV_CACHE[1])));
    // With several API servers 0.9.2 to 0.11.0 leaked one series a process under the new name, each as old as the
    // last statistics its process got; the old name has none of that.
    let leaked = new.has_label("pid") && !old.is_empty();
    let family = if new.is_empty() || leaked { old } else { new };
    let own = names.several(&KV_CACHE);
    builder.gauge(Signal::KVCacheUtilization, family.max(), selection, &own);
    builder.plan().kv_cache_mean = family.mean().map(Gauge);
    let tokens = family.mean().zip(capacity(selection, names)).map(|(mean, tokens)| mean.times(tokens));
    builder.gauge(Signal::KVCacheTokens, tokens, selection, &[names.one("cache_config_info")]);
}

/// Tokens the KV cache holds. With several ranks each line already says the sum, so the largest counts.
fn capacity(selection: &Selection<'_>, names: &Names) -> Option<f64> {
    let info = selection.family(&names.one("cache_config_info"));
    let blocks = info.largest_label("num_gpu_blocks").zip(info.largest_label("block_size"));
    info.largest_label("kv_cache_size_tokens").or(blocks.map(|(blocks, size)| blocks * size))
}

/// vLLM's own gauges are in the page, which other servers pass through.
pub(super) fn has_gauges(selection: &Selection<'_>, names: &Names) -> bool {
    selection.has(&names.one("num_requests_running")) || selection.has(&names.one("num_requests_waiting"))
}
