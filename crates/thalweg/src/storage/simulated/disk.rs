//! [`SimulatedDisk`]: the disk, with its crashes and faults.

use super::crash::Strictness;
use super::fault::{FaultPlan, OperationKinds};
use super::image::Image;
use super::inode::PAGE_BYTES;
use super::random::Random;
use super::state::{DiskState, Properties};
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk in memory. Clones are the same disk; [`SimulatedDisk::snapshot`] gives another one.
#[derive(Clone)]
pub struct SimulatedDisk {
    disk: Arc<Mutex<DiskState>>,
}

impl SimulatedDisk {
    /// An empty disk, whose random choices all follow from `seed`.
    pub fn new(seed: u64) -> Self {
        SimulatedDisk::with(Image::default(), Random::new(seed), Properties::default())
    }

    fn with(image: Image, random: Random, properties: Properties) -> Self {
        SimulatedDisk { disk: Arc::new(Mutex::new(DiskState::new(image, random, properties))) }
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, DiskState> {
        self.disk.lock()
    }

    /// Runs one operation; its error names the operation and the path.
    pub(super) fn operate<T>(
        &self,
        kind: OperationKinds,
        operation: &'static str,
        path: &Path,
        effect: impl FnOnce(&mut DiskState) -> io::Result<T>,
    ) -> Result<T> {
        self.disk().operate(kind, effect).map_err(|error| Error::io(operation, path, error))
    }

    // Crashes.

    /// Ends this disk. Returns the disk that is found after the crash, without handles, locks, faults or counts.
    ///
    /// Every later call on this disk, its files and its clones fails with "simulated power cut" and changes nothing.
    /// `crash` works again on a dead disk, and gives other images of the same moment.
    #[must_use]
    pub fn crash(&self, strictness: Strictness) -> SimulatedDisk {
        let mut disk = self.disk();
        disk.dead = true;
        let mut random = Random::new(disk.random.next_u64());
        let image = match strictness {
            Strictness::ProcessDeath => disk.image_without_handles(),
            _ => disk.image.after_power_cut(strictness, disk.properties.memory_directory, &mut random),
        };
        SimulatedDisk::with(image, random, disk.properties)
    }

    /// Cuts the power at the operation with which [`SimulatedDisk::operations`] reaches `operation`, or at the next one
    /// if the count is already there. The seed decides whether that operation takes effect wholly, in part or not at
    /// all. It and all later ones fail.
    pub fn crash_at(&self, operation: u64) {
        self.disk().cut_at = Some(operation);
    }

    /// Whether the power was cut, or [`SimulatedDisk::crash`] was called.
    pub fn is_dead(&self) -> bool {
        self.disk().dead
    }

    /// Lets the kernel write back one dirty page (or some sectors of one), or commit its oldest changes of names and
    /// lengths. `false` when there is nothing left to write, or the disk is dead.
    pub fn background_writeback(&self) -> bool {
        let mut disk = self.disk();
        let disk = &mut *disk;
        if disk.dead {
            return false;
        }
        if disk.properties.shares_journal && disk.random.chance(60) {
            let has_changes = !disk.image.pending.is_empty();
            disk.image.commit_journal(&mut disk.random);
            return has_changes;
        }
        disk.image.write_back_some(&mut disk.random)
    }

    /// Another live disk with the same cached and durable contents, and without handles, locks or faults. It is cheap:
    /// pages are shared until written. The snapshot does not change what this disk does next.
    #[must_use]
    pub fn snapshot(&self) -> SimulatedDisk {
        let disk = self.disk();
        let random = Random::new(disk.random.clone().next_u64() ^ 0x5bf0_3635_d1c2_a94d);
        SimulatedDisk::with(disk.image_without_handles(), random, disk.properties)
    }

    // Faults.

    /// Sets which operations fail, counted from now; `None` for none.
    pub fn set_faults(&self, plan: Option<FaultPlan>) {
        self.disk().faults = plan;
    }

    /// The number of operations so far: every call of [`crate::storage::Storage`], [`crate::storage::File`] and
    /// [`crate::storage::Mapping`], except `path` and stores to a mapping; these cannot fail.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// The number of operations that this thread has made, on all simulated disks.
    #[cfg(feature = "simulation")]
    pub fn operations_of_this_thread() -> u64 {
        super::state::operations_of_this_thread()
    }

    /// Sets the space for the files' pages, in bytes, rounded down to whole pages; `None` for no limit. A write that
    /// needs more fails, perhaps after a part. On a full disk a new name and a longer file fail too.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().properties.capacity_pages = bytes.map(|bytes| bytes / PAGE_BYTES as u64);
    }

    /// Sets whether [`crate::storage::Storage::free_bytes`] gives `None`, so that a full disk comes without warning.
    #[cfg(feature = "simulation")]
    pub fn hide_free_bytes(&self, hides: bool) {
        self.disk().properties.hides_free_bytes = hides;
    }

    /// Sets what [`crate::storage::Storage::file_room_bytes`] gives.
    #[cfg(feature = "simulation")]
    pub fn set_file_room(&self, bytes: u64) {
        self.disk().properties.file_room_bytes = Some(bytes);
    }

    /// The space that files use, in bytes: whole pages, without holes.
    pub fn used_bytes(&self) -> u64 {
        self.disk().image.allocated_pages * PAGE_BYTES as u64
    }

    /// Makes `per_mille` of the reads come back short.
    pub fn set_short_reads(&self, per_mille: u32) {
        self.disk().properties.short_reads_per_mille = per_mille;
    }

