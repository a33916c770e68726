//! [`Retained`]: the inputs of settled edits. Some still have readers (NOB-A4); the files of the others may go.
//!
//! An input may go once its handle was dropped. That happens when no one shares the handle: then no version, snapshot,
//! cursor or compaction names the table. Handles are only cloned from handles, so none will ever name it again. Pure.
//! The book of a lineage holds it.

use crate::fast_table::FastTable;
use crate::format::{Home, TableFile};
use crate::planted::{Bug, planted};
use crate::table::Table;
use std::collections::VecDeque;
use std::sync::Arc;

/// A table that an edit replaced.
pub(in crate::lineage) struct Input {
    /// The handle; `None` once it was dropped.
    pub(in crate::lineage) handle: Option<Handle>,
    pub(in crate::lineage) file: TableFile,
    pub(in crate::lineage) bytes: u64,
}

/// A handle of a table of either home.
#[derive(Clone)]
pub(crate) enum Handle {
    Table(Arc<Table>),
    Fast(Arc<FastTable>),
}

impl From<Arc<Table>> for Handle {
    fn from(table: Arc<Table>) -> Self {
        Handle::Table(table)
    }
}

impl From<Arc<FastTable>> for Handle {
    fn from(table: Arc<FastTable>) -> Self {
        Handle::Fast(table)
    }
}

impl Handle {
    /// Returns the file of the table.
    pub(crate) fn file(&self) -> TableFile {
        match self {
            Handle::Table(table) => TableFile::on_disk(table.meta().id),
            Handle::Fast(table) => TableFile::fast(table.meta().id),
        }
    }

    /// Returns whether anybody else has a handle of the table.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Handle::Table(table) => Arc::strong_count(table) > 1,
            Handle::Fast(table) => Arc::strong_count(table) > 1,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Handle::Table(table) => table.meta().bytes,
            Handle::Fast(table) => table.meta().bytes,
        }
    }

    /// Returns whether the table is one of a directory keyspace.
    fn is_pack(&self) -> bool {
        matches!(self, Handle::Table(table) if table.is_pack())
    }
}

/// A table whose file may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Free {
    pub(in crate::lineage) file: TableFile,
    pub(in crate::lineage) bytes: u64,
}

/// The inputs of settled edits.
#[derive(Default)]
pub(in crate::lineage) struct Retained {
    /// Tables that a reader may hold.
    inputs: Vec<Input>,
    /// Tables whose files may go, in the order in which they became free.
    free: VecDeque<Free>,
    /// The bytes of the files of `free`.
    free_bytes: u64,
    /// The bytes of those files of `free` that are on the device of the fast tier.
    fast_free_bytes: u64,
    /// The bytes that are left of the file that is being cut. That file has no name.
    cutting_bytes: u64,
}

impl From<Handle> for Input {
    fn from(handle: Handle) -> Self {
        let (file, bytes) = (handle.file(), handle.bytes());
        Input { handle: Some(handle), file, bytes }
    }
}

impl Input {
    /// Returns the bytes of the table on the disk; 0 for a fast table.
    pub(in crate::lineage) fn disk_bytes(&self) -> u64 {
        if self.file.home == Home::Disk { self.bytes } else { 0 }
    }

    /// Returns the bytes of the table on the device of the fast tier.
    pub(in crate::lineage) fn fast_bytes(&self) -> u64 {
        self.bytes - self.disk_bytes()
    }

    /// Takes the handle if no one shares it.
    pub(in crate::lineage) fn take_unshared(&mut self) -> Option<Handle> {
        self.handle.take_if(|handle| !handle.is_shared() || planted(Bug::PackFreedWhileListed) && handle.is_pack())
    }
}

impl Retained {
    /// Adds the inputs of a settled edit.
    pub(in crate::lineage) fn keep(&mut self, inputs: impl IntoIterator<Item = Input>) {
        self.inputs.extend(inputs);
    }

    /// Returns the tables that a reader may hold.
    pub(in crate::lineage) fn inputs_mut(&mut self) -> impl Iterator<Item = &mut Input> {
        self.inputs.iter_mut()
    }

    /// Frees the tables whose handles were dropped. Returns whether there are any.
    pub(in crate::lineage) fn free_unheld(&mut self) -> bool {
        let before = self.free.len();
        let (free, free_bytes, fast_free_bytes) = (&mut self.free, &mut self.free_bytes, &mut self.fast_free_bytes);
        self.inputs.retain(|input| {
            if input.handle.is_none() {
                free.push_back(Free { file: input.file, bytes: input.bytes });
                *free_bytes += input.bytes;
                *fast_free_bytes += input.fast_bytes();
            }
            input.handle.is_some()
        });
        self.free.len() > before
    }

