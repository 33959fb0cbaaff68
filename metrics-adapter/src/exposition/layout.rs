//! The wanted series of a page and where they stand in it. Pages of one server differ in little but their values,
//! so the layout is learnt once and shared by every replica that writes the same lines.

use std::collections::HashMap;

use super::names::NameId;
use super::sample::parse_labels;

/// The place of a series' value among a page's values.
pub type Slot = u32;

/// The labels of a series, sorted by name.
pub type Labels = Box<[(Box<str>, Box<str>)]>;

/// One wanted series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Series {
    /// Its sample name.
    pub name: NameId,
    /// Its labels.
    pub labels: Labels,
}

impl Series {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(own, _)| &**own == name).map(|(_, value)| &**value)
    }
}

/// A line of the layout: the bytes of its name and labels, and the slot of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayoutLine {
    start: u32,
    length: u32,
    pub(crate) slot: Slot,
}

/// The wanted lines of a page, in their order.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    keys: Vec<u8>,
    lines: Vec<LayoutLine>,
    series: Vec<Series>,
    by_key: HashMap<Box<[u8]>, u32>,
    slots: HashMap<Series, Slot>,
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.lines == other.lines && self.keys == other.keys
    }
}

impl Eq for Layout {}

impl Layout {
    /// The series, in the order of their slots.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// How many lines there are.
    pub(crate) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// A line by its place.
    #[inline]
    pub(crate) fn line(&self, place: usize) -> Option<(&[u8], Slot)> {
        let line = self.lines.get(place)?;
        Some((&self.keys[line.start as usize..(line.start + line.length) as usize], line.slot))
    }

    /// The place of the line with these bytes for its name and labels.
    pub(crate) fn place(&self, key: &[u8]) -> Option<usize> {
        self.by_key.get(key).map(|place| *place as usize)
    }

    /// Adds a line at the end and answers its place. Two spellings of the same series (labels in another order)
    /// share a slot. `None` where the labels are not well formed.
    pub(crate) fn add(&mut self, name: NameId, name_length: usize, key: &[u8]) -> Option<usize> {
        let mut labels: Vec<(Box<str>, Box<str>)> = parse_labels(&key[name_length..])?
            .into_iter()
            .filter_map(|label| Some((label.name?.into(), label.value.into())))
            .collect();
        labels.sort();
        Some(self.push(Series { name, labels: labels.into() }, key))
    }

    fn push(&mut self, series: Series, key: &[u8]) -> usize {
        let slot = match self.slots.get(&series) {
            Some(slot) => *slot,
            None => {
                let slot = self.series.len() as Slot;
                self.slots.insert(series.clone(), slot);
                self.series.push(series);
                slot
            }
        };
        let place = self.lines.len();
        self.lines.push(LayoutLine { start: self.keys.len() as u32, length: key.len() as u32, slot });
        self.keys.extend_from_slice(key);
        self.by_key.insert(key.into(), place as u32);
        place
    }

    /// The layout of just these lines, in this order.
    pub(crate) fn with_lines(&self, places: impl IntoIterator<Item = usize>) -> Self {
        let mut layout = Self::default();
        for place in places {
            if let Some((key, slot)) = self.line(place)
                && layout.place(key).is_none()
            {
                layout.push(self.series[slot as usize].clone(), key);
            }
        }
        layout
    }

    /// The slot of a series.
    pub fn slot(&self, series: &Series) -> Option<Slot> {
        self.slots.get(series).copied()
    }
}
