//! [`OpenedTier`]: the fast tier of a database that is opened.

use super::fast_home::{self, FastDecision, FastHome};
use super::options::Options;
use crate::compaction::{FastMedium, FastTableMaker};
use crate::error::{ErrorKind, Result};
use crate::fast_table::{FastTableFiles, FastTableOptions};
use crate::keyspaces::TierRoom;
use crate::lineage::State;
use crate::metrics::Metrics;
use crate::ordered::Tier;
use crate::runtime::{Environment, Space};
use crate::storage::{Storage, StorageLock};
use crate::table::TableStore;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A merge in the tier makes tables of at least this size, or of 1/64 of the tier if that is less.
const FAST_TABLE_BYTES_MIN: u64 = 256 << 10;
const FAST_TABLES_MIN: u64 = 64;

/// The directory of the fast tier, before it is known whether the database has anything there.
pub(super) struct FoundTier {
    pub(super) home: Option<FastHome>,
    /// The directory that the caller asks for, absolute, and the bytes that it is to hold.
    wanted: Option<(PathBuf, u64)>,
    lock: Option<Box<dyn StorageLock>>,
}

/// A settle round begins when replaced tables in files have one of this many parts of the tier, but at least the bytes
/// of [`RETAINED_MEMTABLES`].
const RETAINED_PART: u64 = 8;

/// The least bytes of replaced tables in files at which a settle round begins, in memtables: so a small tier does not
/// settle all the time.
const RETAINED_MEMTABLES: u64 = 8;

/// The fast tier of a database that is opened.
pub(super) struct OpenedTier {
    pub(super) tier: Option<Arc<Tier>>,
    /// Its files, if it is in a directory.
    pub(super) files: Option<Arc<FastTableFiles>>,
    /// The directory of a tier in which the database has nothing and that the caller does not ask for.
    pub(super) unused: Option<FastHome>,
    pub(super) lock: Option<Box<dyn StorageLock>>,
}

impl FoundTier {
    /// Finds and locks the directory.
    pub(super) fn find(storage: &dyn Storage, root: &Path, options: &Options) -> Result<Self> {
        let wanted = options.fast_tier().and_then(|tier| tier.directory());
        let resolved = |(path, bytes)| -> Result<(PathBuf, u64)> { Ok((storage.resolved(path)?, bytes)) };
        let wanted = wanted.map(resolved).transpose()?;
        if let Some((directory, _)) = &wanted {
            fast_home::check_place(directory, &storage.resolved(root)?)?;
        }
        let home = FastHome::find(storage, root, wanted.as_ref().map(|(path, _)| &**path))?;
        let lock = home.as_ref().map(|home| home.lock(storage)).transpose()?.flatten();
        Ok(FoundTier { home, wanted, lock })
    }

    /// Decides about the directory, given the tables of the database.
    pub(super) fn open(
        self,
        environment: &Environment,
        space: &Space,
        options: &Options,
        state: &State,
        (tables, metrics): (&Arc<TableStore>, &Arc<Metrics>),
    ) -> Result<OpenedTier> {
        let wanted = self.wanted.as_ref().map(|(path, bytes)| (&**path, *bytes));
        let decide = || fast_home::decide(environment, space.root(), self.home.clone(), wanted, state);
        let FastDecision { home, unused } = match decide() {
            // The work that frees space starts after the open, so the open must not fail for want of space.
            Err(error) if error.kind() == ErrorKind::NoSpace && space.give_up_reserve() => decide()?,
            decided => decided?,
        };
        let lock = match (&home, self.lock) {
            (Some(home), None) => home.lock(&*environment.storage)?,
            (_, held) => held,
        };
        let files = home.as_ref().map(|home| fast_tables(environment, home, metrics)).transpose()?;
        let tier = options.tier(environment, files.as_ref(), tables, state);
        Ok(OpenedTier { tier, files, unused, lock })
    }
}

/// The tables of a fast tier in a directory.
pub(super) fn fast_tables(
    environment: &Environment,
    home: &FastHome,
    metrics: &Arc<Metrics>,
) -> Result<Arc<FastTableFiles>> {
    Ok(FastTableFiles::new(environment.clone(), home.usable()?.to_path_buf(), Arc::clone(metrics)))
}

impl Options {
    /// Bytes of replaced tables in files at which a settle round frees them.
    pub(super) fn fast_retained_bytes_max(&self) -> Option<u64> {
        let capacity_bytes = self.fast_tier()?.directory()?.1;
        Some((capacity_bytes / RETAINED_PART).max(RETAINED_MEMTABLES * self.memtable_bytes() as u64))
    }

    /// The fast tier that the caller asks for, or that the database has in a directory.
    pub(super) fn tier(
        &self,
        environment: &Environment,
        files: Option<&Arc<FastTableFiles>>,
        tables: &Arc<TableStore>,
        state: &State,
    ) -> Option<Arc<Tier>> {
        let wanted = self.fast_tier().filter(|tier| files.is_some() == tier.directory().is_some());
        let capacity_bytes = wanted.map(|tier| tier.capacity_bytes);
        let (room, medium) = match files {
            Some(files) => {
                let held: u64 = state.distinct_fast_tables().map(|meta| meta.bytes).sum();
                // If the caller does not ask for the tier, its room must not stop writers before it is empty.
                let drained_bytes = || held.saturating_add(4 * self.memtable_bytes() as u64).saturating_mul(2);
                let room = TierRoom::new(capacity_bytes.unwrap_or_else(drained_bytes), u64::MAX);
                (room, FastMedium::Files { files: Arc::clone(files), tables: Arc::clone(tables) })
            }
            None => {
                let bytes = capacity_bytes?;
                (TierRoom::new(bytes, self.fast_tier_log_bytes_max()?), FastMedium::memory(bytes, tables.cache()))
            }
        };
        // Each table has a few KiB besides its entries.
        let table_bytes = FAST_TABLE_BYTES_MIN.min(room.capacity_bytes() / FAST_TABLES_MIN);
        let table_bytes = table_bytes.max(self.memtable_bytes() as u64);
        let fast_tables = FastTableOptions {
            layout: self.mode().layout(),
            filter_bits_per_key: self.filter_bits_per_key,
            ..FastTableOptions::default()
        };
        let maker = FastTableMaker::new(Arc::clone(&environment.entropy), fast_tables, medium, tables.buffers());
        // A tier that the caller does not ask for is emptied.
        let drain = wanted.is_none().then(|| room.drain());
        let model = (self.mode(), self.fast_tier_forms);
        Some(Tier::new(room, maker, table_bytes, model, Arc::clone(&environment.clock), drain))
    }
}
