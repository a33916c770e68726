//! [`Neighbours`]: what lineage asks of the log and the tables, which begin after it.

use crate::error::Result;
use crate::format::{EditId, LogMark, SeqNo, TableId};
use crate::lineage::removal::retained::Handle;
use crate::lineage::settle::backend::Step;
use crate::log::Log;
use crate::storage::{File, OpenMode};
use crate::table::{Table, TableStore};
use std::sync::Arc;

/// The log and the tables.
pub(super) trait Neighbours: Send + Sync {
    /// Makes the log durable to `seq`.
    fn sync_log(&self, seq: SeqNo) -> Step<'_>;
    /// `edit` is settled; the log is needed only from `log_start`, where there is one.
    fn settled(&self, edit: EditId, log_start: Option<LogMark>);
    /// Bytes of the log in segments that lie before `mark`.
    fn log_bytes_before(&self, mark: LogMark) -> u64;
    /// The file of a table just written, as its writer had it open, if it was not forgotten.
    fn unsynced(&self, id: TableId) -> Option<Arc<dyn File>>;
    /// How many such files are open.
    fn unsynced_files(&self) -> usize;
    /// The table was synced, or need not be.
    fn forget_unsynced(&self, id: TableId);
    /// Nobody else has this handle, of a table that was replaced.
    fn let_go(&self, table: Handle);
    /// The file of a table, to be cut; `None` when it cannot be opened.
    fn open_table(&self, id: TableId) -> Option<Arc<dyn File>>;
    /// Unlinks the file of a table.
    fn remove_table(&self, id: TableId) -> Result<()>;
}

/// Those of an open database.
pub(super) struct Attached {
    pub(super) log: Arc<Log>,
    pub(super) tables: Arc<TableStore>,
}

impl Neighbours for Attached {
    fn sync_log(&self, seq: SeqNo) -> Step<'_> {
        Box::pin(self.log.sync_to_seq(seq))
    }
    fn settled(&self, edit: EditId, log_start: Option<LogMark>) {
        self.log.set_settled(edit);
        if let Some(mark) = log_start {
            self.log.let_go(mark);
        }
    }
    fn log_bytes_before(&self, mark: LogMark) -> u64 {
        self.log.backlog_bytes().saturating_sub(self.log.bytes_from(mark.position.segment()))
    }
    fn unsynced(&self, id: TableId) -> Option<Arc<dyn File>> {
        self.tables.unsynced(id)
    }
    fn unsynced_files(&self) -> usize {
        self.tables.unsynced_files()
    }
    fn forget_unsynced(&self, id: TableId) {
        self.tables.forget_unsynced(id);
    }
    fn let_go(&self, table: Handle) {
        if let Ok(table) = table.downcast::<Table>() {
            self.tables.let_go(table);
        }
    }
    fn open_table(&self, id: TableId) -> Option<Arc<dyn File>> {
        self.tables.open_file(id, OpenMode::ReadWrite)
    }
    fn remove_table(&self, id: TableId) -> Result<()> {
        self.tables.remove(id)
    }
}
