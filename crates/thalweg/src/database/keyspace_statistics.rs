//! [`KeyspaceStatistics`]: the tables of a keyspace, by level and in the fast tier, and its index of directories.

#[cfg(feature = "experiments")]
use crate::directory::FHashStatistics;
use crate::ordered::OrderedKeyspace;
use crate::table::{Table, TableMeta};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The statistics of one keyspace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KeyspaceStatistics {
    /// The name of the keyspace.
    pub name: String,
    /// The number of its partitions.
    pub partitions: u64,
    /// The keyspace's tables in the fast tier, all partitions together.
    pub fast: LevelStatistics,
    /// Its levels, all partitions together; the index is the level.
    pub levels: Vec<LevelStatistics>,
    /// The index of directories, if it is a directory keyspace.
    pub directories: Option<DirectoryStatistics>,
}

/// The index of a directory keyspace. It lacks the entries that no flush has written yet, and those of damaged packs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DirectoryStatistics {
    /// Directories that have entries.
    pub directories: u64,
    /// Places where entries of a directory lie together: one for each directory once all packs are merged.
    pub spans: u64,
    /// Bytes of memory that the index takes. The filters of its packs do not count.
    pub index_bytes: u64,
    /// The damage that the open found in a pack, in words: all reads of the keyspace fail with it. `None`: every pack
    /// is in the index.
    pub damage: Option<String>,
    /// The paper's structures, if the keyspace has them.
    #[cfg(feature = "experiments")]
    pub f_hashes: Option<FHashStatistics>,
}

/// One level of a keyspace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LevelStatistics {
    /// Tables.
    pub tables: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
}

pub(super) fn keyspace_statistics(keyspace: &OrderedKeyspace) -> KeyspaceStatistics {
    let (mut fast, mut levels) = (LevelStatistics::default(), Vec::<LevelStatistics>::new());
    let (layout, mut shared) = (keyspace.layout(), BTreeSet::new());
    for partition in layout.partitions() {
        let super_version = partition.super_version();
        for table in super_version.fast.iter().flat_map(|fast| fast.metas()) {
            if shared.insert(table.id) {
                fast.add(table);
            }
        }
        for (index, tables) in super_version.levels.iter().enumerate() {
            if levels.len() <= index {
                levels.resize_with(index + 1, LevelStatistics::default);
            }
            let level = &mut levels[index];
            // A table that partitions share counts once, where it is found first.
            let is_first =
                |table: &&Arc<Table>| !super_version.sticks_out(table.meta()) || shared.insert(table.meta().id);
            tables.iter().filter(is_first).for_each(|table| level.add(table.meta()));
        }
    }
    let directories = keyspace.directories().map(|index| {
        let (directories, spans, bytes) = index.size();
        DirectoryStatistics {
            directories: directories as u64,
            spans,
            index_bytes: bytes as u64,
            damage: index.damage().map(|damage| damage.to_string()),
            #[cfg(feature = "experiments")]
            f_hashes: index.f_hash_statistics(),
        }
    });
    let (name, partitions) = (keyspace.name.clone(), layout.partitions().len() as u64);
    KeyspaceStatistics { name, partitions, fast, levels, directories }
}

impl LevelStatistics {
    fn add(&mut self, table: &TableMeta) {
        self.tables += 1;
        self.bytes += table.bytes;
        self.entries += table.entries;
        self.tombstones += table.tombstones;
    }
}
