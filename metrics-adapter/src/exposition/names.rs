//! The sample names that are wanted, found by the first bytes of a line.

use std::collections::HashMap;

/// The place of a name in its [`NameSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u16);

impl NameId {
    /// The place as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How many bytes of a line decide whether its name can be wanted.
const KEY: usize = 16;

/// Sample names, each with the other spellings under which it can appear: a colon or point written as an
/// underscore (OpenMetrics escaping, adapters, collectors).
#[derive(Debug, Clone, Default)]
pub struct NameSet {
    names: Vec<Box<str>>,
    ids: HashMap<Box<str>, NameId>,
    /// Spellings of at least [`KEY`] bytes, those with the same key next to each other.
    long: Vec<Spelling>,
    /// Shorter ones.
    short: Vec<Spelling>,
    /// For each byte, whether a short spelling begins with it.
    short_starts: FirstBytes,
    table: Vec<Bucket>,
}

#[derive(Debug, Clone)]
struct Spelling {
    text: Box<[u8]>,
    id: NameId,
}

/// A set of bytes.
#[derive(Debug, Clone, Copy, Default)]
struct FirstBytes([u64; 4]);

impl FirstBytes {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    #[inline]
    fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }
}

/// Spellings with the same key; `count` 0 = an empty place.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    key: (u64, u64),
    first: u16,
    count: u16,
}

impl NameSet {
    /// A set of exact sample names, e.g. `vllm:num_requests_waiting` or `tgi_queue_size`. Repetitions are harmless.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = Self::default();
        let mut spellings = Vec::new();
        for name in names {
            if set.ids.contains_key(name) || set.names.len() >= usize::from(u16::MAX) {
                continue;
            }
            let id = NameId(set.names.len() as u16);
            set.names.push(name.into());
            set.ids.insert(name.into(), id);
            spellings.push(Spelling { text: name.as_bytes().into(), id });
        }
        for id in 0..set.names.len() {
            let underscored = normalized(&set.names[id]);
            if !set.ids.contains_key(underscored.as_str()) {
                spellings.push(Spelling { text: underscored.as_bytes().into(), id: NameId(id as u16) });
            }
        }
        let (mut long, short): (Vec<_>, Vec<_>) = spellings.into_iter().partition(|name| name.text.len() >= KEY);
        long.sort_by(|a, b| a.text.cmp(&b.text));
        short.iter().filter_map(|name| name.text.first()).for_each(|first| set.short_starts.insert(*first));
        set.short = short;
        set.table = table_of(&long);
        set.long = long;
        set
    }

    /// The names, in the order of their ids.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// The name with an id of this set.
    pub fn name(&self, id: NameId) -> &str {
        self.names.get(id.index()).map_or("", AsRef::as_ref)
    }

    /// The id of a name.
    pub fn id(&self, name: &str) -> Option<NameId> {
        self.ids.get(name).copied()
    }

    /// Whether a line may begin with a wanted name, by a look at its first bytes.
    #[inline]
    pub(crate) fn may_begin(&self, line: &[u8]) -> bool {
        key_of(line).is_some_and(|key| self.bucket(key).is_some())
            || line.first().is_some_and(|first| self.short_starts.contains(*first))
    }

    /// The wanted name with which a line begins, and how many bytes it takes.
    pub(crate) fn find(&self, line: &[u8]) -> Option<(NameId, usize)> {
        if let Some(key) = key_of(line)
            && let Some(bucket) = self.bucket(key)
        {
            let candidates = &self.long[usize::from(bucket.first)..usize::from(bucket.first + bucket.count)];
            let found = candidates.iter().find(|name| is_name_of(&name.text, line));
            if let Some(name) = found {
                return Some((name.id, name.text.len()));
            }
        }
        let found = self.short.iter().find(|name| is_name_of(&name.text, line));
        found.map(|name| (name.id, name.text.len()))
    }

    /// The wanted name that a quoted or `U__`-escaped name means.
    pub(crate) fn find_escaped(&self, name: &str) -> Option<NameId> {
        let unescaped = unescape(name);
        let exact = self.id(unescaped.as_deref().unwrap_or(name));
        exact.or_else(|| {
            let plain = normalized(unescaped.as_deref().unwrap_or(name));
            self.names.iter().position(|own| normalized(own) == plain).map(|index| NameId(index as u16))
        })
    }

    #[inline]
    fn bucket(&self, key: (u64, u64)) -> Option<&Bucket> {
        let mask = self.table.len().wrapping_sub(1);
        let mut place = hash(key) & mask;
        loop {
            let bucket = self.table.get(place)?;
            if bucket.count == 0 {
                return None;
            }
            if bucket.key == key {
                return Some(bucket);
            }
            place = (place + 1) & mask;
        }
    }
}

