//! How an engine is set up.

use super::request::{Refusal, Request};
use crate::profile::Profile;
use crate::step_time::StepTime;

/// Tokens in a block of vLLM's KV cache on GPUs.
const BLOCK_SIZE: u32 = 16;

/// How an engine is set up. Names are those of vLLM's arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineSettings {
    /// How long a step takes.
    pub step_time: StepTime,
    /// Deviation of the logarithm of a factor on each step's time; 0 for none. Real engines show 0.05 to 0.10.
    pub noise_sigma: f64,
    /// Which noise.
    pub seed: u64,
    /// Tokens the KV cache holds; rounded down to whole blocks.
    pub kv_pool_tokens: u32,
    /// Tokens in a KV block, at least 1.
    pub block_size: u32,
    /// Tokens computed in one step at most, at least 1.
    pub max_num_batched_tokens: u32,
    /// Sequences running at a time, at least 1 and at most `max_num_batched_tokens`.
    pub max_num_seqs: u32,
    /// The longest prompt and answer together, in tokens.
    pub max_model_len: u32,
}

impl EngineSettings {
    /// The settings of a profile, without noise.
    pub fn of(profile: &Profile) -> Self {
        Self {
            step_time: profile.step_time,
            noise_sigma: 0.0,
            seed: 0,
            kv_pool_tokens: profile.kv_pool_tokens,
            block_size: BLOCK_SIZE,
            max_num_batched_tokens: profile.max_num_batched_tokens,
            max_num_seqs: profile.max_num_seqs,
            max_model_len: profile.max_model_len,
        }
    }

    /// The settings with every number in its range.
    pub(super) fn in_range(self) -> Self {
        let max_num_batched_tokens = self.max_num_batched_tokens.max(1);
        Self {
            block_size: self.block_size.max(1),
            max_num_batched_tokens,
            max_num_seqs: self.max_num_seqs.clamp(1, max_num_batched_tokens),
            ..self
        }
    }

    /// Blocks of the KV cache.
    pub fn kv_blocks(&self) -> u32 {
        self.kv_pool_tokens / self.block_size.max(1)
    }

    /// The longest prompt and answer together that the engine takes, in tokens: the model's context or the KV cache.
    pub fn longest_request(&self) -> u32 {
        self.max_model_len.min(self.kv_blocks() * self.block_size)
    }

    /// Whether the engine takes a request, else why not.
    pub fn admits(&self, request: &Request) -> Result<(), Refusal> {
        let Request { prompt_tokens, output_tokens, .. } = *request;
        if prompt_tokens == 0 || output_tokens == 0 {
            return Err(Refusal::Empty { prompt_tokens, output_tokens });
        }
        let needed = u64::from(prompt_tokens) + u64::from(output_tokens);
        if needed > u64::from(self.max_model_len) {
            return Err(Refusal::ExceedsContext { prompt_tokens, needed, limit: self.max_model_len });
        }
        let limit = self.longest_request();
        if needed > u64::from(limit) {
            return Err(Refusal::ExceedsKvPool { prompt_tokens, needed, limit });
        }
        Ok(())
    }
}