    /// Returns whether a reader may hold a table.
    pub(in crate::lineage) fn is_held(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// Returns the next table to remove.
    pub(in crate::lineage) fn first_free(&self) -> Option<Free> {
        self.free.front().copied()
    }

    /// Notes that the first free table has lost its name. `is_cut`: whether its bytes go piece by piece.
    pub(in crate::lineage) fn removed(&mut self, is_cut: bool) {
        if let Some(Free { file, bytes }) = self.free.pop_front() {
            self.free_bytes -= bytes;
            self.fast_free_bytes -= if file.home == Home::Fast { bytes } else { 0 };
            self.cutting_bytes += if is_cut { bytes } else { 0 };
        }
    }

    /// Notes that `bytes` of the file without a name are gone.
    pub(in crate::lineage) fn cut(&mut self, bytes: u64) {
        self.cutting_bytes = self.cutting_bytes.saturating_sub(bytes);
    }

    /// Returns whether any file may go.
    pub(in crate::lineage) fn is_waiting(&self) -> bool {
        self.cutting_bytes > 0 || !self.free.is_empty()
    }

    /// Returns the bytes of the files that may go.
    pub(in crate::lineage) fn waiting_bytes(&self) -> u64 {
        self.cutting_bytes + self.free_bytes
    }

    /// Returns the part of [`Retained::waiting_bytes`] that is on the device of the fast tier, without a file that is
    /// being cut.
    pub(in crate::lineage) fn fast_waiting_bytes(&self) -> u64 {
        self.fast_free_bytes
    }

    /// Returns the rest of [`Retained::waiting_bytes`].
    pub(in crate::lineage) fn disk_waiting_bytes(&self) -> u64 {
        self.waiting_bytes() - self.fast_waiting_bytes()
    }

    /// Returns the bytes of all retained tables on the disk, including the tables whose files may go.
    pub(in crate::lineage) fn bytes(&self) -> u64 {
        self.disk_waiting_bytes() + self.inputs.iter().map(Input::disk_bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::TableId;
    use crate::lineage::tests::{table, tables};

    #[test]
    fn an_input_is_free_only_when_its_last_reader_is_gone() {
        let tables = tables();
        let [read, unread] = [3, 4].map(|id| tables.open(table(id, "a", "b")));
        let mut retained = Retained::default();
        let input =
            |table: &Arc<Table>| Input { bytes: table.meta().id.0, ..Input::from(Handle::from(Arc::clone(table))) };
        retained.keep([input(&read), input(&unread)]);
        drop(unread);
        let look = |retained: &mut Retained| {
            let handles: Vec<_> = retained.inputs_mut().filter_map(Input::take_unshared).collect();
            (handles.len(), retained.free_unheld())
        };
        assert_eq!((look(&mut retained), look(&mut retained)), ((1, true), (0, false)));
        assert_eq!(retained.first_free(), Some(Free { file: TableFile::on_disk(TableId(4)), bytes: 4 }));
        assert_eq!((retained.waiting_bytes(), retained.bytes(), retained.is_held()), (4, 7, true));
        drop(read);
        assert_eq!(look(&mut retained), (1, true));
        assert_eq!((retained.waiting_bytes(), retained.is_held()), (7, false));
    }

    #[test]
    fn tables_of_the_fast_tier_take_nothing_on_the_disk() {
        let mut retained = Retained::default();
        let fast = TableFile { home: Home::Fast, ..TableFile::on_disk(TableId(6)) };
        let on_disk = TableFile::on_disk(TableId(5));
        let inputs = [(on_disk, 5), (fast, 6)].map(|(file, bytes)| Input { handle: None, file, bytes });
        retained.keep(inputs);
        assert_eq!(retained.bytes(), 5);
        assert!(retained.free_unheld());
        assert_eq!((retained.bytes(), retained.waiting_bytes(), retained.fast_waiting_bytes()), (5, 11, 6));
    }

    #[test]
    fn bytes_count_until_they_are_gone_also_those_without_a_name() {
        let mut retained = Retained::default();
        retained.keep([5, 6].map(|id| Input { handle: None, file: TableFile::on_disk(TableId(id)), bytes: id }));
        assert!(retained.free_unheld());
        retained.removed(false);
        assert_eq!(retained.waiting_bytes(), 6);
        retained.removed(true);
        assert_eq!((retained.first_free(), retained.waiting_bytes()), (None, 6));
        retained.cut(4);
        assert!(retained.is_waiting());
        retained.cut(u64::MAX);
        assert!(!retained.is_waiting());
    }
}