fn table_of(sorted: &[Spelling]) -> Vec<Bucket> {
    if sorted.is_empty() {
        return Vec::new();
    }
    // At least twice as many places as keys, so a search always ends at an empty one.
    let mut table = vec![Bucket::default(); (sorted.len() * 4).next_power_of_two()];
    let mask = table.len() - 1;
    for (index, name) in sorted.iter().enumerate() {
        let Some(key) = key_of(&name.text) else { continue };
        let mut place = hash(key) & mask;
        while table[place].count != 0 && table[place].key != key {
            place = (place + 1) & mask;
        }
        if table[place].count == 0 {
            table[place] = Bucket { key, first: index as u16, count: 0 };
        }
        table[place].count += 1;
    }
    table
}

#[inline]
fn key_of(line: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = line.split_first_chunk::<8>()?;
    let (second, _) = rest.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(*second)))
}

#[inline]
fn hash((first, second): (u64, u64)) -> usize {
    ((first ^ second.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize
}

/// The line starts with the name, and the name ends there.
#[inline]
fn is_name_of(name: &[u8], line: &[u8]) -> bool {
    line.get(name.len()).is_some_and(|next| matches!(next, b'{' | b' ' | b'\t')) && line[..name.len()] == *name
}

/// With every colon and point as an underscore.
fn normalized(name: &str) -> String {
    name.replace([':', '.'], "_")
}

/// The name behind Prometheus' value-encoded escaping: `U__a_3a_b__c` is `a:b_c`.
fn unescape(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("U__")?;
    let mut plain = String::with_capacity(rest.len());
    while let Some(place) = rest.find('_') {
        plain.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        if let Some(after) = rest.strip_prefix('_') {
            plain.push('_');
            rest = after;
        } else {
            let (code, after) = rest.split_once('_')?;
            plain.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
            rest = after;
        }
    }
    plain.push_str(rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> NameSet {
        NameSet::new([
            "vllm:num_requests_waiting",
            "vllm:num_requests_waiting_by_reason",
            "vllm:request_queue_time_seconds_bucket",
            "tgi_queue_size",
            "q",
        ])
    }

    fn found<'a>(set: &'a NameSet, line: &str) -> Option<&'a str> {
        set.find(line.as_bytes()).map(|(id, _)| &*set.names[id.index()])
    }

    /// B-08: exact names only, never a prefix.
    #[test]
    fn exact_names_only() {
        let set = set();
        assert_eq!(found(&set, "vllm:num_requests_waiting 2"), Some("vllm:num_requests_waiting"));
        assert_eq!(found(&set, "vllm:num_requests_waiting{engine=\"0\"} 2"), Some("vllm:num_requests_waiting"));
        let by_reason = "vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 2";
        assert_eq!(found(&set, by_reason), Some("vllm:num_requests_waiting_by_reason"));
        for line in [
            "vllm:num_requests_waiting_created 1.7537e+09",
            "vllm:num_requests_waitin 1",
            "vllm:num_requests_waiting",
            "vllm:request_queue_time_seconds_count 1",
            "tgi_queue_size_bucket 1",
            "",
            "q",
            "queue 1",
        ] {
            assert_eq!(found(&set, line), None, "{line}");
        }
        assert_eq!(found(&set, "tgi_queue_size 11"), Some("tgi_queue_size"));
        assert_eq!(found(&set, "q\t1"), Some("q"));
    }

    #[test]
    fn underscores_for_colons() {
        assert_eq!(found(&set(), "vllm_num_requests_waiting 2"), Some("vllm:num_requests_waiting"));
    }

    #[test]
    fn quoted_and_escaped_names() {
        let set = set();
        let waiting = set.id("vllm:num_requests_waiting");
        for name in ["vllm.num_requests_waiting", "vllm:num_requests_waiting", "U__vllm_3a_num__requests__waiting"] {
            assert_eq!(set.find_escaped(name), waiting, "{name}");
        }
        for name in ["U__vllm_3", "U__vllm_zz_x", "U__vllm_110000_x", "other"] {
            assert_eq!(set.find_escaped(name), None, "{name}");
        }
    }

    #[test]
    fn an_empty_set_finds_nothing() {
        assert_eq!(NameSet::default().find(b"vllm:num_requests_waiting 2"), None);
    }
}
