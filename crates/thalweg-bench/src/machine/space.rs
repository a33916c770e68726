//! The space that files take on disk.

use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes allocated for `directory` and everything below it, by kind of file. Preallocated space counts, holes do not,
/// and a file with many names counts once. Files may vanish meanwhile, because compactions remove them.
///
/// # Errors
/// The file system's errors, except that a file no longer exists.
pub fn allocated(directory: &Path) -> Result<BTreeMap<String, u64>> {
    let mut by_kind: BTreeMap<String, u64> = BTreeMap::new();
    let mut linked = BTreeSet::new();
    let mut waiting: Vec<PathBuf> = vec![directory.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let Some(metadata) = there(&path, fs::symlink_metadata(&path))? else { continue };
        if metadata.nlink() == 1 || metadata.is_dir() || linked.insert((metadata.dev(), metadata.ino())) {
            *by_kind.entry(kind(&path, &metadata)).or_default() += metadata.blocks() * 512;
        }
        if metadata.is_dir() {
            let Some(entries) = there(&path, fs::read_dir(&path))? else { continue };
            for entry in entries {
                waiting.extend(there(&path, entry)?.map(|entry| entry.path()));
            }
        }
    }
    Ok(by_kind)
}

/// The kind of a file: the extension of its name. A name without an extension counts up to its number: `manifest` of
/// `manifest-00000007`.
fn kind(path: &Path, metadata: &fs::Metadata) -> String {
    if metadata.is_dir() {
        return "directory".to_owned();
    }
    if let Some(end) = path.extension() {
        return end.to_string_lossy().into_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned()
}

/// The result at `path`, or `None` if the file has vanished.
fn there<T>(path: &Path, result: std::io::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("measure {}", path.display()), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_count_once_and_holes_do_not() {
        let root = std::env::temp_dir().join(format!("thalweg-bench-space-{}", std::process::id()));
        fs::create_dir_all(root.join("inner")).unwrap();
        let all = || allocated(&root).unwrap().values().sum::<u64>();
        let empty = all();
        fs::write(root.join("inner/file"), vec![7; 1 << 20]).unwrap();
        fs::File::open(root.join("inner/file")).unwrap().sync_all().unwrap();
        fs::hard_link(root.join("inner/file"), root.join("again")).unwrap();
        fs::File::create(root.join("hole")).unwrap().set_len(1 << 30).unwrap();
        fs::write(root.join("0000000042.table"), vec![7; 1 << 16]).unwrap();
        fs::write(root.join("manifest-00000007"), "m").unwrap();
        let by_kind = allocated(&root).unwrap();
        assert!(by_kind["table"] >= 1 << 16 && by_kind["manifest"] > 0, "{by_kind:?}");
        let full = all();
        fs::remove_dir_all(&root).unwrap();
        assert!(full >= empty + (1 << 20) && full < empty + (2 << 20), "{empty} {full}");
    }

    #[test]
    fn what_is_not_there_takes_nothing() {
        assert_eq!(allocated(Path::new("/proc/self/no such directory")).unwrap(), BTreeMap::new());
    }
}
