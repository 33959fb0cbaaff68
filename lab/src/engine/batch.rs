//! The decoding sequences, as running sums.
//!
//! Every decoding sequence makes one token a step, so its context, the step in which it needs a KV block and the step
//! in which it ends follow from when it joined. A step costs the same for one sequence and for hundreds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::sequence::Slot;

/// A decoding sequence, as it joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decoding {
    /// Tells this stay in the batch from others of the same slot.
    ticket: u64,
    /// The step that computed the end of its prompt.
    joined: u64,
    /// Tokens computed by then.
    context: u32,
}

/// The decoding sequences of an engine.
#[derive(Debug, Clone)]
pub(super) struct DecodeBatch {
    block_size: u32,
    /// The newest step that was begun.
    begun: u64,
    /// The newest step that ended: `begun`, or one less during a step.
    ended: u64,
    sequences: u32,
    /// Tokens in KV of all sequences, those of the begun step included.
    context_tokens: u64,
    /// How many sequences there are by `context - joined`, modulo the block size. Those of one class need their next
    /// block in the same step.
    classes: Vec<u32>,
    /// When sequences end. Entries of sequences that left earlier are passed over.
    ends: BinaryHeap<Reverse<(u64, u64, Slot)>>,
    next_ticket: u64,
}

impl DecodeBatch {
    pub(super) fn new(block_size: u32) -> Self {
        Self {
            block_size,
            begun: 0,
            ended: 0,
            sequences: 0,
            context_tokens: 0,
            classes: vec![0; block_size as usize],
            ends: BinaryHeap::new(),
            next_ticket: 0,
        }
    }

    pub(super) fn sequences(&self) -> u32 {
        self.sequences
    }

    pub(super) fn context_tokens(&self) -> u64 {
        self.context_tokens
    }

    /// Tokens in KV of a sequence, that of the begun step included.
    pub(super) fn context_of(&self, sequence: Decoding) -> u32 {
        sequence.context + (self.begun - sequence.joined) as u32
    }

    /// Tokens a sequence has made since it joined.
    pub(super) fn made_by(&self, sequence: Decoding) -> u32 {
        (self.ended - sequence.joined) as u32
    }

    /// KV blocks the sequences need for the next step beyond those they hold.
    pub(super) fn blocks_wanted(&self) -> u32 {
        let block_size = u64::from(self.block_size);
        // Full is whose context is a multiple: context + begun - joined = 0, so the class is -begun.
        self.classes[((block_size - self.begun % block_size) % block_size) as usize]
    }

    /// Whether a sequence is one of those.
    pub(super) fn wants_block(&self, sequence: Decoding) -> bool {
        self.context_of(sequence).is_multiple_of(self.block_size)
    }

    /// Begins a step in which each sequence computes one token.
    pub(super) fn begin_step(&mut self) {
        self.begun += 1;
        self.context_tokens += u64::from(self.sequences);
    }

    /// Ends the step.
    pub(super) fn end_step(&mut self) {
        self.ended = self.begun;
    }

    /// Takes in a sequence of `context` computed tokens that has `remaining` tokens to make, between two steps.
    pub(super) fn join(&mut self, slot: Slot, context: u32, remaining: u32) -> Decoding {
        let sequence = Decoding { ticket: self.next_ticket, joined: self.ended, context };
        self.next_ticket += 1;
        self.sequences += 1;
        self.context_tokens += u64::from(context);
        let class = self.class_of(sequence);
        self.classes[class] += 1;
        self.ends.push(Reverse((self.ended + u64::from(remaining), sequence.ticket, slot)));
        sequence
    }

    /// Lets a sequence go.
    pub(super) fn leave(&mut self, sequence: Decoding) {
        self.sequences -= 1;
        self.context_tokens -= u64::from(self.context_of(sequence));
        let class = self.class_of(sequence);
        self.classes[class] -= 1;
    }

    /// The next sequence that ended with the step just ended. `decoding_at` says what decodes at a slot now.
    pub(super) fn pop_ended(&mut self, decoding_at: impl Fn(Slot) -> Option<Decoding>) -> Option<Slot> {
        while let Some(Reverse((step, ticket, slot))) = self.ends.peek().copied() {
            if step > self.ended {
                return None;
            }
            self.ends.pop();
            if decoding_at(slot).is_some_and(|decoding| decoding.ticket == ticket) {
                return Some(slot);
            }
        }
        None
    }

    fn class_of(&self, sequence: Decoding) -> usize {
        let block_size = u64::from(self.block_size);
        let offset = u64::from(sequence.context) + block_size - sequence.joined % block_size;
        (offset % block_size) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::DecodeBatch;

    #[test]
    fn blocks_contexts_and_ends_follow_from_joining() {
        let mut batch = DecodeBatch::new(4);
        batch.begin_step();
        batch.end_step();
        // 6 tokens in two blocks: room for 2 more, so the third step needs a block.
        let first = batch.join(0, 6, 5);
        let second = batch.join(1, 8, 2);
        let mut wanted = Vec::new();
        let mut ended = Vec::new();
        for _ in 0..5 {
            wanted.push(batch.blocks_wanted());
            assert_eq!(
                batch.blocks_wanted(),
                [first, second].into_iter().filter(|sequence| batch.wants_block(*sequence)).count() as u32
            );
            batch.begin_step();
            batch.end_step();
            ended.push(batch.pop_ended(|slot| Some([first, second][slot])));
        }
        assert_eq!(wanted, [1, 0, 1, 0, 1]);
        assert_eq!(ended, [None, Some(1), None, None, Some(0)]);
        assert_eq!(batch.context_of(first), 11);
        assert_eq!(batch.made_by(first), 5);
        assert_eq!(batch.context_tokens(), 11 + 13);
        batch.leave(first);
        batch.leave(second);
        assert_eq!((batch.sequences(), batch.context_tokens()), (0, 0));
    }

    #[test]
    fn who_left_does_not_end() {
        let mut batch = DecodeBatch::new(16);
        let gone = batch.join(0, 10, 1);
        batch.leave(gone);
        let newer = batch.join(0, 10, 2);
        batch.begin_step();
        batch.end_step();
        assert_eq!(batch.pop_ended(|_| Some(newer)), None);
        batch.begin_step();
        batch.end_step();
        assert_eq!(batch.pop_ended(|_| Some(newer)), Some(0));
    }
}
