//! [`search`]: looks for records after the place where a walk stopped (`docs/format/log.md`, Reading a log).

use super::framing::{Close, FRAGMENT_BYTES, Fragment, Kind, RecordHeader, Seal, align, block_end, decode_fragment};
use super::header::{BLOCK_BYTES, HEADER_BYTES, SegmentId};
use super::slots::SegmentReader;
use super::walk::Library;
use crate::error::Result;
use crate::format::{LogMark, LogPosition, SeqNo};

/// The result of [`search`].
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The largest synced offset.
    pub(super) synced: LogPosition,
    /// How many whole record headers stand after the end.
    pub(super) records: u64,
    /// The last sequence number of these records.
    pub(super) last_seq: SeqNo,
    /// The segments that seals name.
    pub(super) named: Vec<SegmentId>,
}

/// Looks for fragments from the block of `end` on, in its segment and in all segments with a higher index. Tries every
/// offset in the blocks of `end` and of `stopped`, where the walk stopped, because there the last records of a log may
/// follow a damaged one. Reads every other block from its start. A checksum binds a fragment to its place, so bytes
/// from elsewhere, or in a value, are never taken for a fragment.
pub(super) fn search(library: &Library<'_>, end: LogMark, stopped: LogPosition) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for id in library.slots.slots.iter().filter_map(|slot| slot.id()) {
        if id.index < end.position.segment() {
            continue;
        }
        let Some(mut reader) = library.open(id)? else {
            continue;
        };
        let block_of = |at: LogPosition| (at.segment() == id.index).then_some(at.offset() / BLOCK_BYTES * BLOCK_BYTES);
        let from = block_of(end.position);
        let closely = [from, block_of(stopped)];
        let mut block = from.unwrap_or(0);
        while block < reader.header.bytes {
            search_block(&mut reader, block, closely.contains(&Some(block)), end, &mut evidence)?;
            block += BLOCK_BYTES;
        }
    }
    Ok(evidence)
}

/// Looks for fragments in one block; `closely`: at every offset.
fn search_block(
    reader: &mut SegmentReader,
    block: u32,
    closely: bool,
    end: LogMark,
    evidence: &mut Evidence,
) -> Result<()> {
    let id = reader.header.id;
    let mut offset = block.max(HEADER_BYTES);
    while offset < block_end(block) {
        match decode_fragment(reader.rest_of_block(offset)?, id, offset) {
            Ok(fragment) => {
                evidence.take(fragment, LogPosition::new(id.index, offset), end);
                offset = align(offset + FRAGMENT_BYTES + fragment.payload.len() as u32);
            }
            Err(_) if closely => offset += 1,
            Err(_) => break,
        }
    }
    Ok(())
}

impl Evidence {
    /// Notes what a fragment says.
    fn take(&mut self, fragment: Fragment<'_>, at: LogPosition, end: LogMark) {
        let synced = match fragment.kind {
            Kind::Full | Kind::First => RecordHeader::decode(fragment.payload).map(|header| {
                if at >= end.position {
                    self.records += 1;
                    self.last_seq = self.last_seq.max(header.last_seq().unwrap_or_default());
                }
                header.synced
            }),
            Kind::Seal => Seal::decode(fragment.payload).map(|seal| {
                self.named.push(seal.successor);
                seal.synced
            }),
            Kind::Close => Close::decode(fragment.payload).map(|close| close.synced),
            Kind::Middle | Kind::Last => None,
        };
        self.synced = self.synced.max(synced.unwrap_or_default());
    }
}
