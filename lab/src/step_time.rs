//! How long one step of an engine takes.

use std::time::Duration;

use crate::time::milliseconds;

/// The linear model of a step's time, in milliseconds:
///
/// `max(a, c + d q + e q L) + b D + k C`
///
/// for D decoding sequences whose contexts sum to C tokens, and q prompt tokens that attend to L tokens on average.
/// Without a prompt it is `a + b D + k C`. The `max` is there because a small chunk is bound by reading the weights,
/// which the decoding part of the step pays for already.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// a: a step that only decodes, before any sequence is counted.
    pub decode_base: f64,
    /// b: each decoding sequence.
    pub per_sequence: f64,
    /// k: each token of context of the decoding sequences.
    pub per_context_token: f64,
    /// c: a step with prompt tokens.
    pub prefill_base: f64,
    /// d: each prompt token.
    pub per_prompt_token: f64,
    /// e: each pair of a prompt token and a token it attends to.
    pub per_attended_token: f64,
}

/// What one step computes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepLoad {
    /// D: sequences that decode one token.
    pub decoding: u32,
    /// C: the sum of their contexts, in tokens.
    pub context_tokens: u64,
    /// q: prompt tokens.
    pub prompt_tokens: u32,
    /// q L: for a chunk of n tokens after h computed ones `n (h + n / 2)`, summed over the chunks.
    pub attended_tokens: f64,
}

impl StepTime {
    /// The time of a step.
    pub fn of(&self, load: &StepLoad) -> Duration {
        let prefill = if load.prompt_tokens == 0 {
            self.decode_base
        } else {
            self.decode_base.max(
                self.prefill_base
                    + self.per_prompt_token * f64::from(load.prompt_tokens)
                    + self.per_attended_token * load.attended_tokens,
            )
        };
        let decode = self.per_sequence * f64::from(load.decoding) + self.per_context_token * load.context_tokens as f64;
        milliseconds(prefill + decode)
    }

    /// What the prompt tokens after the first `from` of a prompt add to its prefill on an idle engine.
    pub fn prefill_beyond(&self, from: u32, prompt_tokens: u32) -> Duration {
        let cost = |tokens: u32| {
            let tokens = f64::from(tokens);
            self.per_prompt_token * tokens + self.per_attended_token * tokens * tokens / 2.0
        };
        milliseconds(cost(prompt_tokens.max(from)) - cost(from))
    }
}

#[cfg(test)]
mod tests {
    use super::{StepLoad, StepTime};
    use crate::profile::Profile;
    use std::time::Duration;

    const P2B: StepTime = Profile::P2B.step_time;

    #[test]
    fn decoding_alone() {
        // Batch 64, contexts of 300 tokens: 7 + 0.011 x 64 + 4.2e-5 x 19,200 = 8.5104 ms.
        let load = StepLoad { decoding: 64, context_tokens: 64 * 300, ..StepLoad::default() };
        assert_eq!(P2B.of(&load), Duration::from_nanos(8_510_400));
    }

    #[test]
    fn a_small_chunk_hides_behind_the_weights() {
        let load = StepLoad { prompt_tokens: 10, attended_tokens: 50.0, ..StepLoad::default() };
        assert_eq!(P2B.of(&load), Duration::from_millis(7));
    }

    #[test]
    fn a_prompt_of_two_thousand_tokens() {
        // 4 + 0.0195 x 2,048 + 1e-6 x 2,048^2 / 2 = 46.033152 ms.
        let load = StepLoad { prompt_tokens: 2048, attended_tokens: 2048.0 * 1024.0, ..StepLoad::default() };
        assert_eq!(P2B.of(&load), Duration::from_nanos(46_033_152));
    }

    #[test]
    fn prefill_beyond_four_thousand_tokens() {
        assert_eq!(P2B.prefill_beyond(4096, 4000), Duration::ZERO);
        // 0.0195 x 4,096 + 1e-6 x (8,192^2 - 4,096^2) / 2 = 105.037824 ms.
        assert_eq!(P2B.prefill_beyond(4096, 8192), Duration::from_nanos(105_037_824));
    }
}
