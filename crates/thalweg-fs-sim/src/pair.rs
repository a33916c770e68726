//! [`Pair`]: runs one operation at a time on a volume and on the model.

use crate::answer::{Answer, of_model, of_volume, stat_of};
use crate::clock::VirtualClock;
use crate::model::Model;
use crate::operation::{CALLERS, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_fs::{Attributes, Ino, Kind, ROOT, Volume};

/// A volume, and the model that it must equal.
pub struct Pair {
    /// The volume.
    pub volume: Volume,
    /// The model.
    pub model: Model,
    clock: Arc<VirtualClock>,
    /// The highest number given to an inode so far.
    pub highest: Ino,
    /// Whether the disk is full.
    pub is_full: bool,
}

/// The outcome of an operation.
#[derive(Debug)]
pub enum Applied {
    /// Both agree; the number of a created inode.
    Agreed(Answer),
    /// The volume failed with `EIO`, or with `EROFS` after an earlier failure, and the model did nothing.
    Failed(i32, String),
    /// The volume had no room for the operation, and the model did nothing.
    Full,
}

impl Pair {
    /// A pair of a volume and a model in the same state.
    pub fn new(volume: Volume, model: Model, clock: &Arc<VirtualClock>, highest: Ino) -> Self {
        Pair { volume, model, clock: Arc::clone(clock), highest, is_full: false }
    }

    /// Runs an operation on both.
    ///
    /// # Errors
    /// The difference.
    pub fn apply(&mut self, caller: usize, operation: &Operation) -> Result<Applied, String> {
        self.model.now = self.clock.advance();
        let answer = match of_volume(&self.volume, caller, operation, &self.model) {
            Ok(answer) => answer,
            Err(error) if matches!(error.errno(), libc::EIO | libc::EROFS) => {
                if let Operation::Release(ino) = operation {
                    self.model.end_open(*ino);
                }
                return Ok(Applied::Failed(error.errno(), error.to_string()));
            }
            Err(error) if error.errno() == libc::ENOSPC && self.is_full => {
                self.note_objects(operation);
                let is_refused = || Err(format!("{operation:?} was refused on a full disk"));
                return if self.needs_room(operation) { Ok(Applied::Full) } else { is_refused() };
            }
            Err(error) => Answer::Refused(error.errno()),
        };
        let mut new = 0;
        if let (Operation::Create { .. }, Answer::Found(stat)) = (operation, &answer) {
            new = stat.ino;
            if new <= self.highest {
                return Err(format!("inode {new} was given again, after {}", self.highest));
            }
            self.highest = new;
        }
        if let Operation::Seek { ino, offset, is_hole } = operation {
            let found = match answer {
                Answer::Offset(found) => Ok(found),
                Answer::Refused(errno) => Err(errno),
                ref other => return Err(format!("{operation:?}: {other:?}")),
            };
            let outcome = self.model.may_seek(*ino, *offset, *is_hole, found);
            return outcome.map(|()| Applied::Agreed(answer)).map_err(|what| format!("{operation:?}: {what}"));
        }
        let expected = of_model(&mut self.model, caller, operation, new);
        self.note_objects(operation);
        let (answer, expected) = (answer.without_object_times(&self.model), expected.without_object_times(&self.model));
        if answer == expected {
            return Ok(Applied::Agreed(answer));
        }
        let who = CALLERS[caller];
        Err(format!("{operation:?} by {}:{}:\n  volume {answer:?}\n  model  {expected:?}", who.uid, who.gid))
    }

    /// Whether an operation may be refused on a full disk. Operations that free space or only read may not.
    fn needs_room(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Change(ino, change) => {
                let size = self.model.inode(*ino).map_or(0, |inode| inode.stat.size);
                change.size.is_none_or(|wanted| wanted >= size)
            }
            Operation::Create { .. }
            | Operation::Link(..)
            | Operation::Rename(..)
            | Operation::Write { .. }
            | Operation::Allocate { .. }
            | Operation::SetXattr { .. } => true,
            _ => false,
        }
    }

    /// Records whether the file of an operation has become an object.
    fn note_objects(&mut self, operation: &Operation) {
        let ino = match operation {
            Operation::Write { ino, .. } | Operation::Allocate { ino, .. } => *ino,
            _ => return,
        };
        if self.model.inode(ino).is_some_and(|inode| !inode.is_object) && self.volume.has_object(ino) {
            self.model.inode_mut(ino).is_object = true;
        }
    }

    /// Compares the whole trees, and the number of inodes in use.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&self) -> Result<(), String> {
        let tree = Tree::of(&self.volume)?;
        tree.compare(&self.model)?;
        // In use are the root and each inode that callers use, and nothing else.
        let (in_use, expected) = (self.volume.inodes_in_use(), self.model.numbers_in_use().count());
        if in_use != expected {
            return Err(format!("{in_use} inodes are in use, not {expected}"));
        }
        Ok(())
    }

    /// Checks the volume.
    ///
    /// # Errors
    /// The check failed, or has a finding that `is_allowed` does not accept.
    pub fn check(&self, is_allowed: impl Fn(&str) -> bool) -> Result<(), String> {
        check(&self.volume, is_allowed)
    }
}

