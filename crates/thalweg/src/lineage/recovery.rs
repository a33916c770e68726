//! [`Recovered`]: what an open finds (DESIGN 6, Recovery; X13; NOB-A2).
//!
//! First everything that is read is made durable, then it is read past the page cache: a verification from the cache
//! proves nothing about the medium. Then the longest prefix of edits is chosen whose outputs all verify, ending
//! before the first unsettled edit that reaches beyond the valid end of the log. Nothing is changed here but
//! durability; what is found is refused ([`DamagePolicy::Strict`]) wherever something that was durable once is gone.

use super::{Edit, State};
use crate::error::{Error, Result};
use crate::format::{EditId, LogMark, TableId};
use crate::lineage::manifest::current::{self, Current, manifest_path};
use crate::lineage::manifest::reader::{Contents, apply};
use crate::log::{DamagePolicy, Scan};
use crate::planted::{Bug, planted};
use crate::runtime::Environment;
use crate::storage::{DirectoryEntry, OpenMode, Storage};
use crate::table::{TableMeta, verify_durably, verify_file};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What recovery found.
pub(crate) struct Recovered {
    /// After the longest valid prefix of edits.
    pub(crate) state: State,
    pub(crate) log: Scan,
    /// What `PointInTime` dropped, in words; of the log too.
    pub(crate) dropped: Vec<String>,
    /// Where the log ended, when the manifest ends with a clean close.
    pub(crate) closed: Option<LogMark>,
    /// The number of the manifest that was read.
    manifest: u64,
    /// Its tail was dropped by `PointInTime`: a copy goes to `lost/`.
    is_damaged: bool,
}

impl Recovered {
    /// Steps 1 and 2 of DESIGN 6, Recovery. `None` when there is no database in `root`. Changes nothing on disk
    /// but durability (and with `read_only` not that).
    pub(crate) fn run(
        environment: &Environment,
        root: &Path,
        policy: DamagePolicy,
        read_only: bool,
    ) -> Result<Option<Recovered>> {
        let medium = Medium { storage: &*environment.storage, read_only };
        let Some((path, contents)) = read_manifest(&medium, root)? else { return Ok(None) };
        let mut verdict = Verdict { policy, dropped: Vec::new() };
        if let Some(lost) = contents.lost.clone() {
            verdict.lost(lost)?;
        }
        let is_damaged = !verdict.dropped.is_empty();
        let tables = root.join("tables");
        medium.sync_outputs(&tables, contents.unsettled.iter().map(|(_, edit)| edit))?;

        let log_directory = root.join("log");
        // Before the log is read from where this manifest says: if the manifest lost its tail, that is out of date.
        verdict.reaches(&path, &contents, Scan::settled_edit(environment, &log_directory)?)?;
        let log = Scan::run(environment, &log_directory, contents.settled.log_start, policy, read_only)?;
        let reach = Reach { end: log.end, settled: log.settled, closed: log.closed };
        reach.check(&path, &contents, &log.end_path(), &mut verdict)?;
        let verify = if read_only { verify_file } else { verify_durably };
        let verify = &mut |path: &Path, meta: &TableMeta| verify(environment, path, meta);
        let state = choose(&*environment.storage, root, &path, &contents, &reach, verify)?;

        let mut dropped = verdict.dropped;
        dropped.extend(log.dropped.iter().cloned());
        let (closed, manifest) = (contents.closed, contents.header.number);
        Ok(Some(Recovered { state, log, dropped, closed, manifest, is_damaged }))
    }

    /// The number of the manifest that was read.
    pub(super) fn manifest(&self) -> u64 {
        self.manifest
    }

    /// Copies a manifest whose tail was dropped to `lost/`, durably.
    pub(super) fn put_damaged_manifest_aside(&self, storage: &dyn Storage, root: &Path) -> Result<()> {
        if !self.is_damaged {
            return Ok(());
        }
        put_aside(storage, root, self.manifest)
    }
}

/// Copies manifest `number` to `lost/`, durably.
pub(super) fn put_aside(storage: &dyn Storage, root: &Path, number: u64) -> Result<()> {
    let from = manifest_path(root, number);
    let lost = root.join("lost");
    let to = manifest_path(&lost, number);
    if storage.list(&lost)?.is_none() {
        storage.create_directory(&lost)?;
        storage.sync_directory(root)?;
    }
    let (bytes, _) = current::read_whole(storage, &from, false)?;
    if storage.file_bytes(&to)?.is_some() {
        storage.remove(&to)?;
    }
    let copy = storage.create(&to)?;
    copy.write_all_at(0, &bytes)?;
    copy.sync()?;
    storage.sync_directory(&lost)
}

