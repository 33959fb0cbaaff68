//! Numbers as Kubernetes writes them: [`Quantity`] for what users type, [`Milli`] for arithmetic.
//!
//! Source of the rules: the package documentation of `k8s.io/apimachinery/pkg/api/resource`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANO_PER_MILLI: i128 = 1_000_000;
const NANO_PER_UNIT: i128 = 1_000_000_000;

/// The largest whole number of units a Kubernetes quantity holds, 2^63-1; larger ones are capped.
pub const MAX_UNITS: i64 = i64::MAX;

/// A number with Kubernetes' suffixes, exact to a billionth of a unit.
///
/// What is finer than a billionth is rounded away from zero; what is beyond 2^63-1 units is capped there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nano: i128,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Nothing was written.
    #[error("a quantity must not be empty")]
    Empty,
    /// No digit stands where a number must start.
    #[error("{0:?} does not start with a number")]
    NotANumber(String),
    /// The text after the digits is no suffix.
    #[error(
        "{suffix:?} in {text:?} is not a suffix: use n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
    )]
    Suffix {
        /// The whole text.
        text: String,
        /// What follows its digits.
        suffix: String,
    },
}

/// A suffix's factor: a power of ten or of two.
enum Scale {
    Decimal(i32),
    Binary(u32),
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nano: 0 };

    /// A quantity of so many billionths of a unit, capped at 2^63-1 units either way.
    pub fn from_nano(nano: i128) -> Self {
        let cap = i128::from(MAX_UNITS) * NANO_PER_UNIT;
        Self { nano: nano.clamp(-cap, cap) }
    }

    /// Billionths of a unit.
    pub fn nano(self) -> i128 {
        self.nano
    }

    /// Thousandths of a unit, what is finer rounded up (towards positive infinity) as the HPA reads a
    /// quantity, and capped at 2^63-1 thousandths.
    pub fn to_milli(self) -> Milli {
        Milli::saturating(div_ceil(self.nano, NANO_PER_MILLI))
    }
}

/// `a / b` rounded towards positive infinity; `b` must be positive.
pub(crate) fn div_ceil(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b > 0 { quotient + 1 } else { quotient }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(QuantityError::NotANumber(text.to_owned()));
        }
        let scale = parse_suffix(suffix)
            .ok_or_else(|| QuantityError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() })?;
        let nano = scaled_nano(whole, fraction, &scale);
        Ok(Self::from_nano(if negative { -nano } else { nano }))
    }
}

fn parse_suffix(suffix: &str) -> Option<Scale> {
    Some(match suffix {
        "" => Scale::Decimal(0),
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let unsigned = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // An exponent too long to hold says "huge" or "nothing" all the same.
            let magnitude = unsigned.parse::<i32>().unwrap_or(i32::MAX).min(1000);
            Scale::Decimal(if exponent.starts_with('-') { -magnitude } else { magnitude })
        }
    })
}

/// The digits times the scale in billionths, rounded up, saturating far above the cap.
fn scaled_nano(whole: &str, fraction: &str, scale: &Scale) -> i128 {
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').skip_while(|d| *d == 0).collect();
    let (ten_power, two_power) = match scale {
        Scale::Decimal(power) => (9 + power - fraction.len() as i32, 0),
        Scale::Binary(power) => (9 - fraction.len() as i32, *power),
    };
    // Value = digits * 10^ten_power * 2^two_power. Digits beyond what fits cannot change the answer except by
    // making the rounding up certain.
    let room = (i128::MAX >> two_power) / 16;
    let mut mantissa: i128 = 0;
    let mut lost_digits = 0;
    let mut lost_something = false;
    for digit in &digits {
        if lost_digits == 0 && mantissa < room {
            mantissa = mantissa * 10 + i128::from(*digit);
        } else {
            lost_digits += 1;
            lost_something |= *digit != 0;
        }
    }
    mantissa <<= two_power;
    let power = ten_power + lost_digits;
    if mantissa == 0 {
        return i128::from(lost_something);
    }
    if power >= 0 {
        let mut scaled = mantissa;
        for _ in 0..power {
            scaled = scaled.saturating_mul(10);
        }
        return scaled;
    }
    let mut divisor: i128 = 1;
    for _ in 0..(-power).min(38) {
        divisor = divisor.saturating_mul(10);
    }
    let quotient = mantissa / divisor;
    if mantissa % divisor != 0 || lost_something { quotient + 1 } else { quotient }
}

/// Kubernetes' canonical form: the largest suffix that leaves no fraction, e.g. `12k`, `1500m`, `853m`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        if self.nano == 0 {
            return f.write_str("0");
        }
        let mut number = self.nano;
        let mut index = 0;
        while number % 1000 == 0 && index + 1 < SUFFIXES.len() {
            number /= 1000;
            index += 1;
        }
        write!(f, "{number}{}", SUFFIXES[index])
    }
}

/// Thousandths of a unit: the resolution in which the HPA computes, a signed 64-bit integer.
///
/// The unit is that of the signal (requests, tokens, tokens per second, a fraction of 1, seconds).
/// Written and read in text and JSON as a Kubernetes quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Milli(i64);

impl Milli {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The largest value, 2^63-1 thousandths.
    pub const MAX: Self = Self(i64::MAX);

    /// So many thousandths.
    pub const fn new(thousandths: i64) -> Self {
        Self(thousandths)
    }

