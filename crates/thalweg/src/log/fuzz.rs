//! For fuzz targets and tests: what reads a segment, on bytes that come from anywhere.

use super::framing::{HEADER_BYTES, Header};
use super::slots::{SegmentReader, Slots, Source};
use super::walk::{Library, Step, Walk};
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::storage::OpenMode;
use std::path::PathBuf;

/// Scans and replays bytes that claim to be a segment: must not panic, whatever they are.
pub(crate) fn fuzz_segment(bytes: &[u8]) -> u64 {
    let Some(header) = Header::decode(bytes) else {
        return 0;
    };
    let slots = Slots::default();
    let library = Library { environment: None, slots: &slots, mode: OpenMode::Read };
    let reader = SegmentReader::new(Source::Memory(bytes.into()), PathBuf::from("fuzzed"), header);
    let position = LogPosition::new(header.id.index, HEADER_BYTES);
    let mut walk = Walk::new(library, reader, LogMark { position, generation: header.id.generation, seq: SeqNo(0) });
    let mut operations = 0;
    while let Ok(Step::Record { record, .. }) = walk.step() {
        operations += record.operations().count() as u64;
    }
    operations
}
