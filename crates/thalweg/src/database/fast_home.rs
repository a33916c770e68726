//! [`FastHome`]: the directory of a database's fast tier (`docs/format/manifest.md`, FAST).
//!
//! `FAST` in the root names the directory, `OWNER` in the directory names the root, and both have the same random id.
//! So an open refuses the directory of another database. It also refuses that of the database which this one was copied
//! from: a copy of the root alone must not empty the tier of the original. A caller that names a directory may take it
//! over, if the id is right and nobody has it open. The order of writes leaves, after a crash at any moment, files that
//! the next open understands:
//!
//! - `FAST` is durable before `OWNER` exists, and both are durable before an edit names a fast table. `FAST` without
//!   `OWNER` is a set-up that was cut off, unless the manifest names fast tables: then the tier is lost.
//! - When the manifest in force names no fast table and the caller does not ask for the tier, the tables that are left
//!   are removed, then `OWNER`, then `FAST`; each removal is durable before the next one.

use super::directory::{LOCK, sync_ancestors};
use crate::error::{Error, Result};
use crate::fast_table::fast_table_id;
use crate::format::checksum;
use crate::lineage::{FAST as NAME, Homes, State};
use crate::runtime::Environment;
use crate::storage::{OpenMode, Storage, StorageLock};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A `FAST` that is not whole yet.
const NEW_NAME: &str = "FAST.new";
const OWNER: &str = "OWNER";
const NEW_OWNER: &str = "OWNER.new";

/// The beginning of the first line. The version comes next, and then the checksum of all following lines.
const NAME_OF_FORMAT: &str = "thalweg fast tier ";
const VERSION: u32 = 1;
/// The name of the format, the version, and a space.
const MAGIC: &str = "thalweg fast tier 1 ";
/// The magic, eight hexadecimal digits and a newline.
const HEADER_BYTES: usize = MAGIC.len() + 9;
/// The id in hexadecimal digits, and a newline.
const ID_BYTES: usize = 33;
/// The most bytes of such a file.
const BYTES_MAX: u64 = 64 << 10;

/// The text of the error for a tier whose owner file is missing.
const MOVED: &str = "no such file; a tier that was moved is opened with its new path";

/// The directory of the fast tier in a checkpoint.
pub(super) const CHECKPOINT_DIRECTORY: &str = "fast";

/// The directory of a database's fast tier; see the module.
#[derive(Clone, Debug)]
pub(super) struct FastHome {
    id: u128,
    directory: PathBuf,
    /// Why the directory cannot be used.
    trouble: Option<Error>,
}

impl FastHome {
    /// Reads from `FAST` which directory has the fast tier of the database in `root`, and checks that the directory is
    /// this database's own. `asked` is the directory that the caller asks for. Changes nothing.
    pub(super) fn find(storage: &dyn Storage, root: &Path, asked: Option<&Path>) -> Result<Option<Self>> {
        let Some(Named { id, path }) = Named::read(storage, &root.join(NAME))? else { return Ok(None) };
        let directory = root.join(path);
        let is_asked_for = match asked.map(|asked| has_owner(storage, asked, id, None)) {
            Some(Ok(())) => true,
            None | Some(Err(Error::Corruption(_))) => false,
            Some(Err(error)) => return Err(error),
        };
        Ok(Some(match asked.filter(|_| is_asked_for) {
            Some(asked) => FastHome { id, directory: asked.to_path_buf(), trouble: None },
            None => {
                let trouble = has_owner(storage, &directory, id, Some(root)).err();
                FastHome { id, directory, trouble }
            }
        }))
    }

    /// Locks the directory for a database that is open for writing, if it can be used.
    pub(super) fn lock(&self, storage: &dyn Storage) -> Result<Option<Box<dyn StorageLock>>> {
        let Some(directory) = self.directory() else { return Ok(None) };
        let path = directory.join(LOCK);
        if storage.file_bytes(&path)?.is_none() {
            drop(storage.create(&path)?);
        }
        storage.lock(&path, false).map(Some)
    }

