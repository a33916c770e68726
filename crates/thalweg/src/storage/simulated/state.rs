//! [`DiskState`]: the state of a simulated disk: its file system, the handles and locks on it, and the faults to come.
//!
//! Every operation first passes [`DiskState::begin`], which counts it and decides how it ends. A dead disk changes
//! nothing, and its file system stays as the power cut found it.

use super::fault::{FaultPlan, OperationKinds};
use super::image::{Image, InodeId};
use super::inode::{Inode, PAGE_BYTES};
use super::random::Random;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

thread_local! {
    static OF_THIS_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The number of operations of this thread, on all simulated disks.
#[cfg(feature = "simulation")]
pub(super) fn operations_of_this_thread() -> u64 {
    OF_THIS_THREAD.get()
}

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// With success.
    Success,
    /// With an input/output error.
    Failure,
    /// With the power cut: it may have its effect, or a part of it.
    PowerCut,
}

/// The state of a handle from one `open` or `create`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub(super) inode: InodeId,
    /// Whether a write-back failed since its last sync, and the handle has not reported it.
    pub(super) owes_error: bool,
}

/// The locks on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    Shared(u32),
    Exclusive,
}

/// The properties of the device, which outlive a crash.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Properties {
    pub(super) capacity_pages: Option<u64>,
    pub(super) refuses_medium_reads: bool,
    pub(super) refuses_hard_links: bool,
    pub(super) refuses_mappings: bool,
    pub(super) shares_journal: bool,
    /// The beginning of the names of directories whose files are in persistent memory.
    pub(super) memory_directory: Option<&'static str>,
    /// Whether `free_bytes` gives `None`.
    pub(super) hides_free_bytes: bool,
    /// The answer of `file_room_bytes`, if it was set.
    pub(super) file_room_bytes: Option<u64>,
    /// Directories with paths of at most this many names cannot be synced, and lose no names.
    pub(super) mount_depth: usize,
    /// The answer of `open_files_max`.
    pub(super) open_files_told: Option<u64>,
    pub(super) short_reads_per_mille: u32,
}

/// A disk at work.
#[derive(Debug)]
pub(super) struct DiskState {
    pub(super) image: Image,
    pub(super) random: Random,
    pub(super) properties: Properties,
    pub(super) handles: BTreeMap<u64, Handle>,
    /// The number of open directories.
    pub(super) directories_open: usize,
    /// How many handles and directories may be open.
    pub(super) open_files_max: Option<usize>,
    next_handle: u64,
    locks: BTreeMap<InodeId, Locked>,
    pub(super) faults: Option<FaultPlan>,
    pub(super) operations: u64,
    pub(super) cut_at: Option<u64>,
    pub(super) dead: bool,
}

impl DiskState {
    pub(super) fn new(image: Image, random: Random, properties: Properties) -> Self {
        DiskState {
            image,
            random,
            properties,
            handles: BTreeMap::new(),
            directories_open: 0,
            open_files_max: None,
            next_handle: 0,
            locks: BTreeMap::new(),
            faults: None,
            operations: 0,
            cut_at: None,
            dead: false,
        }
    }

    /// Counts an operation and decides how it ends. An error when the disk is dead.
    pub(super) fn begin(&mut self, kind: OperationKinds) -> io::Result<Fate> {
        if self.dead {
            return Err(power_cut());
        }
        self.operations += 1;
        OF_THIS_THREAD.with(|operations| operations.set(operations.get() + 1));
        if self.cut_at.is_some_and(|at| self.operations >= at) {
            self.dead = true;
            return Ok(Fate::PowerCut);
        }
        let strikes = self.faults.as_mut().is_some_and(|plan| plan.strikes(kind));
        Ok(if strikes { Fate::Failure } else { Fate::Success })
    }

    /// Runs an operation that happens whole or not at all.
    pub(super) fn operate<T>(
        &mut self,
        kind: OperationKinds,
        effect: impl FnOnce(&mut DiskState) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.begin(kind)? {
            Fate::Success => effect(self),
            Fate::Failure => Err(input_output_error()),
            Fate::PowerCut => {
                if self.random.coin() {
                    // The power cut loses the result.
                    let _ = effect(self);
                }
                Err(power_cut())
            }
        }
    }

    // Handles.

    pub(super) fn open_handle(&mut self, inode: InodeId) -> u64 {
        // As Linux: an error that no handle has reported is reported by the next handle.
        let owes_error = self.image.files.get(&inode).is_some_and(|file| file.unseen_error);
        self.image.count_handle(inode, true);
        let number = self.next_handle;
        self.next_handle += 1;
        self.handles.insert(number, Handle { inode, owes_error });
        number
    }

    /// An error when no descriptor is left.
    pub(super) fn need_descriptor(&self) -> io::Result<()> {
        let is_short = self.open_files_max.is_some_and(|most| self.open_files() >= most);
        if is_short { Err(io::Error::from_raw_os_error(24)) } else { Ok(()) }
    }

