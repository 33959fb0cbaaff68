//! One sample line: `name{label="value",...} value [timestamp] [# exemplar]`.

use std::borrow::Cow;

use super::Format;
use super::number::{parse_millis, parse_number, parse_seconds, parse_short_decimal};

/// A value with the time its exporter gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    /// Milliseconds since 1970.
    pub(crate) timestamp: Option<i64>,
}

/// What follows a line's name and labels. `None` where it is not a value, optionally a timestamp, and in
/// OpenMetrics optionally an exemplar.
#[inline]
pub(crate) fn parse_measured(text: &[u8], format: Format) -> Option<Measured> {
    if let Some((b' ', number)) = text.split_first()
        && let Some(value) = parse_short_decimal(number)
    {
        return Some(Measured { value, timestamp: None });
    }
    parse_measured_tokens(text, format)
}

fn parse_measured_tokens(text: &[u8], format: Format) -> Option<Measured> {
    let (value, rest) = take_token(text)?;
    let value = parse_number(value)?;
    let Some((token, rest)) = take_token(rest) else {
        return Some(Measured { value, timestamp: None });
    };
    if is_exemplar(token, format) {
        return Some(Measured { value, timestamp: None });
    }
    let timestamp = match format {
        Format::Text => parse_millis(token)?,
        Format::OpenMetrics => parse_seconds(token)?,
    };
    match take_token(rest) {
        Some((token, _)) if !is_exemplar(token, format) => None,
        _ => Some(Measured { value, timestamp: Some(timestamp) }),
    }
}

fn is_exemplar(token: &[u8], format: Format) -> bool {
    format == Format::OpenMetrics && token == b"#"
}

/// The next run of bytes without blanks, and what follows it.
#[inline]
fn take_token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = text.iter().position(|byte| !is_blank(*byte))?;
    let text = &text[start..];
    let end = text.iter().position(|byte| is_blank(*byte)).unwrap_or(text.len());
    Some(text.split_at(end))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The length of a line's name and labels, given that of its name. `None` where a brace is opened and not closed.
pub(crate) fn key_length(line: &[u8], name_length: usize) -> Option<usize> {
    let after = &line[name_length..];
    let blanks = after.iter().take_while(|byte| is_blank(**byte)).count();
    if after.get(blanks) != Some(&b'{') {
        return Some(name_length);
    }
    let mut quoted = false;
    let mut escaped = false;
    for (place, byte) in after.iter().enumerate().skip(blanks + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(name_length + place + 1),
            _ => {}
        }
    }
    None
}

/// A label as written; `name` is `None` for a quoted metric name at the head of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label<'a> {
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) value: Cow<'a, str>,
}

/// The labels of a block such as ` {a="b", c="d",} `, unescaped; bytes that are not UTF-8 are replaced. `None` for
/// a block that is not well formed.
pub(crate) fn parse_labels(block: &[u8]) -> Option<Vec<Label<'_>>> {
    let block = block.trim_ascii();
    if block.is_empty() {
        return Some(Vec::new());
    }
    let mut rest = block.strip_prefix(b"{")?.strip_suffix(b"}")?.trim_ascii_start();
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, after) = take_label(rest)?;
        if label.name.is_none() && !labels.is_empty() {
            return None;
        }
        labels.push(label);
        let after = after.trim_ascii_start();
        rest = match after.split_first() {
            None => after,
            Some((b',', after)) => after.trim_ascii_start(),
            Some(_) => return None,
        };
    }
    Some(labels)
}

fn take_label(text: &[u8]) -> Option<(Label<'_>, &[u8])> {
    let (name, rest) = if text.starts_with(b"\"") {
        let (quoted, rest) = take_quoted(text)?;
        let rest = rest.trim_ascii_start();
        if !rest.starts_with(b"=") {
            return Some((Label { name: None, value: quoted }, rest));
        }
        (quoted, rest)
    } else {
        let end = text.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.')))?;
        if end == 0 {
            return None;
        }
        (String::from_utf8_lossy(&text[..end]), text[end..].trim_ascii_start())
    };
    let (value, rest) = take_quoted(rest.strip_prefix(b"=")?.trim_ascii_start())?;
    Some((Label { name: Some(name), value }, rest))
}

