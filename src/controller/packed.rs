//! Records of decisions as compressed JSON, alone or together with others.

use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use headroom_policies::DecisionRecord;

/// One record.
#[derive(Debug)]
pub(super) struct Packed {
    /// Lines of JSON, compressed; empty where the record could not be written, and then shown as not kept.
    lines: Arc<[u8]>,
    /// Its line.
    line: usize,
    alone: bool,
}

impl Packed {
    /// A record on its own.
    pub(super) fn alone(record: &DecisionRecord) -> Self {
        let lines = serde_json::to_vec(record).ok().and_then(|json| compress(&json)).unwrap_or_default();
        Self { lines: lines.into(), line: 0, alone: true }
    }

    /// The same records in one piece, or none if one of them cannot be read.
    pub(super) fn together<'a>(records: impl Iterator<Item = &'a Self>) -> Option<Vec<Self>> {
        let mut text = Vec::new();
        let mut count = 0;
        for record in records {
            text.extend_from_slice(&inflate(&record.lines)?);
            text.push(b'\n');
            count += 1;
        }
        let lines: Arc<[u8]> = compress(&text)?.into();
        Some((0..count).map(|line| Self { lines: Arc::clone(&lines), line, alone: false }).collect())
    }

    /// Whether it shares its bytes with no other.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Compressed bytes, shared ones included.
    pub(super) fn size(&self) -> usize {
        self.lines.len()
    }

    /// Bytes that are given back when this is dropped: none while another record shares them.
    pub(super) fn bytes_freed(&self) -> usize {
        if Arc::strong_count(&self.lines) == 1 { self.lines.len() } else { 0 }
    }

    /// The record.
    pub(super) fn unpack(&self) -> Option<DecisionRecord> {
        let text = inflate(&self.lines)?;
        serde_json::from_slice(text.split(|byte| *byte == b'\n').nth(self.line)?).ok()
    }
}

fn compress(text: &[u8]) -> Option<Vec<u8>> {
    // Writing to memory does not fail.
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).ok()?;
    let mut bytes = encoder.finish().ok()?;
    bytes.shrink_to_fit();
    Some(bytes)
}

fn inflate(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    ZlibDecoder::new(bytes).read_to_end(&mut text).ok()?;
    Some(text)
}
