//! The answer for people.

use std::fmt::Write;

use headroom_policies::Signal;
use serde_json::Value;

/// Everything that the answer says.
pub(super) fn page(answer: &Value) -> String {
    let mut text = format!("engine: {}\n", answer["engine"].as_str().unwrap_or("not recognised"));
    if let Some(hint) = answer["hint"].as_str() {
        let _ = writeln!(text, "{hint}");
    }
    if answer["asleep"] == Value::Bool(true) {
        text.push_str("the engine sleeps\n");
    }
    text.push('\n');
    let mut not_exported = Vec::new();
    for signal in Signal::ALL.map(|signal| signal.to_string()) {
        let shown = &answer["signals"][&signal];
        if shown["exported"] == Value::Bool(false) {
            not_exported.push(signal);
        } else {
            let _ = writeln!(text, "{signal:<20} {}", line(shown));
        }
    }
    if !not_exported.is_empty() {
        let _ = writeln!(text, "{:<20} {}", "not exported", not_exported.join(", "));
    }
    let _ = writeln!(text, "\n{}", lines(&answer["lines"]));
    text
}

fn lines(lines: &Value) -> String {
    let mut text = format!("{} lines read, {} skipped", lines["read"], lines["skipped"]);
    match lines["skippedNumbers"].as_array() {
        Some(numbers) if !numbers.is_empty() => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            let _ = write!(text, " (lines {})", numbers.join(", "));
        }
        _ => {}
    }
    for (field, what) in [("duplicates", "series twice"), ("afterEnd", "after the end")] {
        if lines[field].as_u64().is_some_and(|count| count > 0) {
            let _ = write!(text, ", {} {what}", lines[field]);
        }
    }
    if lines["partial"] == Value::Bool(true) {
        text.push_str("; the page does not end as it should");
    }
    text
}

fn line(shown: &Value) -> String {
    let unit = shown["unit"].as_str().unwrap_or_default();
    let quantity = |value: &Value| value.as_f64().map_or_else(String::new, |value| quantity(value, unit));
    let total = shown["total"].as_f64().map_or_else(String::new, |total| format!(" (total {})", number(total)));
    match shown["state"].as_str() {
        Some("unknown") => format!("unknown: {}{total}", shown["reason"].as_str().unwrap_or_default()),
        Some("zero") => format!("0 {unit} (known: the engine has not created the family yet)"),
        _ => {
            let at_least = if shown["atLeast"] == Value::Bool(true) { "at least " } else { "" };
            let detail = if let Some(deferred) = shown["deferred"].as_f64() {
                format!(" ({} of them deferred)", number(deferred))
            } else if shown["mean"].is_number() && shown["mean"] != shown["value"] {
                format!(" (mean over ranks {})", quantity(&shown["mean"]))
            } else {
                shown["reason"].as_str().map_or(total, |reason| format!(" ({reason})"))
            };
            format!("{at_least}{}{detail}", quantity(&shown["value"]))
        }
    }
}

/// A value in the unit that people say it in.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "fraction" => format!("{} %", number(value * 100.0)),
        "seconds" if value < 1.0 => format!("{} ms", number(value * 1000.0)),
        "seconds" => format!("{} s", number(value)),
        _ => format!("{} {unit}", number(value)),
    }
}

/// Three significant digits below 1000; whole above.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_as_people_say_them() {
        for (value, unit, expected) in [
            (24.0, "requests", "24 requests"),
            (0.8812, "fraction", "88.12 %"),
            (4.420_289, "seconds", "4.42 s"),
            (0.047_132, "seconds", "47.13 ms"),
            (386_133.713_6, "tokens", "386134 tokens"),
            (0.0, "requests", "0 requests"),
        ] {
            assert_eq!(quantity(value, unit), expected);
        }
    }
}
