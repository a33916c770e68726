//! [`Keyspace`] and [`Kind`]: the interface of a kind of keyspace to the code that is common to all kinds.

use super::lifecycle::Lifecycle;
use crate::error::Result;
use crate::format::{EntryKind, KeyspaceId, KeyspaceKind, LogMark, PartitionId, SeqNo};
use crate::lineage::{Handle, KeyspaceState};
use crate::runtime::BackgroundError;
use crate::table::TableStore;
use std::any::Any;
use std::sync::Arc;

/// One generation of a named keyspace of some kind. A clear replaces it by the next generation.
///
/// A keyspace holds records in *buffers* until a flush has written them to tables. The methods about replayed entries
/// are for recovery. Other methods may be called at any time, from any thread, and neither wait nor do I/O, unless they
/// say when they are called.
pub(crate) trait Keyspace: Any + Send + Sync {
    /// Its id: the same for all generations.
    fn id(&self) -> KeyspaceId;

    /// Its name.
    fn name(&self) -> &str;

    /// Whether it was dropped or cleared.
    fn lifecycle(&self) -> &Lifecycle;

    /// Reads from its tables what it must know before its first use. Called once, before a flush.
    fn load(&self) -> Result<()>;

    /// Where the oldest record begins that is in no table yet; `None` if all records are in tables. Records that were
    /// published before the call are taken into account.
    fn oldest_mark(&self) -> Option<LogMark>;

    /// As [`Keyspace::oldest_mark`], but only of records that are in buffers: without those in a fast tier.
    fn oldest_buffer_mark(&self) -> Option<LogMark> {
        self.oldest_mark()
    }

    /// Whether a sealed buffer waits for its flush.
    fn has_pending_flush(&self) -> bool;

    /// Bytes that its flushes, and the compactions which follow them, are going to write.
    fn pending_bytes(&self) -> u64;

    /// The background work that fails at present, by partition.
    fn failures(&self) -> Vec<(PartitionId, BackgroundError)>;

    /// Whether no background job runs in it. A job that failed and waits for its next try does not run. No job begins
    /// once the keyspace was dropped.
    fn is_idle(&self) -> bool;

    /// All its tables that are in files, each once.
    fn tables(&self) -> Vec<Handle>;

    /// Notes that no flush will release the memory of its buffers: the keyspace was cleared, the manifest knows, and
    /// only snapshots read it.
    fn retire_buffers(&self);

    /// Releases everything that it holds. It was dropped or cleared, the manifest knows, and no snapshot reads it.
    fn empty(&self);

    /// Ends this generation, and returns the next one, which begins empty after the record `at` that clears it. Called
    /// where no log space can be reserved: a record goes to the next generation exactly when its number is above `at`.
    fn next_generation(self: Arc<Self>, at: SeqNo) -> Arc<dyn Keyspace>;

    /// Inserts an entry that was read from the log, unless it is in a table already. Returns whether its buffer is full
    /// now; `None`: it is in a table.
    fn replay(&self, entry: ReplayedEntry<'_>) -> Option<bool>;

    /// Seals the buffers that replayed entries have filled, at the last number replayed.
    fn seal_replayed(&self, last: SeqNo);

    /// Whether a record of this number may already have been in a table when the database was recovered.
    fn was_flushed_at(&self, seq: SeqNo) -> bool;
}

impl dyn Keyspace {
    /// The keyspace as one of kind `K`; `None`: it is of another kind.
    pub(crate) fn downcast<K: Keyspace>(self: Arc<Self>) -> Option<Arc<K>> {
        let any: Arc<dyn Any + Send + Sync> = self;
        any.downcast().ok()
    }

    /// As [`dyn Keyspace::downcast`](Self::downcast), for a reference.
    pub(crate) fn downcast_ref<K: Keyspace>(&self) -> Option<&K> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

/// An entry of a log record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayedEntry<'a> {
    /// Where the record begins.
    pub(crate) mark: LogMark,
    pub(crate) key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) value: &'a [u8],
}

/// The parameters of a new keyspace.
#[derive(Debug)]
pub(crate) struct NewKeyspace<'a> {
    pub(crate) id: KeyspaceId,
    pub(crate) name: &'a str,
    /// The keys at which its partitions begin, without the first partition; ascending.
    pub(crate) splits: Vec<Box<[u8]>>,
    pub(crate) kind: KeyspaceKind,
    /// The number of the record that creates it. All its records have numbers above.
    pub(crate) after: SeqNo,
}

/// Makes the keyspaces of one kind.
pub(crate) trait Kind {
    /// Makes a new keyspace.
    fn create(&self, new: NewKeyspace<'_>) -> Arc<dyn Keyspace>;

    /// Makes a keyspace as the manifest has it.
    fn recover(&self, id: KeyspaceId, state: &KeyspaceState, tables: &TableStore) -> Result<Arc<dyn Keyspace>>;
}
