//! A trace at a multiple of its rate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::TraceRequest;
use crate::random::Random;
use crate::time::ModelTime;

/// Copies arrive up to so many nanoseconds after their request: a minute.
const LATEST: f64 = 60e9;

/// A trace at a multiple of its rate, request by request: the requests themselves, and copies of each, shifted by
/// times drawn uniformly from 0 to 60 s. Only the copies of one minute are held.
#[derive(Debug, Clone)]
pub struct Multiplied<'trace> {
    requests: &'trace [TraceRequest],
    copies: u32,
    random: Random,
    /// The next request that is not in `due` yet.
    next: usize,
    /// Arrivals with the places of their requests, the earliest on top.
    due: BinaryHeap<Reverse<(ModelTime, usize)>>,
}

impl<'trace> Multiplied<'trace> {
    pub(super) fn new(requests: &'trace [TraceRequest], times: u32, seed: u64) -> Self {
        let requests = if times == 0 { &[] } else { requests };
        let copies = times.saturating_sub(1);
        Self { requests, copies, random: Random::seeded(seed), next: 0, due: BinaryHeap::new() }
    }
}

impl Iterator for Multiplied<'_> {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        while let Some(request) = self.requests.get(self.next) {
            if self.due.peek().is_some_and(|Reverse((due, _))| *due < request.arrival) {
                break;
            }
            self.due.push(Reverse((request.arrival, self.next)));
            for _ in 0..self.copies {
                let shift = (self.random.uniform() * LATEST) as u64;
                let arrival = ModelTime::from_nanos(request.arrival.as_nanos().saturating_add(shift));
                self.due.push(Reverse((arrival, self.next)));
            }
            self.next += 1;
        }
        let Reverse((arrival, place)) = self.due.pop()?;
        Some(TraceRequest { arrival, ..self.requests[place] })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Trace, request_at};

    fn hundred() -> Trace {
        Trace::of((0..100).map(|index| request_at(f64::from(index) * 10.0, index + 1)).collect())
    }

    #[test]
    fn once_is_the_trace_itself_and_never_is_nothing() {
        let trace = hundred();
        assert!(trace.multiplied(1, 9).eq(trace.requests().iter().copied()));
        assert_eq!(trace.multiplied(0, 9).count(), 0);
    }

    #[test]
    fn copies_follow_their_request_within_a_minute_in_order() {
        let trace = hundred();
        let multiplied: Vec<_> = trace.multiplied(4, 9).collect();
        assert_eq!(multiplied.len(), 400);
        assert!(multiplied.is_sorted_by_key(|request| request.arrival));
        let mut shifts = 0.0;
        for original in trace.requests() {
            let copies: Vec<_> = multiplied.iter().filter(|copy| copy.input_tokens == original.input_tokens).collect();
            assert_eq!(copies.len(), 4);
            assert_eq!(copies[0].arrival, original.arrival);
            for copy in copies {
                let shift = copy.arrival.since(original.arrival).as_secs_f64();
                assert!((0.0..60.0).contains(&shift));
                shifts += shift;
            }
        }
        let mean = shifts / 300.0;
        assert!((27.0..33.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let trace = hundred();
        assert!(trace.multiplied(3, 1).eq(trace.multiplied(3, 1)));
        assert!(!trace.multiplied(3, 1).eq(trace.multiplied(3, 2)));
    }
}
