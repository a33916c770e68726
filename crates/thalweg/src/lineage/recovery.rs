//! [`Recovered`]: the state that an open finds on the disk (`docs/durability.md`; X13, NOB-A2).
//!
//! 1. Everything that is read is made durable first, then read past the page cache.
//! 2. Recovery chooses the longest prefix of edits whose outputs all verify. The prefix ends before the first unsettled
//!    edit that reaches beyond the valid end of the log.
//!
//! Recovery changes nothing on the disk except durability. It refuses the open ([`DamagePolicy::Strict`]) if something
//! that was durable once is gone.

use crate::error::{Error, Result};
use crate::fast_table::{verify_fast_durably, verify_fast_file};
use crate::format::{EditId, Home, LogMark, TableFile, TableId};
use crate::lineage::files::{self, Homes, manifest_path};
use crate::lineage::manifest::medium::{Medium, read_manifest};
use crate::lineage::manifest::reader::{Contents, apply};
use crate::lineage::state::live::State;
use crate::log::{DamagePolicy, Scan};
use crate::planted::{Bug, planted};
use crate::runtime::Environment;
use crate::storage::{DirectoryEntry, Storage};
use crate::table::{TableMeta, verify_durably, verify_file};
use std::collections::BTreeMap;
use std::path::Path;

/// The state that recovery found in the directory of a database.
pub(crate) struct Recovered {
    /// The state after the longest valid prefix of edits.
    pub(crate) state: State,
    pub(crate) log: Scan,
    /// The changes that `PointInTime` dropped from manifest and log, in words.
    pub(crate) dropped: Vec<String>,
    /// Where the log ended, if the manifest ends with a clean close.
    pub(crate) closed: Option<LogMark>,
    /// The number of the manifest that was read.
    manifest: u64,
    /// Whether `PointInTime` dropped the tail of the manifest. Then a copy of the manifest goes to `lost/`.
    is_damaged: bool,
}

impl Recovered {
    /// Runs recovery. Returns `None` if there is no database in the root. With `read_only` it syncs nothing.
    pub(crate) fn run(
        environment: &Environment,
        homes: Homes<'_>,
        policy: DamagePolicy,
        read_only: bool,
    ) -> Result<Option<Recovered>> {
        let root = homes.root;
        let medium = Medium { storage: &*environment.storage, read_only };
        let Some((path, contents)) = read_manifest(&medium, root)? else { return Ok(None) };
        let mut verdict = Verdict { policy, dropped: Vec::new() };
        if let Some(lost) = contents.lost.clone() {
            verdict.lost(lost)?;
        }
        let is_damaged = !verdict.dropped.is_empty();
        medium.sync_outputs(&homes, contents.unsettled.iter().map(|(_, edit)| edit))?;

        let log_directory = root.join("log");
        // A manifest that lost its tail names an outdated start of the log. So this check comes before the log is read.
        verdict.reaches(&path, &contents, Scan::settled_edit(environment, &log_directory)?)?;
        let log = Scan::run(environment, &log_directory, contents.settled.log_start, policy, read_only)?;
        let reach = Reach { end: log.end, settled: log.settled, closed: log.closed };
        reach.check(&path, &contents, &log.end_path(), &mut verdict)?;
        let verify = &mut |home, path: &Path, meta: &TableMeta| match (home, read_only) {
            (Home::Disk, true) => verify_file(environment, path, meta),
            (Home::Disk, false) => verify_durably(environment, path, meta),
            (Home::Fast, true) => verify_fast_file(environment, path, meta),
            (Home::Fast, false) => verify_fast_durably(environment, path, meta),
        };
        let state = choose(&*environment.storage, homes, &path, &contents, &reach, verify)?;

        let mut dropped = verdict.dropped;
        dropped.extend(log.dropped.iter().cloned());
        let (closed, manifest) = (contents.closed, contents.header.number);
        Ok(Some(Recovered { state, log, dropped, closed, manifest, is_damaged }))
    }

    /// Returns the number of the manifest that was read.
    pub(crate) fn manifest(&self) -> u64 {
        self.manifest
    }

    /// Copies the manifest to `lost/`, durably, if its tail was dropped.
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
    let (bytes, _) = files::read_whole(storage, &from, false)?;
    if storage.file_bytes(&to)?.is_some() {
        storage.remove(&to)?;
    }
    let copy = storage.create(&to)?;
    copy.write_all_at(0, &bytes)?;
    copy.sync()?;
    storage.sync_directory(&lost)
}