    pub(super) fn open_files(&self) -> usize {
        self.handles.len() + self.directories_open
    }

    pub(super) fn close_handle(&mut self, number: u64) {
        // A dead disk keeps its handles for the images of the crash.
        if !self.dead
            && let Some(handle) = self.handles.remove(&number)
        {
            self.image.count_handle(handle.inode, false);
        }
    }

    /// The number of live names of a file.
    pub(super) fn names_of(&self, inode: InodeId) -> u64 {
        let handles = self.handles.values().filter(|handle| handle.inode == inode).count() as u64;
        self.image.live_links(inode).saturating_sub(handles)
    }

    /// Whether a handle has to report a failed write-back; `true` once for each failure.
    pub(super) fn report_error(&mut self, number: u64) -> bool {
        let Some(handle) = self.handles.get_mut(&number) else { return false };
        let owed = std::mem::take(&mut handle.owes_error);
        let inode = handle.inode;
        if owed {
            self.image.change_file(inode, |file| file.unseen_error = false);
        }
        owed
    }

    /// Fails a write-back of the dirty pages of a file: they become clean, and every handle has to report the error.
    pub(super) fn fail_write_back(&mut self, inode: InodeId) {
        self.fail_write_back_of(inode, 0..u64::MAX);
    }

    /// Fails a write-back of some pages of a file that no handle reports. The pages are dropped from the cache, or
    /// become clean.
    pub(super) fn lose_write_back(&mut self, inode: InodeId, pages: Range<u64>, are_dropped: bool) {
        let random = &mut self.random;
        self.image.change_file(inode, |file| file.lose_write_back(random, pages, are_dropped));
    }

    /// Fails a sync of some pages of a file: neither their write-back nor the flush of the device's cache is certain.
    pub(super) fn fail_sync(&mut self, inode: InodeId, pages: Range<u64>) {
        self.image.change_file(inode, Inode::fail_flush);
        self.fail_write_back_of(inode, pages);
    }

    fn fail_write_back_of(&mut self, inode: InodeId, pages: Range<u64>) {
        let random = &mut self.random;
        self.image.change_file(inode, |file| file.fail_write_back(random, pages));
        for handle in self.handles.values_mut().filter(|handle| handle.inode == inode) {
            handle.owes_error = true;
        }
    }

    /// The file system after the death of this process.
    pub(super) fn image_without_handles(&self) -> Image {
        self.image.without_handles(self.handles.values().map(|handle| handle.inode))
    }

    // Locks.

    pub(super) fn lock(&mut self, inode: InodeId, shared: bool) -> bool {
        let locked = match (self.locks.get(&inode), shared) {
            (None, false) => Locked::Exclusive,
            (None, true) => Locked::Shared(1),
            (Some(Locked::Shared(count)), true) => Locked::Shared(count + 1),
            (Some(_), _) => return false,
        };
        self.locks.insert(inode, locked);
        true
    }

    pub(super) fn unlock(&mut self, inode: InodeId) {
        match self.locks.get_mut(&inode) {
            Some(Locked::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(self.locks.remove(&inode)),
        }
    }

    // Space.

    /// The number of free pages.
    pub(super) fn free_pages(&self) -> u64 {
        let capacity = self.properties.capacity_pages.unwrap_or(u64::MAX);
        capacity.saturating_sub(self.image.allocated_pages)
    }

    /// An error on a full disk: a new name or a hole needs a page.
    pub(super) fn need_some_space(&self) -> io::Result<()> {
        if self.free_pages() == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Writes as much as fits; an error when that is not all.
    pub(super) fn write(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let free = self.free_pages();
        let Some(file) = self.image.files.get(&inode) else { return Err(input_output_error()) };
        let mut fits = bytes.len();
        if file.pages_needed(offset, bytes.len()) > free {
            // The write ends anywhere before the page that does not fit, sometimes at once.
            while file.pages_needed(offset, fits) > free {
                fits = fits.saturating_sub(PAGE_BYTES);
            }
            fits = self.random.below(fits as u64 + 1) as usize;
        }
        let part = bytes.get(..fits).unwrap_or(bytes);
        self.image.change_file(inode, |file| file.write(offset, part));
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_names(&mut self, path: &Path) -> io::Result<()> {
        let found = self.image.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        if path.components().count() <= self.properties.mount_depth {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.image.commit_names(|(directory, _)| *directory == found);
        Ok(())
    }

    /// Whether the next read comes back short.
    pub(super) fn random_short_read(&mut self) -> bool {
        let per_mille = u64::from(self.properties.short_reads_per_mille);
        per_mille > 0 && self.random.chance(per_mille)
    }
}

/// The error of a failing device.
pub(super) fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// The error of every operation after the power cut.
pub(super) fn power_cut() -> io::Error {
    io::Error::other("simulated power cut")
}
