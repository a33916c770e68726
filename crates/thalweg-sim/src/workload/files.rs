//! The reads of a simulated client in the directory keyspace: entries, listings, resumed listings, snapshots.

use super::client::ClientRun;
use crate::keys;
use crate::spot::describe_spot;
use crate::stage::list;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg::{DirectoryEntry, DirectoryKeyspace, Listing};

impl ClientRun {
    /// Makes one random read operation in the directory keyspace.
    pub(super) fn read_files(&mut self) {
        let Some((name, files)) = self.files.clone() else { return };
        match self.rng.below(11) {
            0..4 if self.stage.plan.reads_many_files => self.read_many_entries(&name, &files),
            0..4 => self.get_entry(&name, &files),
            4..7 => self.list_directory(&name, &files),
            10 => self.list_and_read_later(&name, &files),
            7 => self.list_in_pages(&name, &files),
            _ => self.list_in_a_snapshot(&name, &files),
        }
    }

    fn get_entry(&mut self, name: &Arc<str>, files: &DirectoryKeyspace) {
        let spot = (Arc::clone(name), self.some_spot().0.1);
        self.stage.world.doing(|| format!("get of the entry {}", describe_spot(&spot)));
        let began = self.stage.tick();
        let outcome = files.get(keys::directory_of(&spot.1), &spot.1);
        let ended = self.stage.tick();
        match outcome {
            Ok(found) => self.check(&spot, found.as_deref(), began, ended),
            Err(error) => self.reading_fails(name, "get of an entry", &error),
        }
    }

    /// The number of entries that a listing reads at a time: small, so that parts end anywhere in memtables and packs.
    fn part(&self) -> usize {
        *self.rng.aside(36).choose(&[1, 2, 5, 2048])
    }

    /// Checks that a listing shows the moment at which it began, whatever others do meanwhile.
    fn list_directory(&mut self, name: &Arc<str>, files: &DirectoryKeyspace) {
        let directory = self.rng.below(keys::DIRECTORIES);
        self.stage.world.doing(|| format!("lists directory {directory}"));
        let began = self.stage.tick();
        let listing = files.list(directory).in_parts_of(self.part());
        let ended = self.stage.tick();
        self.stage.world.pause();
        let mut listed = BTreeMap::new();
        match list(listing, directory, &mut listed) {
            Ok(()) => self.check_listed(name, directory, &listed, began, ended),
            Err(error) => self.reading_fails(name, "list", &error),
        }
    }

    /// Checks a listing in pages: each page shows a moment of its own, and together they have each name once.
    fn list_in_pages(&mut self, name: &Arc<str>, files: &DirectoryKeyspace) {
        let directory = self.rng.below(keys::DIRECTORIES);
        self.stage.world.doing(|| format!("lists directory {directory} in pages"));
        let began = self.stage.tick();
        let (mut listed, mut cursor) = (BTreeMap::new(), 0);
        loop {
            let page = match page(files.list_from(directory, cursor)) {
                Ok(page) => page,
                Err(error) => return self.reading_fails(name, "list_from", &error),
            };
            let Some(last) = page.last() else { break };
            cursor = last.cursor();
            for entry in page {
                match entry.value() {
                    Ok(value) => {
                        let before = listed.insert(entry.name().to_vec(), Arc::from(&value[..]));
                        assert!(before.is_none(), "a name is in two pages");
                    }
                    Err(error) => return self.reading_fails(name, "a listed value", &error),
                }
            }
            self.stage.world.pause();
        }
        let ended = self.stage.tick();
        self.check_listed(name, directory, &listed, began, ended);
    }

    /// Reads the values of listed entries after a pause, in which their packs may be replaced.
    fn list_and_read_later(&mut self, name: &Arc<str>, files: &DirectoryKeyspace) {
        let directory = self.rng.below(keys::DIRECTORIES);
        self.stage.world.doing(|| format!("lists directory {directory}, and reads its values later"));
        let began = self.stage.tick();
        let entries: Result<Vec<_>, _> = files.list(directory).collect();
        let ended = self.stage.tick();
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.reading_fails(name, "list", &error),
        };
        self.stage.world.sleep(self.rng.below(400_000_000));
        let mut listed = BTreeMap::new();
        for entry in entries {
            match entry.value() {
                Ok(value) => drop(listed.insert(entry.name().to_vec(), Arc::from(&value[..]))),
                Err(error) => return self.reading_fails(name, "a listed value", &error),
            }
        }
        self.check_listed(name, directory, &listed, began, ended);
    }

    fn list_in_a_snapshot(&mut self, name: &Arc<str>, files: &DirectoryKeyspace) {
        let part = self.part();
        let Some(view) = self.views.last() else { return self.get_entry(name, files) };
        let (began, ended) = (view.began, view.ended);
        self.stage.world.doing(|| "lists a directory in a snapshot".into());
        let directory = self.rng.below(keys::DIRECTORIES);
        let mut listed = BTreeMap::new();
        let outcome = view.snapshot.directory_keyspace(files);
        match outcome.and_then(|files| list(files.list(directory).in_parts_of(part), directory, &mut listed)) {
            Ok(()) => self.check_listed(name, directory, &listed, began, ended),
            Err(error) => self.reading_fails(name, "list in a snapshot", &error),
        }
    }

    fn check_listed(
        &self,
        name: &Arc<str>,
        directory: u64,
        listed: &BTreeMap<Vec<u8>, Arc<[u8]>>,
        began: u64,
        ended: u64,
    ) {
        let keys = self.stage.oracle.borrow().keys_of(name);
        assert!(listed.keys().all(|key| keys.contains(key)), "a listing has a name that was never written");
        for key in keys.into_iter().filter(|key| keys::directory_of(key) == directory) {
            let spot = (Arc::clone(name), key);
            self.check(&spot, listed.get(&spot.1).map(|value| &**value), began, ended);
        }
    }
}

/// The first entries of a listing: three, and others with the cursor of the third.
fn page(listing: Listing) -> thalweg::Result<Vec<DirectoryEntry>> {
    let mut page: Vec<DirectoryEntry> = Vec::new();
    for entry in listing {
        let entry = entry?;
        if page.len() >= 3 && page.last().is_some_and(|last| last.cursor() != entry.cursor()) {
            break;
        }
        page.push(entry);
    }
    Ok(page)
}
