//! Moving: rename, with replacement, without, and as an exchange. Each is one batch.
//!
//! A directory that moves to another directory must not move below itself. The walk to the root that checks it is done
//! under the volume's rename lock: only such moves change who is above whom.

use super::check_name;
use crate::caller::{Caller, EXECUTE, WRITE};
use crate::error::{Error, Result, refuse};
use crate::node::{Locked, Pin, Place, State};
use crate::planted::{Bug, planted};
use crate::row::{EntryRow, IS_OBJECT, Ino, Kind, ROOT, Time};
use crate::store::Batch;
use crate::volume::Volume;
use std::sync::PoisonError;

/// How deep a directory may be: deeper means that the rows of parents form a circle.
const DEPTH_MAX: usize = 1 << 20;

/// How a rename treats an entry that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameFlags {
    /// It is replaced.
    #[default]
    Replace,
    /// The rename fails.
    NoReplace,
    /// The two change places.
    Exchange,
}

/// A place for an entry.
#[derive(Clone, Copy)]
struct Spot<'a> {
    directory: Ino,
    name: &'a [u8],
}

impl Volume {
    /// Moves the entry `name` of `directory` to `new_name` of `new_directory`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOTEMPTY`, `ENOTDIR`, `EISDIR`, `EINVAL` if a directory would move below itself, `EACCES`,
    /// `EPERM`, `ENAMETOOLONG`, `ENOSPC`, `EROFS`, `EIO`.
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        (directory, name): (Ino, &[u8]),
        (new_directory, new_name): (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        for name in [name, new_name] {
            check_name(name)?;
            if matches!(name, b"." | b"..") {
                return refuse(libc::EBUSY);
            }
        }
        let (from, to) = (Spot { directory, name }, Spot { directory: new_directory, name: new_name });
        let parents = [self.nodes.pin(directory)?, self.nodes.pin(new_directory)?];
        if !parents.iter().all(Pin::is_directory) {
            return refuse(libc::ENOTDIR);
        }
        loop {
            for parent in &parents {
                caller.check(&parent.read().attributes, EXECUTE)?;
            }
            let moved = self.find(from.directory, from.name)?;
            let there = match self.find(to.directory, to.name) {
                Ok(there) => Some(there),
                Err(error) if error.errno() == libc::ENOENT => None,
                Err(error) => return Err(error),
            };
            match (flags, &there) {
                (RenameFlags::NoReplace, Some(_)) => return refuse(libc::EEXIST),
                (RenameFlags::Exchange, None) => return refuse(libc::ENOENT),
                _ => {}
            }
            if self.try_rename(caller, (from, to), &parents, (&moved, there.as_ref()), flags)? {
                return Ok(());
            }
        }
    }

    /// Whether a rename would replace a file by an object, whose bytes are made durable first: that waits for the
    /// device.
    pub fn rename_waits(&self, (directory, name): (Ino, &[u8]), (new_directory, new_name): (Ino, &[u8])) -> bool {
        let row = |directory, name| self.entry_row(directory, name).ok().flatten();
        let is_object = match row(directory, name) {
            Some(EntryRow::Whole(attributes, _)) => attributes.has(IS_OBJECT),
            Some(EntryRow::Pointer(_, kind)) => kind == Kind::File,
            None => false,
        };
        is_object && row(new_directory, new_name).is_some()
    }

