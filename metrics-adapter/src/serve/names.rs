//! The forms of names in Kubernetes. Source: `k8s.io/apimachinery/pkg/util/validation`.

/// A DNS subdomain: at most 253 characters, labels of lower-case letters, digits and inner dashes.
pub(super) fn is_dns_subdomain(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 253 && text.split('.').all(|label| is_framed(label, allowed, |b| allowed(b) || b == b'-'))
}

/// A label's key: up to 63 letters, digits, `-`, `_` and `.`, after an optional DNS subdomain and a slash.
pub(super) fn is_label_key(text: &str) -> bool {
    let name = match text.split_once('/') {
        Some((prefix, _)) if !is_dns_subdomain(prefix) => return false,
        Some((_, name)) => name,
        None => text,
    };
    !name.is_empty() && is_label_value(name)
}

/// A label's value: empty, or up to 63 letters, digits, `-`, `_` and `.`, the outer ones letters or digits.
pub(super) fn is_label_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.is_empty() || text.len() <= 63 && is_framed(text, |b| b.is_ascii_alphanumeric(), inner)
}

/// Whether a text is not empty, its first and last byte are `outer` and all others `inner`.
fn is_framed(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => outer(*only),
        [first, middle @ .., last] => outer(*first) && outer(*last) && middle.iter().all(|b| inner(*b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys() {
        let long_name = "n".repeat(63);
        let too_long = "n".repeat(64);
        for key in ["a", "app", "headroom.dev/autoscaler", "a/B_c.d-e", "in", &long_name] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "/a", "a/", "a/b/c", "-a", "a-", "A.example/x", "a..b/x", "é", &too_long] {
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn label_values() {
        for value in ["", "a", "Chat-8b_v1.2", "0"] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["-a", "a.", "a b", "a/b", "a:b"] {
            assert!(!is_label_value(value), "{value}");
        }
    }

    #[test]
    fn dns_subdomains() {
        assert!(is_dns_subdomain("external.metrics.k8s.io"));
        for text in ["", ".", "a.", "A.b", "a_b", "-a.b", "{group}"] {
            assert!(!is_dns_subdomain(text), "{text}");
        }
        assert!(!is_dns_subdomain(&vec!["a"; 128].join(".")));
    }
}
