//! Request traces: gzip CSV files, and what is done to them before replay.
//!
//! A file has a header line and one request a line, sorted by arrival. Columns: `arrival_s` (seconds from the start
//! of the file), `input_tokens`, `output_tokens` (integers of at least 1); where the source has them `client_id` (of
//! the client that sent it) and `reusable_prefix_tokens` (prompt tokens that an unlimited prefix cache would hold
//! already). Other columns are passed over.

mod multiply;
mod read;

pub use multiply::Multiplied;
pub use read::TraceError;

use std::time::Duration;

use crate::engine::{EngineSettings, Request};
use crate::time::ModelTime;

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it arrives, from the start of the trace.
    pub arrival: ModelTime,
    /// Tokens of the prompt, at least 1.
    pub input_tokens: u32,
    /// Tokens of the answer, at least 1.
    pub output_tokens: u32,
    /// The client that sent it, where the trace knows.
    pub client_id: Option<u32>,
    /// Prompt tokens that an unlimited prefix cache would hold already; 0 where the trace does not know.
    pub reusable_prefix_tokens: u32,
}

impl From<TraceRequest> for Request {
    fn from(request: TraceRequest) -> Self {
        Self {
            arrival: request.arrival,
            prompt_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            streamed: false,
        }
    }
}

/// The requests of a trace, in the order of their arrival.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    requests: Vec<TraceRequest>,
}

impl Trace {
    /// A trace of these requests, put into the order of their arrival.
    pub fn of(mut requests: Vec<TraceRequest>) -> Self {
        requests.sort_by_key(|request| request.arrival);
        Self { requests }
    }

    /// The requests.
    pub fn requests(&self) -> &[TraceRequest] {
        &self.requests
    }

    /// Drops the requests that an engine would refuse, and says how many.
    pub fn drop_refused(&mut self, settings: &EngineSettings) -> usize {
        let before = self.requests.len();
        self.requests.retain(|request| settings.admits(&Request::from(*request)).is_ok());
        before - self.requests.len()
    }

    /// Spreads the requests of each instant evenly over the time from it to `span` later.
    ///
    /// For traces whose arrivals are rounded, as Mooncake's to 3 s: else each instant is an artificial burst.
    pub fn spread(&mut self, span: Duration) {
        for instant in self.requests.chunk_by_mut(|one, next| one.arrival == next.arrival) {
            let requests = instant.len() as u32;
            for (index, request) in instant.iter_mut().enumerate() {
                request.arrival = request.arrival.plus(span * index as u32 / requests);
            }
        }
        self.requests.sort_by_key(|request| request.arrival);
    }

    /// The trace at `times` its rate: every request `times` times, the copies up to a minute later.
    ///
    /// This keeps the shape over minutes and smooths bursts within a minute; compressing time would shorten what cold
    /// starts and cooldowns are measured against.
    pub fn multiplied(&self, times: u32, seed: u64) -> Multiplied<'_> {
        Multiplied::new(&self.requests, times, seed)
    }
}

#[cfg(test)]
pub(crate) fn request_at(seconds: f64, input_tokens: u32) -> TraceRequest {
    TraceRequest {
        arrival: ModelTime::from_seconds(seconds),
        input_tokens,
        output_tokens: 10,
        client_id: None,
        reusable_prefix_tokens: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Trace, request_at};
    use crate::engine::EngineSettings;
    use crate::profile::Profile;
    use std::time::Duration;

    #[test]
    fn rounded_arrivals_are_spread() {
        let mut trace = Trace::of([0.0, 0.0, 0.0, 3.0, 6.0, 6.0].map(|at| request_at(at, 1)).to_vec());
        trace.spread(Duration::from_secs(3));
        let arrivals: Vec<f64> = trace.requests().iter().map(|request| request.arrival.as_seconds()).collect();
        assert_eq!(arrivals, [0.0, 1.0, 2.0, 3.0, 6.0, 7.5]);
    }

    #[test]
    fn what_the_profile_cannot_hold_is_dropped_and_counted() {
        let mut trace = Trace::of([10, 25_990, 25_991, 200_000].map(|tokens| request_at(0.0, tokens)).to_vec());
        assert_eq!(trace.drop_refused(&EngineSettings::of(&Profile::P1)), 2);
        assert_eq!(trace.requests().len(), 2);
    }
}
