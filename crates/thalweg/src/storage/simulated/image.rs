//! [`Image`]: the file system of a simulated disk: directories, files, and the changes that are not durable yet.
//!
//! Each directory has *live* names and *durable* names. Every change of names is also put in `pending`, in order, until
//! it is durable. A power cut leaves the durable names plus some of the pending changes.
//!
//! Invariants:
//! - applying all of `pending` to the durable names gives the live names;
//! - a change becomes durable only together with every earlier change of the same names. So each name is always in a
//!   state that it once had, and a rename is never seen halfway;
//! - a file has at most one pending change of its length, at the place of the newest;
//! - a file is forgotten when no live name, durable name, pending change or handle leads to it. Its space is freed as
//!   soon as no live name or handle does, as by a journal that commits when space is short.
//!
//! Cloning shares files and directories; it costs a pointer each.

use super::inode::Inode;
use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The number of a file or directory.
pub(super) type InodeId = u64;

/// The number of the root directory.
pub(super) const ROOT: InodeId = 0;

/// A name in a directory.
pub(super) type Entry = (InodeId, Arc<str>);

/// A change that is live and not durable.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Names that change together, and the target of each afterwards.
    Names(Vec<(Entry, Option<InodeId>)>),
    /// The length of a file.
    Length(InodeId),
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) live: BTreeMap<Arc<str>, InodeId>,
    pub(super) durable: BTreeMap<Arc<str>, InodeId>,
}

/// The counts of names and handles of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    /// The number of live names and handles.
    live: u32,
    /// The number of durable names, and of pending changes that set a name to the file.
    remembered: u32,
}

/// A file system.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) directories: BTreeMap<InodeId, Arc<Directory>>,
    pub(super) files: BTreeMap<InodeId, Arc<Inode>>,
    links: BTreeMap<InodeId, Links>,
    pub(super) pending: BTreeMap<u64, Change>,
    pending_lengths: BTreeMap<InodeId, u64>,
    dirty: BTreeSet<InodeId>,
    next_inode: InodeId,
    next_change: u64,
    /// The number of calls of [`Image::commit_journal`].
    pub(super) journal_commits: u64,
    /// The number of cached pages of files with a live name or a handle.
    pub(super) allocated_pages: u64,
}

impl Default for Image {
    fn default() -> Self {
        Image {
            directories: BTreeMap::from([(ROOT, Arc::default())]),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_lengths: BTreeMap::new(),
            dirty: BTreeSet::new(),
            next_inode: ROOT + 1,
            next_change: 0,
            journal_commits: 0,
            allocated_pages: 0,
        }
    }
}

impl Image {
    // Lookups.

    /// The file or directory at `path`, if there is one.
    pub(super) fn find(&self, path: &Path) -> io::Result<Option<InodeId>> {
        let mut found = ROOT;
        for name in names(path) {
            let name = name?;
            let Some(directory) = self.directories.get(&found) else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            let Some(next) = directory.live.get(name) else { return Ok(None) };
            found = *next;
        }
        Ok(Some(found))
    }

    /// The file at `path`; an error when there is none, or a directory.
    pub(super) fn find_file(&self, path: &Path) -> io::Result<InodeId> {
        let found = self.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        if self.files.contains_key(&found) { Ok(found) } else { Err(io::ErrorKind::IsADirectory.into()) }
    }

    /// The directory of `path`, and the name in it.
    pub(super) fn entry(&self, path: &Path) -> io::Result<Entry> {
        let mut all = names(path).collect::<io::Result<Vec<&str>>>()?;
        let name = all.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.find(&all.iter().collect::<PathBuf>())?.ok_or(io::ErrorKind::NotFound)?;
        if !self.directories.contains_key(&parent) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok((parent, Arc::from(name)))
    }

    /// The live target of `entry`.
    pub(super) fn target(&self, entry: &Entry) -> Option<InodeId> {
        self.directories.get(&entry.0)?.live.get(&entry.1).copied()
    }