/// The longest prefix of edits whose outputs all `verify`, ending before the first unsettled edit that reaches beyond
/// the log. Every table of the settled state must be there.
pub(super) fn choose(
    storage: &dyn Storage,
    root: &Path,
    path: &Path,
    contents: &Contents,
    log: &Reach,
    verify: &mut dyn FnMut(&Path, &TableMeta) -> Result<bool>,
) -> Result<State> {
    let tables = root.join("tables");
    let names = files(storage, &tables)?;
    contents.settled.tables().try_for_each(|meta| check_table(&tables, &names, meta))?;
    let mut state = contents.settled.clone();
    'edits: for (id, edit) in &contents.unsettled {
        if edit.seq > log.end.seq && !planted(Bug::EditBeyondLogAccepted) {
            break;
        }
        for meta in edit.outputs() {
            if !verify(&tables.join(current::table_name(meta.id)), meta)? {
                break 'edits;
            }
        }
        apply(path, &mut state, edit, *id)?;
    }
    // What an edit says the log is not needed for may be lost, and with it what led to the edit's mark. Then the log
    // goes on from its end: the edits reach no further, and nothing that was promised does.
    if state.log_start.position > log.end.position {
        state.log_start = log.end;
    }
    // Numbers of what is left behind are not given again: a file or a segment header may still bear them.
    let last = contents.unsettled.back().map_or(state.edit, |(id, _)| *id);
    state.edit = state.edit.max(last).max(log.settled);
    let unused = names.keys().filter_map(|name| current::table_id(name)).max().map_or(0, |id| id.saturating_add(1));
    state.next_table = state.next_table.max(TableId(unused));
    Ok(state)
}

/// The number of a new manifest in `root`, after manifest `last`.
pub(super) fn next_number(storage: &dyn Storage, root: &Path, last: u64) -> Result<u64> {
    let entries = storage.list(root)?.unwrap_or_default();
    let found = entries.iter().filter_map(|entry| current::manifest_number(&entry.name)).max().unwrap_or(0);
    last.max(found).checked_add(1).ok_or_else(|| Error::invalid_input("the numbers of manifests are used up"))
}

/// Reads CURRENT and the manifest it names. `None`: no database.
pub(super) fn read_manifest(medium: &Medium<'_>, root: &Path) -> Result<Option<(PathBuf, Contents)>> {
    let Some(entries) = medium.storage.list(root)? else { return Ok(None) };
    let current_path = root.join(current::NAME);
    if !entries.iter().any(|entry| entry.name == current::NAME) {
        return match used(medium.storage, root)? {
            None => Ok(None),
            Some(found) => Err(Error::corruption(&current_path, 0, "a file that names the manifest", found)),
        };
    }
    medium.sync_directory(root)?;
    // Its bytes were durable before they got this name; only the name may not have been.
    let (bytes, _) = current::read_whole(medium.storage, &current_path, !medium.read_only)?;
    let current = Current::decode(&current_path, &bytes)?;
    let path = manifest_path(root, current.number);
    if medium.storage.file_bytes(&path)?.is_none() {
        return Err(Error::corruption(&path, 0, "the manifest that CURRENT names", "no such file"));
    }
    let contents = Contents::read(&path, &medium.read(&path)?, current.bytes)?;
    let (number, generation) = (contents.header.number, contents.header.generation);
    if (number, generation) != (current.number, current.generation) {
        let expected = format!("manifest {}, generation {:#018x}", current.number, current.generation);
        return Err(Error::corruption(&path, 0, expected, format!("manifest {number}, generation {generation:#018x}")));
    }
    Ok(Some((path, contents)))
}

/// A file that only a database has which once had a CURRENT: that is durable before the first segment or table is
/// created. Manifests alone are those of an interrupted creation.
fn used(storage: &dyn Storage, root: &Path) -> Result<Option<String>> {
    for directory in ["log", "tables"] {
        let entries = storage.list(&root.join(directory))?.unwrap_or_default();
        if let Some(entry) = entries.iter().find(|entry| !entry.is_directory) {
            return Ok(Some(format!("none, though there is {directory}/{}", entry.name)));
        }
    }
    Ok(None)
}

/// How files are read: after making them durable, and from the medium.
pub(super) struct Medium<'a> {
    pub(super) storage: &'a dyn Storage,
    /// Nothing is synced, and nothing written.
    pub(super) read_only: bool,
}

