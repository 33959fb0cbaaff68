//! What is simulated: a model on an accelerator, with its step times, its memory, its limits and its start-up.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::cold_start::{EIGHT_B, SEVENTY_B, StageMedians, StartCondition, StartMedians, THIRTEEN_B};
use crate::step_time::StepTime;

/// Prompts up to this many tokens must meet the plain limit of the time to the first token.
const PLAIN_PROMPT: u32 = 4096;
/// The longest context of the Llama-3.1 models; where the KV pool is smaller, the pool is the limit.
const LLAMA_CONTEXT: u32 = 131_072;

/// A model on an accelerator.
///
/// Step times are fits to kernel times measured on A100 and H100 SXM (aiconfigurator 0.12.0, vLLM backend, BF16),
/// raised at the base to meet published end-to-end figures: 61 ms a token for 8B on an L4 (vLLM pull request 11078),
/// 13.3 ms on an A100-40GB, 7.0 to 8.7 ms on an H100 (parameter estimation of the workload-variant-autoscaler). Mean
/// error of decode 7 to 13 %, of prefill 1 to 6 %. P1 rests on one measurement and the roofline (300 GB/s, 121
/// TFLOPS, 53 % of peak in prefill), with 15 % and 30 % to either side.
///
/// The KV pool is `(0.9 x memory - weights - overhead) / bytes a token`, with 16-bit values: 128 KiB a token for 8B,
/// 320 KiB for 70B, 800 KiB for 13B without grouped-query attention. Two measured pools imply 2.4 to 3.0 GiB of
/// overhead a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// The short name, `P1` to `P4`.
    pub name: &'static str,
    /// The model and its accelerators, for people.
    pub title: &'static str,
    /// How long a step takes.
    pub step_time: StepTime,
    /// Tokens the KV cache of a replica holds.
    pub kv_pool_tokens: u32,
    /// vLLM's `max_num_batched_tokens`: 8192 on H100-class accelerators, 2048 elsewhere, as `vllm serve` chooses.
    pub max_num_batched_tokens: u32,
    /// vLLM's `max_num_seqs`.
    pub max_num_seqs: u32,
    /// The longest prompt and answer together, in tokens; the KV pool can be a tighter limit.
    pub max_model_len: u32,
    /// Accelerators of one replica.
    pub gpus: u32,
    /// What a request is to meet.
    pub slo: SloLimits,
    /// Medians of the stages of a start.
    pub start: StartMedians,
}

/// What a request is to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SloLimits {
    /// The longest time from arrival to the first token, for prompts up to 4,096 tokens.
    pub time_to_first_token: Duration,
    /// The longest mean time between the tokens after the first.
    pub time_per_output_token: Duration,
}

