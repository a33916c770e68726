//! Checkpoints: an openable copy of a running database.
//!
//! First, a settle round makes the files durable that are linked later. Then unlinks are held and the log is pinned, so
//! that the files that the state names stay. Then the state is taken. At last the log is copied up to a point published
//! after the state, so that no table is ahead of the copied log.

use super::directory::{LOCK, lock_for_writing, sync_ancestors};
use super::engine::Engine;
use super::fast_home::{CHECKPOINT_DIRECTORY, FastHome};
use crate::error::{Error, ErrorKind, Result};
use crate::format::LogMark;
use crate::lineage::{self, State};
use crate::storage::OpenMode;
use std::path::Path;
use std::sync::Arc;

/// Bytes copied at once where a table cannot be linked.
const COPY_BYTES: usize = 1 << 20;

impl Engine {
    pub(super) fn checkpoint(&self, target: &Path) -> Result<()> {
        if target.as_os_str().is_empty() {
            return Err(Error::invalid_input("the path of a checkpoint is empty"));
        }
        let storage = &self.environment.storage;
        let root = self.writable()?.lineage.root();
        if storage.resolved(target)?.starts_with(storage.resolved(root)?) {
            return Err(Error::invalid_input(format!(
                "{} lies in the directory of the database itself, {}; a checkpoint needs a directory elsewhere",
                target.display(),
                root.display()
            )));
        }
        let is_in_use = |names: &[&str]| -> Result<bool> {
            let entries = storage.list(target)?.unwrap_or_default();
            Ok(entries.iter().any(|entry| !names.iter().any(|name| entry.name == *name)))
        };
        let in_use = || {
            let target = target.display();
            Error::already_exists(format!("{target} exists and is not empty; a checkpoint needs a new directory"))
        };
        // A lock file alone may be left over from a checkpoint that failed before it had the lock.
        if is_in_use(&[LOCK])? {
            return Err(in_use());
        }
        // Another checkpoint, or an open that creates a database, may have come as far. Only the holder of the lock
        // uses the directory, and it looks again. So none discards files that another has written.
        let _lock = lock_for_writing(&**storage, target, true).map_err(|error| match error.kind() {
            ErrorKind::Locked => in_use(),
            _ => error,
        })?;
        if is_in_use(&[LOCK])? {
            return Err(in_use());
        }
        self.write_checkpoint(target).inspect_err(|_| self.discard_checkpoint(target))
    }

    /// Removes the files of a failed checkpoint, so that they take no room and the checkpoint may be tried again.
    fn discard_checkpoint(&self, target: &Path) {
        let storage = &self.environment.storage;
        for directory in ["tables", "log", CHECKPOINT_DIRECTORY, ""].map(|name| target.join(name)) {
            for entry in storage.list(&directory).ok().flatten().unwrap_or_default() {
                // A file that cannot be removed stays. The caller gets the error of the checkpoint.
                let _ = storage.remove(&directory.join(entry.name));
            }
            let _ = storage.remove(&directory);
        }
    }

    fn write_checkpoint(&self, target: &Path) -> Result<()> {
        let writable = self.writable()?;
        writable.health.check()?;
        let storage = &self.environment.storage;
        // Without the eviction the log of the tier's entries is copied. That is sound too, so its error does not
        // matter.
        let _ = writable.evict();
        writable.lineage.settle()?;
        let _hold = writable.lineage.hold_unlinks();
        let _pin = writable.log.pin(LogMark::default());
        let mut state = writable.lineage.durable_state();
        let end = writable.log.published();
        // A segment before `end` may have begun after the state was taken, and may name a later edit as settled. The
        // manifest must reach that edit.
        state.edit = writable.lineage.last_edit();
        writable.log.sync(end.position)?;

        let (tables, log) = (target.join("tables"), target.join("log"));
        storage.create_directory(&tables)?;
        storage.create_directory(&log)?;
        for meta in state.distinct_tables() {
            let from = writable.tables.path(meta.id);
            let name = from.file_name().map(Path::new).ok_or_else(|| Error::internal("a table without a name"))?;
            let to = tables.join(name);
            if !storage.hard_link(&from, &to)? {
                self.copy_file(&from, &to)?;
            }
        }
        storage.sync_directory(&tables)?;
        self.copy_fast_tables(&state, target)?;
        writable.log.copy_to(state.log_start, end, &log)?;
        // If the database is not closed yet, its lock was held and nothing was recycled or unlinked all the time.
        self.writable()?;
        // Every name above the manifest is durable before the manifest makes it a database.
        storage.sync_directory(target)?;
        lineage::write_checkpoint_manifest(&self.environment, target, &state)?;
        sync_ancestors(&**storage, target)
    }

    /// Gives a checkpoint a fast tier of its own, if a fast table is in a file.
    fn copy_fast_tables(&self, state: &State, target: &Path) -> Result<()> {
        let fast = self.writable()?.kind.options.tier.as_ref().and_then(|tier| tier.files());
        let mut tables = state.distinct_fast_tables().peekable();
        let Some(files) = fast.filter(|_| tables.peek().is_some()) else { return Ok(()) };
        let storage = &self.environment.storage;
        let directory = target.join(CHECKPOINT_DIRECTORY);
        storage.create_directory(&directory)?;
        for meta in tables {
            let from = files.path(meta.id);
            let name = from.file_name().map(Path::new).ok_or_else(|| Error::internal("a table without a name"))?;
            self.copy_file(&from, &directory.join(name))?;
        }
        storage.sync_directory(&directory)?;
        FastHome::write_checkpoint(&self.environment, target)
    }

    fn copy_file(&self, from: &Path, to: &Path) -> Result<()> {
        let storage = &self.environment.storage;
        let missing = || Error::NoDatabase { path: Arc::from(from) };
        let source = storage.open(from, OpenMode::Read)?.ok_or_else(missing)?;
        let copy = storage.create(to)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut offset = 0;
        loop {
            let count = source.read_at(offset, &mut buffer)?;
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
                return copy.sync();
            };
            copy.write_all_at(offset, bytes)?;
            offset += count as u64;
        }
    }
}
