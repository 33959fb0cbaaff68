//! A benchmark's command line: flags with values, as in `--seconds 60`.

use std::fmt::Display;
use std::str::FromStr;

use super::Fallible;

/// The arguments of this process.
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) fn of_process() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Without cargo's `--bench` a program only shows that it works.
    pub(crate) fn is_check(&self) -> bool {
        !self.has("--bench")
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.iter().any(|argument| argument == flag)
    }

    /// The text after a flag.
    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        let place = self.0.iter().position(|argument| argument == flag)?;
        self.0.get(place + 1).map(String::as_str)
    }

    /// The value after a flag, or `usual` without the flag.
    ///
    /// # Errors
    /// The value is not of that kind.
    pub(crate) fn value<T: FromStr<Err: Display>>(&self, flag: &str, usual: T) -> Fallible<T> {
        self.text(flag).map_or(Ok(usual), |text| parse(flag, text))
    }

    /// The values after a flag, separated by commas.
    ///
    /// # Errors
    /// One of them is not of that kind.
    pub(crate) fn values<T: FromStr<Err: Display>>(&self, flag: &str, usual: T) -> Fallible<Vec<T>> {
        self.text(flag).map_or(Ok(vec![usual]), |text| text.split(',').map(|part| parse(flag, part)).collect())
    }
}

fn parse<T: FromStr<Err: Display>>(flag: &str, text: &str) -> Fallible<T> {
    text.parse().map_err(|error| format!("{flag} {text}: {error}").into())
}