    /// Renames if the entries are still those that were found. `false`: find them again.
    fn try_rename(
        &self,
        caller: &Caller<'_>,
        (from, to): (Spot<'_>, Spot<'_>),
        parents: &[Pin<'_>; 2],
        (moved, there): (&Pin<'_>, Option<&Pin<'_>>),
        flags: RenameFlags,
    ) -> Result<bool> {
        let is_other_directory = from.directory != to.directory;
        let is_exchange = flags == RenameFlags::Exchange;
        let moves_down = is_other_directory && moved.is_directory();
        let moves_up = is_other_directory && is_exchange && there.is_some_and(Pin::is_directory);
        let _renames = (moves_down || moves_up).then(|| self.renames.lock().unwrap_or_else(PoisonError::into_inner));
        if moves_down && self.is_below(to.directory, moved.ino())? {
            return refuse(libc::EINVAL);
        }
        if moves_up && there.is_some_and(|there| self.is_below(from.directory, there.ino()).unwrap_or(true)) {
            return refuse(libc::EINVAL);
        }
        if !is_exchange && there.is_some() && !planted(Bug::ReplacingNotSynced) {
            self.sync_if_dirty(moved)?;
        }
        let pins: Vec<&Pin<'_>> = parents.iter().chain([moved]).chain(there).collect();
        let mut locked = Locked::new(&pins);
        let is_still = |spot: Spot<'_>, ino: Option<Ino>| -> Result<bool> {
            Ok(self.entry_row(spot.directory, spot.name)?.map(|row| row.ino()) == ino)
        };
        if !is_still(from, Some(moved.ino()))? || !is_still(to, there.map(Pin::ino))? {
            return Ok(false);
        }
        if parents.iter().any(|parent| locked.get(parent.ino()).is_dead()) {
            return refuse(libc::ENOENT);
        }
        match there {
            // Two names of one file: nothing happens, whatever the caller may do.
            Some(there) if there.ino() == moved.ino() => return Ok(true),
            _ => check(caller, (from, to), &locked, (moved, there), is_exchange)?,
        }
        match there {
            Some(there) if is_exchange => self.exchange((from, to), &mut locked, (moved, there))?,
            there => self.move_to((from, to), &mut locked, (moved, there))?,
        }
        Ok(true)
    }

    /// Whether the directory `below` is `above` or somewhere below it. The caller holds the rename lock.
    fn is_below(&self, below: Ino, above: Ino) -> Result<bool> {
        let mut at = if planted(Bug::MoveBelowItself) { ROOT } else { below };
        for _ in 0..DEPTH_MAX {
            if at == above {
                return Ok(true);
            }
            if at == ROOT {
                return Ok(false);
            }
            let place = match self.nodes.try_pin(at) {
                Some(pin) => pin.read().place.clone(),
                None => match self.directory_state(at) {
                    Ok(state) => state.place,
                    // A directory is removed only after all below it.
                    Err(_) if self.is_gone(below) => return refuse(libc::ENOENT),
                    Err(error) => return Err(error),
                },
            };
            at = match place {
                Place::Directory { parent, .. } => parent,
                _ => return refuse(libc::ENOENT),
            };
        }
        Err(Error::damaged(format!("directory {below}"), "its parents form a circle"))
    }

    fn is_gone(&self, directory: Ino) -> bool {
        self.nodes.try_pin(directory).is_none_or(|pin| pin.read().is_dead())
    }

    fn move_to(
        &self,
        (from, to): (Spot<'_>, Spot<'_>),
        locked: &mut Locked<'_>,
        (moved, there): (&Pin<'_>, Option<&Pin<'_>>),
    ) -> Result<()> {
        let now = self.now();
        let is_directory = i32::from(moved.is_directory() && !planted(Bug::RenameForgetsLinks));
        let mut next = locked.get(moved.ino()).clone();
        next.move_to(to, now);
        if there.is_some() {
            // The bytes of the replaced file are gone with this batch: no promotion may skip its sync.
            next.first_write = None;
        }
        let mut gone = there.map(|there| locked.get(there.ino()).clone());
        let mut batch = Batch::new();
        batch.remove_entry(from.directory, from.name);
        if let Some(gone) = &mut gone {
            match gone.attributes.kind {
                Kind::Directory => self.drop_directory(gone, now, &mut batch)?,
                _ => self.drop_name(gone, now, &mut batch)?,
            }
        }
        let replaced = i64::from(gone.is_some() && !planted(Bug::EntriesMiscounted));
        let source = locked.get(from.directory).with_entries(-1, -is_directory, now);
        let is_same = from.directory == to.directory;
        let target = if is_same { &source } else { locked.get(to.directory) };
        // A directory is replaced only by a directory.
        let replaced_directory = if replaced == 1 { is_directory } else { 0 };
        let target = target.with_entries(1 - replaced, is_directory - replaced_directory, now);
        put_named(&next, to, &mut batch);
        if !is_same {
            source.put(&mut batch);
        }
        target.put(&mut batch);
        if let Some(gone) = &gone {
            gone.put(&mut batch);
        }
        self.commit_counted(&batch, gone.as_ref().map_or(0, State::dead))?;
        drop(batch);
        *locked.get_mut(moved.ino()) = next;
        if !is_same {
            *locked.get_mut(from.directory) = source;
        }
        *locked.get_mut(to.directory) = target;
        if let Some(gone) = gone {
            self.note_dropped(&gone);
            let ino = gone.attributes.ino;
            *locked.get_mut(ino) = gone;
        }
        Ok(())
    }

