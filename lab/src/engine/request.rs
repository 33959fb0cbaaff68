//! Requests, and what becomes of them.

use std::fmt;
use std::time::Duration;

use crate::time::ModelTime;

/// Names a request; unique among those an engine or a fleet holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// The request of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When the client sent it. An engine may get it later, when no replica was ready.
    pub arrival: ModelTime,
    /// Tokens of the prompt, at least 1.
    pub prompt_tokens: u32,
    /// Tokens of the answer, at least 1. The model makes exactly as many.
    pub output_tokens: u32,
    /// Every token is an event of its own; otherwise only the first and the last are told.
    pub streamed: bool,
}

/// Why an engine does not take a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A request needs at least one token of each.
    #[error("a request needs at least 1 prompt token and 1 output token, not {prompt_tokens} and {output_tokens}")]
    Empty {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Tokens of the answer.
        output_tokens: u32,
    },
    /// The model has no positions for so many tokens.
    #[error(
        "the request needs {needed} tokens ({prompt_tokens} of prompt), but the model's context ends at {limit}; \
         shorten the prompt or ask for fewer tokens"
    )]
    ExceedsContext {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Prompt and answer together.
        needed: u64,
        /// The longest context.
        limit: u32,
    },
    /// The request alone would not fit into the KV cache.
    #[error(
        "the request needs {needed} tokens ({prompt_tokens} of prompt), but the KV cache holds {limit}; \
         shorten the prompt or ask for fewer tokens"
    )]
    ExceedsKvPool {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Prompt and answer together.
        needed: u64,
        /// Tokens the cache holds.
        limit: u32,
    },
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The request.
    pub request: Request,
    /// When its first token came out, if one did.
    pub first_token_at: Option<ModelTime>,
    /// When its last token came out; `None` for a request that was refused, aborted or never finished.
    pub finished_at: Option<ModelTime>,
    /// Tokens that came out.
    pub tokens: u32,
    /// How often it lost its KV blocks and was computed again.
    pub preemptions: u32,
}

impl Outcome {
    /// A request that got no token.
    pub const fn unserved(request: Request) -> Self {
        Self { request, first_token_at: None, finished_at: None, tokens: 0, preemptions: 0 }
    }

    /// From arrival to the first token, time without a ready replica included.
    pub fn time_to_first_token(&self) -> Option<Duration> {
        self.first_token_at.map(|at| at.since(self.request.arrival))
    }

    /// The mean time between the tokens after the first; zero for an answer of one token, `None` if unfinished.
    pub fn time_per_output_token(&self) -> Option<Duration> {
        let (first, last) = (self.first_token_at?, self.finished_at?);
        Some(last.since(first) / self.tokens.saturating_sub(1).max(1))
    }
}

/// What happened in an engine, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The first token of a request came out.
    FirstToken {
        /// The request.
        id: RequestId,
        /// The end of the step that made it.
        at: ModelTime,
    },
    /// A later token of a streamed request came out, the last one included.
    Token {
        /// The request.
        id: RequestId,
        /// The end of the step that made it.
        at: ModelTime,
    },
    /// The last token of a request came out.
    Finished {
        /// The request.
        id: RequestId,
        /// What became of it.
        outcome: Outcome,
    },
}
