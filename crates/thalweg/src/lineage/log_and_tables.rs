//! [`LogAndTables`]: the log and the tables of an open database, as lineage uses them.

use super::removal::retained::Handle;
use crate::error::Result;
use crate::fast_table::FastTableFiles;
use crate::format::{EditId, Home, LogMark, TableFile};
use crate::log::Log;
use crate::storage::{File, OpenMode};
use crate::table::TableStore;
use std::sync::Arc;

/// The log and the tables, which begin after lineage does.
pub(super) struct LogAndTables {
    pub(super) log: Arc<Log>,
    pub(super) tables: Arc<TableStore>,
    /// The files of fast tables; `None` if fast tables are not in files.
    pub(super) fast: Option<Arc<FastTableFiles>>,
}

impl LogAndTables {
    /// Notifies the log that `edit` is settled, and that records before `log_start` are no longer needed.
    pub(super) fn settled(&self, edit: EditId, log_start: Option<LogMark>) {
        self.log.set_settled(edit);
        if let Some(mark) = log_start {
            self.log.let_go(mark);
        }
    }

    fn fast(&self) -> &FastTableFiles {
        let Some(fast) = &self.fast else { unreachable!("only a database with a fast tier has fast tables") };
        fast
    }

    /// Returns the file of a table as its writer opened it; `None` after [`LogAndTables::forget_unsynced`].
    pub(super) fn unsynced(&self, table: TableFile) -> Option<Arc<dyn File>> {
        match table.home {
            Home::Disk => self.tables.unsynced(table.id),
            Home::Fast => self.fast().unsynced(table.id),
        }
    }

    /// Returns how many tables have a file that [`LogAndTables::unsynced`] returns.
    pub(super) fn unsynced_files(&self) -> usize {
        self.tables.unsynced_files() + self.fast.as_ref().map_or(0, |fast| fast.unsynced_files())
    }

    /// Closes the file that [`LogAndTables::unsynced`] returns. `is_synced`: whether it was synced or merely replaced.
    pub(super) fn forget_unsynced(&self, table: TableFile, is_synced: bool) {
        match table.home {
            Home::Disk => self.tables.forget_unsynced(table.id, is_synced),
            Home::Fast => self.fast().forget_unsynced(table.id),
        }
    }

    /// Opens the file of a table. Returns `None` if that fails.
    pub(super) fn open_file(&self, table: TableFile, mode: OpenMode) -> Option<Arc<dyn File>> {
        match table.home {
            Home::Disk => self.tables.open_file(table.id, mode),
            Home::Fast => self.fast().open_file(table.id, mode),
        }
    }

    /// Removes the file of a table that no edit names or will name.
    pub(super) fn remove(&self, table: TableFile) -> Result<()> {
        match table.home {
            Home::Disk => self.tables.remove(table.id),
            Home::Fast => self.fast().remove(table.id),
        }
    }

    /// Drops a handle that nobody shares.
    pub(super) fn let_go(&self, handle: Handle) {
        match handle {
            Handle::Table(table) => self.tables.let_go(table),
            Handle::Fast(table) => drop(table),
        }
    }

    /// Returns the bytes of the log in segments that lie before `mark`.
    pub(super) fn log_bytes_before(&self, mark: LogMark) -> u64 {
        self.log.backlog_bytes().saturating_sub(self.log.bytes_from(mark.position.segment()))
    }
}
