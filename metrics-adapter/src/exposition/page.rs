//! Reading one server's pages, one after the other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::content::Format;
use super::layout::{Layout, Series, Slot};
use super::names::{NameId, NameSet};
use super::sample::{Measured, is_sample, key_length, parse_measured};
use super::scanner::{Limits, LineCounts, LineSink, PageError, Scanner};

/// Layouts kept for new readers to try.
const LAYOUTS_KEPT: usize = 8;
/// Names kept for people who look for a family that is absent.
const NAMES_KEPT: usize = 2_000;
/// After so many pages in a row without a series that was there, it is forgotten.
const PAGES_UNTIL_FORGOTTEN: u32 = 3;

/// The names that are wanted, and the layouts seen so far; shared by the readers of one fleet.
#[derive(Debug)]
pub struct Layouts {
    names: NameSet,
    known: Mutex<Vec<Arc<Layout>>>,
}

impl Layouts {
    /// For pages of which these names are wanted.
    pub fn new(names: NameSet) -> Self {
        Self { names, known: Mutex::default() }
    }

    /// The wanted names.
    pub fn names(&self) -> &NameSet {
        &self.names
    }

    fn newest(&self) -> Arc<Layout> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).last().cloned().unwrap_or_default()
    }

    /// The shared copy of a layout.
    fn share(&self, layout: Layout) -> Arc<Layout> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.iter().find(|own| ***own == layout) {
            return Arc::clone(same);
        }
        if known.len() >= LAYOUTS_KEPT {
            known.remove(0);
        }
        let layout = Arc::new(layout);
        known.push(Arc::clone(&layout));
        layout
    }
}

/// How closely a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scrutiny {
    /// Wanted lines only.
    #[default]
    Wanted,
    /// Every line is checked, and the names are collected: for people.
    Everything,
}

/// The wanted values of one page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    layout: Arc<Layout>,
    values: Vec<f64>,
    present: Vec<bool>,
    /// By slot, milliseconds since 1970; empty where no sample has a timestamp.
    timestamps: Vec<Option<i64>>,
    /// Series of the pages before it are not in this one: their lines are gone, or were cut off.
    pub lacks_series: bool,
    /// What was read, in lines.
    pub lines: LineCounts,
    /// The sample names of the page, where everything was looked at.
    pub names: BTreeSet<Box<str>>,
}

impl Page {
    /// The layout, equal for two pages exactly if it is the same allocation or compares equal.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The series that can be in the page, in the order of their slots.
    pub fn series(&self) -> &[Series] {
        self.layout.series()
    }

    /// The value of a slot. `None` where the page has no such sample.
    #[inline]
    pub fn value(&self, slot: Slot) -> Option<f64> {
        let index = slot as usize;
        if *self.present.get(index)? { self.values.get(index).copied() } else { None }
    }

    /// The timestamp of a slot's sample in milliseconds since 1970, where the server wrote one.
    pub fn timestamp(&self, slot: Slot) -> Option<i64> {
        self.timestamps.get(slot as usize).copied().flatten()
    }

    /// The newest timestamp of the page, where the server wrote any.
    pub fn newest_timestamp(&self) -> Option<i64> {
        self.timestamps.iter().flatten().max().copied()
    }

    /// No wanted sample is in the page.
    pub fn is_empty(&self) -> bool {
        !self.present.contains(&true)
    }
}

/// Reads the pages of one server.
#[derive(Debug)]
pub struct PageReader {
    layouts: Arc<Layouts>,
    scanner: Scanner,
    builder: Builder,
    /// The layout is this server's own.
    learnt: bool,
    /// Pages in a row in which a line of the layout was missing.
    incomplete_pages: u32,
}

impl PageReader {
    /// A reader that has not seen a page.
    pub fn new(layouts: Arc<Layouts>) -> Self {
        let builder = Builder::new(layouts.newest());
        Self { layouts, scanner: Scanner::default(), builder, learnt: false, incomplete_pages: 0 }
    }

    /// Begins a page; what was fed of one before it is dropped.
    pub fn begin(&mut self, format: Format, limits: Limits, scrutiny: Scrutiny) {
        if !self.learnt {
            // Where another reader knows such pages by now, learning them again would cost memory and time.
            self.builder.layout = self.layouts.newest();
        }
        self.scanner.begin(format, limits);
        self.builder.begin(format, limits.series, scrutiny);
    }

