//! The beginning of a step: who computes what.

use super::sequence::{Phase, Slot};
use super::{Engine, Step};
use crate::step_time::StepLoad;
use crate::time::ModelTime;

/// What a step's prompt chunks add up to.
#[derive(Default)]
struct Prefill {
    budget: u32,
    prompt_tokens: u32,
    attended_tokens: f64,
    completing: Vec<Slot>,
}

impl Engine {
    /// Schedules the step that begins at `at`.
    pub(super) fn plan(&mut self, at: ModelTime) -> Step {
        let preemptions = self.statistics.preemptions;
        let peaks = &mut self.statistics.peaks;
        peaks.waiting = peaks.waiting.max(self.waiting.len() as u32);
        self.grant_blocks(at);
        self.decoding.begin_step();
        let budget = self.settings.max_num_batched_tokens.saturating_sub(self.decoding.sequences());
        let mut prefill = Prefill { budget, ..Prefill::default() };
        self.continue_prompts(&mut prefill, at);
        if self.statistics.preemptions == preemptions {
            self.admit(&mut prefill, at);
        }
        let kv_usage = self.kv_usage();
        let peaks = &mut self.statistics.peaks;
        peaks.kv_usage = peaks.kv_usage.max(kv_usage);
        let load = StepLoad {
            decoding: self.decoding.sequences(),
            context_tokens: self.decoding.context_tokens(),
            prompt_tokens: prefill.prompt_tokens,
            attended_tokens: prefill.attended_tokens,
        };
        let mut span = self.settings.step_time.of(&load);
        if self.settings.noise_sigma > 0.0 {
            span = span.mul_f64(self.noise.lognormal(self.settings.noise_sigma));
        }
        Step {
            started_at: at,
            ends_at: at.plus(span),
            prompt_tokens: prefill.prompt_tokens,
            completing: prefill.completing,
        }
    }

    /// Gives every decoding sequence that has filled its last block another, in the order of admission.
    fn grant_blocks(&mut self, at: ModelTime) {
        let wanted = self.decoding.blocks_wanted();
        if wanted <= self.free_blocks {
            self.free_blocks -= wanted;
            return;
        }
        let mut index = 0;
        while let Some(slot) = self.running.get(index).copied() {
            let wants =
                matches!(self.sequences[slot].phase, Phase::Decoding(decoding) if self.decoding.wants_block(decoding));
            // A sequence that is preempted for its own block is the last of `running`, so the loop ends with it.
            if wants && self.make_room(1, slot, at) {
                self.free_blocks -= 1;
            }
            index += 1;
        }
    }

    /// Preempts the most recently admitted sequences until `blocks` are free. False if `slot` itself had to go.
    fn make_room(&mut self, blocks: u32, slot: Slot, at: ModelTime) -> bool {
        while self.free_blocks < blocks {
            match self.running.pop() {
                Some(victim) => {
                    self.preempt(victim, at);
                    if victim == slot {
                        return false;
                    }
                }
                None => return false,
            }
        }
        true
    }

    /// Takes everything from a sequence just taken out of `running`, to be computed again.
    fn preempt(&mut self, victim: Slot, at: ModelTime) {
        let made = self.tokens_made(&self.sequences[victim]);
        let was_decoding = matches!(self.sequences[victim].phase, Phase::Decoding(_));
        self.free(victim);
        let sequence = &mut self.sequences[victim];
        if was_decoding {
            sequence.last_token_at = at;
        }
        sequence.generated = made;
        sequence.preemptions += 1;
        self.statistics.preemptions += 1;
        self.waiting.push_front(victim);
    }

    /// Computes on at the prompts that are partly computed.
    fn continue_prompts(&mut self, prefill: &mut Prefill, at: ModelTime) {
        let mut index = 0;
        while let Some(slot) = self.prefilling.get(index).copied() {
            if prefill.budget == 0 {
                return;
            }
            let blocks = self.blocks_of_next_chunk(slot, prefill.budget);
            if !self.make_room(blocks, slot, at) {
                return;
            }
            self.compute_chunk(slot, prefill);
            index += 1;
        }
    }

    /// Admits waiting requests, in order, until one does not fit.
    fn admit(&mut self, prefill: &mut Prefill, at: ModelTime) {
        while let Some(slot) = self.waiting.front().copied() {
            let seats = self.settings.max_num_seqs as usize;
            if prefill.budget == 0
                || self.running.len() >= seats
                || self.blocks_of_next_chunk(slot, prefill.budget) > self.free_blocks
            {
                return;
            }
            self.waiting.pop_front();
            self.running.push(slot);
            self.prefilling.push_back(slot);
            let sequence = &mut self.sequences[slot];
            sequence.phase = Phase::Prefilling;
            sequence.scheduled_at.get_or_insert(at);
            self.compute_chunk(slot, prefill);
        }
    }

    /// KV blocks that the next chunk of a prompt needs beyond those it holds.
    fn blocks_of_next_chunk(&self, slot: Slot, budget: u32) -> u32 {
        let sequence = &self.sequences[slot];
        let computed = sequence.prefill_target().min(sequence.computed + budget);
        computed.div_ceil(self.settings.block_size) - self.blocks_held(sequence)
    }

    /// Puts the next chunk of a prompt into the step. Its blocks are known to be free.
    fn compute_chunk(&mut self, slot: Slot, prefill: &mut Prefill) {
        self.free_blocks -= self.blocks_of_next_chunk(slot, prefill.budget);
        let sequence = &mut self.sequences[slot];
        let tokens = (sequence.prefill_target() - sequence.computed).min(prefill.budget);
        let attended = f64::from(sequence.computed) + f64::from(tokens) / 2.0;
        sequence.computed += tokens;
        prefill.budget -= tokens;
        prefill.prompt_tokens += tokens;
        prefill.attended_tokens += f64::from(tokens) * attended;
        if sequence.computed == sequence.prefill_target() {
            prefill.completing.push(slot);
        }
    }
}
