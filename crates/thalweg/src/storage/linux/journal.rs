//! Whether a file system has one journal that commits all of its metadata together, and how often it has committed.
//!
//! On ext4 with a journal, a sync of a file whose length grew commits the running transaction, and with it every
//! earlier change of names, lengths and blocks in the file system. With barriers the device's cache is flushed before
//! the commit is written (`docs/durability.md` has the argument). The test is positive: a property that cannot be read
//! or is not known counts as `false`.
//!
//! Locks and state: none.

use rustix::fs::Dev;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether all `directories` lie on one file system that is ext4 with a journal and barriers.
pub(super) fn is_shared(directories: &[&Path]) -> bool {
    let mut devices = directories.iter().map(|path| fs::metadata(path).ok().map(|metadata| metadata.dev()));
    let Some(Some(device)) = devices.next() else { return false };
    if !devices.all(|other| other == Some(device)) {
        return false;
    }
    let Some(name) = device_name(device) else { return false };
    // The file lists one option a line, defaults included. It lists `data=` only with a journal.
    let options = fs::read_to_string(format!("/proc/fs/ext4/{name}/options"));
    // A journal on another device has that device's name. A commit then flushes the journal's device, and the file
    // system's device only for data that the commit wrote itself.
    options.is_ok_and(|options| commits_together(&options)) && commits_of(&name).is_some()
}

/// Whether an ext4 with these mount options is writable, and has a journal with barriers and synchronous commits.
fn commits_together(options: &str) -> bool {
    let has = |wanted: &str| options.lines().any(|option| option == wanted);
    let journals = ["data=ordered", "data=writeback"].into_iter().any(has);
    // With `journal_async_commit` a commit record may reach the medium without the blocks that it commits.
    journals && has("rw") && has("barrier") && !has("journal_async_commit")
}

/// The number of transactions that the journal of the file system at `path` has committed; `None` where that is not
/// known.
pub(super) fn commits(path: &Path) -> Option<u64> {
    commits_of(&device_name(fs::metadata(path).ok()?.dev())?)
}

/// As [`commits`], for the journal that lies on the device `name` itself.
fn commits_of(name: &str) -> Option<u64> {
    let journals = fs::read_dir("/proc/fs/jbd2").ok()?;
    // The name of an internal journal: the device's name and the number of the journal's inode.
    let of_device = |entry: &fs::DirEntry| {
        let found = entry.file_name();
        let rest = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix('-'));
        rest.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let journal = journals.flatten().find(of_device)?;
    let info = fs::read_to_string(journal.path().join("info")).ok()?;
    info.split_whitespace().next()?.parse().ok()
}

/// The kernel's name of a block device.
fn device_name(device: Dev) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let target = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::TestDirectory;

    const ORDERED: &str = "rw\nbsddf\ndioread_nolock\ndelalloc\nbarrier\ncommit=5\ndata=ordered\n";

    #[test]
    fn only_a_journal_with_barriers_that_waits_commits_together() {
        assert!(commits_together(ORDERED));
        assert!(commits_together(&ORDERED.replace("ordered", "writeback")));
        for (from, to) in
            [("data=ordered\n", ""), ("barrier", "nobarrier"), ("rw\n", "ro\n"), ("bsddf", "journal_async_commit")]
        {
            assert!(!commits_together(&ORDERED.replace(from, to)), "{to}");
        }
        assert!(!commits_together(""));
    }

    #[test]
    fn the_answer_for_a_directory_agrees_with_its_mount() {
        let directory = TestDirectory::new("journal");
        let is_shared = is_shared(&[&directory.0]);
        let counts = commits(&directory.0).is_some();
        // A file system without a journal has no commits to count.
        assert!(counts || !is_shared);
        assert!(!super::is_shared(&[&directory.0, Path::new("/proc")]), "two file systems");
        assert!(!super::is_shared(&[&directory.0, Path::new("/nowhere/at/all")]));
        assert!(!super::is_shared(&[]));
    }
}
