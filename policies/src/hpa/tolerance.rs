//! Tolerances in the doubles the controller compares.

use crate::units::{Tolerance, Tolerances};

/// The ratios of usage to target at which the count stays, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToleranceBand {
    lowest: f64,
    highest: f64,
}

impl ToleranceBand {
    /// The band of two fractions of at least 0.
    pub fn new(up: f64, down: f64) -> Self {
        Self { lowest: 1.0 - down, highest: 1.0 + up }
    }

    /// Whether a ratio lies in it. One that is no number does not.
    pub fn contains(self, ratio: f64) -> bool {
        self.lowest <= ratio && ratio <= self.highest
    }
}

impl From<Tolerances> for ToleranceBand {
    fn from(tolerances: Tolerances) -> Self {
        Self::new(tolerances.up.as_f64(), tolerances.down.as_f64())
    }
}

/// A tolerance of `behavior` as the controller reads it: the digits of its canonical quantity times a power of ten,
/// which is not always the double nearest to the decimal (`350m` becomes 0.35000000000000003).
pub fn tolerance_of_behavior(tolerance: Tolerance) -> f64 {
    let billionths = tolerance.billionths();
    let (unit, power) = match billionths {
        whole if whole % 1_000_000_000 == 0 => (1_000_000_000, 1.0),
        milli if milli % 1_000_000 == 0 => (1_000_000, 1e-3),
        micro if micro % 1_000 == 0 => (1_000, 1e-6),
        _ => (1, 1e-9),
    };
    (billionths / unit) as f64 * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_tolerances_are_digits_times_a_power_of_ten() {
        for (written, read) in [
            ("0.1", 0.1),
            ("350m", 0.350_000_000_000_000_03),
            ("0.35", 0.350_000_000_000_000_03),
            ("0.7", 0.700_000_000_000_000_1),
            ("0.6", 0.6),
            ("2", 2.0),
            ("100u", 9.999_999_999_999_999e-5),
            ("1n", 1e-9),
        ] {
            let tolerance: Tolerance = serde_json::from_value(written.into()).unwrap();
            assert_eq!(tolerance_of_behavior(tolerance), read, "{written}");
        }
    }

    #[test]
    fn both_ends_are_inside() {
        let band = ToleranceBand::new(0.5, 0.25);
        for (ratio, inside) in [(0.75, true), (1.5, true), (0.749, false), (1.501, false), (f64::NAN, false)] {
            assert_eq!(band.contains(ratio), inside, "{ratio}");
        }
    }
}
