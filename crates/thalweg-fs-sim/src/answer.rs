//! [`Answer`]: the answer of an operation, from the volume or from the model.

use crate::model::{Inode, Model, Outcome, Stat};
use crate::operation::{CALLERS, Operation, pattern};
use thalweg_fs::{Attributes, Entry, Error, Ino, NewInode, Result, Volume};

/// The answer of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success, without a result.
    Done,
    /// An inode, to which the caller now holds a reference.
    Found(Stat),
    /// The answer of `stat`.
    Told(Stat),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An offset.
    Offset(u64),
    /// Names, sorted, with their inodes, and with their `stat` if it was requested.
    Names(Vec<(Vec<u8>, Ino, Option<Stat>)>),
    /// Names of extended attributes.
    Xattrs(Vec<Vec<u8>>),
    /// The operation was refused, with this errno.
    Refused(i32),
}

/// Converts the attributes of a volume's inode to the model's type.
pub fn stat_of(attributes: &Attributes) -> Stat {
    Stat {
        ino: attributes.ino,
        kind: attributes.kind,
        mode: attributes.mode,
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.rdev,
        size: attributes.size,
        times: [attributes.atime, attributes.mtime, attributes.ctime, attributes.btime],
    }
}

fn given<T>(result: Result<T>, answer: impl FnOnce(T) -> Answer) -> Result<Answer> {
    result.map(answer)
}

fn found(result: Result<Attributes>) -> Result<Answer> {
    given(result, |attributes| Answer::Found(stat_of(&attributes)))
}

fn done(result: Result<()>) -> Result<Answer> {
    given(result, |()| Answer::Done)
}

/// Executes an operation on a volume.
///
/// # Errors
/// The volume's refusal.
pub fn of_volume(volume: &Volume, caller: usize, operation: &Operation, model: &Model) -> Result<Answer> {
    let caller = &CALLERS[caller];
    match operation {
        Operation::Lookup((directory, name)) => found(volume.lookup(caller, *directory, name)),
        Operation::Create { spot: (directory, name), kind, mode, rdev, target } => {
            let new = NewInode { kind: *kind, mode: *mode, rdev: *rdev, target };
            found(volume.create(caller, *directory, name, new))
        }
        Operation::Link(file, (directory, name)) => found(volume.link(caller, *file, *directory, name)),
        Operation::Unlink((directory, name)) => done(volume.unlink(caller, *directory, name)),
        Operation::RemoveDirectory((directory, name)) => done(volume.remove_directory(caller, *directory, name)),
        Operation::Rename((old, old_name), (new, new_name), flags) => {
            done(volume.rename(caller, (*old, old_name), (*new, new_name), *flags))
        }
        Operation::List { directory, entries_max, with_attributes } => {
            listing(volume, *directory, *entries_max, *with_attributes)
        }
        Operation::Resolve { path, follows_last: true } => found(volume.resolve(caller, path)),
        Operation::Resolve { path, .. } => found(volume.resolve_link(caller, path)),
        Operation::Stat(ino) => given(volume.attributes(*ino), |attributes| Answer::Told(stat_of(&attributes))),
        Operation::ReadLink(ino) => given(volume.read_link(*ino), |target| Answer::Bytes(target.into_vec())),
        Operation::Access(ino, access) => done(volume.access(caller, *ino, *access)),
        Operation::Open(ino, access) => {
            given(volume.open(caller, *ino, *access), |attributes| Answer::Told(stat_of(&attributes)))
        }
        Operation::Release(ino) => done(volume.release(*ino)),
        Operation::Forget(ino) => {
            if *ino != thalweg_fs::ROOT {
                volume.forget(*ino, model.lookups(*ino));
            }
            Ok(Answer::Done)
        }
        Operation::Change(ino, change) => {
            given(volume.change(caller, *ino, change), |attributes| Answer::Told(stat_of(&attributes)))
        }
        Operation::Read { ino, offset, length } => given(volume.read(*ino, *offset, *length), Answer::Bytes),
        Operation::Write { ino, offset, length, version } => {
            let at = offset.unwrap_or_else(|| model.inode(*ino).map_or(0, |inode| inode.stat.size));
            let bytes = bytes_of(*ino, at, *length, *version);
            match offset {
                Some(offset) => given(volume.write(caller, *ino, *offset, &bytes), |()| Answer::Offset(*offset)),
                None => given(volume.append(caller, *ino, &bytes), Answer::Offset),
            }
        }
        Operation::Allocate { ino, what, keeps_size, offset, length } => {
            done(volume.allocate(caller, *ino, (*what, *keeps_size), (*offset, *length)))
        }
        Operation::Seek { ino, offset, is_hole } => given(volume.seek(*ino, *offset, *is_hole), Answer::Offset),
        Operation::SetXattr { ino, name, value, flags } => done(volume.set_xattr(caller, *ino, (name, value), *flags)),
        Operation::Xattr(ino, name) => given(volume.xattr(caller, *ino, name), |value| Answer::Bytes(value.to_vec())),
        Operation::RemoveXattr(ino, name) => done(volume.remove_xattr(caller, *ino, name)),
        Operation::ListXattrs(ino) => given(volume.list_xattrs(caller, *ino), |names| {
            Answer::Xattrs(names.into_iter().map(<[u8]>::into_vec).collect())
        }),
        Operation::SyncFile(ino) => done(volume.sync_file(*ino)),
        Operation::Sync => done(volume.sync()),
        Operation::Work => given(volume.work(), |_| Answer::Done),
    }
}