/// Returns the state after the longest prefix of edits whose outputs all `verify`. The prefix ends before the first
/// unsettled edit that reaches beyond the log. A missing table of the settled state is an error.
pub(super) fn choose(
    storage: &dyn Storage,
    homes: Homes<'_>,
    path: &Path,
    contents: &Contents,
    log: &Reach,
    verify: &mut dyn FnMut(Home, &Path, &TableMeta) -> Result<bool>,
) -> Result<State> {
    let found = TableFiles::list(storage, &homes)?;
    contents.settled.tables().try_for_each(|meta| found.check(&homes, Home::Disk, meta))?;
    contents.settled.fast_tables().try_for_each(|meta| found.check(&homes, Home::Fast, meta))?;
    let mut state = contents.settled.clone();
    'edits: for (id, edit) in &contents.unsettled {
        if edit.seq > log.end.seq && !planted(Bug::EditBeyondLogAccepted) {
            break;
        }
        for (home, meta) in edit.outputs() {
            if !verify(home, &homes.path(TableFile { home, id: meta.id })?, meta)? {
                break 'edits;
            }
        }
        apply(path, &mut state, edit, *id)?;
    }
    // The log may have lost records before an edit's mark, so that no reading of the log reaches the mark. Then the log
    // continues at its end: no chosen edit and no promise reaches further.
    if state.log_start.position > log.end.position {
        state.log_start = log.end;
    }
    // Numbers of dropped edits and files are not used again: a file or a segment header may still have them.
    let last = contents.unsettled.back().map_or(state.edit, |(id, _)| *id);
    state.edit = state.edit.max(last).max(log.settled);
    let unused = found.largest_id().map_or(0, |id| id.0.saturating_add(1));
    state.next_table = state.next_table.max(TableId(unused));
    Ok(state)
}

/// Decides about durable content that is gone: refuses the open, or notes the content as dropped.
pub(super) struct Verdict {
    pub(super) policy: DamagePolicy,
    pub(super) dropped: Vec<String>,
}

impl Verdict {
    /// Checks that the manifest reaches `witnessed`, the last settled edit in the headers of log segments.
    pub(super) fn reaches(&mut self, path: &Path, contents: &Contents, witnessed: EditId) -> Result<()> {
        let settled = contents.settled.edit;
        if witnessed <= settled {
            return Ok(());
        }
        let expected = format!("settled edit {witnessed}, as the log says");
        self.lost(Error::corruption(path, contents.end, expected, format!("settled edit {settled}")))
    }

    /// Returns `damage` as an error, or notes it for `PointInTime`.
    fn lost(&mut self, damage: Error) -> Result<()> {
        if self.policy != DamagePolicy::PointInTime {
            return Err(damage);
        }
        self.dropped.push(damage.to_string());
        Ok(())
    }
}

/// How far the log reaches, and what it says about the manifest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) end: LogMark,
    pub(super) settled: EditId,
    pub(super) closed: Option<(u64, u64)>,
}

impl Reach {
    /// Checks manifest and log against each other: each records how far the other reached.
    pub(super) fn check(
        &self,
        path: &Path,
        contents: &Contents,
        log_directory: &Path,
        verdict: &mut Verdict,
    ) -> Result<()> {
        if let Some((number, bytes)) = self.closed {
            // A later manifest belongs to an open that crashed before it continued the log.
            let end = (contents.header.number, contents.end);
            if end < (number, bytes) {
                let expected = format!("manifest {number} with {bytes} bytes, as the log's close says");
                let found = format!("manifest {} with {} bytes", end.0, end.1);
                verdict.lost(Error::corruption(path, contents.end, expected, found))?;
            }
        }
        if contents.settled.seq > self.end.seq {
            // `PointInTime` cannot open either: tables hold part of what the log lost, and no older state of them
            // exists.
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

    /// Returns the corruption of a log that ends too early.
    fn lost(&self, directory: &Path, expected: String) -> Error {
        let offset = u64::from(self.end.position.offset());
        let found = format!("its end at {}, with sequence number {}", self.end.position, self.end.seq);
        Error::corruption(directory, offset, expected, found)
    }
}

/// The files of tables, and their lengths.
struct TableFiles(BTreeMap<TableFile, u64>);

impl TableFiles {
    fn list(storage: &dyn Storage, homes: &Homes<'_>) -> Result<Self> {
        let mut found = BTreeMap::new();
        for home in [Home::Disk, Home::Fast] {
            let Some(directory) = homes.directory(home) else { continue };
            let entries = storage.list(&directory)?.unwrap_or_default();
            let files = entries.into_iter().filter(|entry| !entry.is_directory);
            let table = |DirectoryEntry { name, bytes, .. }| Some((files::table_file(home, &name)?, bytes));
            found.extend(files.filter_map(table));
        }
        Ok(TableFiles(found))
    }

    /// Checks that the file of a live table exists and has its length.
    fn check(&self, homes: &Homes<'_>, home: Home, meta: &TableMeta) -> Result<()> {
        let file = TableFile { home, id: meta.id };
        let found = match self.0.get(&file) {
            Some(bytes) if *bytes == meta.bytes => return Ok(()),
            Some(bytes) => format!("{bytes} bytes"),
            None => "no such file".into(),
        };
        Err(Error::corruption(&homes.path(file)?, 0, format!("a table of {} bytes", meta.bytes), found))
    }

    fn largest_id(&self) -> Option<TableId> {
        self.0.keys().map(|file| file.id).max()
    }
}
