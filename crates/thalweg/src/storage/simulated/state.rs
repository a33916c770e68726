//! [`DiskState`]: a simulated disk at work: its file system, the handles and locks on it, and the faults in wait.
//!
//! Every operation first passes [`DiskState::begin`], which counts it and says how it will end. A dead disk changes nothing
//! any more, and its file system stays as the power cut found it.

use super::fault::{FaultPlan, OperationKinds};
use super::image::{Image, InodeId};
use super::inode::{Inode, PAGE_BYTES};
use super::random::Random;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// As it should.
    Success,
    /// With an input/output error.
    Failure,
    /// With the power cut: it may still have had its effect, or a part of it.
    PowerCut,
}

/// A handle from one `open` or `create`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub(super) inode: InodeId,
    /// Whether a write-back failed since its last sync.
    pub(super) owes_error: bool,
}

/// The locks on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    Shared(u32),
    Exclusive,
}

/// What outlives a crash: the properties of the device, not its state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Properties {
    pub(super) capacity_pages: Option<u64>,
    pub(super) refuses_medium_reads: bool,
    pub(super) refuses_hard_links: bool,
    pub(super) refuses_mappings: bool,
    pub(super) shares_journal: bool,
    /// Nobody is told how much space is left.
    pub(super) hides_free_bytes: bool,
    /// Directories nearer to the root than so many names cannot be synced, and lose none.
    pub(super) mount_depth: usize,
    /// How many files the process is told that it may have open.
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
    /// Directories that are open.
    pub(super) directories_open: usize,
    /// So many handles and directories may be open.
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

    /// Counts an operation. An error when the disk is dead.
    pub(super) fn begin(&mut self, kind: OperationKinds) -> io::Result<Fate> {
        if self.dead {
            return Err(power_cut());
        }
        self.operations += 1;
        if self.cut_at.is_some_and(|at| self.operations >= at) {
            self.dead = true;
            return Ok(Fate::PowerCut);
        }
        let strikes = self.faults.as_mut().is_some_and(|plan| plan.strikes(kind));
        Ok(if strikes { Fate::Failure } else { Fate::Success })
    }

    /// An operation that happens whole or not at all.
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
                    // Its answer is lost with the power.
                    let _ = effect(self);
                }
                Err(power_cut())
            }
        }
    }

    // Handles.

    pub(super) fn open_handle(&mut self, inode: InodeId) -> u64 {
        // As Linux: an error that nobody was told yet is told to the next one who opens.
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
        // A dead disk keeps its files for the images of the crash.
        if !self.dead
            && let Some(handle) = self.handles.remove(&number)
        {
            self.image.count_handle(handle.inode, false);
        }
    }

    /// How many names lead to a file now.
    pub(super) fn names_of(&self, inode: InodeId) -> u64 {
        let handles = self.handles.values().filter(|handle| handle.inode == inode).count() as u64;
        self.image.live_links(inode).saturating_sub(handles)
    }

    /// Whether `handle` is owed the error of a failed write-back; told once.
    pub(super) fn tell_error(&mut self, number: u64) -> bool {
        let Some(handle) = self.handles.get_mut(&number) else { return false };
        let owed = std::mem::take(&mut handle.owes_error);
        let inode = handle.inode;
        if owed {
            self.image.change_file(inode, |file| file.unseen_error = false);
        }
        owed
    }

    /// Fails to write the dirty pages of a file: they are clean now, and every handle is owed the error.
    pub(super) fn fail_write_back(&mut self, inode: InodeId) {
        self.fail_write_back_of(inode, 0..u64::MAX);
    }

    /// Fails to write some pages of a file back and tells no handle: they are gone from the cache, or clean in it.
    pub(super) fn lose_write_back(&mut self, inode: InodeId, pages: Range<u64>, are_dropped: bool) {
        let random = &mut self.random;
        self.image.change_file(inode, |file| file.lose_write_back(random, pages, are_dropped));
    }

    /// Fails to sync some pages of a file: neither the write-back nor the flush of what the device has is certain.
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

    /// The file system without this process.
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

    /// How many more pages there is room for.
    pub(super) fn free_pages(&self) -> u64 {
        let capacity = self.properties.capacity_pages.unwrap_or(u64::MAX);
        capacity.saturating_sub(self.image.allocated_pages)
    }

    /// An error on a full disk: a new name, or a hole, needs some page for itself.
    pub(super) fn need_some_space(&self) -> io::Result<()> {
        if self.free_pages() == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Writes as much as there is room for; an error when that is not all.
    pub(super) fn write(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let free = self.free_pages();
        let Some(file) = self.image.files.get(&inode) else { return Err(input_output_error()) };
        let mut fits = bytes.len();
        if file.pages_needed(offset, bytes.len()) > free {
            // Somewhere before the page that does not fit; sometimes nothing at all.
            while file.pages_needed(offset, fits) > free {
                fits = fits.saturating_sub(PAGE_BYTES);
            }
            fits = self.random.below(fits as u64 + 1) as usize;
        }
        let part = bytes.get(..fits).unwrap_or(bytes);
        self.image.change_file(inode, |file| file.write(offset, part));
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn sync_names(&mut self, path: &Path) -> io::Result<()> {
        let found = self.image.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        if path.components().count() <= self.properties.mount_depth {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.image.commit_names(|(directory, _)| *directory == found);
        Ok(())
    }

    pub(super) fn random_short_read(&mut self) -> bool {
        let per_mille = u64::from(self.properties.short_reads_per_mille);
        per_mille > 0 && self.random.chance(per_mille)
    }
}

/// What a failing device answers.
pub(super) fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// What everyone hears after the power cut.
pub(super) fn power_cut() -> io::Error {
    io::Error::other("simulated power cut")
}
