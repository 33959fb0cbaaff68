//! Comparing pieces of code on a machine that is not always quiet.

use std::time::{Duration, Instant};

/// How long one batch of calls takes at least: long beside the clock's own cost.
const BATCH: Duration = Duration::from_micros(500);

/// The shortest time of a call of each case, in nanoseconds. The cases take turns until `span` is over, so that a
/// slow moment of the machine meets all of them, and a ratio of two is of the same moments.
pub(crate) fn shortest<const N: usize>(mut cases: [&mut dyn FnMut(); N], span: Duration) -> [f64; N] {
    let calls: [u32; N] = std::array::from_fn(|index| calls_per_batch(&mut *cases[index]));
    let mut best = [f64::INFINITY; N];
    let end = Instant::now() + span;
    loop {
        for (index, case) in cases.iter_mut().enumerate() {
            let began = Instant::now();
            for _ in 0..calls[index] {
                case();
            }
            best[index] = best[index].min(began.elapsed().as_nanos() as f64 / f64::from(calls[index]));
        }
        if Instant::now() >= end {
            return best;
        }
    }
}

fn calls_per_batch(case: &mut dyn FnMut()) -> u32 {
    let mut calls = 1;
    loop {
        let began = Instant::now();
        for _ in 0..calls {
            case();
        }
        if began.elapsed() >= BATCH {
            return calls;
        }
        calls *= 2;
    }
}
