//! [`Walk`]: reads a log record by record, as far as it is whole; and [`search`], which looks for what is left behind
//! the place where it is not (`docs/format/log.md`, Reading a log).
//!
//! A walk trusts nothing: checksums, types, lengths, the order of sequence numbers, synced offsets, and that bodies
//! decode. It enters a segment only through a seal that names index and generation. Memory: one record. Locks: none.

use super::framing::{
    BLOCK_BYTES, Close, FRAGMENT_BYTES, Fragment, HEADER_BYTES, Kind, RECORD_HEADER_BYTES, RecordHeader, Seal,
    SegmentId, VERSION, block_end, decode_fragment, settle,
};
use super::record::{Record, Undecodable};
use super::slots::{SegmentReader, Slots};
use crate::error::{Error, Result};
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::Environment;
use crate::storage::OpenMode;
use std::path::PathBuf;

/// What comes next in a log.
pub(super) enum Step {
    /// A whole record, which begins at `mark`.
    Record { mark: LogMark, first_seq: SeqNo, record: Record },
    /// A clean-close seal.
    Closed(Close),
    /// The log cannot be read any further.
    Stop(Stop),
}

/// Where and why a walk ended.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) path: PathBuf,
    pub(super) position: LogPosition,
    pub(super) expected: String,
    pub(super) found: String,
    /// Damage whatever was synced: a crash cannot have left this.
    pub(super) is_damage: bool,
    /// A part of a record, with right checksums, is there.
    pub(super) is_torn: bool,
}

impl Stop {
    pub(super) fn error(&self) -> Error {
        Error::corruption(&self.path, u64::from(self.position.offset()), &*self.expected, &*self.found)
    }
}

/// Where segments are found.
pub(super) struct Library<'a> {
    pub(super) environment: Option<&'a Environment>,
    pub(super) slots: &'a Slots,
    pub(super) mode: OpenMode,
}

