//! One request inside an engine.

use super::batch::Decoding;
use super::request::{Outcome, Request, RequestId};
use crate::time::ModelTime;

/// Where an engine keeps a sequence.
pub(super) type Slot = usize;

/// What a sequence is doing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    Waiting,
    /// Its prompt is computed chunk by chunk.
    Prefilling,
    Decoding(Decoding),
}

/// One request inside an engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) request: Request,
    /// When the engine got it.
    pub(super) submitted_at: ModelTime,
    /// When it was first admitted.
    pub(super) scheduled_at: Option<ModelTime>,
    pub(super) first_token_at: Option<ModelTime>,
    /// When it last gave a token before it was preempted.
    pub(super) last_token_at: ModelTime,
    /// Tokens given before it began to decode, the one that ended its prefill included.
    pub(super) generated: u32,
    /// Tokens whose KV entries are computed, or are in the present step. Of a decoding sequence the batch knows.
    pub(super) computed: u32,
    pub(super) preemptions: u32,
    pub(super) phase: Phase,
}

impl Sequence {
    pub(super) fn new(id: RequestId, request: Request, submitted_at: ModelTime) -> Self {
        Self {
            id,
            request,
            submitted_at,
            scheduled_at: None,
            first_token_at: None,
            last_token_at: submitted_at,
            generated: 0,
            computed: 0,
            preemptions: 0,
            phase: Phase::Waiting,
        }
    }

    /// Tokens to compute before the next one comes out: the prompt, and after a preemption what was made so far.
    pub(super) fn prefill_target(&self) -> u32 {
        self.request.prompt_tokens + self.generated
    }

    /// What became of it, `tokens` having come out.
    pub(super) fn outcome(&self, tokens: u32, finished_at: Option<ModelTime>) -> Outcome {
        Outcome {
            request: self.request,
            first_token_at: self.first_token_at,
            finished_at,
            tokens,
            preemptions: self.preemptions,
        }
    }
}