    /// Feeds a chunk of the body.
    ///
    /// # Errors
    /// The page is refused as a whole.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), PageError> {
        self.scanner.feed(&self.layouts.names, chunk, &mut self.builder)
    }

    /// Ends a page whose body is known to be whole.
    ///
    /// A last line without its line feed counts if it is a gauge. If it is a cumulative sample it is left out: cut
    /// to fewer digits it would look like a counter that was reset.
    ///
    /// # Errors
    /// The page is refused as a whole.
    pub fn finish(&mut self) -> Result<Page, PageError> {
        let names = &self.layouts.names;
        self.scanner.finish(names, &mut self.builder, |name| !is_cumulative(names.name(name)))?;
        let mut lines = std::mem::take(&mut self.scanner.counts);
        lines.duplicates = self.builder.duplicates;
        let lacks_series = self.learnt && self.builder.is_missing_a_line();
        self.incomplete_pages = if lacks_series { self.incomplete_pages + 1 } else { 0 };
        // The layout a reader starts with is a guess; and what stays away is no longer waited for.
        let forget = !self.learnt || self.incomplete_pages >= PAGES_UNTIL_FORGOTTEN;
        if forget {
            self.incomplete_pages = 0;
        }
        self.learnt = true;
        let page = self.builder.finish(&self.layouts, lines, forget);
        Ok(Page { lacks_series: lacks_series && !forget, ..page })
    }

    /// Reads a whole body at once.
    ///
    /// # Errors
    /// The page is refused as a whole.
    pub fn read(&mut self, body: &[u8], format: Format, limits: Limits, scrutiny: Scrutiny) -> Result<Page, PageError> {
        self.begin(format, limits, scrutiny);
        self.feed(body)?;
        self.finish()
    }
}

/// Names of counters and of parts of histograms.
fn is_cumulative(name: &str) -> bool {
    ["_total", "_bucket", "_count", "_sum"].iter().any(|suffix| name.ends_with(suffix))
}

/// A page being read.
#[derive(Debug)]
struct Builder {
    format: Format,
    scrutiny: Scrutiny,
    most_series: usize,
    layout: Arc<Layout>,
    /// A line was added to the layout.
    grown: bool,
    /// The place in the layout where the next wanted line is expected.
    expected: usize,
    /// The places of the page's wanted lines, in its order.
    order: Vec<u32>,
    values: Vec<f64>,
    present: Vec<bool>,
    timestamps: Vec<Option<i64>>,
    duplicates: u64,
    names: BTreeSet<Box<str>>,
}

impl Builder {
    fn new(layout: Arc<Layout>) -> Self {
        Self {
            format: Format::Text,
            scrutiny: Scrutiny::Wanted,
            most_series: 0,
            layout,
            grown: false,
            expected: 0,
            order: Vec::new(),
            values: Vec::new(),
            present: Vec::new(),
            timestamps: Vec::new(),
            duplicates: 0,
            names: BTreeSet::new(),
        }
    }

    fn begin(&mut self, format: Format, most_series: usize, scrutiny: Scrutiny) {
        let slots = self.layout.series().len();
        self.format = format;
        self.scrutiny = scrutiny;
        self.most_series = most_series;
        self.expected = 0;
        self.order.clear();
        self.values = vec![0.0; slots];
        self.present = vec![false; slots];
        self.timestamps = Vec::new();
        self.duplicates = 0;
        self.names = BTreeSet::new();
    }

    fn is_missing_a_line(&self) -> bool {
        self.present.contains(&false)
    }

    /// The place of a line in the layout and the length of its key: where its key is found, else at the end. `None`
    /// for a line that is not well formed.
    fn place(&mut self, name: NameId, name_length: usize, line: &[u8]) -> Result<Option<(usize, usize)>, PageError> {
        let Some(length) = key_length(line, name_length) else { return Ok(None) };
        let key = &line[..length];
        if let Some(place) = self.layout.place(key) {
            return Ok(Some((place, length)));
        }
        if parse_measured(&line[length..], self.format).is_none() {
            return Ok(None);
        }
        if self.layout.line_count() >= self.most_series {
            return Err(PageError::TooManySeries(self.most_series));
        }
        let Some(place) = Arc::make_mut(&mut self.layout).add(name, name_length, key) else { return Ok(None) };
        self.grown = true;
        self.values.resize(self.layout.series().len(), 0.0);
        self.present.resize(self.layout.series().len(), false);
        Ok(Some((place, length)))
    }

