//! The decisions of the last day: every change, and one a minute otherwise.

use std::collections::VecDeque;
use std::time::Duration;

use headroom_policies::{DecisionRecord, Reason, Replicas, Stage, Timestamp};
use serde::Serialize;

use super::packed::Packed;

/// How long a decision is kept.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// How often one is kept without a change.
const KEPT_EVERY: Duration = Duration::from_secs(60);
/// Bytes of all records of one autoscaler; beyond that the oldest go first.
const MOST_BYTES: usize = 8 << 20;
/// As many records are packed together: about half an hour of one a minute.
const PACKED_TOGETHER: usize = 32;
/// A larger record, in compressed bytes, is longer than what compression looks back over, and gains nothing.
const MOST_PACKED: usize = 8 << 10;

/// Why a decision was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kept {
    /// It differs from the one before it.
    Change,
    /// A minute had passed.
    Minute,
}

/// A kept decision in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its identity within its autoscaler.
    pub id: u64,
    /// When it was made.
    pub at: Timestamp,
    /// Why it was kept.
    pub kept: Kept,
    /// The target's size.
    pub current: Replicas,
    /// The count decided.
    pub desired: Replicas,
    /// The number published, or none if an error was.
    pub published: Option<Replicas>,
    /// The stage that bound it.
    pub binding: Option<Stage>,
    /// One word.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
}

/// The decisions of the last day.
#[derive(Debug, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
    bytes: usize,
    last: Option<Mark>,
    next_id: u64,
}

#[derive(Debug)]
struct Entry {
    summary: Summary,
    record: Packed,
}

/// What makes a decision differ from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    current: Replicas,
    desired: Replicas,
    published: Option<Replicas>,
    blind: bool,
    binding: Option<Stage>,
}

impl Mark {
    fn of(record: &DecisionRecord) -> Self {
        let decision = &record.decision;
        Self {
            current: decision.current,
            desired: decision.desired,
            published: decision.published.replicas(),
            blind: decision.blind,
            binding: decision.binding,
        }
    }
}

impl Journal {
    /// Keeps a decision if it is a change or a minute has passed. Answers why, and its identity.
    pub fn offer(&mut self, record: &DecisionRecord) -> Option<(Kept, u64)> {
        let (mark, at) = (Mark::of(record), record.decision.at);
        let changed = self.last != Some(mark);
        let due = self.entries.back().is_none_or(|last| at.since(last.summary.at) >= KEPT_EVERY);
        if !changed && !due {
            return None;
        }
        self.last = Some(mark);
        let kept = if changed { Kept::Change } else { Kept::Minute };
        let (reason, message) = record.decision.summary();
        self.next_id += 1;
        let summary = Summary {
            id: self.next_id,
            at,
            kept,
            current: mark.current,
            desired: mark.desired,
            published: mark.published,
            binding: mark.binding,
            reason,
            message: message.to_owned(),
        };
        let record = Packed::alone(record);
        self.bytes += record.bytes_freed();
        self.entries.push_back(Entry { summary, record });
        self.pack();
        while self.entries.len() > 1
            && (self.bytes > MOST_BYTES
                || self.entries.front().is_some_and(|oldest| at.since(oldest.summary.at) > KEPT_FOR))
        {
            self.bytes -= self.entries.pop_front().map_or(0, |oldest| oldest.record.bytes_freed());
        }
        Some((kept, self.next_id))
    }

    /// Packs the newest records together once there are enough: they repeat each other.
    fn pack(&mut self) {
        let newest = self.entries.iter().rev().take(PACKED_TOGETHER);
        let alone = newest.take_while(|entry| entry.record.is_alone() && entry.record.size() <= MOST_PACKED).count();
        if alone < PACKED_TOGETHER {
            return;
        }
        let first = self.entries.len() - alone;
        let Some(packed) = Packed::together(self.entries.range(first..).map(|entry| &entry.record)) else { return };
        for (entry, packed) in self.entries.range_mut(first..).zip(packed) {
            self.bytes -= entry.record.bytes_freed();
            entry.record = packed;
        }
        self.bytes += self.entries.back().map_or(0, |entry| entry.record.size());
    }

    /// The kept decisions of a span, newest first, at most so many.
    pub fn summaries(&self, since: Timestamp, until: Timestamp, most: usize) -> Vec<Summary> {
        let within = self.entries.iter().rev().filter(|entry| (since..=until).contains(&entry.summary.at));
        within.take(most).map(|entry| entry.summary.clone()).collect()
    }

