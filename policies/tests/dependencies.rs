//! What this package is built from.

#![allow(clippy::unwrap_used)]
#![expect(clippy::disallowed_types, reason = "asking cargo is the test's own doing")]

use std::collections::BTreeSet;
use std::process::Command;

/// Values, parsing and text. None of these opens a file or a socket or asks for the time; the rest are macros that run
/// in the compiler.
const PURE: [&str; 11] = [
    "headroom-policies",
    "itoa",
    "jiff",
    "jiff-core",
    "memchr",
    "serde",
    "serde_core",
    "serde_json",
    "serde_path_to_error",
    "thiserror",
    "zmij",
];
const IN_THE_COMPILER: [&str; 6] = ["proc-macro2", "quote", "serde_derive", "syn", "thiserror-impl", "unicode-ident"];

/// A decision has no way to a clock, a file, the network or the environment: nothing in the tree could give it one.
#[test]
fn nothing_in_the_tree_does_io() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let tree = ["tree", "--manifest-path", manifest, "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let output = Command::new(env!("CARGO")).args(tree).args(["--offline", "--locked"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let found: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let allowed: BTreeSet<&str> = PURE.into_iter().chain(IN_THE_COMPILER).collect();
    let unknown: Vec<&&str> = found.difference(&allowed).collect();
    assert!(found.contains("headroom-policies"), "{text}");
    assert!(unknown.is_empty(), "does any of {unknown:?} do IO? policies must not");
}
