//! The end of a step: what came out.

use super::request::Event;
use super::sequence::{Phase, Slot};
use super::{Engine, Step};
use crate::time::ModelTime;

impl Engine {
    /// Ends a step.
    pub(super) fn finish(&mut self, step: &Step, events: &mut Vec<Event>) {
        let at = step.ends_at;
        let span = at.since(step.started_at);
        self.decoding.end_step();
        let decoded = u64::from(self.decoding.sequences());
        if decoded > 0 {
            self.statistics.inter_token_latency.observe_many(span.as_secs_f64(), decoded);
        }
        self.tell_streams(at, events);
        while let Some(slot) = self.pop_ended() {
            self.complete(slot, at, events);
        }
        for slot in &step.completing {
            self.end_prompt(*slot, at, events);
        }
        self.statistics.steps += 1;
        self.statistics.busy += span;
        self.statistics.generation_tokens += decoded + step.completing.len() as u64;
        self.statistics.iteration_tokens.observe(decoded as f64 + f64::from(step.prompt_tokens));
        self.next_step_at = at;
        self.publish();
    }

    /// Tells the token of each streamed sequence that was decoding.
    fn tell_streams(&self, at: ModelTime, events: &mut Vec<Event>) {
        if self.streamed == 0 {
            return;
        }
        for slot in &self.running {
            let sequence = &self.sequences[*slot];
            if sequence.request.streamed && matches!(sequence.phase, Phase::Decoding(_)) {
                events.push(Event::Token { id: sequence.id, at });
            }
        }
    }

    fn pop_ended(&mut self) -> Option<Slot> {
        let sequences = &self.sequences;
        self.decoding.pop_ended(|slot| match sequences[slot].phase {
            Phase::Decoding(decoding) => Some(decoding),
            Phase::Waiting | Phase::Prefilling => None,
        })
    }

    /// The prompt of a sequence is computed: a token comes out, and it decodes from the next step on.
    fn end_prompt(&mut self, slot: Slot, at: ModelTime, events: &mut Vec<Event>) {
        let sequence = &mut self.sequences[slot];
        let id = sequence.id;
        if sequence.first_token_at.is_none() {
            sequence.first_token_at = Some(at);
            let waited = at.since(sequence.submitted_at).as_secs_f64();
            self.statistics.time_to_first_token.observe(waited);
            self.statistics.prompt_tokens += u64::from(sequence.request.prompt_tokens);
            events.push(Event::FirstToken { id, at });
        } else {
            let gap = at.since(sequence.last_token_at).as_secs_f64();
            self.statistics.inter_token_latency.observe(gap);
            if sequence.request.streamed {
                events.push(Event::Token { id, at });
            }
        }
        sequence.generated += 1;
        let remaining = sequence.request.output_tokens - sequence.generated;
        if remaining == 0 {
            self.complete(slot, at, events);
            return;
        }
        let decoding = self.decoding.join(slot, sequence.computed, remaining);
        sequence.phase = Phase::Decoding(decoding);
        self.prefilling.retain(|prefilling| *prefilling != slot);
    }

    /// The last token of a sequence came out.
    fn complete(&mut self, slot: Slot, at: ModelTime, events: &mut Vec<Event>) {
        let sequence = self.sequences[slot];
        let tokens = self.tokens_made(&sequence);
        self.statistics.finish(&sequence, tokens, at);
        self.release(slot);
        events.push(Event::Finished { id: sequence.id, outcome: sequence.outcome(tokens, Some(at)) });
    }
}
