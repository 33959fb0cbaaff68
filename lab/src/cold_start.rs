//! How long a new replica takes until it serves.

use std::time::Duration;

use crate::random::Random;

/// Deviation of the logarithm of a stage's time. In 7,531 model switches of a production cluster (alibaba/clusterdata,
/// `GenTD26`) the 90th percentile is 1.85 medians, a sigma of 0.48; 0.4 leaves out what differs between models.
const SIGMA: f64 = 0.4;
/// No stage takes longer than so many medians.
const LONGEST: f64 = 4.0;

/// What a start finds in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartCondition {
    /// A node is there with the image; weights stream fast and compiled kernels are cached.
    WarmTuned,
    /// A node is there with the image; nothing is tuned.
    Warm,
    /// A node must be provisioned; it comes with the image.
    ColdPreloaded,
    /// A node must be provisioned and pulls the image.
    Cold,
}

/// Medians of the stages of a start, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageMedians {
    /// The node is provisioned and joins.
    pub node: u32,
    /// The image is pulled.
    pub image: u32,
    /// The process starts and imports its libraries.
    pub process: u32,
    /// The weights are read.
    pub weights: u32,
    /// The engine compiles, captures graphs and measures its memory.
    pub engine: u32,
}

/// The medians for each condition.
///
/// Estimates from published figures: GPU nodes 180 to 480 s (cluster autoscaler on GKE), images of 15 to 20 GB 240 to
/// 360 s, weights of 8B 48 s by the default loader and 5 to 14 s streamed (run-ai model streamer benchmarks), engine
/// start 14 to 87 s for 8B (vLLM pull requests 11005 and 11078) and 215 s for 70B FP8 (vLLM issue 19824).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartMedians {
    warm_tuned: StageMedians,
    warm: StageMedians,
    cold_preloaded: StageMedians,
    cold: StageMedians,
}

/// An 8B model.
pub(crate) const EIGHT_B: StartMedians = StartMedians {
    warm_tuned: stages(0, 0, 15, 10, 30),
    warm: stages(0, 0, 15, 48, 45),
    cold_preloaded: stages(150, 5, 15, 15, 40),
    cold: stages(240, 270, 20, 48, 45),
};

/// A 13B model: as 8B, with 1.6 times the weights to read.
pub(crate) const THIRTEEN_B: StartMedians = StartMedians {
    warm_tuned: stages(0, 0, 15, 16, 30),
    warm: stages(0, 0, 15, 77, 45),
    cold_preloaded: stages(150, 5, 15, 24, 40),
    cold: stages(240, 270, 20, 77, 45),
};

/// A 70B model on four accelerators. The figures know a warm and a cold start; its warm start reads weights at 2
/// GB/s, which is tuned already, and a preloaded image saves the pull.
pub(crate) const SEVENTY_B: StartMedians = StartMedians {
    warm_tuned: stages(0, 0, 25, 60, 120),
    warm: stages(0, 0, 25, 60, 120),
    cold_preloaded: stages(300, 5, 30, 60, 150),
    cold: stages(300, 270, 30, 84, 150),
};

const fn stages(node: u32, image: u32, process: u32, weights: u32, engine: u32) -> StageMedians {
    StageMedians { node, image, process, weights, engine }
}

impl StartMedians {
    /// The medians for a condition.
    pub fn of(&self, condition: StartCondition) -> StageMedians {
        match condition {
            StartCondition::WarmTuned => self.warm_tuned,
            StartCondition::Warm => self.warm,
            StartCondition::ColdPreloaded => self.cold_preloaded,
            StartCondition::Cold => self.cold,
        }
    }
}

impl StageMedians {
    /// A replica that serves at once.
    pub const NONE: Self = stages(0, 0, 0, 0, 0);

    /// Draws one start: each stage from a lognormal distribution of sigma 0.4, cut off at four medians.
    ///
    /// A replica is taken to be alone on its node, so each draws its node's time.
    pub fn draw(&self, random: &mut Random) -> ColdStart {
        let mut stage = |median: u32| {
            let mut factor = random.lognormal(SIGMA);
            while factor > LONGEST {
                factor = random.lognormal(SIGMA);
            }
            Duration::from_secs_f64(f64::from(median) * factor)
        };
        ColdStart {
            node: stage(self.node),
            image: stage(self.image),
            process: stage(self.process),
            weights: stage(self.weights),
            engine: stage(self.engine),
        }
    }
}

/// One start, stage by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdStart {
    /// The node is provisioned and joins.
    pub node: Duration,
    /// The image is pulled.
    pub image: Duration,
    /// The process starts and imports its libraries.
    pub process: Duration,
    /// The weights are read.
    pub weights: Duration,
    /// The engine compiles, captures graphs and measures its memory.
    pub engine: Duration,
}

impl ColdStart {
    /// From the replica's creation until it serves.
    pub fn total(&self) -> Duration {
        self.node + self.image + self.process + self.weights + self.engine
    }
}

#[cfg(test)]
mod tests {
    use super::{EIGHT_B, SEVENTY_B, StageMedians, StartCondition};
    use crate::random::Random;
    use std::time::Duration;

    fn total(stages: &StageMedians) -> u32 {
        stages.node + stages.image + stages.process + stages.weights + stages.engine
    }

    #[test]
    fn totals_are_the_published_ones() {
        let eight =
            [StartCondition::WarmTuned, StartCondition::Warm, StartCondition::ColdPreloaded, StartCondition::Cold]
                .map(|condition| total(&EIGHT_B.of(condition)));
        assert_eq!(eight, [55, 108, 225, 623]);
        assert_eq!(total(&SEVENTY_B.of(StartCondition::Warm)), 205);
        assert_eq!(total(&SEVENTY_B.of(StartCondition::Cold)), 834);
    }

    #[test]
    fn draws_have_the_median_and_the_cut_off() {
        let mut random = Random::seeded(11);
        let medians = EIGHT_B.of(StartCondition::Cold);
        let mut nodes: Vec<Duration> = (0..4_001).map(|_| medians.draw(&mut random).node).collect();
        nodes.sort_unstable();
        let median = nodes[2_000].as_secs_f64();
        assert!((230.0..250.0).contains(&median), "{median}");
        assert!(nodes[4_000] <= Duration::from_secs(960));
        let ninetieth = nodes[3_600].as_secs_f64() / median;
        assert!((1.55..1.80).contains(&ninetieth), "{ninetieth}");
    }

    #[test]
    fn a_stage_that_is_not_there_takes_no_time_and_draws_repeat() {
        let medians = EIGHT_B.of(StartCondition::Warm);
        let start = medians.draw(&mut Random::seeded(3));
        assert_eq!(start.node + start.image, Duration::ZERO);
        assert!(start.total() > Duration::from_secs(20));
        assert_eq!(start, medians.draw(&mut Random::seeded(3)));
        assert_eq!(StageMedians::NONE.draw(&mut Random::seeded(3)).total(), Duration::ZERO);
    }
}