    /// Sets whether [`crate::storage::OpenMode::ReadMedium`] is refused, as by a file system without direct I/O.
    pub fn refuse_medium_reads(&self, refuse: bool) {
        self.disk().properties.refuses_medium_reads = refuse;
    }

    /// Sets whether hard links are refused, as by a file system without them.
    pub fn refuse_hard_links(&self, refuse: bool) {
        self.disk().properties.refuses_hard_links = refuse;
    }

    /// Sets whether mappings are refused, as by a file system that does not overwrite in place.
    pub fn refuse_mappings(&self, refuse: bool) {
        self.disk().properties.refuses_mappings = refuse;
    }

    /// Puts the files of directories whose names begin with `directory` in persistent memory; `None` for none. Their
    /// file system writes there without a page cache (DAX). A power cut that tears anything keeps or loses each line of
    /// the processor's cache of a file that was not synced, and at times each eight bytes of the line.
    #[cfg(feature = "simulation")]
    pub fn put_in_persistent_memory(&self, directory: Option<&'static str>) {
        self.disk().properties.memory_directory = directory;
    }

    /// Puts directories with paths of at most `depth` names on a file system that has no sync of directories and loses
    /// no names, such as squashfs or autofs; 0 for none.
    pub fn mount_below(&self, depth: usize) {
        self.disk().properties.mount_depth = depth;
    }

    /// Sets what [`crate::storage::Storage::open_files_max`] gives; `None` for no bound.
    pub fn tell_open_files_max(&self, most: Option<u64>) {
        self.disk().properties.open_files_told = most;
    }

    /// Sets how many files and directories can be open; `None` for no bound. Opening one more is `EMFILE`.
    pub fn limit_open_files(&self, most: Option<usize>) {
        self.disk().open_files_max = most;
    }

    /// The number of open files and directories.
    pub fn open_files(&self) -> usize {
        self.disk().open_files()
    }

    /// Sets whether all files share one journal, as on ext4. The sync of a file that grew then commits every earlier
    /// change of names and lengths and flushes the device, and the kernel commits all pending changes at once.
    #[cfg(feature = "simulation")]
    pub fn share_journal(&self, share: bool) {
        self.disk().properties.shares_journal = share;
    }

    /// Fails a write-back of a file's dirty pages that the kernel began by itself. Some pages become phantoms. The next
    /// sync of each open handle reports it; if none is open, the next sync of the next handle does. `false` when there
    /// is no such file.
    pub fn fail_writeback(&self, path: &Path) -> bool {
        let mut disk = self.disk();
        let Ok(inode) = disk.image.find_file(path) else { return false };
        disk.fail_write_back(inode);
        true
    }

    /// Loses some dirty pages of a file that have no blocks yet, in a write-back that the kernel began by itself. They
    /// are gone from the cache, and no call reports it, as on ext4 with a damaged block map. `false` when there is no
    /// such file.
    #[cfg(feature = "simulation")]
    pub fn lose_writeback(&self, path: &Path) -> bool {
        let mut disk = self.disk();
        let Ok(inode) = disk.image.find_file(path) else { return false };
        disk.lose_write_back(inode, 0..u64::MAX, true);
        true
    }

    /// Flips the bits `mask` of the byte at `offset`, in the cache and on the medium. `false` when there is none.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> bool {
        let mut disk = self.disk();
        let Ok(inode) = disk.image.find_file(path) else { return false };
        disk.image.change_file(inode, |file| file.flip(offset, mask)).unwrap_or(false)
    }

    /// Cuts a file to `bytes`, or extends it with zeros, in the cache and on the medium. `false` when there is no
    /// such file.
    pub fn truncate(&self, path: &Path, bytes: u64) -> bool {
        let mut disk = self.disk();
        let Ok(inode) = disk.image.find_file(path) else { return false };
        disk.image.change_file(inode, |file| file.set_bytes_durably(bytes)).is_some()
    }

    // Inspection from outside. It is not counted and does not fail, also when the disk is dead.

    /// Whether a write-back of the file failed, so that clean pages of the cache may be missing on the medium.
    #[cfg(feature = "simulation")]
    pub fn has_phantoms(&self, path: &Path) -> bool {
        let disk = self.disk();
        let file = disk.image.find_file(path).ok().and_then(|inode| disk.image.files.get(&inode));
        file.is_some_and(|file| file.phantoms)
    }

    /// Every file's path and length in bytes, sorted.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let disk = self.disk();
        let describe = |(path, id)| (path, disk.image.files.get(&id).map_or(0, |file| file.live_bytes()));
        disk.image.walk().into_iter().map(describe).collect()
    }

    /// A file's bytes as the cache has them; `None` when there is no such file.
    pub fn read_file(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk();
        let file = disk.image.files.get(&disk.image.find_file(path).ok()?)?;
        let mut bytes = vec![0; usize::try_from(file.live_bytes()).ok()?];
        file.read(0, &mut bytes, false);
        Some(bytes)
    }

    /// Puts a file with these bytes, and the directories above it, on the medium. `false` when a part of the path is a
    /// file, or the path is a directory.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> bool {
        self.disk().image.put_durably(path, bytes).is_ok()
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disk = self.disk();
        let mut debug = f.debug_struct("SimulatedDisk");
        debug.field("files", &disk.image.files.len()).field("operations", &disk.operations);
        debug.field("unsynced_changes", &disk.image.pending.len()).field("dead", &disk.dead).finish()
    }
}
