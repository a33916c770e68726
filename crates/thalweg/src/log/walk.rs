//! [`Walk`]: reads a log record by record, as far as it is whole (`docs/format/log.md`, Reading a log).
//!
//! A walk trusts nothing: it verifies checksums, types, lengths, the order of sequence numbers, synced offsets, and
//! that bodies decode. It enters a segment only through a seal that names index and generation. Memory: one record.
//! Locks: none.

use super::framing::{Close, FRAGMENT_BYTES, Kind, RECORD_HEADER_BYTES, RecordHeader, Seal, align, decode_fragment};
use super::header::{HEADER_BYTES, SegmentId, VERSION};
use super::record::{Record, Undecodable, body_checksum};
use super::slots::{SegmentReader, Slots};
use crate::error::{Error, Result};
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::Environment;
use crate::storage::OpenMode;
use std::path::PathBuf;

/// The next part of a log.
pub(super) enum WalkStep {
    /// A whole record that begins at `mark`.
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
    /// Whether this is damage, whatever was synced: a crash cannot have left it.
    pub(super) is_damage: bool,
    /// Whether part of a record is there, with right checksums.
    pub(super) is_torn: bool,
}

impl Stop {
    /// Returns the stop as corruption.
    pub(super) fn error(&self) -> Error {
        Error::corruption(&self.path, u64::from(self.position.offset()), &*self.expected, &*self.found)
    }
}

/// Finds and opens segments.
pub(super) struct Library<'a> {
    pub(super) environment: Option<&'a Environment>,
    pub(super) slots: &'a Slots,
    pub(super) mode: OpenMode,
}

impl Library<'_> {
    /// Opens the segment with this identity, if there is one.
    pub(super) fn open(&self, id: SegmentId) -> Result<Option<SegmentReader>> {
        match (self.slots.find(id), self.environment) {
            (Some((slot, header)), Some(environment)) => {
                SegmentReader::open(environment, slot, header, self.mode).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// A record whose fragments are not all read yet.
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
    /// The boundary before the next record.
    pub(super) mark: LogMark,
    /// The largest synced offset read so far.
    pub(super) synced: LogPosition,
    /// The segments that seals named, entered or not.
    pub(super) named: Vec<SegmentId>,
    /// The segments entered, and how far each was read.
    pub(super) entered: Vec<(SegmentId, u32)>,
    /// The places where padding is not zeros.
    pub(super) padding: Vec<(LogPosition, PathBuf)>,
}

/// Why no step can be taken: an error of the disk, or a stop.
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
    /// A walk that begins at `mark`, in the segment of `reader`.
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

    /// Reads the next record.
    pub(super) fn step(&mut self) -> Result<WalkStep> {
        match self.read_record() {
            Ok(step) => Ok(step),
            Err(Ending::Stopped(stop)) => Ok(WalkStep::Stop(stop)),
            Err(Ending::Failed(error)) => Err(error),
        }
    }

    /// Reads fragments until a record, a close or an end.
    fn read_record(&mut self) -> std::result::Result<WalkStep, Ending> {
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

    /// Reads the next fragment and moves past it and the padding after it. A wrong checksum is a stop.
    fn read_fragment(&mut self, begun: bool) -> std::result::Result<(Kind, Vec<u8>), Ending> {
        let (id, offset) = (self.reader.header.id, self.offset);
        let (kind, payload) = match decode_fragment(self.reader.rest_of_block(offset)?, id, offset) {
            Ok(fragment) => (fragment.kind, fragment.payload.to_vec()),
            Err(found) => return Err(self.stop(offset, "a log fragment".into(), found, begun)),
        };
        let end = offset + FRAGMENT_BYTES + payload.len() as u32;
        let next = align(end);
        if next > end && !matches!(kind, Kind::Seal | Kind::Close) {
            let padding = self.reader.rest_of_block(end)?;
            if padding.iter().any(|byte| *byte != 0) && self.padding.len() < 100 {
                self.padding.push((LogPosition::new(id.index, end), self.reader.path.clone()));
            }
        }
        self.offset = next;
        if let Some((_, read)) = self.entered.last_mut() {
            // Bytes after a seal are not part of the log.
            *read = if matches!(kind, Kind::Seal | Kind::Close) { end } else { next };
        }
        Ok((kind, payload))
    }

    /// Decodes the header of a record and checks that it fits here.
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

    /// Goes to the segment that a seal names.
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

    /// Checks that a clean-close seal fits here.
    fn check_close(&mut self, at: u32, payload: &[u8]) -> std::result::Result<WalkStep, Ending> {
        match Close::decode(payload) {
            Some(close) if close.last_seq == self.mark.seq => {
                self.synced = self.synced.max(close.synced.min(self.position(at)));
                Ok(WalkStep::Closed(close))
            }
            _ => {
                let expected = format!("a clean-close seal after sequence number {}", self.mark.seq);
                Err(self.stop(at, expected, "another".into(), true))
            }
        }
    }

    /// Verifies and decodes a record whose fragments are all read.
    fn finish_record(&mut self, begun: Begun) -> std::result::Result<WalkStep, Ending> {
        let mark = self.mark;
        let header = begun.header;
        let stop = |expected: String, found: String, is_damage: bool| {
            let (path, position) = (begun.path.clone(), mark.position);
            Err(Ending::Stopped(Stop { path, position, expected, found, is_damage, is_torn: true }))
        };
        let found = body_checksum(&begun.body);
        if found != header.body_checksum && !planted(Bug::ChecksumNotVerified) {
            let expected = format!("record body checksum {:#010x}", header.body_checksum);
            return stop(expected, format!("{found:#010x}"), false);
        }
        let Some(last) = header.last_seq() else {
            return stop("sequence numbers in range".into(), format!("{}", header.first_seq), false);
        };
        match Record::from_body(begun.body, header.operations, header.body_checksum) {
            Ok(record) => {
                let id = self.reader.header.id;
                let position = LogPosition::new(id.index, self.offset);
                self.mark = LogMark { position, generation: id.generation, seq: last };
                Ok(WalkStep::Record { mark, first_seq: header.first_seq, record })
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