impl Profile {
    /// 8B on one L4: little memory, so that preemption turns overload into collapse.
    pub const P1: Self = Self {
        name: "P1",
        title: "8B on L4",
        step_time: step_time([61.0, 0.041, 5.3e-4, 20.0, 0.25, 6e-6]),
        kv_pool_tokens: 26_000,
        max_num_batched_tokens: 2048,
        max_num_seqs: 256,
        max_model_len: LLAMA_CONTEXT,
        gpus: 1,
        slo: limits(2000, 100),
        start: EIGHT_B,
    };
    /// 8B on one A100-80GB.
    pub const P2A: Self = Self {
        name: "P2a",
        title: "8B on A100-80GB",
        step_time: step_time([12.5, 0.037, 8.1e-5, 8.0, 0.055, 3e-6]),
        kv_pool_tokens: 440_000,
        max_num_batched_tokens: 2048,
        max_num_seqs: 256,
        max_model_len: LLAMA_CONTEXT,
        gpus: 1,
        slo: limits(1000, 40),
        start: EIGHT_B,
    };
    /// 8B on one H100.
    pub const P2B: Self = Self {
        name: "P2b",
        title: "8B on H100",
        step_time: step_time([7.0, 0.011, 4.2e-5, 4.0, 0.0195, 1e-6]),
        kv_pool_tokens: 437_000,
        max_num_batched_tokens: 8192,
        max_num_seqs: 256,
        max_model_len: LLAMA_CONTEXT,
        gpus: 1,
        slo: limits(1000, 40),
        start: EIGHT_B,
    };
    /// 70B on four H100: much memory, so that neither queue nor KV cache shows the misses.
    pub const P3: Self = Self {
        name: "P3",
        title: "70B on 4 x H100",
        step_time: step_time([16.5, 0.032, 2.7e-5, 9.0, 0.0605, 1.2e-6]),
        kv_pool_tokens: 463_000,
        max_num_batched_tokens: 8192,
        max_num_seqs: 256,
        max_model_len: LLAMA_CONTEXT,
        gpus: 4,
        slo: limits(1500, 60),
        start: SEVENTY_B,
    };
    /// 13B without grouped-query attention on one A100-80GB: the KV cache binds, not the arithmetic.
    pub const P4: Self = Self {
        name: "P4",
        title: "13B on A100-80GB",
        step_time: step_time([23.5, 0.034, 5.3e-4, 14.0, 0.092, 5e-6]),
        kv_pool_tokens: 58_000,
        max_num_batched_tokens: 2048,
        max_num_seqs: 256,
        max_model_len: LLAMA_CONTEXT,
        gpus: 1,
        slo: limits(1500, 80),
        start: THIRTEEN_B,
    };
    /// All profiles.
    pub const ALL: [Self; 5] = [Self::P1, Self::P2A, Self::P2B, Self::P3, Self::P4];

    /// The longest time to the first token that meets the objective: beyond 4,096 prompt tokens twice the prefill time
    /// of the rest on an idle engine is added, or no fleet could meet it.
    pub fn first_token_limit(&self, prompt_tokens: u32) -> Duration {
        self.slo.time_to_first_token + 2 * self.step_time.prefill_beyond(PLAIN_PROMPT, prompt_tokens)
    }

    /// Medians of the stages of a start.
    pub fn stage_medians(&self, condition: StartCondition) -> StageMedians {
        self.start.of(condition)
    }
}

/// The coefficients a, b, k, c, d, e.
const fn step_time(coefficients: [f64; 6]) -> StepTime {
    let [decode_base, per_sequence, per_context_token, prefill_base, per_prompt_token, per_attended_token] =
        coefficients;
    StepTime { decode_base, per_sequence, per_context_token, prefill_base, per_prompt_token, per_attended_token }
}

const fn limits(first_token_millis: u64, per_token_millis: u64) -> SloLimits {
    SloLimits {
        time_to_first_token: Duration::from_millis(first_token_millis),
        time_per_output_token: Duration::from_millis(per_token_millis),
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.title)
    }
}

/// A name that no profile has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile {name:?}; choose one of {}", Profile::ALL.map(|profile| profile.to_string()).join(", "))]
pub struct UnknownProfile {
    /// The name asked for.
    pub name: String,
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    /// Finds a profile by its name; capitals do not count.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|profile| profile.name.eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| UnknownProfile { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Profile;
    use std::time::Duration;

    #[test]
    fn names_are_read_whatever_their_case() {
        assert_eq!("p1".parse(), Ok(Profile::P1));
        assert_eq!(" P2A ".parse(), Ok(Profile::P2A));
        for profile in Profile::ALL {
            assert_eq!(profile.name.parse(), Ok(profile));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_there_are() {
        let error = "p2".parse::<Profile>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no profile \"p2\"; choose one of P1 (8B on L4), P2a (8B on A100-80GB), P2b (8B on H100), \
             P3 (70B on 4 x H100), P4 (13B on A100-80GB)"
        );
    }

    #[test]
    fn long_prompts_are_given_more_time() {
        assert_eq!(Profile::P1.first_token_limit(4096), Duration::from_secs(2));
        // Twice (0.25 x 4,096 + 6e-6 x (8,192^2 - 4,096^2) / 2) ms = 2 x 1,174.994944 ms.
        assert_eq!(Profile::P1.first_token_limit(8192), Duration::from_nanos(2_000_000_000 + 2_349_989_888));
    }
}
