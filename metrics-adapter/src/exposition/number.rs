//! Sample values and timestamps as engines print them.

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// Integers up to this are exact in a double.
const EXACT_INTEGER: u64 = 1 << 53;

/// A number of the exposition formats: decimal with or without exponent, `+Inf`, `-Inf`, `NaN` in any case.
pub(crate) fn parse_number(text: &[u8]) -> Option<f64> {
    parse_short_decimal(text).or_else(|| parse_general(text))
}

/// Digits with at most one point whose digits together are exact: one correctly rounded division.
#[inline]
pub(crate) fn parse_short_decimal(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut mantissa: u64 = 0;
    let mut point = None;
    for (place, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
            b'.' if point.is_none() => point = Some(place),
            _ => return None,
        }
    }
    let decimals = point.map_or(0, |place| digits.len() - place - 1);
    if mantissa > EXACT_INTEGER || point.is_some() && digits.len() < 2 {
        return None;
    }
    let value = mantissa as f64 / EXACT_POWERS[decimals];
    Some(if negative { -value } else { value })
}

fn parse_general(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    // The standard parser also takes words that the formats do not have.
    if text.len() > 8 && text.bytes().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E')) {
        return None;
    }
    text.parse().ok()
}

/// A timestamp of the text format: an integer of milliseconds.
pub(crate) fn parse_millis(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A timestamp of OpenMetrics: seconds, possibly with a fraction.
pub(crate) fn parse_seconds(text: &[u8]) -> Option<i64> {
    let seconds = parse_number(text)?;
    (seconds.abs() < 9e15).then(|| (seconds * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_engines_print() {
        for (text, expected) in [
            ("0", 0.0),
            ("12.0", 12.0),
            ("-3.0", -3.0),
            ("0.005372405372405353", 0.005_372_405_372_405_353),
            ("1.48322e+06", 1.483_22e6),
            ("1.1701968896e+010", 1.170_196_889_6e10),
            ("3E0", 3.0),
            ("4.2e-1", 0.42),
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("9223372036854775794", 9_223_372_036_854_775_794.0),
            ("1e400", f64::INFINITY),
            ("+Inf", f64::INFINITY),
            ("-Inf", f64::NEG_INFINITY),
            (".5", 0.5),
            ("5.", 5.0),
        ] {
            assert_eq!(parse_number(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["NaN", "Nan", "nan"] {
            assert!(parse_number(text.as_bytes()).unwrap().is_nan());
        }
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in ["", ".", "-", "1.2.3", "12a", "0x10", "1 ", "--1", "1e", "infinitesimal", "\u{ff11}"] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn timestamps_are_milliseconds_or_seconds_by_format() {
        assert_eq!(parse_millis(b"1764489600123"), Some(1_764_489_600_123));
        assert_eq!(parse_seconds(b"1764489600.123"), Some(1_764_489_600_123));
        assert_eq!(parse_millis(b"12.5"), None);
        assert_eq!(parse_seconds(b"NaN"), None);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_the_standard_parser(text in "-?[0-9]{1,12}(\\.[0-9]{0,10})?(e[-+]?[0-9]{1,3})?") {
            proptest::prop_assert_eq!(parse_number(text.as_bytes()), text.parse::<f64>().ok());
        }
    }
}