fn bytes_of(ino: Ino, offset: u64, length: usize, version: u64) -> Vec<u8> {
    if offset.checked_add(length as u64).is_none() { vec![1; length] } else { pattern(ino, offset, length, version) }
}

/// Lists a whole directory, page by page. A listing with an entry without attributes fails, and leaves no references.
fn listing(volume: &Volume, directory: Ino, entries_max: usize, with_attributes: bool) -> Result<Answer> {
    let (mut all, mut offset) = (Vec::new(), 0);
    let listed = loop {
        let page = match volume.list(directory, offset, entries_max, with_attributes) {
            Ok(page) => page,
            Err(error) => break Err(error),
        };
        let Some(last) = page.last() else { break Ok(()) };
        offset = last.offset;
        let is_dot = |entry: &Entry| matches!(&*entry.name, b"." | b"..");
        let is_unread = |entry: &Entry| with_attributes && entry.attributes.is_none() && !is_dot(entry);
        let unread = page.iter().find(|entry| is_unread(entry)).map(|entry| entry.ino);
        all.extend(page.into_iter().map(|entry| {
            let stat = entry.attributes.map(|attributes| stat_of(&attributes));
            (entry.name.into_vec(), entry.ino, stat)
        }));
        if let Some(ino) = unread {
            break Err(Error::explained(libc::EIO, format!("inode {ino} was listed without attributes")));
        }
    };
    if let Err(error) = listed {
        all.iter().filter(|(.., stat)| stat.is_some()).for_each(|(_, ino, _)| volume.forget(*ino, 1));
        return Err(error);
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Answer::Names(all))
}

/// Does an operation on the model. A created inode has the number `new`.
pub fn of_model(model: &mut Model, caller: usize, operation: &Operation, new: Ino) -> Answer {
    let answer = answer_of_model(model, caller, operation, new);
    answer.unwrap_or_else(Answer::Refused)
}

