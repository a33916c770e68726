//! [`Volume::recount`]: counts the inodes by the rows. The number is stored once a second, so after a crash it is that
//! of an earlier moment.

use crate::error::Result;
use crate::row::{DirectoryRow, EntryRow};
use crate::store::{RowReader, Space};
use crate::volume::Volume;

const END: [u8; 17] = [0xff; 17];
/// Rows between two questions whether to go on.
const ROWS_PER_QUESTION: u64 = 1024;

impl Volume {
    /// After a mount that was left without a close, counts the inodes and corrects their number ([`Volume::usage`]).
    /// Operations may go on meanwhile. To be called once, on a thread of its own: it reads all entries, and asks now
    /// and then whether it `goes_on`. A volume that is closed before the recount has ended counts as left without a
    /// close.
    ///
    /// Returns by how much the number was wrong; `None` if there was nothing to count, or it was ended.
    ///
    /// # Errors
    /// `EIO` for a row that is damaged or cannot be read: the number stays as it is.
    pub fn recount(&self, goes_on: &dyn Fn() -> bool) -> Result<Option<i64>> {
        let is_due = || self.tasks().inherited.has_unknown_totals;
        let difference = self.inodes.recount(is_due, || self.store.snapshot(), |rows| count(&*rows, goes_on))?;
        if difference.is_some() {
            self.tasks().inherited.has_unknown_totals = false;
        }
        Ok(difference)
    }
}

/// Counts the inodes of the rows: directories by their own rows, files by the one row that has their attributes.
fn count(rows: &dyn RowReader, goes_on: &dyn Fn() -> bool) -> Result<Option<u64>> {
    let (mut inodes, mut seen) = (0, 0_u64);
    let mut is_ended = || {
        seen += 1;
        seen.is_multiple_of(ROWS_PER_QUESTION) && !goes_on()
    };
    for directory in rows.directories() {
        let directory = directory?;
        for listed in rows.list(directory, 0, usize::MAX) {
            let listed = listed?;
            if is_ended() {
                return Ok(None);
            }
            inodes += match &*listed.name {
                DirectoryRow::NAME => DirectoryRow::decode(directory, &listed.row).map(|_| 1)?,
                name => u64::from(matches!(EntryRow::decode(directory, name, &listed.row)?, EntryRow::Whole(..))),
            };
        }
    }
    for row in rows.rows(Space::Inodes, &[], &END) {
        row?;
        if is_ended() {
            return Ok(None);
        }
        inodes += 1;
    }
    Ok(Some(inodes))
}
