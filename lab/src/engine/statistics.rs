//! What an engine counts, as vLLM does.

use std::time::Duration;

use super::sequence::Sequence;
use crate::histogram::Histogram;
use crate::time::ModelTime;

/// Upper bounds of vLLM's `time_to_first_token_seconds`.
const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Upper bounds of vLLM's times between tokens.
const BETWEEN_TOKENS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// Upper bounds of vLLM's times of whole requests and their phases.
const REQUEST: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Upper bounds of vLLM's `iteration_tokens_total`.
const ITERATION: [f64; 13] = [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
/// Upper bounds of vLLM's `request_params_n`.
const CHOICES: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];
/// Upper bounds of vLLM's `request_num_preemptions`.
const PREEMPTIONS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// The state of an engine at the end of its last step: vLLM's gauges change only then.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauges {
    /// Requests admitted.
    pub running: u32,
    /// Requests waiting to be admitted.
    pub waiting: u32,
    /// KV blocks held by running requests, as a fraction of all.
    pub kv_usage: f64,
}

/// The highest an engine has seen at the beginning of a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Peaks {
    /// Requests waiting, before any is admitted.
    pub waiting: u32,
    /// KV blocks held with those of the step, as a fraction of all.
    pub kv_usage: f64,
}

impl Peaks {
    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { waiting: self.waiting.max(other.waiting), kv_usage: self.kv_usage.max(other.kv_usage) }
    }
}

/// What an engine has counted since it began. Histograms of time are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Steps that ended.
    pub steps: u64,
    /// Time in which a step ran.
    pub busy: Duration,
    /// Prompt tokens of requests whose prompt was computed.
    pub prompt_tokens: u64,
    /// Tokens that came out.
    pub generation_tokens: u64,
    /// Requests that finished.
    pub finished: u64,
    /// Times a request lost its KV blocks.
    pub preemptions: u64,
    /// The highest seen.
    pub peaks: Peaks,
    /// Tokens computed or made in each step.
    pub iteration_tokens: Histogram,
    /// From submission to the first token.
    pub time_to_first_token: Histogram,
    /// Between two tokens of a request.
    pub inter_token_latency: Histogram,
    /// Mean time between tokens of each finished request.
    pub request_time_per_output_token: Histogram,
    /// From submission to the last token.
    pub request_latency: Histogram,
    /// From submission until admitted.
    pub request_queue_time: Histogram,
    /// From admission to the last token.
    pub request_inference_time: Histogram,
    /// From admission to the first token.
    pub request_prefill_time: Histogram,
    /// From the first token to the last.
    pub request_decode_time: Histogram,
    /// Prompt tokens of finished requests.
    pub request_prompt_tokens: Histogram,
    /// Output tokens of finished requests.
    pub request_generation_tokens: Histogram,
    /// Choices asked for by finished requests: always one.
    pub request_choices: Histogram,
    /// Preemptions of finished requests.
    pub request_preemptions: Histogram,
}

impl Statistics {
    /// Nothing counted yet. Token counts of requests are told apart up to the longest context.
    pub(super) fn new(max_model_len: u32) -> Self {
        let token_counts = one_two_five(max_model_len);
        Self {
            steps: 0,
            busy: Duration::ZERO,
            prompt_tokens: 0,
            generation_tokens: 0,
            finished: 0,
            preemptions: 0,
            peaks: Peaks::default(),
            iteration_tokens: Histogram::new(&ITERATION),
            time_to_first_token: Histogram::new(&FIRST_TOKEN),
            inter_token_latency: Histogram::new(&BETWEEN_TOKENS),
            request_time_per_output_token: Histogram::new(&BETWEEN_TOKENS),
            request_latency: Histogram::new(&REQUEST),
            request_queue_time: Histogram::new(&REQUEST),
            request_inference_time: Histogram::new(&REQUEST),
            request_prefill_time: Histogram::new(&REQUEST),
            request_decode_time: Histogram::new(&REQUEST),
            request_prompt_tokens: Histogram::new(&token_counts),
            request_generation_tokens: Histogram::new(&token_counts),
            request_choices: Histogram::new(&CHOICES),
            request_preemptions: Histogram::new(&PREEMPTIONS),
        }
    }

    /// Counts a request that gave its last of `tokens` tokens at `at`.
    pub(super) fn finish(&mut self, sequence: &Sequence, tokens: u32, at: ModelTime) {
        let scheduled_at = sequence.scheduled_at.unwrap_or(sequence.submitted_at);
        let first_token_at = sequence.first_token_at.unwrap_or(at);
        let decode = at.since(first_token_at).as_secs_f64();
        self.finished += 1;
        self.request_latency.observe(at.since(sequence.submitted_at).as_secs_f64());
        self.request_queue_time.observe(scheduled_at.since(sequence.submitted_at).as_secs_f64());
        self.request_inference_time.observe(at.since(scheduled_at).as_secs_f64());
        self.request_prefill_time.observe(first_token_at.since(scheduled_at).as_secs_f64());
        self.request_decode_time.observe(decode);
        self.request_time_per_output_token.observe(decode / f64::from(tokens.saturating_sub(1).max(1)));
        self.request_prompt_tokens.observe(f64::from(sequence.request.prompt_tokens));
        self.request_generation_tokens.observe(f64::from(tokens));
        self.request_choices.observe(1.0);
        self.request_preemptions.observe(f64::from(sequence.preemptions));
    }
}

/// 1, 2, 5, 10, 20, 50 and so on, up to `limit`.
fn one_two_five(limit: u32) -> Vec<f64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let bounds = powers.flat_map(|power| [1, 2, 5].map(|digit| digit * u128::from(power)));
    bounds.take_while(|bound| *bound <= u128::from(limit)).map(|bound| bound as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::one_two_five;

    #[test]
    fn token_counts_end_at_the_context() {
        assert_eq!(one_two_five(512), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(one_two_five(20).last(), Some(&20.0));
    }
}
