//! [`LogAndTables`]: the log and the tables of an open database, as lineage uses them.

use crate::format::{EditId, LogMark};
use crate::log::Log;
use crate::table::TableStore;
use std::sync::Arc;

/// The log and the tables, which begin after lineage does.
pub(super) struct LogAndTables {
    pub(super) log: Arc<Log>,
    pub(super) tables: Arc<TableStore>,
}

impl LogAndTables {
    /// Notifies the log that `edit` is settled, and that records before `log_start` are no longer needed.
    pub(super) fn settled(&self, edit: EditId, log_start: Option<LogMark>) {
        self.log.set_settled(edit);
        if let Some(mark) = log_start {
            self.log.let_go(mark);
        }
    }

    /// Returns the bytes of the log in segments that lie before `mark`.
    pub(super) fn log_bytes_before(&self, mark: LogMark) -> u64 {
        self.log.backlog_bytes().saturating_sub(self.log.bytes_from(mark.position.segment()))
    }
}
