//! [`LogReader`]: reads again the records of a log that a [`Scan`](super::Scan) has found.
//!
//! The log may begin while a reader reads the records. The log writes a seal at the end that the scan has found, and a
//! reader never reads past that end. A segment that is still to be read is not used again, because the edits of a
//! replay do not release it. Locks: none.

use super::header::SegmentId;
use super::record::Record;
use super::slots::Slots;
use super::walk::{Library, Walk, WalkStep};
use crate::error::{Error, Result};
use crate::format::{LogMark, SeqNo};
use crate::runtime::Environment;
use crate::storage::OpenMode;
use std::path::{Path, PathBuf};

/// Reads the records from the start of the log to the end that a scan has found.
pub(crate) struct LogReader {
    pub(super) environment: Environment,
    pub(super) directory: PathBuf,
    pub(super) slots: Slots,
    pub(super) mode: OpenMode,
    /// `None` if there is no log.
    pub(super) start: Option<LogMark>,
    pub(super) end: LogMark,
}

impl LogReader {
    /// Passes every record from the start to the end to `each`, with its mark and its first sequence number.
    pub(crate) fn replay(&self, each: &mut dyn FnMut(LogMark, SeqNo, &Record) -> Result<()>) -> Result<()> {
        let Some(root) = self.start else {
            return Ok(());
        };
        let library = Library { environment: Some(&self.environment), slots: &self.slots, mode: self.mode };
        let mut walk = walk_from(library, &self.directory, root)?;
        // At the end there may be a seal that the scan has not seen.
        while walk.mark.position < self.end.position {
            match walk.step()? {
                WalkStep::Record { mark, first_seq, record } if mark.position < self.end.position => {
                    each(mark, first_seq, &record)?;
                }
                WalkStep::Stop(stop) if walk.mark != self.end => return Err(stop.error()),
                WalkStep::Record { .. } | WalkStep::Closed(_) | WalkStep::Stop(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

/// A walk that begins at `root`.
pub(super) fn walk_from<'a>(library: Library<'a>, directory: &Path, root: LogMark) -> Result<Walk<'a>> {
    let id = SegmentId { index: root.position.segment(), generation: root.generation };
    match library.open(id)? {
        Some(reader) => Ok(Walk::new(library, reader, root)),
        None => Err(Error::corruption(directory, 0, format!("log segment {}", id.index), "none")),
    }
}
