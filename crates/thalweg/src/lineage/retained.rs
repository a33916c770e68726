//! [`Retained`]: settled inputs that a reader may still hold, until nobody does (NOB-A4).
//!
//! A settled input goes only when the list holds the last handle: no version, snapshot, cursor or checkpoint names it.
//! Nobody can get a new handle then, because handles are only cloned from handles. Pure; kept under lineage's lock.

use crate::format::TableId;
use crate::table::Table;
use std::any::Any;
use std::sync::Arc;

/// A table that is only kept.
pub(super) struct Input {
    /// The handle. Only counted.
    pub(super) table: Arc<dyn Any + Send + Sync>,
    pub(super) id: TableId,
    pub(super) bytes: u64,
}

/// Inputs of settled edits, kept for their readers.
#[derive(Default)]
pub(super) struct Retained {
    inputs: Vec<Input>,
}

impl From<Arc<Table>> for Input {
    fn from(table: Arc<Table>) -> Self {
        let (id, bytes) = (table.meta().id, table.meta().bytes);
        Input { table, id, bytes }
    }
}

impl Retained {
    pub(super) fn keep(&mut self, inputs: impl IntoIterator<Item = Input>) {
        self.inputs.extend(inputs);
    }

    /// Takes out what nobody else holds, in the order it was settled: those files may be unlinked now.
    pub(super) fn take_free(&mut self) -> Vec<TableId> {
        let mut free = Vec::new();
        self.inputs.retain(|input| {
            let held = Arc::strong_count(&input.table) > 1;
            if !held {
                free.push(input.id);
            }
            held
        });
        free
    }

    pub(super) fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_free_only_when_its_last_reader_is_gone() {
        let (read, unread) = (Arc::new(()), Arc::new(()));
        let mut retained = Retained::default();
        let input = |table: &Arc<()>, id| Input { table: Arc::<()>::clone(table), id: TableId(id), bytes: id };
        retained.keep([input(&read, 3), input(&unread, 4)]);
        drop(unread);
        assert_eq!(retained.take_free(), [TableId(4)]);
        assert_eq!((retained.take_free(), retained.bytes()), (vec![], 3));
        drop(read);
        assert_eq!((retained.take_free(), retained.bytes()), (vec![TableId(3)], 0));
    }
}
