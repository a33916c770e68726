//! Lineage: the set of live files, its edits, the manifest, and recovery (DESIGN 6, `docs/format/manifest.md`).

use crate::error::Result;
use crate::format::{EditId, KeyspaceId, LogMark, PartitionId, SeqNo, TableId};
use crate::log::{DamagePolicy, Log, Scan};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health};
use crate::table::{Table, TableMeta, TableStore};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One change of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    CreateKeyspace {
        keyspace: KeyspaceId,
        name: String,
        splits: Vec<Box<[u8]>>,
    },
    DropKeyspace {
        keyspace: KeyspaceId,
    },
    /// An output (a successor).
    Add {
        keyspace: KeyspaceId,
        partition: PartitionId,
        level: u8,
        meta: TableMeta,
    },
    /// An input (a predecessor): out of sight, but on disk until the edit is settled.
    Remove {
        keyspace: KeyspaceId,
        partition: PartitionId,
        level: u8,
        table: TableId,
    },
    /// A table that goes to another level as it is.
    Move {
        keyspace: KeyspaceId,
        partition: PartitionId,
        from: u8,
        to: u8,
        table: TableId,
    },
    /// Every record of the partition at or below `seq` is in its tables: replay skips them.
    Flushed {
        keyspace: KeyspaceId,
        partition: PartitionId,
        seq: SeqNo,
    },
}

/// One atomic change of the set of live files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) changes: Vec<Change>,
    /// The highest sequence number in what the edit adds from memtables: the log must be durable to it (0: none).
    pub(crate) seq: SeqNo,
    /// The log is needed only from here once the edit is settled.
    pub(crate) log_start: Option<LogMark>,
}

/// A partition in the set of live files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    pub(crate) flushed: SeqNo,
    /// Level 0 in flush order (oldest first), the others in key order.
    pub(crate) levels: Vec<Vec<TableMeta>>,
}

/// A keyspace in the set of live files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyspaceState {
    pub(crate) name: String,
    /// Partition i + 1 begins at `splits[i]`.
    pub(crate) splits: Vec<Box<[u8]>>,
    pub(crate) partitions: Vec<PartitionState>,
}

/// The set of live files after some edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspaceState>,
    /// First ids never used.
    pub(crate) next_keyspace: KeyspaceId,
    pub(crate) next_table: TableId,
    pub(crate) log_start: LogMark,
    /// The last edit in this state.
    pub(crate) edit: EditId,
}

/// What recovery found.
pub(crate) struct Recovered {
    /// After the longest valid prefix of edits.
    pub(crate) state: State,
    pub(crate) log: Scan,
    /// What `PointInTime` dropped, in words.
    pub(crate) dropped: Vec<String>,
    // private: settled state, unsettled edits, manifest number, orphans.
}

#[allow(unused_variables, clippy::unimplemented)]
impl Recovered {
    /// Steps 1 and 2 of DESIGN 6, Recovery. `None` when there is no database in `root`. Changes nothing on disk
    /// but durability (and with `read_only` not that).
    pub(crate) fn run(
        environment: &Environment,
        root: &Path,
        policy: DamagePolicy,
        read_only: bool,
    ) -> Result<Option<Recovered>> {
        unimplemented!()
    }
}

/// How edits become durable (DESIGN 6: the back-end trait). Settle rounds come later; now: a sync a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurabilityBackend {
    /// What LevelDB does: every output, its directory and the manifest are synced for each edit.
    #[default]
    SyncEachFile,
}

/// The lineage of an open database.
pub(crate) struct Lineage;

#[allow(unused_variables, clippy::unimplemented)]
impl Lineage {
    /// Begins a new manifest, with the recovered state (or an empty one), and makes it the current one, durably.
    /// After this the old manifest and orphans may go ([`Lineage::attach`] does that, once the log has begun too).
    pub(crate) fn begin(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        root: PathBuf,
        backend: DurabilityBackend,
        recovered: Option<&Recovered>,
    ) -> Result<Arc<Self>> {
        unimplemented!()
    }
    /// Gives lineage the log and the tables, which begin after it; removes the old manifest, orphans and the tables
    /// that only edits before the recovered state named.
    pub(crate) fn attach(&self, log: Arc<Log>, tables: Arc<TableStore>) -> Result<()> {
        unimplemented!()
    }
    /// Background coroutines (settling what is left unsettled, unlinking settled inputs), for `Lane::Compaction`.
    pub(crate) fn tasks(self: &Arc<Self>) -> Vec<crate::runtime::Task> {
        unimplemented!()
    }
    /// Installs an edit: makes the log durable to `edit.seq` and the outputs durable (as the back-end has it), takes
    /// the manifest's turn, asks `log_start` from where the log is needed once this edit is in force, appends the edit,
    /// runs `apply` (which makes readers use the new files), makes the edit durable and settles it. `inputs` are kept
    /// until then, and until nobody else holds them.
    /// On `NoSpace` nothing was changed and the edit may be tried again; other errors poison.
    pub(crate) async fn install(
        &self,
        edit: Edit,
        inputs: Vec<Arc<Table>>,
        log_start: impl FnOnce() -> Option<LogMark> + Send,
        apply: impl FnOnce() + Send,
    ) -> Result<EditId> {
        unimplemented!()
    }
    /// Tables may have been let go by their last reader: look again.
    pub(crate) fn wake_cleanup(&self) {
        unimplemented!()
    }
    /// Bytes of inputs kept until their edit is settled or their readers are gone.
    pub(crate) fn retained_bytes(&self) -> u64 {
        unimplemented!()
    }
    /// Ends once every edit is settled, durably.
    pub(crate) fn settle(&self) -> Result<()> {
        unimplemented!()
    }
    /// The state now, all edits included, settled or not.
    pub(crate) fn state(&self) -> State {
        unimplemented!()
    }
    /// Clean close: settles, writes the `closed` record naming the log's end, syncs. Gives the manifest's number and
    /// length for the log's own seal.
    pub(crate) fn close(&self, log_end: LogMark) -> Result<(u64, u64)> {
        unimplemented!()
    }
    /// Ends the background coroutines.
    pub(crate) fn stop(&self) {
        unimplemented!()
    }
}

/// Writes a manifest for `state` in `root` (a checkpoint), durable, and makes it current.
#[allow(unused_variables, clippy::unimplemented)]
pub(crate) fn write_checkpoint_manifest(environment: &Environment, root: &Path, state: &State) -> Result<()> {
    unimplemented!()
}