fn take_quoted(text: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let mut escaped = false;
    let end = inner.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some((unescape(&inner[..end]), &inner[end + 1..]))
}

/// `\\`, `\"` and `\n`; any other escape stays as it is written.
fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(raw);
    if !text.contains('\\') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some(escaped @ ('\\' | '"')) => plain.push(escaped),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    Cow::Owned(plain)
}

/// The metric name of a line whose name is quoted inside the braces, with the length of the block.
pub(crate) fn quoted_name(line: &[u8]) -> Option<(Cow<'_, str>, usize)> {
    let length = key_length(line, 0)?;
    let first = parse_labels(&line[..length])?.into_iter().next()?;
    first.name.is_none().then_some((first.value, length))
}

/// The line is a sample of any name, well formed to its end.
pub(crate) fn is_sample(line: &[u8], format: Format) -> Option<(Cow<'_, str>, usize)> {
    let (name, name_length) = if line.starts_with(b"{") {
        (quoted_name(line)?.0, 0)
    } else {
        let end = line.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t'))?;
        let legal = |(place, byte): (usize, &u8)| {
            byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':' | b'.') || place > 0 && byte.is_ascii_digit()
        };
        if end == 0 || !line[..end].iter().enumerate().all(legal) {
            return None;
        }
        (String::from_utf8_lossy(&line[..end]), end)
    };
    let length = key_length(line, name_length)?;
    parse_labels(&line[name_length..length])?;
    parse_measured(&line[length..], format)?;
    Some((name, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(block: &str) -> Option<Vec<(String, String)>> {
        let parsed = parse_labels(block.as_bytes())?;
        let pair = |label: Label<'_>| (label.name.unwrap_or_default().into_owned(), label.value.into_owned());
        Some(parsed.into_iter().map(pair).collect())
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_as_they_are_written() {
        assert_eq!(labels(""), Some(pairs(&[])));
        assert_eq!(labels("{}"), Some(pairs(&[])));
        assert_eq!(labels("{a=\"b\",c=\"d\",}"), Some(pairs(&[("a", "b"), ("c", "d")])));
        assert_eq!(labels("{ a = \"b c\\\"d\\\\e\\nf}\" , }"), Some(pairs(&[("a", "b c\"d\\e\nf}")])));
        assert_eq!(labels("{\"x.y\",\"m.n\"=\"v\"}"), Some(pairs(&[("", "x.y"), ("m.n", "v")])));
        for broken in
            ["{a}", "{a=b}", "{a=\"b}", "{a=\"b\" c=\"d\"}", "{=\"b\"}", "{a=\"b\",,}", "{a=\"1\",\"x\"}", "a=\"b\""]
        {
            assert_eq!(labels(broken), None, "{broken}");
        }
    }

    #[test]
    fn braces_and_quotes_inside_labels_do_not_end_them() {
        let line = br#"x{a="}\"}",b="{"} 3"#;
        assert_eq!(key_length(line, 1), Some(line.len() - 2));
        assert_eq!(key_length(b"x 3", 1), Some(1));
        assert_eq!(key_length(b"x{a=\"b\" 3", 1), None);
    }

    #[test]
    fn values_timestamps_and_exemplars() {
        let read = |text: &str, format| parse_measured(text.as_bytes(), format).map(|m| (m.value, m.timestamp));
        assert_eq!(read(" 7", Format::Text), Some((7.0, None)));
        assert_eq!(read("\t0.42\t1764489600123 ", Format::Text), Some((0.42, Some(1_764_489_600_123))));
        assert_eq!(read(" 12 1764489600.5", Format::OpenMetrics), Some((12.0, Some(1_764_489_600_500))));
        assert_eq!(read(" 9 # {a=\"#}\"} 0.9", Format::OpenMetrics), Some((9.0, None)));
        assert_eq!(read(" 9 1.5 # {} 0.9", Format::OpenMetrics), Some((9.0, Some(1500))));
        for broken in ["", " ", " x", " 7 x", " 7 8 9", " 9 # {} 1"] {
            assert_eq!(read(broken, Format::Text), None, "{broken:?}");
        }
    }
}
