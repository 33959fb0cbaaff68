//! From chunks of a body to its wanted lines. Nothing is buffered but a wanted line that a chunk cuts.

use super::content::{Format, NotAnExposition};
use super::lines::for_each_line;
use super::names::{NameId, NameSet};

/// What a page may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body, inflated.
    pub body: u64,
    /// Bytes of a wanted line; a longer one is skipped.
    pub line: usize,
    /// Wanted series of a page.
    pub series: usize,
}

impl Default for Limits {
    /// 32 MiB a body, 64 KiB a line, 20,000 wanted series.
    fn default() -> Self {
        Self { body: 32 << 20, line: 64 << 10, series: 20_000 }
    }
}

/// Why a page is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// It is something else.
    #[error("the body is not an exposition but {0}")]
    NotAnExposition(NotAnExposition),
    /// It is larger than allowed.
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    /// It has more wanted series than allowed.
    #[error("the page has more than {0} series of the families that are read")]
    TooManySeries(usize),
}

/// What was read of a page, in lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineCounts {
    /// All lines.
    pub read: u64,
    /// Lines that are no sample although they should be, or are too long.
    pub skipped: u64,
    /// The numbers of the first few of those, from 1.
    pub skipped_numbers: Vec<u64>,
    /// Samples of a series that had one already; the first counts.
    pub duplicates: u64,
    /// Lines after `# EOF`.
    pub after_end: u64,
    /// An `OpenMetrics` page without `# EOF`, or a last line without its line feed: something may be missing.
    pub partial: bool,
}

const NUMBERS_KEPT: usize = 8;
/// With so many bytes of a first line it is clear what a body is.
const ENOUGH_TO_JUDGE: usize = 256;

/// What takes the lines of a page. Each answers whether the line is well formed.
pub(crate) trait LineSink {
    /// Takes a line if it is well formed and the one that is expected next. Answers whether it was taken.
    fn take_expected(&mut self, line: &[u8]) -> bool;
    /// A line that begins with a wanted name of this length (0 = the name stands in quotes in the braces).
    fn wanted(&mut self, name: NameId, name_length: usize, line: &[u8]) -> Result<bool, PageError>;
    /// Any other line that is neither blank nor a comment: only if [`LineSink::wants_everything`], or if the line
    /// does not begin as a plain name does.
    fn other(&mut self, line: &[u8]) -> bool;
    /// Whether lines that nobody wants are looked at too.
    fn wants_everything(&self) -> bool;
}

/// The state between two chunks.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    format: Format,
    limits: Limits,
    carry: Vec<u8>,
    /// The rest of the present line is of no interest.
    discarding: bool,
    judged: bool,
    ended: bool,
    bytes: u64,
    pub(crate) counts: LineCounts,
}

impl Scanner {
    pub(crate) fn begin(&mut self, format: Format, limits: Limits) {
        let mut carry = std::mem::take(&mut self.carry);
        carry.clear();
        carry.shrink_to(4096);
        *self = Self { format, limits, carry, ..Self::default() };
    }

