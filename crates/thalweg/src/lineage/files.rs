//! The names of manifests and tables, and reading small files whole.

use crate::error::{Error, Result};
use crate::fast_table::{fast_table_id, fast_table_name};
use crate::format::{Home, TableFile, TableId};
use crate::storage::{File, OpenMode, Storage};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the path of manifest `number` in `root`: `manifest-{number:08}`.
pub(super) fn manifest_path(root: &Path, number: u64) -> PathBuf {
    root.join(format!("manifest-{number:08}"))
}

/// Returns the number in the name of a manifest, or `None` for another name.
pub(super) fn manifest_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("manifest-")?;
    let number: u64 = digits.parse().ok()?;
    (format!("{number:08}") == digits).then_some(number)
}

/// Returns the number for a new manifest in `root`, above `last` and every manifest there.
pub(super) fn next_manifest_number(storage: &dyn Storage, root: &Path, last: u64) -> Result<u64> {
    let entries = storage.list(root)?.unwrap_or_default();
    let found = entries.iter().filter_map(|entry| manifest_number(&entry.name)).max().unwrap_or(0);
    last.max(found).checked_add(1).ok_or_else(|| Error::invalid_input("the numbers of manifests are used up"))
}

/// Returns the id in the name of a table file, or `None` for another name.
pub(super) fn table_id(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".table")?;
    let id: u64 = digits.parse().ok()?;
    (format!("{id:010}") == digits).then_some(id)
}

/// Returns the name of a table file, the last part of [`crate::table::TableStore::path`].
pub(super) fn table_name(id: TableId) -> String {
    format!("{:010}.table", id.0)
}

/// The directories in which a database has the files of its tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homes<'a> {
    pub(crate) root: &'a Path,
    /// The directory of the fast tier; `None` if the database has no fast tier.
    pub(crate) fast: Option<&'a Path>,
}

/// The file in the root that names the directory of the fast tier.
pub(crate) const FAST: &str = "FAST";

impl<'a> Homes<'a> {
    /// Returns the directories of a database without a fast tier.
    #[cfg(test)]
    pub(crate) fn of(root: &'a Path) -> Self {
        Homes { root, fast: None }
    }

    /// Returns the directory of the files of a home; `None` if there is none.
    pub(super) fn directory(&self, home: Home) -> Option<PathBuf> {
        match home {
            Home::Disk => Some(self.root.join("tables")),
            Home::Fast => self.fast.map(Path::to_path_buf),
        }
    }

    /// Returns the path of a table. A fast table of a database without a fast tier is corruption.
    pub(crate) fn path(&self, file: TableFile) -> Result<PathBuf> {
        let Some(directory) = self.directory(file.home) else {
            let expected = format!("the name of the directory of {file}");
            return Err(Error::corruption(&self.root.join(FAST), 0, expected, "no such file"));
        };
        Ok(directory.join(file_name(file)))
    }
}

/// Returns the name of a table's file.
pub(super) fn file_name(file: TableFile) -> String {
    match file.home {
        Home::Disk => table_name(file.id),
        Home::Fast => fast_table_name(file.id),
    }
}

/// Returns the table of the file `name` in the directory of `home`, or `None` if that file is no table.
pub(super) fn table_file(home: Home, name: &str) -> Option<TableFile> {
    let id = match home {
        Home::Disk => table_id(name),
        Home::Fast => fast_table_id(name),
    };
    id.map(|id| TableFile { home, id: TableId(id) })
}

/// Reads all bytes of a file: from the medium where `past_cache` is set and the file system allows it, else through the
/// page cache. The flag in the result is `true` if they came from the medium.
pub(super) fn read_whole(storage: &dyn Storage, path: &Path, past_cache: bool) -> Result<(Vec<u8>, bool)> {
    let medium = if past_cache { storage.open(path, OpenMode::ReadMedium)? } else { None };
    let from_medium = medium.is_some();
    let file = match medium {
        Some(file) => file,
        None => open(storage, path, OpenMode::Read)?,
    };
    let len = usize::try_from(file.bytes()?)
        .map_err(|_| Error::corruption(path, 0, "a file that fits into memory", "a larger one"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(0, &mut bytes)?;
    Ok((bytes, from_medium))
}

/// Opens a file in a mode that no file system refuses.
pub(super) fn open(storage: &dyn Storage, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
    let file = storage.open(path, mode)?;
    file.ok_or_else(|| Error::io("open", path, io::ErrorKind::Unsupported.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_we_give_are_ours() {
        assert_eq!(manifest_number("manifest-00000012"), Some(12));
        assert_eq!(manifest_number("manifest-123456789"), Some(123_456_789));
        for name in ["manifest-12", "manifest-000000012", "manifest-+0000012", "manifest-00000012~", "manifests"] {
            assert_eq!(manifest_number(name), None, "{name}");
        }
        assert_eq!(table_id("0000000012.table"), Some(12));
        for name in ["12.table", "0000000012.table.bak", "x.table"] {
            assert_eq!(table_id(name), None, "{name}");
        }
    }
}