    /// The decision that was in force at an instant: the newest kept one not after it.
    pub fn in_force_at(&self, at: Timestamp) -> Option<(Summary, DecisionRecord)> {
        let entry = self.entries.iter().rev().find(|entry| entry.summary.at <= at)?;
        Some((entry.summary.clone(), entry.record.unpack()?))
    }

    /// A decision by its identity.
    pub fn get(&self, id: u64) -> Option<(Summary, DecisionRecord)> {
        let entry = self.entries.iter().find(|entry| entry.summary.id == id)?;
        Some((entry.summary.clone(), entry.record.unpack()?))
    }

    /// The newest kept decision whose count differs from that of the one before it.
    pub fn last_change(&self) -> Option<Summary> {
        let pairs = self.entries.iter().zip(self.entries.iter().skip(1));
        let change = pairs.rev().find(|(before, after)| before.summary.desired != after.summary.desired);
        change.map(|(_, after)| after.summary.clone())
    }

    /// The newest kept decision.
    pub fn newest(&self) -> Option<&Summary> {
        self.entries.back().map(|entry| &entry.summary)
    }

    /// When the oldest kept decision was made.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.entries.front().map(|entry| entry.summary.at)
    }
}

#[cfg(test)]
mod tests {
    use headroom_policies::{History, Observation, Policy, decide};

    use super::*;

    fn record(current: i32, at: i64) -> DecisionRecord {
        let policy = Policy::new(Replicas::ONE, Replicas::new(50));
        let (observation, history) = (Observation::of(Replicas::new(current)), History::default());
        let (decision, _) = decide(&policy, &observation, history.clone(), Timestamp::from_millis(at * 1000));
        DecisionRecord { policy, observation, history, decision }
    }

    #[test]
    fn keeps_changes_and_one_a_minute() {
        let mut journal = Journal::default();
        let kept: Vec<Option<Kept>> = [(3, 0), (3, 5), (4, 10), (4, 15), (4, 69), (4, 70), (4, 75)]
            .iter()
            .map(|(current, at)| journal.offer(&record(*current, *at)).map(|(kept, _)| kept))
            .collect();
        let (change, minute) = (Some(Kept::Change), Some(Kept::Minute));
        assert_eq!(kept, [change, None, change, None, None, minute, None]);
        let (summary, found) = journal.in_force_at(Timestamp::from_millis(60_000)).unwrap();
        assert_eq!((summary.id, found), (2, record(4, 10)));
        assert_eq!(journal.in_force_at(Timestamp::from_millis(-1)), None);
        assert_eq!(journal.get(3).unwrap().1, record(4, 70));
    }

    #[test]
    fn records_packed_together_are_small_and_whole() {
        let mut journal = Journal::default();
        let records: Vec<DecisionRecord> =
            (0..100).map(|minute| record(minute % 7 + 1, i64::from(minute) * 60)).collect();
        let mut alone = 0;
        for record in &records {
            alone += Packed::alone(record).size();
            journal.offer(record);
        }
        assert!(journal.bytes * 3 < alone, "{} bytes packed, {alone} alone", journal.bytes);
        for (id, record) in (1..).zip(&records) {
            assert_eq!(journal.get(id).unwrap().1, *record);
        }
        // What is forgotten is given back, though others of its pack stay.
        let day_later = i64::from(24 * 60 + 70) * 60;
        journal.offer(&record(3, day_later));
        assert_eq!(journal.oldest(), Some(Timestamp::from_millis(70 * 60_000)));
        for minute in 0..40 {
            journal.offer(&record(3, day_later + 86_400 + minute * 60));
        }
        let held: usize =
            journal.entries.iter().filter(|entry| entry.record.is_alone()).map(|entry| entry.record.size()).sum();
        assert!(journal.bytes >= held && journal.bytes < alone, "{}", journal.bytes);
    }

    #[test]
    fn is_bounded_in_time() {
        let mut journal = Journal::default();
        for minute in 0..3000 {
            journal.offer(&record(3, minute * 60));
        }
        let all = journal.summaries(Timestamp::from_millis(0), Timestamp::from_millis(i64::MAX), usize::MAX);
        assert_eq!(all.len(), 24 * 60 + 1);
        assert_eq!(journal.oldest(), Some(Timestamp::from_millis((2999 - 24 * 60) * 60_000)));
    }
}
