//! What a body is, from its Content-Type and its first bytes.

use std::fmt;

/// An exposition format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The Prometheus text format, 0.0.4 or 1.0.0.
    #[default]
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format that a Content-Type announces. What is not known to be anything else is taken for the text
    /// format, as the first bytes are looked at too.
    ///
    /// # Errors
    /// The kind of document that it announces instead.
    pub fn of_content_type(content_type: Option<&str>) -> Result<Self, NotAnExposition> {
        let essence = content_type.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/openmetrics-text" => Ok(Self::OpenMetrics),
            "text/html" | "application/xhtml+xml" => Err(NotAnExposition::Html),
            "application/json" | "application/problem+json" => Err(NotAnExposition::Json),
            "application/vnd.google.protobuf" => Err(NotAnExposition::Protobuf),
            _ => Ok(Self::Text),
        }
    }
}

/// A document that is not an exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAnExposition {
    /// A page of a proxy or of a login.
    Html,
    /// A JSON object, e.g. an error.
    Json,
    /// A JSON array, which `trtllm-serve` answers on its `/metrics`.
    JsonArray,
    /// An exposition inside a JSON string.
    JsonString,
    /// The binary Prometheus format.
    Protobuf,
}

impl NotAnExposition {
    /// What the first bytes of a body give it away as.
    pub(crate) fn of_first_bytes(body: &[u8]) -> Option<Self> {
        let body = body.trim_ascii_start();
        match body.first()? {
            b'<' => Some(Self::Html),
            b'[' => Some(Self::JsonArray),
            b'"' => Some(Self::JsonString),
            // A metric name in quotes stands in braces too, but no colon follows it.
            b'{' => {
                let rest = body[1..].trim_ascii_start();
                let quoted = rest.strip_prefix(b"\"").and_then(|rest| rest.split(|byte| *byte == b'"').nth(1));
                let name_in_quotes = quoted.is_some_and(|after| !after.trim_ascii_start().starts_with(b":"));
                (!name_in_quotes).then_some(Self::Json)
            }
            _ => None,
        }
    }
}

impl fmt::Display for NotAnExposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Html => "an HTML page, such as a proxy or a login answers",
            Self::Json => "a JSON document",
            Self::JsonArray => {
                "a JSON array; TensorRT-LLM answers that on /metrics, its exposition is at /prometheus/metrics"
            }
            Self::JsonString => "an exposition inside a JSON string, which some builds of llama.cpp answer; update it",
            Self::Protobuf => "the binary protobuf format",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types() {
        let of = |text: &str| Format::of_content_type(Some(text));
        assert_eq!(of("application/openmetrics-text; version=1.0.0; charset=utf-8"), Ok(Format::OpenMetrics));
        for text in ["text/plain; version=0.0.4", "text/plain; version=1.0.0; charset=utf-8", "text/plain", "", "x/y"] {
            assert_eq!(of(text), Ok(Format::Text), "{text}");
        }
        assert_eq!(of("text/html; charset=utf-8"), Err(NotAnExposition::Html));
        assert_eq!(of("Application/JSON"), Err(NotAnExposition::Json));
        assert_eq!(Format::of_content_type(None), Ok(Format::Text));
    }

    #[test]
    fn first_bytes() {
        let of = |text: &str| NotAnExposition::of_first_bytes(text.as_bytes());
        assert_eq!(of("\n <!DOCTYPE html>"), Some(NotAnExposition::Html));
        assert_eq!(of("{\"error\":{\"code\":503}}"), Some(NotAnExposition::Json));
        assert_eq!(of("{}"), Some(NotAnExposition::Json));
        assert_eq!(of("[]"), Some(NotAnExposition::JsonArray));
        assert_eq!(of("\"# HELP x\\n\""), Some(NotAnExposition::JsonString));
        for text in ["", "# HELP x", "x 1", "{\"x.y\",a=\"b\"} 1", "{ \"x.y\" } 1"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
