//! An engine's metrics page, as vLLM 0.32 with one API server writes it: names, labels and their order, families and
//! their order, bucket bounds, created series and the families of the Python process. What the model has no notion of
//! (prefix and multimodal caches, floating point operations) stands at zero, as on an engine that does not use it.

mod process;
mod text;

use std::time::Duration;

use text::{Writer, escape};

use crate::engine::{Engine, Gauges};
use crate::histogram::Histogram;

/// The version of vLLM whose page this is.
pub const VLLM_VERSION: &str = "0.32.0";
/// The media type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes the pages of one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    model: String,
    created: f64,
}

impl Page {
    /// The page of an engine that serves `model_name` and was started so long after 1970-01-01T00:00:00Z.
    pub fn new(model_name: &str, started: Duration) -> Self {
        let mut model = String::from("model_name=\"");
        escape(model_name, &mut model);
        model.push('"');
        Self { model, created: started.as_secs_f64() }
    }

    /// Replaces `out` by the engine's page of now, about 46 kB.
    pub fn write(&self, engine: &Engine, out: &mut String) {
        out.clear();
        let mut writer = Writer { out, engine: "engine=\"0\"", model: &self.model, created: self.created };
        process::write(&mut writer, engine);
        write_gauges(&mut writer, &engine.gauges());
        write_caches(&mut writer);
        write_counters(&mut writer, engine, &self.model);
        write_sizes(&mut writer, engine);
        write_times(&mut writer, engine);
        write_cache_config(&mut writer, engine);
    }
}

