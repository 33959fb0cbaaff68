//! The text format, version 0.0.4, as Python's client library writes it.

use std::fmt::Write as _;

use crate::histogram::Histogram;

/// Writes families whose samples carry the labels of one engine.
pub(super) struct Writer<'page> {
    pub(super) out: &'page mut String,
    /// The label `engine`.
    pub(super) engine: &'page str,
    /// The label `model_name`.
    pub(super) model: &'page str,
    /// When the engine was started, in Unix seconds.
    pub(super) created: f64,
}

impl Writer<'_> {
    /// The lines before a family's samples.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        for part in ["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"] {
            self.out.push_str(part);
        }
    }

    /// A sample with exactly these labels.
    pub(super) fn plain(&mut self, name: &str, labels: &str, value: f64) {
        self.out.push_str(name);
        if !labels.is_empty() {
            for part in ["{", labels, "}"] {
                self.out.push_str(part);
            }
        }
        self.value(value);
    }

    /// A sample of the engine; labels stand in the order of their names.
    pub(super) fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: f64) {
        let (engine, model) = (self.engine, self.model);
        self.out.push_str(name);
        let parts = match label {
            None => ["{", engine, ",", model, "", "", "", ""],
            Some((key, text)) if key < "model_name" => ["{", engine, ",", key, "=\"", text, "\",", model],
            Some((key, text)) => ["{", engine, ",", model, ",", key, "=\"", text],
        };
        for part in parts {
            self.out.push_str(part);
        }
        if label.is_some_and(|(key, _)| key > "model_name") {
            self.out.push('"');
        }
        self.out.push('}');
        self.value(value);
    }

    /// A gauge of one sample.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(name, None, value);
    }

    /// A gauge with a sample for each value of one label.
    pub(super) fn gauge_by(&mut self, name: &str, help: &str, label: &str, values: &[(&str, f64)]) {
        self.family(name, "gauge", help);
        for (text, value) in values {
            self.sample(name, Some((label, text)), *value);
        }
    }

    /// A counter of one sample, and the family that says since when it counts. `name` is without `_total`.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counter_of(name, help, &[(None, value)]);
    }

    /// A counter with a sample for each value of one label.
    pub(super) fn counter_by(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        let values: Vec<_> = values.iter().map(|(text, value)| (Some((label, *text)), *value)).collect();
        self.counter_of(name, help, &values);
    }

    fn counter_of(&mut self, name: &str, help: &str, values: &[(Option<(&str, &str)>, u64)]) {
        let total = format!("{name}_total");
        self.family(&total, "counter", help);
        for (label, value) in values {
            self.sample(&total, *label, *value as f64);
        }
        let created = format!("{name}_created");
        self.family(&created, "gauge", help);
        for (label, _) in values {
            self.sample(&created, *label, self.created);
        }
    }

    /// A histogram, and the family that says since when it counts.
    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut le = String::new();
        for (bound, count) in histogram.cumulative() {
            le.clear();
            python_float(bound, &mut le);
            self.sample(&bucket, Some(("le", &le)), count as f64);
        }
        let count = histogram.count() as f64;
        self.sample(&bucket, Some(("le", "+Inf")), count);
        self.sample(&format!("{name}_count"), None, count);
        self.sample(&format!("{name}_sum"), None, histogram.sum());
        let created = format!("{name}_created");
        self.family(&created, "gauge", help);
        self.sample(&created, None, self.created);
    }

    fn value(&mut self, value: f64) {
        self.out.push(' ');
        python_float(value, self.out);
        self.out.push('\n');
    }
}

/// Appends a label value with what must be escaped escaped.
pub(super) fn escape(value: &str, out: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// Appends a number as Python's client library prints it: always with a point, and from a million on as Go would, with
/// an exponent of two digits (`1.48322e+06`).
pub(super) fn python_float(value: f64, out: &mut String) {
    let start = out.len();
    // A String takes whatever is written to it.
    let _ = write!(out, "{value:?}");
    let digits = &out[start..];
    let rewritten = match (value.is_finite(), digits.find('e'), digits.find('.')) {
        (false, ..) if value.is_nan() => Some("NaN".to_owned()),
        (false, ..) => Some(if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()),
        (true, Some(exponent), _) => Some(two_digit_exponent(digits, exponent)),
        (true, None, Some(point)) if point > 6 && value > 0.0 => {
            let mantissa = format!("{}.{}{}", &digits[..1], &digits[1..point], &digits[point + 1..]);
            Some(format!("{}e+{:02}", mantissa.trim_end_matches(['0', '.']), point - 1))
        }
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        out.truncate(start);
        out.push_str(&rewritten);
    }
}

/// Rust writes 1e-5 and 1e16 where Python writes 1e-05 and 1e+16.
fn two_digit_exponent(digits: &str, exponent: usize) -> String {
    let (mantissa, power) = (&digits[..exponent], &digits[exponent + 1..]);
    match power.strip_prefix('-') {
        Some(power) => format!("{mantissa}e-{power:0>2}"),
        None => format!("{mantissa}e+{power:0>2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{escape, python_float};

    #[test]
    fn numbers_are_printed_as_python_prints_them() {
        let cases = [
            (0.0, "0.0"),
            (16.0, "16.0"),
            (0.007_814_407_814_407_787, "0.007814407814407787"),
            (12.402_399_004_000_472, "12.402399004000472"),
            (999_999.0, "999999.0"),
            (1_000_000.0, "1e+06"),
            (1_483_220.0, "1.48322e+06"),
            (4_651_892_736.0, "4.651892736e+09"),
            (1_796_028_796.862_803_7, "1.7960287968628037e+09"),
            (1e16, "1e+16"),
            (0.000_05, "5e-05"),
            (0.000_123, "0.000123"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            let mut out = String::from("x ");
            python_float(value, &mut out);
            assert_eq!(out, format!("x {expected}"));
        }
    }

    #[test]
    fn label_values_are_escaped() {
        let mut out = String::new();
        escape("a\"b\\c\nd,e}", &mut out);
        assert_eq!(out, "a\\\"b\\\\c\\nd,e}");
    }
}
