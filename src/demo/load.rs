//! The recorded requests of the demonstration.

use std::io::Write;

use headroom_lab::engine::{EngineSettings, Request};
use headroom_lab::profile::Profile;
use headroom_lab::random::Random;
use headroom_lab::time::ModelTime;
use headroom_lab::trace::{Trace, TraceError};

/// 39 minutes of a production chat service; its source and licence are in `lab/traces/README.md`.
const TRACE: &[u8] = include_bytes!("../../lab/traces/azure_conv_2023_dev.csv.gz");

const SEED: u64 = 7;
const QUIET_SHARE: f64 = 0.1;

/// Why there is no load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The shipped trace cannot be unpacked.
    #[error("cannot unpack the shipped trace: {0}")]
    Unpack(#[from] std::io::Error),
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Requests in the order of their arrival.
#[derive(Debug, Clone)]
pub struct Load {
    requests: Vec<Request>,
}

impl Load {
    /// The shipped trace, each request so many times, without what the profile cannot hold; up to `until` of its time.
    /// It is thinned to a quiet start, a peak and a quiet end, as a day has them.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn shipped(profile: &Profile, copies: u32, until: ModelTime) -> Result<Self, LoadError> {
        let mut file = tempfile::Builder::new().suffix(".csv.gz").tempfile()?;
        file.write_all(TRACE)?;
        let mut trace = Trace::read(file.path())?;
        trace.drop_refused(&EngineSettings::of(profile));
        let requests = trace.multiplied(copies, SEED).map(Request::from);
        // A request is kept or not by a fixed draw, so that every run has the same load.
        let mut draws = Random::seeded(SEED);
        let kept = requests
            .take_while(|request| request.arrival < until)
            .filter(|request| draws.uniform() < share_kept(request.arrival, until.min(Self::length())));
        Ok(Self { requests: kept.collect() })
    }

    /// All of them.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How long the shipped trace is.
    pub fn length() -> ModelTime {
        ModelTime::from_seconds(39.0 * 60.0)
    }
}

/// The share of requests that are kept at a time: a tenth at both ends of what is shown, all of them in the middle.
fn share_kept(at: ModelTime, shown: ModelTime) -> f64 {
    let wave = (std::f64::consts::PI * at.as_seconds() / shown.as_seconds()).sin();
    QUIET_SHARE + (1.0 - QUIET_SHARE) * wave.powi(4)
}