    /// Takes the value of the line at a place.
    #[inline]
    fn set(&mut self, place: usize, slot: Slot, measured: Measured) {
        self.expected = place + 1;
        let slot = slot as usize;
        if self.present[slot] {
            self.duplicates += 1;
            return;
        }
        self.order.push(place as u32);
        self.present[slot] = true;
        self.values[slot] = measured.value;
        self.set_timestamp(slot, measured.timestamp);
    }

    fn set_timestamp(&mut self, slot: usize, timestamp: Option<i64>) {
        if timestamp.is_some() || !self.timestamps.is_empty() {
            self.timestamps.resize(self.values.len(), None);
            self.timestamps[slot] = timestamp;
        }
    }

    fn finish(&mut self, layouts: &Layouts, lines: LineCounts, forget: bool) -> Page {
        if self.grown || forget && self.is_missing_a_line() {
            self.rebuild(layouts, forget);
        }
        Page {
            layout: Arc::clone(&self.layout),
            values: std::mem::take(&mut self.values),
            present: std::mem::take(&mut self.present),
            timestamps: std::mem::take(&mut self.timestamps),
            lacks_series: false,
            lines,
            names: std::mem::take(&mut self.names),
        }
    }

    /// Puts the layout into the page's order, without or with the lines that were not in this page.
    fn rebuild(&mut self, layouts: &Layouts, forget: bool) {
        self.grown = false;
        let old = Arc::clone(&self.layout);
        let in_page = self.order.iter().map(|place| *place as usize);
        let layout = if forget { old.with_lines(in_page) } else { old.with_lines(in_page.chain(0..old.line_count())) };
        let slots: Vec<Option<usize>> =
            layout.series().iter().map(|series| old.slot(series).map(|slot| slot as usize)).collect();
        let pick = |index: &Option<usize>| index.and_then(|index| self.values.get(index)).copied().unwrap_or_default();
        let values = slots.iter().map(pick).collect();
        let is_present = |index: &Option<usize>| index.is_some_and(|index| self.present[index]);
        let present = slots.iter().map(is_present).collect();
        if !self.timestamps.is_empty() {
            self.timestamps.resize(self.values.len(), None);
            self.timestamps = slots.iter().map(|index| index.and_then(|index| self.timestamps[index])).collect();
        }
        self.values = values;
        self.present = present;
        self.layout = layouts.share(layout);
    }
}

impl LineSink for Builder {
    #[inline]
    fn take_expected(&mut self, line: &[u8]) -> bool {
        let place = self.expected;
        let Some((key, slot)) = self.layout.line(place) else { return false };
        if !matches!(line.get(key.len()), Some(b' ' | b'\t')) || line[..key.len()] != *key {
            return false;
        }
        let Some(measured) = parse_measured(&line[key.len()..], self.format) else { return false };
        self.set(place, slot, measured);
        true
    }

    fn wanted(&mut self, name: NameId, name_length: usize, line: &[u8]) -> Result<bool, PageError> {
        if self.scrutiny == Scrutiny::Everything {
            self.other(line);
        }
        let Some((place, length)) = self.place(name, name_length, line)? else { return Ok(false) };
        let Some(measured) = parse_measured(&line[length..], self.format) else { return Ok(false) };
        let Some((_, slot)) = self.layout.line(place) else { return Ok(false) };
        self.set(place, slot, measured);
        Ok(true)
    }

    fn other(&mut self, line: &[u8]) -> bool {
        match is_sample(line, self.format) {
            Some((name, _)) => {
                if self.names.len() < NAMES_KEPT && !self.names.contains(name.as_ref()) {
                    self.names.insert(name.as_ref().into());
                }
                true
            }
            None => false,
        }
    }

    fn wants_everything(&self) -> bool {
        self.scrutiny == Scrutiny::Everything
    }
}
