//! A continuous-batching engine, as vLLM's V1 scheduler works.
//!
//! An engine is one loop. A step gives one token of its budget to every decoding sequence and fills the rest with
//! prompt chunks: first of the sequence that is partly computed, then of waiting ones in the order of arrival. A
//! request is admitted when a sequence, some budget and the KV blocks of its next chunk are free; the first that does
//! not fit stops those behind it. A sequence that needs a block when none is free takes it from the most recently
//! admitted one, which goes to the head of the queue and is computed again, prompt and answer so far. A step that did
//! so admits nobody. The first token comes out at the end of the step that ends the prompt.

mod batch;
mod finish;
mod plan;
mod request;
mod sequence;
mod settings;
mod statistics;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use batch::DecodeBatch;
pub use request::{Event, Outcome, Refusal, Request, RequestId};
use sequence::{Phase, Sequence, Slot};
pub use settings::EngineSettings;
pub use statistics::{Gauges, Peaks, Statistics};

use crate::random::Random;
use crate::time::ModelTime;

/// A step under way.
#[derive(Debug, Clone)]
struct Step {
    started_at: ModelTime,
    ends_at: ModelTime,
    prompt_tokens: u32,
    /// Sequences whose prompt ends in this step, in the order of admission.
    completing: Vec<Slot>,
}

/// One replica's engine.
#[derive(Debug, Clone)]
pub struct Engine {
    settings: EngineSettings,
    now: ModelTime,
    /// No step begins before.
    next_step_at: ModelTime,
    step: Option<Step>,
    sequences: Vec<Sequence>,
    vacant: Vec<Slot>,
    waiting: VecDeque<Slot>,
    /// In the order of admission.
    running: Vec<Slot>,
    /// Those of the running whose prompt is not computed, in the order of admission.
    prefilling: VecDeque<Slot>,
    decoding: DecodeBatch,
    /// How many sequences want each token told.
    streamed: u32,
    free_blocks: u32,
    noise: Random,
    gauges: Gauges,
    statistics: Statistics,
}

impl Engine {
    /// An idle engine at `now`. Settings out of their range are taken as the nearest in it.
    pub fn new(settings: EngineSettings, now: ModelTime) -> Self {
        let settings = settings.in_range();
        Self {
            settings,
            now,
            next_step_at: now,
            step: None,
            sequences: Vec::new(),
            vacant: Vec::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            prefilling: VecDeque::new(),
            decoding: DecodeBatch::new(settings.block_size),
            streamed: 0,
            free_blocks: settings.kv_blocks(),
            noise: Random::seeded(settings.seed),
            gauges: Gauges::default(),
            statistics: Statistics::new(settings.longest_request()),
        }
    }

    /// Queues a request at the engine's present, [`Engine::now`].
    pub fn submit(&mut self, id: RequestId, request: Request) -> Result<(), Refusal> {
        self.settings.admits(&request)?;
        if self.step.is_none() && self.is_idle() {
            self.next_step_at = self.now;
        }
        self.streamed += u32::from(request.streamed);
        let sequence = Sequence::new(id, request, self.now);
        let slot = if let Some(slot) = self.vacant.pop() {
            self.sequences[slot] = sequence;
            slot
        } else {
            self.sequences.push(sequence);
            self.sequences.len() - 1
        };
        self.waiting.push_back(slot);
        Ok(())
    }

    /// Takes a request out, as when its client hangs up. `None` if the engine does not hold it.
    ///
    /// As in vLLM, tokens it was given stay counted, and it is in no histogram of finished requests.
    pub fn abort(&mut self, id: RequestId) -> Option<Outcome> {
        let mut held = self.running.iter().chain(&self.waiting).copied();
        let slot = held.find(|slot| self.sequences[*slot].id == id)?;
        let sequence = self.sequences[slot];
        let tokens = self.tokens_made(&sequence);
        if let Some(step) = &mut self.step {
            step.completing.retain(|completing| *completing != slot);
        }
        self.release(slot);
        if self.is_idle() {
            self.publish();
        }
        Some(sequence.outcome(tokens, None))
    }

    /// Runs every step that ends at `to` or before, and appends what happened to `events`.
    pub fn advance(&mut self, to: ModelTime, events: &mut Vec<Event>) {
        loop {
            if let Some(step) = self.step.take_if(|step| step.ends_at <= to) {
                self.finish(&step, events);
            } else if self.step.is_none() && !self.is_idle() && self.next_step_at < to {
                self.step = Some(self.plan(self.next_step_at));
            } else {
                break;
            }
        }
        self.now = self.now.max(to);
    }

    /// When the engine next changes by itself; `None` when it holds no request. A step begins just after this instant,
    /// so that all requests of the instant are in it.
    pub fn next_event_at(&self) -> Option<ModelTime> {
        match &self.step {
            Some(step) => Some(step.ends_at),
            None => (!self.is_idle()).then_some(self.next_step_at),
        }
    }

    /// How far the engine has been advanced.
    pub fn now(&self) -> ModelTime {
        self.now
    }

    /// How it is set up.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// The gauges of its page: the state at the end of the last step.
    pub fn gauges(&self) -> Gauges {
        self.gauges
    }

    /// What it has counted.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Requests it holds now, running or waiting.
    pub fn in_flight(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    /// It holds no request.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Tokens a sequence has given.
    fn tokens_made(&self, sequence: &Sequence) -> u32 {
        match sequence.phase {
            Phase::Decoding(decoding) => sequence.generated + self.decoding.made_by(decoding),
            Phase::Waiting | Phase::Prefilling => sequence.generated,
        }
    }

    /// KV blocks a sequence holds.
    fn blocks_held(&self, sequence: &Sequence) -> u32 {
        let tokens = match sequence.phase {
            Phase::Decoding(decoding) => self.decoding.context_of(decoding),
            Phase::Waiting | Phase::Prefilling => sequence.computed,
        };
        tokens.div_ceil(self.settings.block_size)
    }

    /// Gives back the KV blocks of a running sequence and takes it out of its phase, not out of `running`.
    fn free(&mut self, slot: Slot) {
        let sequence = self.sequences[slot];
        self.free_blocks += self.blocks_held(&sequence);
        match sequence.phase {
            Phase::Waiting => {}
            Phase::Prefilling => self.prefilling.retain(|prefilling| *prefilling != slot),
            Phase::Decoding(decoding) => self.decoding.leave(decoding),
        }
        self.sequences[slot].phase = Phase::Waiting;
        self.sequences[slot].computed = 0;
    }

    /// Lets a sequence go for good.
    fn release(&mut self, slot: Slot) {
        self.free(slot);
        self.streamed -= u32::from(self.sequences[slot].request.streamed);
        match self.running.iter().position(|running| *running == slot) {
            Some(index) => {
                self.running.remove(index);
            }
            None => self.waiting.retain(|waiting| *waiting != slot),
        }
        self.vacant.push(slot);
    }

    /// Shows the present state on the page.
    fn publish(&mut self) {
        self.gauges = Gauges {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            kv_usage: self.kv_usage(),
        };
    }

    /// KV blocks held, as a fraction of all.
    fn kv_usage(&self) -> f64 {
        let blocks = self.settings.kv_blocks();
        f64::from(blocks - self.free_blocks) / f64::from(blocks.max(1))
    }
}
