//! `thalweg dump` of a segment file: a line for its header, for each fragment, and for each operation of a record.
//!
//! The line of a fragment begins with its offset, that of an operation with its sequence number. A position in the log
//! is `segment:offset`.
//!
//! A dump shows what is there. Where a fragment is not valid, it says so and continues with the next block. Records are
//! put together from fragments of this file only. Locks: none.

use super::framing::{
    Close, FRAGMENT_BYTES, Fragment, Kind, RECORD_HEADER_BYTES, RecordHeader, Seal, align, block_end, decode_fragment,
};
use super::header::{BLOCK_BYTES, HEADER_BYTES, SegmentHeader, VERSION};
use super::record::{Operation, Record, Undecodable, body_checksum};
use super::slots::{SegmentReader, SegmentSource};
use crate::error::{Error, Result};
use crate::format::KeyspaceKind;
use crate::storage::{OpenMode, Storage};
use std::fmt;
use std::path::Path;

/// How many bytes of a value are shown.
const VALUE_BYTES_SHOWN: usize = 32;

/// Takes one line of a dump.
pub(crate) type Line<'a> = &'a mut dyn FnMut(fmt::Arguments<'_>) -> std::io::Result<()>;

/// Writes the segment file at `path` in readable form.
pub(crate) fn dump(storage: &dyn Storage, path: &Path, line: Line<'_>) -> Result<()> {
    let Some(file) = storage.open(path, OpenMode::Read)? else {
        return Err(Error::io("open", path, std::io::Error::other("reading is refused")));
    };
    let mut start = vec![0; HEADER_BYTES as usize];
    file.read_exact_at(0, &mut start)?;
    if let Some(found) = SegmentHeader::newer_version(&start) {
        return Err(Error::newer_version(path, found, VERSION));
    }
    let Some(header) = SegmentHeader::decode(&start) else {
        return Err(Error::corruption(path, 0, "the header of a log segment", "something else"));
    };
    if file.bytes()? < u64::from(header.bytes) {
        return Err(Error::corruption(path, file.bytes()?, format!("{} bytes", header.bytes), "the end of the file"));
    }
    let mut out = Output { line, path };
    let id = header.id;
    out.line(format_args!(
        "log segment {} of {} bytes, generation {:016x}, prepared after settled edit {}",
        id.index, header.bytes, id.generation, header.settled
    ))?;
    out.line(format_args!(
        "    offset what begins there; below a record its operations, each with its sequence number"
    ))?;
    let mut reader = SegmentReader::new(SegmentSource::File(file), path.to_path_buf(), header);
    let mut record = None;
    let mut offset = HEADER_BYTES;
    while offset < header.bytes {
        match decode_fragment(reader.rest_of_block(offset)?, id, offset) {
            Ok(fragment) => {
                out.fragment(offset, fragment, &mut record)?;
                offset = align(offset + FRAGMENT_BYTES + fragment.payload.len() as u32);
            }
            Err(found) => {
                let is_zero = reader.rest_of_block(offset)?.iter().all(|byte| *byte == 0);
                if !is_zero {
                    out.line(format_args!("{offset:>10} nothing valid: {found}"))?;
                }
                record = None;
                offset = block_end(offset);
                debug_assert!(offset.is_multiple_of(BLOCK_BYTES));
            }
        }
    }
    Ok(())
}

/// Takes the lines of a dump, with the file for errors.
struct Output<'a> {
    line: Line<'a>,
    path: &'a Path,
}

