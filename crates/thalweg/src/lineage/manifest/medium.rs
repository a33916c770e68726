//! [`Medium`]: reads files as the medium has them, and [`read_manifest`]: reads the manifest in force that way.
//!
//! A file is made durable first and then read past the page cache: bytes that only the cache holds prove nothing about
//! the medium.

use crate::error::{Error, Result};
use crate::format::Home;
use crate::lineage::files::{self, Homes, manifest_path};
use crate::lineage::manifest::current::{self, Current};
use crate::lineage::manifest::reader::Contents;
use crate::lineage::state::edit::Edit;
use crate::storage::{OpenMode, Storage};
use std::path::{Path, PathBuf};

/// Reads files after making them durable.
pub(in crate::lineage) struct Medium<'a> {
    pub(in crate::lineage) storage: &'a dyn Storage,
    /// Files are read as they are; nothing is synced or written.
    pub(in crate::lineage) read_only: bool,
}

impl Medium<'_> {
    fn sync_directory(&self, path: &Path) -> Result<()> {
        if self.read_only { Ok(()) } else { self.storage.sync_directory(path) }
    }

    /// Reads a whole file.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        if self.read_only {
            return Ok(files::read_whole(self.storage, path, false)?.0);
        }
        let file = files::open(self.storage, path, OpenMode::ReadWrite)?;
        file.sync()?;
        let (bytes, from_medium) = files::read_whole(self.storage, path, true)?;
        if !from_medium {
            // A failed sync may have lost bytes and left their pages clean. Writing them again makes a sync cover them.
            file.write_all_at(0, &bytes)?;
            file.sync()?;
        }
        Ok(bytes)
    }

    /// Makes the outputs of `edits` durable, as far as their files exist, and the names in the directories of tables.
    pub(in crate::lineage) fn sync_outputs<'e>(
        &self,
        homes: &Homes<'_>,
        edits: impl Iterator<Item = &'e Edit>,
    ) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        for output in edits.flat_map(Edit::output_files) {
            let path = homes.path(output)?;
            if self.storage.file_bytes(&path)?.is_some() {
                files::open(self.storage, &path, OpenMode::ReadWrite)?.sync()?;
            }
        }
        for directory in [Home::Disk, Home::Fast].into_iter().filter_map(|home| homes.directory(home)) {
            if self.storage.list(&directory)?.is_some() {
                self.storage.sync_directory(&directory)?;
            }
        }
        Ok(())
    }
}

/// Reads CURRENT and the manifest that it names. Returns `None` if there is no database in `root`.
pub(in crate::lineage) fn read_manifest(medium: &Medium<'_>, root: &Path) -> Result<Option<(PathBuf, Contents)>> {
    let Some(entries) = medium.storage.list(root)? else { return Ok(None) };
    let current_path = root.join(current::NAME);
    if !entries.iter().any(|entry| entry.name == current::NAME) {
        return match used(medium.storage, root)? {
            None => Ok(None),
            Some(found) => Err(Error::corruption(&current_path, 0, "a file that names the manifest", found)),
        };
    }
    medium.sync_directory(root)?;
    // The bytes of CURRENT were durable before they got this name; only the name may not have been.
    let (bytes, _) = files::read_whole(medium.storage, &current_path, !medium.read_only)?;
    let current = Current::decode(&current_path, &bytes)?;
    let path = manifest_path(root, current.number);
    if medium.storage.file_bytes(&path)?.is_none() {
        return Err(Error::corruption(&path, 0, "the manifest that CURRENT names", "no such file"));
    }
    let contents = Contents::read(&path, &medium.read(&path)?, current.bytes)?;
    let (number, generation) = (contents.header.number, contents.header.generation);
    if (number, generation) != (current.number, current.generation) {
        let expected = format!("manifest {}, generation {:#018x}", current.number, current.generation);
        return Err(Error::corruption(&path, 0, expected, format!("manifest {number}, generation {generation:#018x}")));
    }
    Ok(Some((path, contents)))
}

/// Looks for a file that proves that CURRENT once existed: CURRENT is durable before the first segment or table is
/// created. An interrupted creation leaves only manifests. Returns a description of the file that was found.
fn used(storage: &dyn Storage, root: &Path) -> Result<Option<String>> {
    for directory in ["log", "tables"] {
        let entries = storage.list(&root.join(directory))?.unwrap_or_default();
        if let Some(entry) = entries.iter().find(|entry| !entry.is_directory) {
            return Ok(Some(format!("none, though there is {directory}/{}", entry.name)));
        }
    }
    Ok(None)
}