    /// Every file with its path, sorted by path.
    pub(super) fn walk(&self) -> Vec<(PathBuf, InodeId)> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, id)) = open.pop() {
            match self.directories.get(&id) {
                Some(directory) => open.extend(directory.live.iter().map(|(name, id)| (path.join(&**name), *id))),
                None => found.push((path, id)),
            }
        }
        found.sort();
        found
    }

    // Changes of names.

    /// Adds a file or directory under a name that is free.
    pub(super) fn add(&mut self, entry: Entry, is_directory: bool) -> InodeId {
        let id = self.next_inode;
        self.next_inode += 1;
        if is_directory {
            self.directories.insert(id, Arc::default());
        } else {
            self.files.insert(id, Arc::default());
        }
        self.change_names(vec![(entry, Some(id))]);
        id
    }

    /// Changes live names in one step.
    pub(super) fn change_names(&mut self, changes: Vec<(Entry, Option<InodeId>)>) {
        let mut before = Vec::new();
        for (entry, target) in &changes {
            before.extend(self.set_live(entry, *target));
            if let Some(id) = target {
                self.links.entry(*id).or_default().remembered += 1;
            }
        }
        self.pending.insert(self.next_change, Change::Names(changes));
        self.next_change += 1;
        for id in before {
            self.forget_if_unused(id);
        }
    }

    fn set_live(&mut self, entry: &Entry, target: Option<InodeId>) -> Option<InodeId> {
        let directory = Arc::make_mut(self.directories.get_mut(&entry.0)?);
        let before = match target {
            Some(id) => directory.live.insert(Arc::clone(&entry.1), id),
            None => directory.live.remove(&entry.1),
        };
        if let Some(id) = target {
            self.links.entry(id).or_default().live += 1;
        }
        if let Some(id) = before {
            self.links.entry(id).or_default().live -= 1;
        }
        before
    }

    fn set_durable(&mut self, entry: &Entry, target: Option<InodeId>) {
        let Some(directory) = self.directories.get_mut(&entry.0) else { return };
        let directory = Arc::make_mut(directory);
        let before = match target {
            Some(id) => directory.durable.insert(Arc::clone(&entry.1), id),
            None => directory.durable.remove(&entry.1),
        };
        if let Some(id) = target {
            self.links.entry(id).or_default().remembered += 1;
        }
        if let Some(id) = before {
            self.links.entry(id).or_default().remembered -= 1;
            self.forget_if_unused(id);
        }
    }

    /// Counts an opened or closed handle of a file.
    pub(super) fn count_handle(&mut self, id: InodeId, opened: bool) {
        let links = self.links.entry(id).or_default();
        if opened {
            links.live += 1;
        } else {
            links.live -= 1;
            self.forget_if_unused(id);
        }
    }

    /// The number of live names and handles of a file.
    pub(super) fn live_links(&self, id: InodeId) -> u64 {
        self.links.get(&id).map_or(0, |links| u64::from(links.live))
    }

    fn forget_if_unused(&mut self, id: InodeId) {
        let (Some(links), Some(file)) = (self.links.get(&id), self.files.get_mut(&id)) else { return };
        if links.live > 0 {
            return;
        }
        if file.allocated() > 0 {
            self.allocated_pages -= Arc::make_mut(file).give_back();
        }
        self.dirty.remove(&id);
        // A power cut may bring a remembered file back.
        if links.remembered == 0 {
            self.files.remove(&id);
            self.links.remove(&id);
            self.drop_pending_length(id);
        }
    }

    // Changes of bytes.

    /// Changes a file's bytes, and updates the counts of its pages and the pending change of its length.
    pub(super) fn change_file<T>(&mut self, id: InodeId, change: impl FnOnce(&mut Inode) -> T) -> Option<T> {
        let file = Arc::make_mut(self.files.get_mut(&id)?);
        let (length, allocated) = (file.live_bytes(), file.allocated());
        let result = change(file);
        self.allocated_pages = self.allocated_pages + file.allocated() - allocated;
        if file.is_dirty() {
            self.dirty.insert(id);
        } else {
            self.dirty.remove(&id);
        }
        if file.durable_bytes() == file.live_bytes() && file.lowest_bytes() == file.live_bytes() {
            self.drop_pending_length(id);
        } else if file.live_bytes() != length {
            self.drop_pending_length(id);
            self.pending.insert(self.next_change, Change::Length(id));
            self.pending_lengths.insert(id, self.next_change);
            self.next_change += 1;
        }
        Some(result)
    }

    fn drop_pending_length(&mut self, id: InodeId) {
        if let Some(change) = self.pending_lengths.remove(&id) {
            self.pending.remove(&change);
        }
    }

    /// Writes a page back, or commits the oldest changes of names and lengths, as the kernel does by itself. `false`
    /// when all is durable.
    pub(super) fn write_back_some(&mut self, random: &mut Random) -> bool {
        let pages = self.dirty.last().copied();
        let commits = !self.pending.is_empty() && (pages.is_none() || random.chance(125));
        if !commits && let Some(last) = pages {
            let from = random.below(last + 1);
            let file = self.dirty.range(from..).next().copied();
            if file.and_then(|id| self.change_file(id, |file| file.write_back_some(random))) == Some(true) {
                return true;
            }
        }
        let count = 1 + random.below(4);
        let oldest: Vec<u64> = self.pending.keys().copied().take(count as usize).collect();
        let any = !oldest.is_empty();
        self.commit(oldest);
        any
    }

    // Commits.

    /// Commits what a sync of `file` commits besides the file, where all files share one journal. If the file's length
    /// has to be committed, the device's cache is flushed and every change so far is committed, in order. The new
    /// length of another file that was not written out may stay pending (delayed allocation). A sync without metadata
    /// to commit commits nothing, and still flushes the device's cache.
    pub(super) fn commits_of(&mut self, file: InodeId, random: &mut Random) {
        if self.pending_lengths.contains_key(&file) {
            self.commit_journal(random);
        } else {
            self.flush_device();
        }
    }

    fn flush_device(&mut self) {
        for id in self.dirty.clone() {
            self.change_file(id, Inode::flush);
        }
    }

    /// Commits the journal: flushes the device's cache, then commits every pending change, in order.
    pub(super) fn commit_journal(&mut self, random: &mut Random) {
        self.flush_device();
        let mut numbers: Vec<u64> = self.pending.keys().copied().collect();
        numbers.retain(|number| match self.pending.get(number) {
            Some(Change::Length(id)) => self.files.get(id).is_none_or(|file| file.is_written_out()) || random.coin(),
            _ => true,
        });
        self.commit(numbers);
        self.journal_commits += 1;
    }

    /// Makes durable every pending change of names that `wanted` picks, with the earlier ones that it builds on.
    pub(super) fn commit_names(&mut self, wanted: impl Fn(&Entry) -> bool) {
        let picked = self.closed_under_earlier(|_, change| match change {
            Change::Names(changes) => changes.iter().any(|(entry, _)| wanted(entry)),
            Change::Length(_) => false,
        });
        self.commit(picked);
    }

    /// The pending changes that `wanted` picks, and every earlier change of the same names, in order.
    pub(super) fn closed_under_earlier(&self, mut wanted: impl FnMut(u64, &Change) -> bool) -> Vec<u64> {
        let mut needed: BTreeSet<&Entry> = BTreeSet::new();
        let mut picked = Vec::new();
        for (number, change) in self.pending.iter().rev() {
            let picks = wanted(*number, change);
            match change {
                Change::Names(changes) => {
                    if picks || changes.iter().any(|(entry, _)| needed.contains(entry)) {
                        needed.extend(changes.iter().map(|(entry, _)| entry));
                        picked.push(*number);
                    }
                }
                Change::Length(_) if picks => picked.push(*number),
                Change::Length(_) => {}
            }
        }
        picked.reverse();
        picked
    }

    /// Makes these pending changes durable, in order.
    fn commit(&mut self, numbers: Vec<u64>) {
        for number in numbers {
            match self.pending.remove(&number) {
                Some(Change::Names(changes)) => {
                    for (entry, target) in changes {
                        self.set_durable(&entry, target);
                        if let Some(id) = target {
                            self.links.entry(id).or_default().remembered -= 1;
                            self.forget_if_unused(id);
                        }
                    }
                }
                Some(Change::Length(id)) => {
                    self.pending_lengths.remove(&id);
                    self.change_file(id, Inode::sync_length);
                }
                None => {}
            }
        }
    }

    // Whole images.

    /// The file system on a medium: the durable names of `directories`, and the files that `survivor` gives.
    pub(super) fn on_medium(
        directories: &BTreeMap<InodeId, Arc<Directory>>,
        next_inode: InodeId,
        mut survivor: impl FnMut(InodeId) -> Option<Arc<Inode>>,
    ) -> Image {
        let mut image = Image { directories: BTreeMap::new(), next_inode, ..Image::default() };
        let mut open = vec![ROOT];
        while let Some(id) = open.pop() {
            if image.directories.contains_key(&id) {
                continue;
            }
            let mut directory = Directory::default();
            for (name, target) in directories.get(&id).iter().flat_map(|directory| &directory.durable) {
                if directories.contains_key(target) {
                    open.push(*target);
                } else if !image.files.contains_key(target) {
                    let Some(file) = survivor(*target) else { continue };
                    image.allocated_pages += file.allocated();
                    image.files.insert(*target, file);
                }
                let links = image.links.entry(*target).or_default();
                links.live += 1;
                links.remembered += 1;
                directory.live.insert(Arc::clone(name), *target);
            }
            directory.durable = directory.live.clone();
            image.directories.insert(id, Arc::new(directory));
        }
        image
    }

    /// This image without the handles in `open`: files that only they lead to are gone.
    pub(super) fn without_handles(&self, open: impl Iterator<Item = InodeId>) -> Image {
        let mut image = self.clone();
        for id in open {
            image.count_handle(id, false);
        }
        image
    }

    pub(super) fn next_inode(&self) -> InodeId {
        self.next_inode
    }

    /// Puts a file of these bytes at `path`, with its directories, all durable.
    pub(super) fn put_durably(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut at = PathBuf::new();
        let mut parts = names(path).collect::<io::Result<Vec<&str>>>()?;
        let last = parts.pop().ok_or(io::ErrorKind::InvalidInput)?;
        for part in parts {
            at.push(part);
            if self.find(&at)?.is_none() {
                let entry = self.entry(&at)?;
                self.add(entry, true);
            }
            let entry = self.entry(&at)?;
            self.commit_names(|changed| *changed == entry);
        }
        at.push(last);
        let entry = self.entry(&at)?;
        let id = match self.find(&at)? {
            Some(_) => self.find_file(&at)?,
            None => self.add(entry.clone(), false),
        };
        self.commit_names(|changed| *changed == entry);
        self.change_file(id, |file| *file = Inode::durable(bytes));
        Ok(())
    }
}

/// The names along a path from the root. The working directory is the root; `..` is refused.
fn names(path: &Path) -> impl Iterator<Item = io::Result<&str>> {
    path.components().filter_map(|component| match component {
        Component::RootDir | Component::CurDir => None,
        Component::Normal(name) => Some(name.to_str().ok_or_else(|| io::ErrorKind::InvalidInput.into())),
        Component::ParentDir | Component::Prefix(_) => Some(Err(io::ErrorKind::InvalidInput.into())),
    })
}
