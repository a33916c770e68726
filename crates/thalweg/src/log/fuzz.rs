//! Reads any bytes as a segment, for fuzz targets and tests.

use super::header::{HEADER_BYTES, SegmentHeader};
use super::slots::{SegmentReader, SegmentSource, Slots};
use super::walk::{Library, Walk, WalkStep};
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::storage::OpenMode;
use std::path::PathBuf;

/// Scans and replays bytes that claim to be a segment. No bytes may cause a panic. Returns the number of operations.
pub(crate) fn fuzz_segment(bytes: &[u8]) -> u64 {
    let Some(header) = SegmentHeader::decode(bytes) else {
        return 0;
    };
    let slots = Slots::default();
    let library = Library { environment: None, slots: &slots, mode: OpenMode::Read };
    let reader = SegmentReader::new(SegmentSource::Memory(bytes.into()), PathBuf::from("fuzzed"), header);
    let position = LogPosition::new(header.id.index, HEADER_BYTES);
    let mut walk = Walk::new(library, reader, LogMark { position, generation: header.id.generation, seq: SeqNo(0) });
    let mut operations = 0;
    while let Ok(WalkStep::Record { record, .. }) = walk.step() {
        operations += record.operations().count() as u64;
    }
    operations
}
