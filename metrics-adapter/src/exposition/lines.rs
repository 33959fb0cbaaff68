//! Walking the lines of a buffer: the innermost loop of scraping.

use wide::u8x16;

/// Calls `visit` with each line that ends in the buffer (without its line feed), and returns what is left after
/// the last line feed.
///
/// Sixteen bytes are compared at once; walking a page costs about what counting its lines costs.
#[inline]
pub(crate) fn for_each_line<'a>(buffer: &'a [u8], mut visit: impl FnMut(&'a [u8])) -> &'a [u8] {
    let line_feed = u8x16::splat(b'\n');
    let (blocks, tail) = buffer.as_chunks::<64>();
    let mut start = 0;
    for (index, block) in blocks.iter().enumerate() {
        let mut feeds = line_feeds(block, line_feed);
        while feeds != 0 {
            let end = index * 64 + feeds.trailing_zeros() as usize;
            visit(&buffer[start..end]);
            start = end + 1;
            feeds &= feeds - 1;
        }
    }
    let tail_start = buffer.len() - tail.len();
    for place in memchr::memchr_iter(b'\n', tail) {
        let end = tail_start + place;
        visit(&buffer[start..end]);
        start = end + 1;
    }
    &buffer[start..]
}

/// A bit for each line feed of a block.
#[inline]
fn line_feeds(block: &[u8; 64], line_feed: u8x16) -> u64 {
    let (quarters, _) = block.as_chunks::<16>();
    let mut mask = 0;
    for (index, quarter) in quarters.iter().enumerate() {
        mask |= u64::from(u8x16::from(*quarter).simd_eq(line_feed).to_bitmask()) << (index * 16);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn finds_the_lines_a_split_finds(buffer in proptest::collection::vec(proptest::prop_oneof![3 => proptest::prelude::any::<u8>(), 1 => proptest::prelude::Just(b'\n')], 0..400)) {
            let mut lines: Vec<&[u8]> = Vec::new();
            let rest = for_each_line(&buffer, |line| lines.push(line));
            lines.push(rest);
            let expected: Vec<&[u8]> = buffer.split(|byte| *byte == b'\n').collect();
            proptest::prop_assert_eq!(lines, expected);
        }
    }
}