impl Library<'_> {
    pub(super) fn open(&self, id: SegmentId) -> Result<Option<SegmentReader>> {
        match (self.slots.find(id), self.environment) {
            (Some((slot, header)), Some(environment)) => {
                SegmentReader::open(environment, slot, header, self.mode).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// A record of which not all fragments were read.
struct Begun {
    header: RecordHeader,
    body: Vec<u8>,
    path: PathBuf,
}

/// A position in a log, between two records.
pub(super) struct Walk<'a> {
    library: Library<'a>,
    reader: SegmentReader,
    offset: u32,
    /// The boundary before what comes next.
    pub(super) mark: LogMark,
    /// The largest synced offset in what was read.
    pub(super) synced: LogPosition,
    /// Segments that seals named, entered or not.
    pub(super) named: Vec<SegmentId>,
    /// Segments entered, and how far each was read.
    pub(super) entered: Vec<(SegmentId, u32)>,
    /// Where padding is not zeros.
    pub(super) padding: Vec<(LogPosition, PathBuf)>,
}

/// Why no step can be taken: an error of the disk, or the end.
enum Ending {
    Failed(Error),
    Stopped(Stop),
}

impl From<Error> for Ending {
    fn from(error: Error) -> Self {
        Ending::Failed(error)
    }
}

impl<'a> Walk<'a> {
    /// Begins at `mark`, in the segment that `reader` reads.
    pub(super) fn new(library: Library<'a>, reader: SegmentReader, mark: LogMark) -> Self {
        let entered = vec![(reader.header.id, mark.position.offset())];
        Walk {
            library,
            reader,
            offset: mark.position.offset(),
            mark,
            synced: LogPosition::default(),
            named: Vec::new(),
            entered,
            padding: Vec::new(),
        }
    }

    pub(super) fn step(&mut self) -> Result<Step> {
        match self.read_record() {
            Ok(step) => Ok(step),
            Err(Ending::Stopped(stop)) => Ok(Step::Stop(stop)),
            Err(Ending::Failed(error)) => Err(error),
        }
    }

    fn read_record(&mut self) -> std::result::Result<Step, Ending> {
        let mut begun: Option<Begun> = None;
        loop {
            let at = self.offset;
            let (kind, payload) = self.read_fragment(begun.is_some())?;
            match kind {
                Kind::Full | Kind::First if begun.is_none() => {
                    let header = self.check_record_header(at, kind, &payload)?;
                    let body = payload.get(RECORD_HEADER_BYTES as usize..).unwrap_or_default().to_vec();
                    begun = Some(Begun { header, body, path: self.reader.path.clone() });
                }
                Kind::Middle | Kind::Last if begun.is_some() => {
                    if let Some(record) = &mut begun {
                        record.body.extend_from_slice(&payload);
                        let wanted = record.header.body_bytes as usize;
                        let have = record.body.len();
                        if (kind == Kind::Last && have != wanted) || (kind == Kind::Middle && have >= wanted) {
                            let expected = format!("a record body of {wanted} bytes");
                            return Err(self.stop(at, expected, format!("{have} bytes"), true));
                        }
                    }
                }
                Kind::Seal => {
                    self.enter_successor(at, &payload, begun.as_ref())?;
                    continue;
                }
                Kind::Close if begun.is_none() => return self.check_close(at, &payload),
                other => {
                    let expected = if begun.is_some() { "the rest of a record" } else { "the start of a record" };
                    return Err(self.stop(at, expected.into(), format!("{other:?}"), true));
                }
            }
            if let Some(record) = begun.take_if(|_| matches!(kind, Kind::Full | Kind::Last)) {
                return self.finish_record(record);
            }
        }
    }

    /// The next fragment, if its checksum is right, and moves past it and the padding after it.
    fn read_fragment(&mut self, begun: bool) -> std::result::Result<(Kind, Vec<u8>), Ending> {
        let (id, offset) = (self.reader.header.id, self.offset);
        let (kind, payload) = match decode_fragment(self.reader.rest_of_block(offset)?, id, offset) {
            Ok(fragment) => (fragment.kind, fragment.payload.to_vec()),
            Err(found) => return Err(self.stop(offset, "a log fragment".into(), found, begun)),
        };
        let end = offset + FRAGMENT_BYTES + payload.len() as u32;
        let next = settle(end);
        if next > end && !matches!(kind, Kind::Seal | Kind::Close) {
            let padding = self.reader.rest_of_block(end)?;
            if padding.iter().any(|byte| *byte != 0) && self.padding.len() < 100 {
                self.padding.push((LogPosition::new(id.index, end), self.reader.path.clone()));
            }
        }
        self.offset = next;
        if let Some((_, read)) = self.entered.last_mut() {
            // Nobody writes or reads what is behind a seal.
            *read = if matches!(kind, Kind::Seal | Kind::Close) { end } else { next };
        }
        Ok((kind, payload))
    }

    fn check_record_header(
        &mut self,
        at: u32,
        kind: Kind,
        payload: &[u8],
    ) -> std::result::Result<RecordHeader, Ending> {
        let Some(header) = RecordHeader::decode(payload) else {
            return Err(self.stop(at, "a record header".into(), "too few bytes".into(), true));
        };
        let here = self.position(at);
        if header.synced <= here {
            self.synced = self.synced.max(header.synced);
        }
        let next = SeqNo(self.mark.seq.0 + 1);
        let body = payload.len() - RECORD_HEADER_BYTES as usize;
        let wanted = header.body_bytes as usize;
        let fits = if kind == Kind::Full { body == wanted } else { body < wanted };
        if header.first_seq != next || header.last_seq().is_none() {
            let found = format!("{} operations from sequence number {}", header.operations, header.first_seq);
            return Err(self.stop(at, format!("a record from sequence number {next}"), found, true));
        }
        if !fits || header.synced > here {
            let found = format!("{body} of {wanted} bytes of body, synced to {}", header.synced);
            return Err(self.stop(at, format!("a record synced to at most {here}"), found, true));
        }
        Ok(header)
    }

    fn enter_successor(&mut self, at: u32, payload: &[u8], begun: Option<&Begun>) -> std::result::Result<(), Ending> {
        let Some(seal) = Seal::decode(payload) else {
            return Err(self.stop(at, "a seal".into(), "too few bytes".into(), true));
        };
        self.synced = self.synced.max(seal.synced.min(self.position(at)));
        self.named.push(seal.successor);
        let next = begun.map_or(SeqNo(self.mark.seq.0 + 1), |record| record.header.first_seq);
        if seal.next_seq != next || seal.successor.index <= self.reader.header.id.index {
            let found = format!("{} for segment {}", seal.next_seq, seal.successor.index);
            return Err(self.stop(at, format!("a seal with sequence number {next}"), found, true));
        }
        let Some(reader) = self.library.open(seal.successor)? else {
            let expected = format!(
                "the segment {} of generation {:016x} that its seal names",
                seal.successor.index, seal.successor.generation
            );
            let mut stop = self.stopped(at, expected, "no file with that header".into(), true);
            // The header was durable before the seal could be written.
            stop.is_damage = true;
            if let Some(slot) = self.library.slots.suspect() {
                (stop.path, stop.position) = (slot.path.clone(), LogPosition::new(seal.successor.index, 0));
            }
            return Err(Ending::Stopped(stop));
        };
        self.reader = reader;
        self.offset = HEADER_BYTES;
        self.entered.push((seal.successor, HEADER_BYTES));
        if begun.is_none() {
            self.mark = LogMark {
                position: LogPosition::new(seal.successor.index, HEADER_BYTES),
                generation: seal.successor.generation,
                seq: self.mark.seq,
            };
        }
        Ok(())
    }

    fn check_close(&mut self, at: u32, payload: &[u8]) -> std::result::Result<Step, Ending> {
        match Close::decode(payload) {
            Some(close) if close.last_seq == self.mark.seq => {
                self.synced = self.synced.max(close.synced.min(self.position(at)));
                Ok(Step::Closed(close))
            }
            _ => {
                let expected = format!("a clean-close seal after sequence number {}", self.mark.seq);
                Err(self.stop(at, expected, "another".into(), true))
            }
        }
    }

    fn finish_record(&mut self, begun: Begun) -> std::result::Result<Step, Ending> {
        let mark = self.mark;
        let header = begun.header;
        let stop = |expected: String, found: String, is_damage: bool| {
            let (path, position) = (begun.path.clone(), mark.position);
            Err(Ending::Stopped(Stop { path, position, expected, found, is_damage, is_torn: true }))
        };
        let crc = crc32c::crc32c(&begun.body);
        if crc != header.body_crc && !planted(Bug::ChecksumNotVerified) {
            return stop(format!("record body checksum {:#010x}", header.body_crc), format!("{crc:#010x}"), false);
        }
        let Some(last) = header.last_seq() else {
            return stop("sequence numbers in range".into(), format!("{}", header.first_seq), false);
        };
        match Record::from_body(begun.body, header.operations, header.body_crc) {
            Ok(record) => {
                let id = self.reader.header.id;
                let position = LogPosition::new(id.index, self.offset);
                self.mark = LogMark { position, generation: id.generation, seq: last };
                Ok(Step::Record { mark, first_seq: header.first_seq, record })
            }
            Err(Undecodable { is_newer: true, .. }) => {
                Err(Ending::Failed(Error::newer_version(&begun.path, VERSION + 1, VERSION)))
            }
            Err(Undecodable { at, .. }) => {
                let expected = format!("{} operations that this version knows", header.operations);
                stop(expected, format!("something else from byte {at} of the record's body"), true)
            }
        }
    }

    fn position(&self, offset: u32) -> LogPosition {
        LogPosition::new(self.reader.header.id.index, offset)
    }
    fn stopped(&self, offset: u32, expected: String, found: String, is_torn: bool) -> Stop {
        let position = self.position(offset);
        Stop { path: self.reader.path.clone(), position, expected, found, is_damage: false, is_torn }
    }
    fn stop(&self, offset: u32, expected: String, found: String, is_torn: bool) -> Ending {
        Ending::Stopped(self.stopped(offset, expected, found, is_torn))
    }
}

/// What [`search`] found.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The largest synced offset.
    pub(super) synced: LogPosition,
    /// Records whose headers are whole and that come after the end, and the last sequence number of them.
    pub(super) records: u64,
    pub(super) last_seq: SeqNo,
    pub(super) named: Vec<SegmentId>,
}

/// Looks for fragments from the block of `end` on, in its segment and in all with a higher index. In the blocks of the
/// end and of the place where the walk stopped every offset is tried, because there the last records of a log may stand
/// behind a damaged one; elsewhere each block is read from its start. A checksum binds a fragment to its place, so
/// nothing that was written elsewhere, or in a value, is taken for one.
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
                offset = settle(offset + FRAGMENT_BYTES + fragment.payload.len() as u32);
            }
            Err(_) if closely => offset += 1,
            Err(_) => break,
        }
    }
    Ok(())
}

impl Evidence {
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