    fn exchange(
        &self,
        (from, to): (Spot<'_>, Spot<'_>),
        locked: &mut Locked<'_>,
        (moved, there): (&Pin<'_>, &Pin<'_>),
    ) -> Result<()> {
        let now = self.now();
        let (mut forth, mut back) = (locked.get(moved.ino()).clone(), locked.get(there.ino()).clone());
        forth.move_to(to, now);
        back.move_to(from, now);
        let more_directories = i32::from(moved.is_directory()) - i32::from(there.is_directory());
        let mut batch = Batch::new();
        put_named(&forth, to, &mut batch);
        if planted(Bug::ExchangeForgetsDot) && there.is_directory() {
            let pointer = EntryRow::Pointer(there.ino(), Kind::Directory);
            batch.put_entry(from.directory, from.name, pointer.encode(from.directory, from.name));
        } else {
            put_named(&back, from, &mut batch);
        }
        let is_same = from.directory == to.directory;
        let change = if is_same { 0 } else { more_directories };
        let source = locked.get(from.directory).with_entries(0, -change, now);
        let target = locked.get(to.directory).with_entries(0, change, now);
        source.put(&mut batch);
        target.put(&mut batch);
        self.commit(&batch)?;
        drop(batch);
        *locked.get_mut(moved.ino()) = forth;
        *locked.get_mut(there.ino()) = back;
        *locked.get_mut(from.directory) = source;
        *locked.get_mut(to.directory) = target;
        Ok(())
    }
}

/// Checks what POSIX wants of a rename, in the order of Linux's errors.
fn check(
    caller: &Caller<'_>,
    (from, to): (Spot<'_>, Spot<'_>),
    locked: &Locked<'_>,
    (moved, there): (&Pin<'_>, Option<&Pin<'_>>),
    is_exchange: bool,
) -> Result<()> {
    let (source, target) = (&locked.get(from.directory).attributes, &locked.get(to.directory).attributes);
    let state = locked.get(moved.ino());
    caller.check_removal(source, &state.attributes)?;
    let Some(there) = there else {
        caller.check(target, WRITE | EXECUTE)?;
        return check_parent(caller, state, from, to);
    };
    let replaced = locked.get(there.ino());
    caller.check_removal(target, &replaced.attributes)?;
    if is_exchange {
        check_parent(caller, state, from, to)?;
        return check_parent(caller, replaced, from, to);
    }
    match (moved.is_directory(), there.is_directory()) {
        (true, false) => return refuse(libc::ENOTDIR),
        (false, true) => return refuse(libc::EISDIR),
        _ => check_parent(caller, state, from, to)?,
    }
    if replaced.entries() == 0 { Ok(()) } else { refuse(libc::ENOTEMPTY) }
}

/// Checks whether the caller may write a moved directory: with another parent, the directory itself is written.
fn check_parent(caller: &Caller<'_>, moved: &State, from: Spot<'_>, to: Spot<'_>) -> Result<()> {
    let is_written = moved.attributes.is_directory() && from.directory != to.directory;
    if is_written { caller.check(&moved.attributes, WRITE) } else { Ok(()) }
}

impl State {
    /// Moves the state of an inode to another place.
    fn move_to(&mut self, to: Spot<'_>, now: Time) {
        self.attributes.ctime = now;
        match &mut self.place {
            Place::Entry { directory, name } => (*directory, *name) = (to.directory, to.name.into()),
            Place::Directory { parent, .. } => *parent = to.directory,
            Place::Inode | Place::Dead => {}
        }
    }
}

/// Writes an inode's row and, where that is not its entry, the entry.
fn put_named<'a>(state: &'a State, spot: Spot<'a>, batch: &mut Batch<'a>) {
    if !matches!(state.place, Place::Entry { .. }) {
        let pointer = EntryRow::Pointer(state.attributes.ino, state.attributes.kind);
        batch.put_entry(spot.directory, spot.name, pointer.encode(spot.directory, spot.name));
    }
    state.put(batch);
}