fn write_gauges(writer: &mut Writer<'_>, gauges: &Gauges) {
    for (name, what) in [
        ("vllm:estimated_flops_per_gpu", "Floating point operations of each GPU, estimated."),
        ("vllm:estimated_read_bytes_per_gpu", "Bytes each GPU read from its memory, estimated."),
        ("vllm:estimated_write_bytes_per_gpu", "Bytes each GPU wrote to its memory, estimated."),
    ] {
        writer.counter(name, what, 0);
    }
    writer.gauge("vllm:num_requests_running", "Requests in the batch of the model.", f64::from(gauges.running));
    writer.gauge("vllm:num_requests_waiting", "Requests that wait for the batch.", f64::from(gauges.waiting));
    writer.gauge_by(
        "vllm:num_requests_waiting_by_reason",
        "Requests that wait for the batch, by what they wait for: capacity of the scheduler, or something that passes. \
         The parts add up to vllm:num_requests_waiting.",
        "reason",
        &[("capacity", f64::from(gauges.waiting)), ("deferred", 0.0)],
    );
    writer.gauge_by(
        "vllm:engine_sleep_state",
        "Which state of sleep the engine is in: 1 for that state, 0 for the others.",
        "sleep_state",
        &[("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)],
    );
    writer.gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is all of it.", gauges.kv_usage);
}

fn write_caches(writer: &mut Writer<'_>) {
    for (name, what) in [
        ("vllm:prefix_cache_queries", "Tokens looked up in the prefix cache."),
        ("vllm:prefix_cache_hits", "Tokens found in the prefix cache."),
        ("vllm:external_prefix_cache_queries", "Tokens looked up in a prefix cache shared by several instances."),
        ("vllm:external_prefix_cache_hits", "Tokens found in a prefix cache shared by several instances."),
        ("vllm:mm_cache_queries", "Items looked up in the cache of multimodal inputs."),
        ("vllm:mm_cache_hits", "Items found in the cache of multimodal inputs."),
    ] {
        writer.counter(name, what, 0);
    }
}

fn write_counters(writer: &mut Writer<'_>, engine: &Engine, model: &str) {
    let statistics = engine.statistics();
    writer.counter("vllm:num_preemptions", "Preemptions since the start.", statistics.preemptions);
    writer.counter("vllm:prompt_tokens", "Prompt tokens processed.", statistics.prompt_tokens);
    writer.counter_by(
        "vllm:prompt_tokens_by_source",
        "Prompt tokens by where their KV entries came from.",
        "source",
        &[("local_compute", statistics.prompt_tokens), ("local_cache_hit", 0), ("external_kv_transfer", 0)],
    );
    writer.counter("vllm:prompt_tokens_cached", "Prompt tokens whose KV entries were there, here or elsewhere.", 0);
    writer.counter_by(
        "vllm:prompt_tokens_cached_by_source",
        "Prompt tokens whose KV entries were there, by the tier that had them.",
        "source",
        &["device", "host", "p2p", "disk", "external_unspecified"].map(|tier| (tier, 0)),
    );
    writer.counter("vllm:generation_tokens", "Tokens generated.", statistics.generation_tokens);
    writer.counter_by(
        "vllm:request_success",
        "Requests that ended, by reason.",
        "finished_reason",
        &[("stop", 0), ("length", statistics.finished), ("abort", 0), ("error", 0), ("repetition", 0)],
    );
    // The one family without the label of the engine.
    let help = "Requests turned away by a limit of the queue, by limit.";
    for (name, kind, value) in [
        ("vllm:admission_rejections_total", "counter", 0.0),
        ("vllm:admission_rejections_created", "gauge", writer.created),
    ] {
        writer.family(name, kind, help);
        for reason in ["max_num_queued_reqs", "max_num_queued_tokens"] {
            writer.plain(name, &format!("{model},reason=\"{reason}\""), value);
        }
    }
}

fn write_all(writer: &mut Writer<'_>, histograms: &[(&str, &str, &Histogram)]) {
    for (name, help, histogram) in histograms {
        writer.histogram(name, help, histogram);
    }
}

fn write_sizes(writer: &mut Writer<'_>, engine: &Engine) {
    let statistics = engine.statistics();
    let outputs = &statistics.request_generation_tokens;
    write_all(
        writer,
        &[
            ("vllm:request_prompt_tokens", "Prompt tokens of each request.", &statistics.request_prompt_tokens),
            ("vllm:request_generation_tokens", "Tokens generated for each request.", outputs),
            ("vllm:iteration_tokens_total", "Tokens of each engine step.", &statistics.iteration_tokens),
            (
                "vllm:request_max_num_generation_tokens",
                "Tokens of the longest choice of each request.",
                // One choice a request, so the longest is the only one.
                outputs,
            ),
            ("vllm:request_params_n", "Choices each request asked for.", &statistics.request_choices),
            // The model makes exactly as many tokens as are asked for.
            ("vllm:request_params_max_tokens", "The most tokens each request asked for.", outputs),
        ],
    );
}

fn write_times(writer: &mut Writer<'_>, engine: &Engine) {
    let statistics = engine.statistics();
    write_all(
        writer,
        &[
            (
                "vllm:time_to_first_token_seconds",
                "Seconds from arrival to the first token.",
                &statistics.time_to_first_token,
            ),
            ("vllm:inter_token_latency_seconds", "Seconds between two tokens.", &statistics.inter_token_latency),
            (
                "vllm:request_time_per_output_token_seconds",
                "Mean seconds between the tokens of each request.",
                &statistics.request_time_per_output_token,
            ),
            (
                "vllm:e2e_request_latency_seconds",
                "Seconds from arrival to the last token of each request.",
                &statistics.request_latency,
            ),
            (
                "vllm:request_queue_time_seconds",
                "Seconds each request waited for the batch.",
                &statistics.request_queue_time,
            ),
            (
                "vllm:request_inference_time_seconds",
                "Seconds each request was in the batch.",
                &statistics.request_inference_time,
            ),
            (
                "vllm:request_prefill_time_seconds",
                "Seconds each request was in the batch before its first token.",
                &statistics.request_prefill_time,
            ),
            (
                "vllm:request_decode_time_seconds",
                "Seconds each request was in the batch after its first token.",
                &statistics.request_decode_time,
            ),
            ("vllm:request_num_preemptions", "Preemptions of each request.", &statistics.request_preemptions),
            // Without a prefix cache every prompt token is computed.
            (
                "vllm:request_prefill_kv_computed_tokens",
                "Prompt tokens of each request that were computed, not found in a cache.",
                &statistics.request_prompt_tokens,
            ),
        ],
    );
}

fn write_cache_config(writer: &mut Writer<'_>, engine: &Engine) {
    let settings = engine.settings();
    let (block_size, blocks) = (settings.block_size, settings.kv_blocks());
    let tokens = blocks * block_size;
    let concurrency = f64::from(tokens) / f64::from(settings.longest_request().max(1));
    let labels = format!(
        "_block_size_resolved=\"True\",block_size=\"{block_size}\",cache_dtype=\"auto\",\
         enable_prefix_caching=\"False\",engine=\"0\",gpu_memory_utilization=\"0.9\",is_attention_free=\"False\",\
         kv_cache_max_concurrency=\"{concurrency:?}\",kv_cache_memory_bytes=\"None\",kv_cache_size_tokens=\"{tokens}\",\
         kv_offloading_backend=\"native\",kv_offloading_size=\"None\",mamba_cache_mode=\"none\",\
         num_cpu_blocks=\"None\",num_gpu_blocks=\"{blocks}\",num_gpu_blocks_override=\"None\",\
         prefix_caching_hash_algo=\"sha256\",sliding_window=\"None\",user_specified_block_size=\"False\""
    );
    writer.family("vllm:cache_config_info", "gauge", "How the KV cache is set up, in labels.");
    writer.plain("vllm:cache_config_info", &labels, 1.0);
}