fn answer_of_model(model: &mut Model, caller: usize, operation: &Operation, new: Ino) -> Outcome<Answer> {
    let caller = &CALLERS[caller];
    let ino = match operation {
        Operation::Lookup((directory, name)) => model.lookup_used(caller, *directory, name)?,
        Operation::Create { spot: (directory, name), kind, mode, rdev, target } => {
            let made = NewInode { kind: *kind, mode: *mode, rdev: *rdev, target };
            model.create(caller, *directory, name, &made, new)?
        }
        Operation::Link(file, (directory, name)) => model.link(caller, *file, *directory, name)?,
        Operation::Resolve { path, follows_last } => model.resolve(caller, path, *follows_last)?,
        Operation::Unlink((directory, name)) => return model.unlink(caller, *directory, name).map(|()| Answer::Done),
        Operation::RemoveDirectory((directory, name)) => {
            return model.remove_directory(caller, *directory, name).map(|()| Answer::Done);
        }
        Operation::Rename((old, old_name), (new, new_name), flags) => {
            return model.rename(caller, (*old, old_name), (*new, new_name), *flags).map(|()| Answer::Done);
        }
        Operation::List { directory, with_attributes, .. } => return names_of(model, *directory, *with_attributes),
        other => return inode_answer(model, caller, other),
    };
    Ok(Answer::Found(model.stat(ino)?.clone()))
}

fn names_of(model: &mut Model, directory: Ino, with_attributes: bool) -> Outcome<Answer> {
    let mut all = Vec::new();
    for (name, ino) in model.list(directory)? {
        let stat = model.inode(ino).map(|inode| inode.stat.clone());
        let is_told = with_attributes && name != b"." && name != b"..";
        if is_told {
            model.refer_listed(ino);
        }
        all.push((name, ino, stat.filter(|_| is_told)));
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Answer::Names(all))
}

fn inode_answer(model: &mut Model, caller: &thalweg_fs::Caller<'_>, operation: &Operation) -> Outcome<Answer> {
    match operation {
        Operation::ReadLink(ino) => return Ok(Answer::Bytes(model.read_link(*ino)?.to_vec())),
        Operation::Access(ino, access) => model.access(caller, *ino, *access)?,
        Operation::Open(ino, access) => model.open(caller, *ino, *access)?,
        Operation::Release(ino) => model.release(*ino),
        Operation::Forget(thalweg_fs::ROOT) => {}
        Operation::Forget(ino) => model.forget(*ino, model.lookups(*ino)),
        Operation::Change(ino, change) => model.change(caller, *ino, change)?,
        Operation::Read { ino, offset, length } => {
            return Ok(Answer::Bytes(model.read(*ino, *offset, *length)?.to_vec()));
        }
        Operation::Write { ino, offset, length, version } => {
            let at = offset.unwrap_or_else(|| model.inode(*ino).map_or(0, |inode| inode.stat.size));
            let bytes = bytes_of(*ino, at, *length, *version);
            return model.write(caller, *ino, *offset, &bytes).map(Answer::Offset);
        }
        Operation::Allocate { ino, what, keeps_size, offset, length } => {
            model.allocate(caller, *ino, (*what, *keeps_size), (*offset, *length))?;
        }
        Operation::SetXattr { ino, name, value, flags } => {
            model.set_xattr(caller, *ino, (name, value), *flags)?;
        }
        Operation::Xattr(ino, name) => return Ok(Answer::Bytes(model.xattr(caller, *ino, name)?.to_vec())),
        Operation::RemoveXattr(ino, name) => model.remove_xattr(caller, *ino, name)?,
        Operation::ListXattrs(ino) => return model.list_xattrs(caller, *ino).map(Answer::Xattrs),
        Operation::SyncFile(ino) => _ = model.stat(*ino)?,
        _ => {}
    }
    match operation {
        Operation::Stat(ino) | Operation::Open(ino, _) | Operation::Change(ino, _) => {
            Ok(Answer::Told(model.stat(*ino)?.clone()))
        }
        _ => Ok(Answer::Done),
    }
}

impl Answer {
    /// Removes the times of objects, which are those of the objects' files.
    #[must_use]
    pub fn without_object_times(mut self, model: &Model) -> Self {
        let strip = |stat: &mut Stat| {
            if model.inode(stat.ino).is_some_and(|inode: &Inode| inode.is_object) {
                (stat.times[1], stat.times[2]) = Default::default();
            }
        };
        match &mut self {
            Answer::Found(stat) | Answer::Told(stat) => strip(stat),
            Answer::Names(names) => names.iter_mut().filter_map(|(.., stat)| stat.as_mut()).for_each(strip),
            _ => {}
        }
        self
    }
}
