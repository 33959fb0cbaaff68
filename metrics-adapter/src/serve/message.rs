//! Pieces of the messages that users read: bounded, and the same for the same state.

use std::collections::BTreeSet;
use std::fmt;

/// How many names a message lists.
const LISTED: usize = 10;

/// How many characters of a client's text a message repeats.
const QUOTED: usize = 100;

/// A client's text in quotes, escaped, cut where it is long.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(QUOTED) {
            Some((end, _)) => write!(f, "{:?}...", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// Names in alphabetical order, all counted and the first few kept.
#[derive(Default)]
pub(super) struct Listing {
    first: BTreeSet<String>,
    count: usize,
}

impl Listing {
    /// Adds a name that was not added before.
    pub(super) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < LISTED {
            self.first.insert(name.to_owned());
        } else if self.first.last().is_some_and(|last| name < last.as_str()) {
            self.first.insert(name.to_owned());
            self.first.pop_last();
        }
    }

    /// How many were added.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The name, where one alone was added.
    pub(super) fn into_only(self) -> Result<String, Self> {
        match (self.count, self.first.first()) {
            (1, Some(only)) => Ok(only.clone()),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.first.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(name)?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_bounded_and_does_not_depend_on_order() {
        let names: Vec<String> = (0..25).map(|n| format!("model-{n:02}")).collect();
        let mut forward = Listing::default();
        let mut backward = Listing::default();
        for name in &names {
            forward.add(name);
        }
        for name in names.iter().rev() {
            backward.add(name);
        }
        assert_eq!(forward.to_string(), backward.to_string());
        assert!(forward.to_string().starts_with("model-00, model-01, "), "{forward}");
        assert!(forward.to_string().ends_with("model-09 and 15 more"), "{forward}");
    }

    #[test]
    fn one_name_alone_is_taken_out() {
        let mut listing = Listing::default();
        listing.add("chat");
        assert_eq!(listing.into_only().ok(), Some("chat".to_owned()));
        let mut several = Listing::default();
        several.add("embed");
        several.add("chat");
        assert_eq!(several.into_only().err().map(|listing| listing.to_string()), Some("chat, embed".to_owned()));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(Quoted("a\"b").to_string(), r#""a\"b""#);
        let long = "é".repeat(10_000);
        assert_eq!(Quoted(&long).to_string(), format!("\"{}\"...", "é".repeat(QUOTED)));
    }
}