    /// The directory, if it can be used.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.trouble.is_none().then_some(&*self.directory)
    }

    /// The directory; an error says why it cannot be used.
    pub(super) fn usable(&self) -> Result<&Path> {
        self.trouble.clone().map_or(Ok(&*self.directory), Err)
    }

    /// Makes `directory` the fast tier of the database in `root`, which has none.
    fn set_up(environment: &Environment, root: &Path, directory: &Path) -> Result<Self> {
        let (storage, entropy) = (&*environment.storage, &environment.entropy);
        match Named::read(storage, &directory.join(OWNER))? {
            // Owned by a database that was in this root before, or by an open that was cut off.
            Some(owner) if owner.is_owner(directory, root) => {
                remove_tables(storage, directory)?;
            }
            Some(owner) => {
                return Err(refused(directory, format!("it is that of another database, {}", owner.path.display())));
            }
            None => {
                let entries = storage.list(directory)?.unwrap_or_default();
                if let Some(table) = entries.iter().find(|entry| fast_table_id(&entry.name).is_some()) {
                    let reason = format!("it has {}, a fast table of an unknown database", table.name);
                    return Err(refused(directory, reason));
                }
            }
        }
        let id = u128::from(entropy.next_u64()) << 64 | u128::from(entropy.next_u64());
        let home = FastHome { id, directory: directory.to_path_buf(), trouble: None };
        home.write(storage, root)?;
        Ok(home)
    }

    /// Whether `FAST` and `OWNER` name each other's directory.
    fn is_told(&self, storage: &dyn Storage, root: &Path) -> Result<bool> {
        let named = Named::read(storage, &root.join(NAME))?;
        let is_named = named.is_some_and(|named| root.join(named.path) == self.directory);
        match has_owner(storage, &self.directory, self.id, Some(root)) {
            Ok(()) => Ok(is_named),
            Err(Error::Corruption(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes, durably, that the database in `root` has its fast tier here.
    fn write(&self, storage: &dyn Storage, root: &Path) -> Result<()> {
        let FastHome { id, directory, .. } = self;
        // A directory within the root moves with it.
        let (named, owner) = match directory.strip_prefix(root) {
            Ok(within) => (within, Path::new("")),
            Err(_) => (&**directory, root),
        };
        Named { id: *id, path: named.to_path_buf() }.write(storage, root, (NEW_NAME, NAME))?;
        // Not before `FAST` is written: an open that finds the directory in a root without a database also finds
        // `FAST`.
        if storage.list(directory)?.is_none() {
            storage.create_directory(directory)?;
        }
        sync_ancestors(storage, directory)?;
        Named { id: *id, path: owner.to_path_buf() }.write(storage, directory, (NEW_OWNER, OWNER))
    }

    /// Removes the files that say that the database in `root` has a fast tier. The manifest in force names no fast
    /// table. A later open removes files that cannot be removed now.
    pub(super) fn forget(&self, storage: &dyn Storage, root: &Path) {
        if self.leave(storage).is_ok() {
            let _ = storage.remove(&root.join(NAME));
        }
    }

    /// Removes the tables and the owner file of this database from the directory, durably.
    fn leave(&self, storage: &dyn Storage) -> Result<()> {
        let directory = &self.directory;
        if storage.list(directory)?.is_none() {
            return Ok(());
        }
        match Named::read(storage, &directory.join(OWNER))? {
            Some(owner) if owner.id == self.id && self.trouble.is_none() => {
                // Orphans: no edit in force names them. `OWNER` claims them as long as a crash may bring one back.
                if remove_tables(storage, directory)? > 0 {
                    storage.sync_directory(directory)?;
                }
                storage.remove(&directory.join(OWNER))?;
            }
            // The directory is another database's, perhaps that of the one which this one was copied from.
            Some(_) => return Ok(()),
            // An earlier try may have removed `OWNER` without making that durable.
            None => {}
        }
        storage.sync_directory(directory)
    }

    /// Writes, durably, that the checkpoint in `target` has a fast tier of its own, whose directory exists.
    pub(super) fn write_checkpoint(environment: &Environment, target: &Path) -> Result<()> {
        let entropy = &environment.entropy;
        let id = u128::from(entropy.next_u64()) << 64 | u128::from(entropy.next_u64());
        let home = FastHome { id, directory: target.join(CHECKPOINT_DIRECTORY), trouble: None };
        home.write(&*environment.storage, target)
    }
}

/// The directories of the tables of the database in `root`.
pub(super) fn homes<'a>(root: &'a Path, home: Option<&'a FastHome>) -> Homes<'a> {
    Homes { root, fast: home.and_then(FastHome::directory) }
}

/// The error of an open that met `error`: the trouble with the fast tier, if that is the cause.
pub(super) fn trouble_or(home: Option<&FastHome>, error: Error) -> Error {
    match home.and_then(|home| home.trouble.clone()) {
        Some(trouble) if matches!(error, Error::Corruption(_)) => trouble,
        _ => error,
    }
}

/// The decision of an open about the fast tier.
pub(super) struct FastDecision {
    /// The directory that the database has its fast tier in.
    pub(super) home: Option<FastHome>,
    /// The directory of a tier in which the database has no table and that the caller does not ask for.
    pub(super) unused: Option<FastHome>,
}

/// Decides about the fast tier of a database whose tables are those of `state`. `wanted`: the directory that the caller
/// asks for, and how many bytes it is to hold.
pub(super) fn decide(
    environment: &Environment,
    root: &Path,
    found: Option<FastHome>,
    wanted: Option<(&Path, u64)>,
    state: &State,
) -> Result<FastDecision> {
    let storage = &*environment.storage;
    let has_tables = state.fast_tables().next().is_some();
    let Some((wanted, capacity_bytes)) = wanted else {
        let (home, unused) = if has_tables { (found, None) } else { (None, found) };
        return Ok(FastDecision { home, unused });
    };
    if storage.is_volatile(wanted) {
        let reason = "its file system is memory, which a power cut empties; use FastTier::Memory";
        return Err(refused(wanted, reason));
    }
    // Free bytes are not checked: others may use the file system too, and a full one must not keep a database from
    // opening.
    let existing = wanted.ancestors().find_map(|directory| storage.capacity_bytes(directory));
    if let Some(bytes) = existing.filter(|bytes| *bytes < capacity_bytes) {
        let reason = format!("{capacity_bytes} bytes are asked for, and its file system has {bytes} in all");
        return Err(refused(wanted, reason));
    }
    let is_same = |home: &FastHome| -> Result<bool> {
        Ok(home.trouble.is_none() && storage.resolved(&home.directory)? == storage.resolved(wanted)?)
    };
    let home = match found {
        Some(home) if is_same(&home)? => {
            let is_told = home.is_told(storage, root)?;
            if !is_told {
                // The root or the directory was moved or copied.
                home.write(storage, root)?;
            }
            home
        }
        // Refused even without tables: the manifest that was read may name some, until the next one is durable.
        Some(home) if has_tables || home.trouble.is_none() => {
            let named = home.directory.display();
            let reason =
                format!("the database has its fast tier in {named}; opened without a fast tier it leaves that");
            return Err(refused(wanted, reason));
        }
        // `FAST` is replaced and never missing: it claims a directory within a root that has no database yet.
        Some(_) | None => FastHome::set_up(environment, root, wanted)?,
    };
    Ok(FastDecision { home: Some(home), unused: None })
}

/// Checks that `directory` is none that the database in `root` uses for itself; both paths are absolute.
pub(super) fn check_place(directory: &Path, root: &Path) -> Result<()> {
    let within = directory.strip_prefix(root).ok().map(|within| within.components().next());
    match within {
        Some(None) => Err(refused(directory, "it is the directory of the database itself")),
        Some(Some(first)) if ["tables", "log", "lost"].iter().any(|own| first.as_os_str() == *own) => {
            Err(refused(directory, "the database has other files there"))
        }
        _ => Ok(()),
    }
}

fn refused(directory: &Path, reason: impl std::fmt::Display) -> Error {
    Error::invalid_input(format!("{} cannot be the fast tier: {reason}", directory.display()))
}

/// Checks that `directory` is the fast tier with this id, and that of the database in `root` if that is given.
fn has_owner(storage: &dyn Storage, directory: &Path, id: u128, root: Option<&Path>) -> Result<()> {
    let path = directory.join(OWNER);
    let Some(owner) = Named::read(storage, &path)? else {
        return Err(Error::corruption(&path, 0, format!("the owner of fast tier {id:032x}"), MOVED));
    };
    if owner.id != id {
        let found = format!("fast tier {:032x}", owner.id);
        return Err(Error::corruption(&path, 0, format!("fast tier {id:032x}"), found));
    }
    let Some(root) = root.filter(|root| !owner.is_owner(directory, root)) else { return Ok(()) };
    let (expected, found) = (format!("the fast tier of {}", root.display()), owner.path.display());
    let found = format!("that of {found}; a database that was moved must be opened with its fast tier by name");
    Err(Error::corruption(&path, 0, expected, found))
}

/// Removes the fast tables in a directory, and says how many there were.
fn remove_tables(storage: &dyn Storage, directory: &Path) -> Result<usize> {
    let entries = storage.list(directory)?.unwrap_or_default();
    let tables: Vec<_> = entries.iter().filter(|entry| fast_table_id(&entry.name).is_some()).collect();
    tables.iter().try_for_each(|table| storage.remove(&directory.join(&table.name)))?;
    Ok(tables.len())
}

/// The version in the first line of a file, if it begins as one of a fast tier and its checksum is right.
fn version_of(text: &[u8]) -> Option<u32> {
    let (first, body) = text.split_at_checked(text.iter().position(|byte| *byte == b'\n')? + 1)?;
    let rest = std::str::from_utf8(first).ok()?.trim_end().strip_prefix(NAME_OF_FORMAT)?;
    let (version, sum) = rest.split_once(' ')?;
    (u32::from_str_radix(sum, 16).ok()? == checksum::crc32c(body)).then(|| version.parse().ok()).flatten()
}

/// An id and a path: the content of `FAST` and of `OWNER`.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    id: u128,
    path: PathBuf,
}

impl Named {
    /// Whether this is the content of an `OWNER` in `directory` that names the database in `root`.
    fn is_owner(&self, directory: &Path, root: &Path) -> bool {
        let is_within = self.path.as_os_str().is_empty() && directory.starts_with(root);
        is_within || self.path == root
    }

    /// Reads a file, if it exists.
    fn read(storage: &dyn Storage, path: &Path) -> Result<Option<Self>> {
        let bytes = match storage.file_bytes(path)? {
            None if storage.list(path)?.is_some() => {
                return Err(Error::corruption(path, 0, "a file", "a directory"));
            }
            None => return Ok(None),
            Some(bytes) if bytes > BYTES_MAX => {
                return Err(Error::corruption(path, 0, "a short file", format!("{bytes} bytes")));
            }
            Some(bytes) => bytes,
        };
        let unsupported = || Error::io("open", path, std::io::ErrorKind::Unsupported.into());
        let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
        storage.open(path, OpenMode::Read)?.ok_or_else(unsupported)?.read_exact_at(0, &mut text)?;
        Self::decode(path, &text).map(Some)
    }

    /// Writes a file in `directory`, durably; `names` are the name of the unfinished file and the final name.
    fn write(&self, storage: &dyn Storage, directory: &Path, names: (&str, &str)) -> Result<()> {
        let (new, path) = (directory.join(names.0), directory.join(names.1));
        if storage.file_bytes(&new)?.is_some() {
            storage.remove(&new)?;
        }
        let file = storage.create(&new)?;
        file.write_all_at(0, &self.encode())?;
        file.sync()?;
        storage.rename(&new, &path)?;
        storage.sync_directory(directory)
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = format!("{:032x}\n", self.id).into_bytes();
        body.extend_from_slice(self.path.as_os_str().as_bytes());
        body.push(b'\n');
        [header_of(&body).as_bytes(), &body].concat()
    }

    fn decode(path: &Path, text: &[u8]) -> Result<Self> {
        let found = || if text.is_empty() { "an empty file".to_owned() } else { text.escape_ascii().to_string() };
        let damaged = |expected: &str| Error::corruption(path, 0, expected, found());
        if let Some(version) = version_of(text).filter(|version| *version > VERSION) {
            return Err(Error::newer_version(path, version, VERSION));
        }
        let Some((header, body)) = text.split_at_checked(HEADER_BYTES) else {
            return Err(damaged("\"thalweg fast tier 1\" and a checksum"));
        };
        if *header != *header_of(body).as_bytes() {
            return Err(damaged("\"thalweg fast tier 1\" and the checksum of what follows that line"));
        }
        let (id, named) = body.split_at_checked(ID_BYTES).ok_or_else(|| damaged("an id"))?;
        let id = std::str::from_utf8(id).ok().and_then(|id| u128::from_str_radix(id.trim_end(), 16).ok());
        let named = named.strip_suffix(b"\n").ok_or_else(|| damaged("a path and a newline"))?;
        let path = PathBuf::from(OsStr::from_bytes(named));
        Ok(Named { id: id.ok_or_else(|| damaged("an id"))?, path })
    }
}

/// The first line, before `body`.
fn header_of(body: &[u8]) -> String {
    format!("{MAGIC}{:08x}\n", checksum::crc32c(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::simulated::{SimulatedDisk, Strictness};

    #[test]
    fn a_crash_while_a_tier_is_left_leaves_no_table_without_an_owner_and_no_owner_without_a_name() {
        let (root, directory) = (Path::new("/db"), Path::new("/db/fast"));
        let (name, owner, table) = (root.join(NAME), directory.join(OWNER), directory.join("0000000001.fast"));
        for (seed, after) in (0..50).flat_map(|seed| (0..8).map(move |after| (seed, after))) {
            let disk = SimulatedDisk::new(seed);
            disk.create_directory(root).unwrap();
            let home = FastHome { id: 7, directory: directory.to_path_buf(), trouble: None };
            home.write(&disk, root).unwrap();
            drop(disk.create(&table).unwrap());
            disk.sync_directory(directory).unwrap();
            disk.crash_at(disk.operations() + after);
            home.forget(&disk, root);
            for strictness in Strictness::ALL {
                let found = disk.crash(strictness);
                let [named, owned, has_table] =
                    [&name, &owner, &table].map(|it| found.file_bytes(it).unwrap().is_some());
                let what = format!("seed {seed}, after {after}, {strictness:?}");
                assert!(!has_table || owned, "{what}: a table without an owner");
                assert!(!owned || named, "{what}: an owner without a name");
            }
        }
    }

    #[test]
    fn what_was_written_is_read_and_every_damage_refused() {
        let named = Named { id: 7, path: PathBuf::from("/fast\n tier") };
        let (path, text) = (Path::new("FAST"), named.encode());
        assert_eq!(Named::decode(path, &text).unwrap(), named);
        for at in 0..text.len() {
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            assert!(Named::decode(path, &damaged).is_err(), "byte {at}");
            assert!(Named::decode(path, &text[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_later_version_is_named_and_is_no_damage() {
        let named = Named { id: 7, path: PathBuf::from("/fast") };
        let mut text = named.encode();
        text[NAME_OF_FORMAT.len()] = b'2';
        let error = Named::decode(Path::new("FAST"), &text).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::NewerVersion, "{error}");
    }
}
