//! Why a signal has no source, in words.

use headroom_policies::Signal;

use super::plan::{Absence, Plan};
use crate::exposition::Page;

/// Similar names shown for a family that is absent.
const NEAR_MATCHES: usize = 3;
/// Names less alike than this (normalized Damerau-Levenshtein) are of other things.
const LEAST_SIMILAR: f64 = 0.5;

impl Plan {
    /// Why a page has no source for a signal, with similar names where the page was looked at whole, or the models that
    /// are there. `None` where there is a source.
    pub fn absence_words(&self, page: &Page, signal: Signal) -> Option<String> {
        Some(match self.absence(signal)? {
            Absence::Families(names) if names.iter().any(|name| page.names.contains(name)) => {
                format!("{} is in the page, but not with the labels that are needed", names.join(" or "))
            }
            Absence::Families(names) => {
                let similar = similar(page, &names);
                let similar =
                    if similar.is_empty() { String::new() } else { format!(" (similar: {})", similar.join(", ")) };
                format!("{} is not in the page{similar}", names.join(" or "))
            }
            Absence::Models(models) => format!("no series is of that model; there are {}", models.join(", ")),
            Absence::NotExported => match self.engine {
                Some(engine) => format!("{engine} does not export it"),
                None => "no engine was recognised, so it is not looked for".to_owned(),
            },
        })
    }
}

fn similar<'a>(page: &'a Page, wanted: &[Box<str>]) -> Vec<&'a str> {
    let Some(name) = wanted.first() else { return Vec::new() };
    let alike = |own: &'a str| (strsim::normalized_damerau_levenshtein(name, own), own);
    let mut similar: Vec<(f64, &str)> = page.names.iter().map(|own| alike(own)).collect();
    similar.retain(|(likeness, _)| *likeness >= LEAST_SIMILAR);
    similar.sort_by(|a, b| b.0.total_cmp(&a.0));
    similar.into_iter().take(NEAR_MATCHES).map(|(_, name)| name).collect()
}
