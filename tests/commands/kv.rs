//! `headroom kv`.

use serde_json::Value;

use crate::support::{output, stderr, stdout};

/// Llama-3-8B in half precision keeps 2 x 32 layers x 8 heads x 128 x 2 bytes a token.
#[test]
fn conversations_that_fit() {
    let shape = ["kv", "--layers", "32", "--kv-heads", "8", "--head-size", "128"];
    for (memory, dtype, tokens, conversations) in
        [("40Gi", "bf16", 327_680, 160), ("40GiB", "fp8", 655_360, 320), ("1Gi", "fp16", 8192, 4)]
    {
        let more = ["--memory", memory, "--dtype", dtype, "--output", "json"];
        let answer = output(&[&shape[..], &more].concat());
        let json: Value = serde_json::from_str(&stdout(&answer)).unwrap();
        assert_eq!((&json["tokens"], &json["conversations"]), (&tokens.into(), &conversations.into()), "{memory}");
    }
    let text = stdout(&output(&[&shape[..], &["--memory", "40Gi"]].concat()));
    assert!(text.contains("131072 bytes a token") && text.contains("signal: RunningRequests, target: 120"), "{text}");
}

#[test]
fn what_is_missing_is_named() {
    for (args, says) in [
        (&["kv"][..], "--layers is needed"),
        (&["kv", "--layers", "32", "--kv-heads", "0", "--head-size", "1"], "--kv-heads is needed, above 0"),
        (&["kv", "--model-config", "/nowhere/config.json"], "/nowhere/config.json"),
        (&["kv", "--memory", "much"], "--memory"),
    ] {
        let refused = output(args);
        assert!(!refused.status.success() && stderr(&refused).contains(says), "{args:?}: {}", stderr(&refused));
    }
}
