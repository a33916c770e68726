//! Copies a record into its reserved place.
//!
//! The copy goes through the segment's mapping, straight from the record: no system call, no buffer. Where there is no
//! mapping, while callers often wait for syncs (`demand.rs`), or if a sync follows at once, it is one positional write
//! for each segment.

use super::framing::RecordHeader;
use super::layout::Part;
use super::open::Log;
use super::record::Record;
use super::reserve::Reservation;
use super::segment::Segment;
use crate::error::{ErrorKind, Result};
use crate::runtime::Point;
use std::sync::atomic::Ordering;

impl Log {
    /// Copies the record into its place; `is_synced`: a sync of it follows at once. Only a positional write can fail;
    /// that poisons the database.
    pub(crate) fn copy_in(&self, reservation: &Reservation<'_>, record: &Record, is_synced: bool) -> Result<()> {
        self.environment.point(Point::Reserved);
        assert_eq!(record.count(), reservation.operations, "a reservation is for one record");
        let header = RecordHeader {
            first_seq: reservation.first_seq(),
            operations: record.count(),
            synced: reservation.synced,
            body_bytes: record.body().len() as u32,
            body_checksum: record.body_checksum(),
        };
        self.copy_part(&reservation.first, &header, record.body(), is_synced)?;
        for part in &reservation.others {
            self.copy_part(part, &header, record.body(), is_synced)?;
        }
        self.environment.point(Point::Copied);
        Ok(())
    }

    /// Whether records of the segment are written by position even if it is mapped. They are while callers often wait.
    /// A store would make more of the segment dirty than the record's blocks ([`super::demand`]).
    pub(super) fn is_by_position(&self, segment: &Segment) -> bool {
        segment.is_for_callers && self.callers_are_frequent.load(Ordering::Relaxed)
    }

    /// Copies the part of a record in one segment.
    fn copy_part(&self, part: &Part, header: &RecordHeader, body: &[u8], is_synced: bool) -> Result<()> {
        // The previous sync has write-protected the page. A store would fault, which costs more than a system call
        // (`docs/log.md`).
        let is_by_position = is_synced || self.is_by_position(&part.segment);
        if let Some(mapping) = part.segment.mapping().filter(|_| !is_by_position) {
            let mut offset = part.from;
            part.lay_out(header, body, |bytes| {
                mapping.write(u64::from(offset), bytes);
                if offset == part.from {
                    self.environment.point(Point::Copying);
                }
                offset += bytes.len() as u32;
            });
            mapping.approach(u64::from(part.to), (part.to - part.from) as usize);
        } else {
            let mut bytes = Vec::with_capacity((part.to - part.from) as usize);
            part.lay_out(header, body, |piece| bytes.extend_from_slice(piece));
            let write = || part.segment.write(part.from, &bytes);
            // A write to a prepared segment needs no space, unless the file system writes overwritten blocks elsewhere
            // (btrfs).
            let written = write().or_else(|error| {
                let is_full = error.kind() == ErrorKind::NoSpace;
                if is_full && self.options.space.give_up_reserve() { write() } else { Err(error) }
            });
            written.map_err(|error| self.health.poison(error))?;
        }
        self.metrics.log_written_bytes.add(u64::from(part.to - part.from));
        Ok(())
    }
}