/// Compares a volume's count of its inodes with the number that a check finds. After a crash the count is right only
/// after a recount.
///
/// # Errors
/// Both numbers.
pub fn check_totals(volume: &Volume) -> Result<(), String> {
    let told = volume.usage().map_err(|error| format!("the usage: {error}"))?.inodes;
    let report = volume.check(&mut |_| ()).map_err(|error| format!("the check failed: {error}"))?;
    let found = report.directories + report.files;
    if told == found { Ok(()) } else { Err(format!("{told} inodes are counted, and {found} are there")) }
}

/// Counts the inodes of a volume again, if a recount is due, and compares.
///
/// # Errors
/// As for [`check_totals`].
pub(crate) fn recount(volume: &Volume) -> Result<(), String> {
    volume.recount(&|| true).map_err(|error| format!("the recount failed: {error}"))?;
    check_totals(volume)
}

/// Checks a volume.
///
/// # Errors
/// The check failed, or has a finding that `is_allowed` does not accept.
pub fn check(volume: &Volume, is_allowed: impl Fn(&str) -> bool) -> Result<(), String> {
    let mut findings = Vec::new();
    let report = volume.check(&mut |finding| findings.push(finding.to_string()));
    report.map_err(|error| format!("the check failed: {error}"))?;
    findings.retain(|finding| !is_allowed(finding));
    if findings.is_empty() { Ok(()) } else { Err(format!("the check found: {}", findings.join("; "))) }
}

/// The contents of a volume: every inode below the root, and all entries.
#[derive(Debug, Default)]
pub struct Tree {
    /// The inodes.
    pub inodes: BTreeMap<Ino, Seen>,
    /// The entries.
    pub entries: BTreeMap<(Ino, Vec<u8>), Ino>,
}

/// An inode of a volume.
#[derive(Debug)]
pub struct Seen {
    /// The answer of `stat`.
    pub attributes: Attributes,
    /// Whether its bytes are in an object.
    pub is_object: bool,
    /// A file's bytes, or a link's target.
    pub bytes: Vec<u8>,
    /// Its extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Tree {
    /// Reads a whole volume, as root.
    ///
    /// # Errors
    /// The failed read.
    pub fn of(volume: &Volume) -> Result<Tree, String> {
        let mut tree = Tree::default();
        let told = |what: &str, error: &thalweg_fs::Error| format!("{what}: {error}");
        let root = volume.attributes(ROOT).map_err(|error| told("the root", &error))?;
        tree.see(volume, root).map_err(|error| told("the root", &error))?;
        let mut left = vec![ROOT];
        while let Some(directory) = left.pop() {
            let entries = volume.list(directory, 0, usize::MAX, true);
            for entry in entries.map_err(|error| told(&format!("list of {directory}"), &error))? {
                let Some(attributes) = entry.attributes else { continue };
                if tree.entries.insert((directory, entry.name.to_vec()), entry.ino).is_some() {
                    return Err(format!("{} is twice in directory {directory}", entry.name.escape_ascii()));
                }
                if attributes.kind == Kind::Directory {
                    left.push(entry.ino);
                }
                tree.see(volume, attributes).map_err(|error| told(&format!("inode {}", entry.ino), &error))?;
            }
        }
        // Forgotten only now: a directory must be referred to while it is listed.
        for ino in tree.entries.values() {
            volume.forget(*ino, 1);
        }
        Ok(tree)
    }

