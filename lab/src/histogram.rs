//! A histogram as Prometheus has them.

/// Counts of observations by upper bound, and their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: Vec<f64>,
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram with these upper bounds in rising order; a last bucket without bound is added.
    pub fn new(bounds: &[f64]) -> Self {
        Self { bounds: bounds.to_vec(), counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value: f64) {
        self.observe_many(value, 1);
    }

    /// Counts `times` observations of one value.
    pub fn observe_many(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket] += times;
        self.sum += value * times as f64;
    }

    /// The upper bounds with the number of observations at or below each; the one without bound is left out.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().zip(&self.counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((*bound, *below))
        })
    }

    /// How many observations there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the observations.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn a_bound_belongs_to_its_bucket_and_the_rest_to_none() {
        let mut histogram = Histogram::new(&[1.0, 2.5]);
        histogram.observe(1.0);
        histogram.observe_many(2.0, 3);
        histogram.observe(9.0);
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1.0, 1), (2.5, 4)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum() - 16.0).abs() < 1e-12);
    }
}