    /// So many whole units, capped at [`Milli::MAX`].
    pub const fn from_units(units: i64) -> Self {
        Self(units.saturating_mul(1000))
    }

    /// The number of thousandths.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The nearest value a `Milli` can hold.
    pub fn saturating(thousandths: i128) -> Self {
        Self(i64::try_from(thousandths).unwrap_or(if thousandths < 0 { i64::MIN } else { i64::MAX }))
    }

    /// A measured double, rounded up to a thousandth after discarding what a decimal text of nine digits
    /// after the point would not say (so that `0.1` is exactly 100 thousandths).
    ///
    /// `None` where the value is not finite or beyond what 63 bits of thousandths hold.
    pub fn from_measured(value: f64) -> Option<Self> {
        const LIMIT: f64 = 9.2e15;
        if !value.is_finite() || value.abs() > LIMIT {
            return None;
        }
        let whole = value.trunc();
        let nano = (whole as i128) * NANO_PER_UNIT + (((value - whole) * 1e9).round() as i128);
        Some(Quantity::from_nano(nano).to_milli())
    }

    /// The same number as a double, in units.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quantity { nano: i128::from(self.0) * NANO_PER_MILLI }.fmt(f)
    }
}

/// A number as people write it in a sentence: `39.168`, `0.75`, `12`.
pub struct Decimal(pub Milli);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, magnitude) = (if self.0.0 < 0 { "-" } else { "" }, self.0.0.unsigned_abs());
        let (whole, thousandths) = (magnitude / 1000, magnitude % 1000);
        if thousandths == 0 {
            return write!(f, "{sign}{whole}");
        }
        write!(f, "{sign}{whole}.{}", format!("{thousandths:03}").trim_end_matches('0'))
    }
}

impl FromStr for Milli {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        text.parse::<Quantity>().map(Quantity::to_milli)
    }
}

impl Serialize for Milli {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Milli {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milli(text: &str) -> i64 {
        text.parse::<Milli>().unwrap().get()
    }

    #[test]
    fn reads_every_suffix() {
        for (text, expected) in [
            ("0", 0),
            ("5", 5000),
            ("+5", 5000),
            ("-1", -1000),
            ("2500m", 2500),
            ("1.5", 1500),
            (".5", 500),
            ("5.", 5000),
            ("12k", 12_000_000),
            ("1Ki", 1_024_000),
            ("1.5Ki", 1_536_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("1E", 1_000_000_000_000_000_000_i64.saturating_mul(1000)),
            ("12e-1", 1200),
            ("0.853", 853),
        ] {
            assert_eq!(milli(text), expected, "{text}");
        }
    }

    /// B-52: what is below a thousandth is rounded up to one, never to nothing.
    #[test]
    fn rounds_up_below_a_thousandth() {
        for (text, expected) in
            [("0.0001", 1), ("100u", 1), ("1n", 1), ("0.8505", 851), ("850500u", 851), ("-0.0001", 0)]
        {
            assert_eq!(milli(text), expected, "{text}");
        }
        assert_eq!("0.0000000001".parse::<Quantity>().unwrap().nano(), 1);
        assert_eq!(format!("0.{}1", "0".repeat(90)).parse::<Quantity>().unwrap().nano(), 1);
    }

    /// B-52: large numbers keep their value, are capped at 63 bits, and never turn negative.
    #[test]
    fn prints_canonically_and_caps() {
        for (text, printed) in [
            ("1e16", "10P"),
            ("9.3e15", "9300T"),
            ("12000", "12k"),
            ("1.5", "1500m"),
            ("0.0001", "100u"),
            ("0.853", "853m"),
            ("1Mi", "1048576"),
            ("99999999999999999999", "9223372036854775807"),
            ("1e400", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("-1e30", "-9223372036854775807"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), printed, "{text}");
        }
        assert_eq!(milli("1e400"), i64::MAX);
        assert_eq!(Milli::MAX.to_string(), "9223372036854775807m");
    }

    #[test]
    fn decimals_for_sentences() {
        for (thousandths, text) in [(39_168, "39.168"), (750, "0.75"), (12_000, "12"), (-5, "-0.005"), (0, "0")] {
            assert_eq!(Decimal(Milli::new(thousandths)).to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        for text in ["", "m", "-", "1.2.3", "5x", "1e", "1e+", "5 ", "NaN", "0x10", "1kk", "1ki"] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn measured_doubles_keep_their_decimal_meaning() {
        assert_eq!(Milli::from_measured(0.1), Some(Milli::new(100)));
        assert_eq!(Milli::from_measured(0.7), Some(Milli::new(700)));
        assert_eq!(Milli::from_measured(0.8505), Some(Milli::new(851)));
        assert_eq!(Milli::from_measured(-3.0), Some(Milli::new(-3000)));
        assert_eq!(Milli::from_measured(1e-12), Some(Milli::ZERO));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e16] {
            assert_eq!(Milli::from_measured(value), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn printed_form_reads_back(thousandths in proptest::num::i64::ANY) {
            let value = Milli::new(thousandths);
            proptest::prop_assert_eq!(value.to_string().parse::<Milli>().unwrap(), value);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn any_number_like_text_is_read_or_refused(text in "[-+]?[0-9]{0,50}\\.?[0-9]{0,50}([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,12})?") {
            let _ = text.parse::<Quantity>();
        }
    }
}
