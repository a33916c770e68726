//! [`Retained`]: settled inputs: those that a reader still holds (NOB-A4), and those whose files may go.
//!
//! A settled input may go once its handle was let go: that happens when nobody shares it, so no version, snapshot,
//! cursor or compaction names the table, and as handles are only cloned from handles nobody ever will again. Pure; kept
//! under lineage's lock.

use crate::format::TableId;
use crate::table::Table;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// A handle that is only counted, and dropped.
pub(in crate::lineage) type Handle = Arc<dyn Any + Send + Sync>;

/// A table that is only kept.
pub(in crate::lineage) struct Input {
    /// `None` once it was let go.
    pub(in crate::lineage) table: Option<Handle>,
    pub(in crate::lineage) id: TableId,
    pub(in crate::lineage) bytes: u64,
}

/// A table whose file may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Free {
    pub(in crate::lineage) id: TableId,
    pub(in crate::lineage) bytes: u64,
}

/// Inputs of settled edits.
#[derive(Default)]
pub(in crate::lineage) struct Retained {
    /// Kept for their readers.
    inputs: Vec<Input>,
    /// In the order they became free.
    free: VecDeque<Free>,
    /// Theirs.
    free_bytes: u64,
    /// What is left of a file without a name.
    cutting_bytes: u64,
}

impl From<Arc<Table>> for Input {
    fn from(table: Arc<Table>) -> Self {
        let (id, bytes) = (table.meta().id, table.meta().bytes);
        Input { table: Some(table), id, bytes }
    }
}

impl Input {
    /// Takes the handle away, if nobody shares it.
    pub(in crate::lineage) fn let_go(&mut self) -> Option<Handle> {
        self.table.take_if(|table| Arc::strong_count(table) == 1)
    }
}

impl Retained {
    pub(in crate::lineage) fn keep(&mut self, inputs: impl IntoIterator<Item = Input>) {
        self.inputs.extend(inputs);
    }

    pub(in crate::lineage) fn inputs_mut(&mut self) -> impl Iterator<Item = &mut Input> {
        self.inputs.iter_mut()
    }

    /// Those whose handles were let go may go. Whether there are any.
    pub(in crate::lineage) fn free_unheld(&mut self) -> bool {
        let before = self.free.len();
        let (free, free_bytes) = (&mut self.free, &mut self.free_bytes);
        self.inputs.retain(|input| {
            if input.table.is_none() {
                free.push_back(Free { id: input.id, bytes: input.bytes });
                *free_bytes += input.bytes;
            }
            input.table.is_some()
        });
        self.free.len() > before
    }

    /// Whether a reader keeps a table.
    pub(in crate::lineage) fn is_held(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// The next one to go.
    pub(in crate::lineage) fn first_free(&self) -> Option<Free> {
        self.free.front().copied()
    }

    /// The name of the first one is gone; `is_cut`: its bytes go piece by piece.
    pub(in crate::lineage) fn removed(&mut self, is_cut: bool) {
        if let Some(Free { bytes, .. }) = self.free.pop_front() {
            self.free_bytes -= bytes;
            self.cutting_bytes += if is_cut { bytes } else { 0 };
        }
    }

    /// So many bytes of a file without a name are gone.
    pub(in crate::lineage) fn cut(&mut self, bytes: u64) {
        self.cutting_bytes = self.cutting_bytes.saturating_sub(bytes);
    }

    /// Whether anything may go.
    pub(in crate::lineage) fn is_waiting(&self) -> bool {
        self.cutting_bytes > 0 || !self.free.is_empty()
    }

    /// Bytes that may go.
    pub(in crate::lineage) fn waiting_bytes(&self) -> u64 {
        self.cutting_bytes + self.free_bytes
    }

    /// Bytes of all of them.
    pub(in crate::lineage) fn bytes(&self) -> u64 {
        self.waiting_bytes() + self.inputs.iter().map(|input| input.bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_free_only_when_its_last_reader_is_gone() {
        let (read, unread) = (Arc::new(()), Arc::new(()));
        let mut retained = Retained::default();
        let input = |table: &Arc<()>, id| {
            let table: Handle = Arc::<()>::clone(table);
            Input { table: Some(table), id: TableId(id), bytes: id }
        };
        retained.keep([input(&read, 3), input(&unread, 4)]);
        drop(unread);
        let look = |retained: &mut Retained| {
            let handles: Vec<_> = retained.inputs_mut().filter_map(Input::let_go).collect();
            (handles.len(), retained.free_unheld())
        };
        assert_eq!((look(&mut retained), look(&mut retained)), ((1, true), (0, false)));
        assert_eq!(retained.first_free(), Some(Free { id: TableId(4), bytes: 4 }));
        assert_eq!((retained.waiting_bytes(), retained.bytes(), retained.is_held()), (4, 7, true));
        drop(read);
        assert_eq!(look(&mut retained), (1, true));
        assert_eq!((retained.waiting_bytes(), retained.is_held()), (7, false));
    }

    #[test]
    fn bytes_count_until_they_are_gone_also_those_without_a_name() {
        let mut retained = Retained::default();
        retained.keep([5, 6].map(|id| Input { table: None, id: TableId(id), bytes: id }));
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
