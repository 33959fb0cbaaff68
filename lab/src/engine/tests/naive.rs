//! The rules again, written plainly: every sequence is looked at in every step. The engine's running sums must agree.

use std::collections::VecDeque;

use crate::engine::{EngineSettings, Outcome, Request};
use crate::step_time::StepLoad;
use crate::time::ModelTime;

#[derive(Debug, Clone)]
struct Sequence {
    number: usize,
    request: Request,
    computed: u32,
    generated: u32,
    blocks: u32,
    /// Its prompt is computed.
    decodes: bool,
    first_token_at: Option<ModelTime>,
    preemptions: u32,
}

impl Sequence {
    fn target(&self) -> u32 {
        self.request.prompt_tokens + self.generated
    }
}

/// What an engine is, in the plainest form.
struct Naive {
    settings: EngineSettings,
    free: u32,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
}

impl Naive {
    /// Takes `blocks` for the running sequence at `index`, preempting from the end. False if it had to go itself.
    fn take(&mut self, index: usize, blocks: u32) -> bool {
        while self.free < blocks {
            let mut victim = self.running.pop().unwrap();
            self.free += victim.blocks;
            victim.blocks = 0;
            victim.computed = 0;
            victim.decodes = false;
            victim.preemptions += 1;
            self.waiting.push_front(victim);
            if self.running.len() == index {
                return false;
            }
        }
        self.free -= blocks;
        self.running[index].blocks += blocks;
        true
    }

    fn missing(&self, sequence: &Sequence, tokens: u32) -> u32 {
        (sequence.computed + tokens).div_ceil(self.settings.block_size) - sequence.blocks
    }

    /// One step: its load, and how many tokens each running sequence computes.
    fn plan(&mut self) -> (StepLoad, Vec<u32>) {
        let queued = self.waiting.len();
        let mut load = StepLoad::default();
        let decoders: Vec<bool> = self.running.iter().map(|sequence| sequence.decodes).collect();
        let mut tokens = vec![0; self.running.len()];
        for index in 0..decoders.len() {
            if index < self.running.len() && decoders[index] {
                let missing = self.missing(&self.running[index], 1);
                tokens[index] = u32::from(self.take(index, missing));
            }
        }
        let mut budget = self.settings.max_num_batched_tokens - tokens.iter().sum::<u32>();
        for index in 0..decoders.len() {
            if index < self.running.len() && !decoders[index] {
                let chunk = budget.min(self.running[index].target() - self.running[index].computed);
                let missing = self.missing(&self.running[index], chunk);
                if self.take(index, missing) {
                    tokens[index] = chunk;
                    budget -= chunk;
                }
            }
        }
        tokens.truncate(self.running.len());
        if self.waiting.len() == queued {
            while let Some(next) = self.waiting.front() {
                let chunk = budget.min(next.target());
                let missing = self.missing(next, chunk);
                let is_full = self.running.len() >= self.settings.max_num_seqs as usize;
                if budget == 0 || is_full || missing > self.free {
                    break;
                }
                self.running.push(self.waiting.pop_front().unwrap());
                assert!(self.take(self.running.len() - 1, missing));
                tokens.push(chunk);
                budget -= chunk;
            }
        }
        for (sequence, tokens) in self.running.iter().zip(&tokens) {
            if sequence.decodes {
                load.decoding += 1;
                load.context_tokens += u64::from(sequence.computed + 1);
            } else {
                load.prompt_tokens += tokens;
                load.attended_tokens += f64::from(*tokens) * (f64::from(sequence.computed) + f64::from(*tokens) / 2.0);
            }
        }
        (load, tokens)
    }
}

/// Runs requests, given with their arrivals in order, to their end: the outcomes in the order of the requests.
pub(super) fn run(settings: EngineSettings, requests: &[Request]) -> Vec<Outcome> {
    let mut naive = Naive { settings, free: settings.kv_blocks(), running: Vec::new(), waiting: VecDeque::new() };
    let mut outcomes = vec![None; requests.len()];
    let mut arrivals = requests.iter().copied().enumerate().peekable();
    let mut now = ModelTime::ZERO;
    while outcomes.iter().any(Option::is_none) {
        if naive.running.is_empty() && naive.waiting.is_empty() {
            now = now.max(arrivals.peek().unwrap().1.arrival);
        }
        while let Some((number, request)) = arrivals.next_if(|(_, request)| request.arrival <= now) {
            let first_token_at = None;
            naive.waiting.push_back(Sequence {
                number,
                request,
                computed: 0,
                generated: 0,
                blocks: 0,
                decodes: false,
                first_token_at,
                preemptions: 0,
            });
        }
        let (load, tokens) = naive.plan();
        now = now.plus(settings.step_time.of(&load));
        for (sequence, tokens) in naive.running.iter_mut().zip(tokens) {
            sequence.computed += tokens;
            if tokens > 0 && sequence.computed == sequence.target() {
                sequence.generated += 1;
                sequence.decodes = true;
                sequence.first_token_at.get_or_insert(now);
            }
        }
        naive.running.retain(|sequence| {
            let is_done = sequence.generated == sequence.request.output_tokens;
            if is_done {
                naive.free += sequence.blocks;
                outcomes[sequence.number] = Some(Outcome {
                    request: sequence.request,
                    first_token_at: sequence.first_token_at,
                    finished_at: Some(now),
                    tokens: sequence.generated,
                    preemptions: sequence.preemptions,
                });
            }
            !is_done
        });
    }
    outcomes.into_iter().flatten().collect()
}