    pub(crate) fn feed(
        &mut self,
        names: &NameSet,
        mut chunk: &[u8],
        sink: &mut impl LineSink,
    ) -> Result<(), PageError> {
        self.bytes += chunk.len() as u64;
        if self.bytes > self.limits.body {
            return Err(PageError::TooLarge(self.limits.body));
        }
        if self.discarding || !self.carry.is_empty() {
            match memchr::memchr(b'\n', chunk) {
                Some(end) => {
                    self.keep(&chunk[..end]);
                    chunk = &chunk[end + 1..];
                    self.end_carried_line(names, sink)?;
                }
                None => {
                    self.keep(chunk);
                    return self.judge_early();
                }
            }
        }
        let mut failure = None;
        let rest = for_each_line(chunk, |line| {
            if failure.is_none() {
                failure = self.line(names, line, sink).err();
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        self.begin_carried_line(names, rest, sink)
    }

    /// Keeps the start of a line that goes on in the next chunk, unless it is of no interest already.
    fn begin_carried_line(&mut self, names: &NameSet, rest: &[u8], sink: &impl LineSink) -> Result<(), PageError> {
        if rest.is_empty() {
            return Ok(());
        }
        let plain_name = !matches!(rest[0], b'#' | b'{' | b'U');
        let name_complete = rest.iter().any(|byte| matches!(byte, b'{' | b' ' | b'\t'));
        if self.judged && plain_name && name_complete && names.find(rest).is_none() && !sink.wants_everything() {
            self.discarding = true;
            return Ok(());
        }
        self.keep(rest);
        self.judge_early()
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.discarding {
            return;
        }
        if self.carry.len() + bytes.len() > self.limits.line {
            self.discarding = true;
            if names_a_comment(&self.carry, bytes) {
                return;
            }
            self.skip(self.counts.read + 1);
        } else {
            self.carry.extend_from_slice(bytes);
        }
    }

    fn judge_early(&mut self) -> Result<(), PageError> {
        if self.judged || self.carry.len() < ENOUGH_TO_JUDGE {
            return Ok(());
        }
        let carry = std::mem::take(&mut self.carry);
        let verdict = self.judge(&carry);
        self.carry = carry;
        verdict
    }

    fn judge(&mut self, line: &[u8]) -> Result<(), PageError> {
        if self.judged || line.trim_ascii_start().is_empty() {
            return Ok(());
        }
        self.judged = true;
        match NotAnExposition::of_first_bytes(line) {
            Some(other) => Err(PageError::NotAnExposition(other)),
            None => Ok(()),
        }
    }

    fn end_carried_line(&mut self, names: &NameSet, sink: &mut impl LineSink) -> Result<(), PageError> {
        if std::mem::take(&mut self.discarding) {
            self.carry.clear();
            self.counts.read += 1;
            return Ok(());
        }
        let carry = std::mem::take(&mut self.carry);
        let result = self.line(names, &carry, sink);
        self.carry = carry;
        self.carry.clear();
        result
    }

    #[inline]
    fn line(&mut self, names: &NameSet, line: &[u8], sink: &mut impl LineSink) -> Result<(), PageError> {
        self.counts.read += 1;
        let usual = self.judged && !self.ended && !sink.wants_everything();
        if usual && is_of_no_interest(names, line) {
            return Ok(());
        }
        self.line_of_interest(names, line, sink, usual)
    }

    /// Most lines are passed over, so what is done with the others stays out of the loop over them.
    #[inline(never)]
    fn line_of_interest(
        &mut self,
        names: &NameSet,
        line: &[u8],
        sink: &mut impl LineSink,
        usual: bool,
    ) -> Result<(), PageError> {
        if !usual || !line.first().is_some_and(|first| is_plain(*first)) {
            return self.unusual_line(names, line, sink);
        }
        if line.len() <= self.limits.line && sink.take_expected(line) {
            return Ok(());
        }
        match names.find(line) {
            Some((name, length)) => self.wanted_line(name, length, line, sink),
            None => Ok(()),
        }
    }

    fn wanted_line(
        &mut self,
        name: NameId,
        length: usize,
        line: &[u8],
        sink: &mut impl LineSink,
    ) -> Result<(), PageError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > self.limits.line || !sink.wanted(name, length, line)? {
            self.skip(self.counts.read);
        }
        Ok(())
    }

    /// Blank lines, comments, indented or quoted names, lines before the body was judged, lines that are checked
    /// although nobody wants them.
    fn unusual_line(&mut self, names: &NameSet, line: &[u8], sink: &mut impl LineSink) -> Result<(), PageError> {
        self.judge(line)?;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        if self.ended {
            self.counts.after_end += 1;
            return Ok(());
        }
        if line[0] == b'#' {
            // In the text format this is a comment like any other.
            self.ended = line == b"# EOF" && self.format == Format::OpenMetrics;
            return Ok(());
        }
        if let Some((name, length)) = names.find(line).or_else(|| escaped_name(names, line)) {
            return self.wanted_line(name, length, line, sink);
        }
        if line.len() > self.limits.line || !sink.other(line) {
            self.skip(self.counts.read);
        }
        Ok(())
    }

    /// Ends the page. A last line without its line feed is kept only where `keep_unterminated` says so.
    pub(crate) fn finish(
        &mut self,
        names: &NameSet,
        sink: &mut impl LineSink,
        keep_unterminated: impl Fn(NameId) -> bool,
    ) -> Result<(), PageError> {
        let carry = std::mem::take(&mut self.carry);
        let unterminated = !carry.is_empty() || self.discarding;
        if unterminated {
            self.judge(&carry)?;
            let line = carry.trim_ascii();
            let wanted = names.find(line).is_some_and(|(name, _)| keep_unterminated(name));
            if !self.discarding && (wanted || line.starts_with(b"#")) {
                self.line(names, &carry, sink)?;
            } else {
                self.counts.read += 1;
                self.skip(self.counts.read);
            }
        }
        let ends_with_eof = self.ended && unterminated && carry.trim_ascii() == b"# EOF";
        self.counts.partial |= unterminated && !ends_with_eof || self.format == Format::OpenMetrics && !self.ended;
        self.carry = carry;
        Ok(())
    }

    fn skip(&mut self, number: u64) {
        self.counts.skipped += 1;
        if self.counts.skipped_numbers.len() < NUMBERS_KEPT {
            self.counts.skipped_numbers.push(number);
        }
    }
}

/// A comment, or a sample whose plain name nobody wants.
#[inline]
fn is_of_no_interest(names: &NameSet, line: &[u8]) -> bool {
    match line {
        [b'#', _, third, ..] => *third != b'E',
        [first, ..] => is_plain(*first) && !names.may_begin(line),
        [] => false,
    }
}

/// A line that begins so is a sample with a plain name.
#[inline]
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_uppercase() && byte != b'U'
}

fn names_a_comment(carry: &[u8], next: &[u8]) -> bool {
    carry.first().or(next.first()) == Some(&b'#')
}

fn escaped_name(names: &NameSet, line: &[u8]) -> Option<(NameId, usize)> {
    if line.starts_with(b"{") {
        let (name, _) = super::sample::quoted_name(line)?;
        return Some((names.find_escaped(&name)?, 0));
    }
    if !line.starts_with(b"U__") {
        return None;
    }
    let length = line.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t'))?;
    let name = std::str::from_utf8(&line[..length]).ok()?;
    Some((names.find_escaped(name)?, length))
}