    fn see(&mut self, volume: &Volume, attributes: Attributes) -> thalweg_fs::Result<()> {
        let ino = attributes.ino;
        let bytes = match attributes.kind {
            Kind::File => volume.read(ino, 0, usize::try_from(attributes.size).unwrap_or(usize::MAX))?,
            Kind::Symlink => volume.read_link(ino)?.into_vec(),
            _ => Vec::new(),
        };
        let mut xattrs = BTreeMap::new();
        for name in volume.list_xattrs(&CALLERS[0], ino)? {
            let value = match volume.xattr(&CALLERS[0], ino, &name) {
                Ok(value) => value.to_vec(),
                Err(error) => return Err(error),
            };
            xattrs.insert(name.into_vec(), value);
        }
        let is_object = volume.has_object(ino);
        self.inodes.insert(ino, Seen { attributes, is_object, bytes, xattrs });
        Ok(())
    }

    /// Compares with the model, including the bytes and sizes of objects.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&self, model: &Model) -> Result<(), String> {
        self.compare_names(model)?;
        for (ino, seen) in &self.inodes {
            self.compare_inode(*ino, seen, model, true)?;
        }
        Ok(())
    }

    /// Compares with the model, except bytes and sizes of objects, which a power cut may lose.
    ///
    /// # Errors
    /// The difference.
    pub fn compare_without_objects(&self, model: &Model) -> Result<(), String> {
        self.compare_names(model)?;
        for (ino, seen) in &self.inodes {
            self.compare_inode(*ino, seen, model, false)?;
        }
        Ok(())
    }

    fn compare_names(&self, model: &Model) -> Result<(), String> {
        let mut expected = BTreeMap::new();
        for inode in model.inodes().filter(|inode| inode.is_directory()) {
            expected.extend(inode.entries.iter().map(|(name, ino)| ((inode.stat.ino, name.clone()), *ino)));
        }
        if self.entries == expected {
            return Ok(());
        }
        let show = |entries: &BTreeMap<(Ino, Vec<u8>), Ino>, other: &BTreeMap<(Ino, Vec<u8>), Ino>| {
            let only = entries.iter().filter(|(spot, ino)| other.get(*spot) != Some(ino));
            let only = only.map(|((directory, name), ino)| format!("{directory}/{} → {ino}", name.escape_ascii()));
            only.collect::<Vec<_>>().join(", ")
        };
        Err(format!(
            "only the volume has {}; only the model has {}",
            show(&self.entries, &expected),
            show(&expected, &self.entries)
        ))
    }

    fn compare_inode(&self, ino: Ino, seen: &Seen, model: &Model, with_objects: bool) -> Result<(), String> {
        let Some(inode) = model.inode(ino) else { return Err(format!("the model has no inode {ino}")) };
        let (mut stat, mut expected) = (stat_of(&seen.attributes), inode.stat.clone());
        if seen.is_object != inode.is_object {
            return Err(format!("inode {ino} is an object: {}, in the model {}", seen.is_object, inode.is_object));
        }
        if seen.is_object {
            for stat in [&mut stat, &mut expected] {
                (stat.times[1], stat.times[2]) = Default::default();
                if !with_objects {
                    stat.size = 0;
                }
            }
        }
        if stat != expected {
            return Err(format!("inode {ino}:\n  volume {stat:?}\n  model  {expected:?}"));
        }
        let bytes = if stat.kind == Kind::Symlink { &inode.target } else { &*inode.bytes };
        if (with_objects || !seen.is_object) && seen.bytes != *bytes {
            let at = seen.bytes.iter().zip(bytes).position(|(one, other)| one != other);
            return Err(format!("inode {ino} has other bytes than the model, from {at:?} on"));
        }
        if seen.xattrs != inode.xattrs {
            return Err(format!("inode {ino} has the extended attributes {:?}, not {:?}", seen.xattrs, inode.xattrs));
        }
        Ok(())
    }
}