impl Output<'_> {
    /// Writes one line.
    fn line(&mut self, arguments: fmt::Arguments<'_>) -> Result<()> {
        (self.line)(arguments).map_err(|error| Error::io("dump", self.path, error))
    }

    /// Writes the line of a fragment, and its record if that ends here.
    fn fragment(
        &mut self,
        offset: u32,
        fragment: Fragment<'_>,
        record: &mut Option<(RecordHeader, Vec<u8>)>,
    ) -> Result<()> {
        let payload = fragment.payload;
        let bytes = payload.len();
        match fragment.kind {
            Kind::Seal => {
                let Some(seal) = Seal::decode(payload) else { return Ok(()) };
                let (next, synced) = (seal.next_seq, seal.synced);
                self.line(format_args!(
                    "{offset:>10} end of the segment: sequence number {next} follows in segment {}, generation \
                     {:016x}; log durable before {synced}",
                    seal.successor.index, seal.successor.generation
                ))
            }
            Kind::Close => {
                let Some(close) = Close::decode(payload) else { return Ok(()) };
                self.line(format_args!(
                    "{offset:>10} clean close: manifest {} of {} bytes, last sequence number {}; log durable before {}",
                    close.manifest_number, close.manifest_end, close.last_seq, close.synced
                ))
            }
            Kind::Full | Kind::First => {
                let Some(header) = RecordHeader::decode(payload) else { return Ok(()) };
                self.line(format_args!(
                    "{offset:>10} {}: sequence number {}, operations {}, body {} bytes; log durable before {}",
                    if fragment.kind == Kind::Full { "whole record" } else { "first part of a record" },
                    header.first_seq,
                    header.operations,
                    header.body_bytes,
                    header.synced
                ))?;
                *record = Some((header, payload.get(RECORD_HEADER_BYTES as usize..).unwrap_or_default().to_vec()));
                if fragment.kind == Kind::Full { self.record(record.take()) } else { Ok(()) }
            }
            Kind::Middle | Kind::Last => {
                let name = if fragment.kind == Kind::Middle { "middle" } else { "last" };
                self.line(format_args!("{offset:>10} {name} part of a record: {bytes} bytes"))?;
                if let Some((_, body)) = record {
                    body.extend_from_slice(payload);
                }
                if fragment.kind == Kind::Last { self.record(record.take()) } else { Ok(()) }
            }
        }
    }

    /// Writes the operations of a record.
    fn record(&mut self, record: Option<(RecordHeader, Vec<u8>)>) -> Result<()> {
        let Some((header, body)) = record else {
            return self.line(format_args!("{:>10} (the record begins in another segment)", ""));
        };
        let found = body_checksum(&body);
        if found != header.body_checksum {
            let right = header.body_checksum;
            return self.line(format_args!("{:>10} body checksum {found:#010x}, expected {right:#010x}", ""));
        }
        match Record::from_body(body, header.operations, header.body_checksum) {
            Err(Undecodable { at, is_newer: true }) => {
                self.line(format_args!("{:>10} body has an operation of a newer version at byte {at}", ""))
            }
            Err(Undecodable { at, .. }) => self.line(format_args!("{:>10} body does not decode at byte {at}", "")),
            Ok(record) => {
                for (seq, operation) in (header.first_seq.0..).zip(record.operations()) {
                    self.line(format_args!("{:>10} {seq} {}", "", Shown(&operation)))?;
                }
                Ok(())
            }
        }
    }
}

/// An operation in readable form.
struct Shown<'a>(&'a Operation<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Operation::Put { keyspace, key, value } => {
                let shown = value.get(..VALUE_BYTES_SHOWN).unwrap_or(value);
                write!(f, "put in keyspace {keyspace}: \"{}\" = \"{}\"", key.escape_ascii(), shown.escape_ascii())?;
                if shown.len() < value.len() {
                    write!(f, "… ({} bytes)", value.len())?;
                }
                Ok(())
            }
            Operation::Remove { keyspace, key } => {
                write!(f, "remove from keyspace {keyspace}: \"{}\"", key.escape_ascii())
            }
            Operation::CreateKeyspace { keyspace, name, splits, kind } => {
                let kind = if *kind == KeyspaceKind::Ordered { "" } else { "directory " };
                write!(f, "create {kind}keyspace {keyspace} {name:?}")?;
                splits.iter().try_for_each(|split| write!(f, " split \"{}\"", split.escape_ascii()))
            }
            Operation::DropKeyspace { keyspace } => write!(f, "drop keyspace {keyspace}"),
            Operation::ClearKeyspace { keyspace } => write!(f, "clear keyspace {keyspace}"),
        }
    }
}