impl Medium<'_> {
    fn sync_directory(&self, path: &Path) -> Result<()> {
        if self.read_only { Ok(()) } else { self.storage.sync_directory(path) }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        if self.read_only {
            return Ok(current::read_whole(self.storage, path, false)?.0);
        }
        let file = current::open(self.storage, path, OpenMode::ReadWrite)?;
        file.sync()?;
        let (bytes, from_medium) = current::read_whole(self.storage, path, true)?;
        if !from_medium {
            // The cache may hold what a failed sync lost and left clean; written again, it is synced again.
            file.write_all_at(0, &bytes)?;
            file.sync()?;
        }
        Ok(bytes)
    }

    pub(super) fn sync_outputs<'e>(&self, tables: &Path, edits: impl Iterator<Item = &'e Edit>) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        for meta in edits.flat_map(Edit::outputs) {
            let path = tables.join(current::table_name(meta.id));
            if self.storage.file_bytes(&path)?.is_some() {
                current::open(self.storage, &path, OpenMode::ReadWrite)?.sync()?;
            }
        }
        if self.storage.list(tables)?.is_some() { self.storage.sync_directory(tables) } else { Ok(()) }
    }
}

/// What to do about what is gone.
pub(super) struct Verdict {
    pub(super) policy: DamagePolicy,
    pub(super) dropped: Vec<String>,
}

impl Verdict {
    /// The manifest reaches the last settled edit that the log's headers tell of.
    pub(super) fn reaches(&mut self, path: &Path, contents: &Contents, witnessed: EditId) -> Result<()> {
        let settled = contents.settled.edit;
        if witnessed <= settled {
            return Ok(());
        }
        let expected = format!("settled edit {witnessed}, as the log says");
        self.lost(Error::corruption(path, contents.end, expected, format!("settled edit {settled}")))
    }

    fn lost(&mut self, damage: Error) -> Result<()> {
        if self.policy != DamagePolicy::PointInTime {
            return Err(damage);
        }
        self.dropped.push(damage.to_string());
        Ok(())
    }
}

/// How far the log goes, and what it says of the manifest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) end: LogMark,
    pub(super) settled: EditId,
    pub(super) closed: Option<(u64, u64)>,
}

impl Reach {
    /// Manifest and log bear witness to each other: each knows how far the other reached.
    pub(super) fn check(
        &self,
        path: &Path,
        contents: &Contents,
        log_directory: &Path,
        verdict: &mut Verdict,
    ) -> Result<()> {
        if let Some((number, bytes)) = self.closed {
            // A later manifest is that of a crashed open, which had not yet gone on with the log.
            let end = (contents.header.number, contents.end);
            if end < (number, bytes) {
                let expected = format!("manifest {number} with {bytes} bytes, as the log's close says");
                let found = format!("manifest {} with {} bytes", end.0, end.1);
                verdict.lost(Error::corruption(path, contents.end, expected, found))?;
            }
        }
        if contents.settled.seq > self.end.seq {
            // Not for `PointInTime` either: tables hold part of what the log lost, and nothing takes them back to
            // before.
            let expected = format!("sequence number {}, which settled edits reach", contents.settled.seq);
            return Err(self.lost(log_directory, expected));
        }
        match contents.closed {
            Some(mark) if mark.position > self.end.position => {
                verdict.lost(self.lost(log_directory, format!("the log up to {}, where it was closed", mark.position)))
            }
            _ => Ok(()),
        }
    }

    fn lost(&self, directory: &Path, expected: String) -> Error {
        let offset = u64::from(self.end.position.offset());
        let found = format!("its end at {}, with sequence number {}", self.end.position, self.end.seq);
        Error::corruption(directory, offset, expected, found)
    }
}

/// Files of a directory and their lengths, by name.
pub(super) fn files(storage: &dyn Storage, directory: &Path) -> Result<BTreeMap<String, u64>> {
    let entries = storage.list(directory)?.unwrap_or_default();
    let files = entries.into_iter().filter(|entry| !entry.is_directory);
    Ok(files.map(|DirectoryEntry { name, bytes, .. }| (name, bytes)).collect())
}

/// A live table is there, as long as it was.
pub(super) fn check_table(directory: &Path, names: &BTreeMap<String, u64>, meta: &TableMeta) -> Result<()> {
    let name = current::table_name(meta.id);
    let found = match names.get(&name) {
        Some(bytes) if *bytes == meta.bytes => return Ok(()),
        Some(bytes) => format!("{bytes} bytes"),
        None => "no such file".into(),
    };
    Err(Error::corruption(&directory.join(name), 0, format!("a table of {} bytes", meta.bytes), found))
}
