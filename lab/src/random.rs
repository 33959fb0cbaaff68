//! Random numbers that are the same on every platform and in every version.

/// A seeded stream of random numbers.
///
/// The generator is `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
/// It is written out here, and its logarithms come from a portable library, because recorded results depend on
/// every bit.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// One of the independent streams of a seed.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut of_seed = Self::seeded(seed);
        let mut of_stream = Self::seeded(of_seed.bits() ^ stream);
        Self::seeded(of_stream.bits())
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from the normal distribution of mean 0 and deviation 1, by the method of Box and Muller.
    pub fn standard_normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// A number from the lognormal distribution of median 1; `sigma` is the deviation of its logarithm.
    pub fn lognormal(&mut self, sigma: f64) -> f64 {
        libm::exp(sigma * self.standard_normal())
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_stream_of_seed_zero_is_the_published_one() {
        let mut random = Random::seeded(0);
        assert_eq!(random.bits(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.bits(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn streams_differ_and_repeat() {
        assert_ne!(Random::stream(1, 0).bits(), Random::stream(1, 1).bits());
        assert_ne!(Random::stream(1, 0).bits(), Random::stream(2, 0).bits());
        assert_eq!(Random::stream(7, 3).bits(), Random::stream(7, 3).bits());
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::seeded(5);
        let normal: Vec<f64> = (0..20_000).map(|_| random.standard_normal()).collect();
        let mean = normal.iter().sum::<f64>() / normal.len() as f64;
        let variance = normal.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / normal.len() as f64;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        let above_one = (0..20_000).filter(|_| random.lognormal(0.4) > 1.0).count();
        assert!((9_600..10_400).contains(&above_one), "{above_one}");
    }
}
