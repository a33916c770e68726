//! [`Strictness`]: what a crash leaves of changes that were not synced.
//!
//! Everything synced survives every crash, except phantom pages of a failed sync. The model is stricter than any one
//! file system: a sync of one file commits neither its name nor anything of another file, unless the disk is set up
//! with one journal for all files ([`super::SimulatedDisk::share_journal`]).

use super::image::{Change, Directory, Entry, Image, InodeId};
use super::inode::{Inode, SECTORS, Survival};
use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a crash treats changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// A power cut that loses all of them, except pages and changes that the kernel had written back by itself.
    LoseUnsynced,
    /// A power cut that keeps or loses each dirty page, each change of names and each length on its own.
    RandomPages,
    /// As [`Strictness::RandomPages`], and pages are torn between 512-byte sectors.
    TornSectors,
    /// A power cut under ext4's `data=ordered`: changes of names and lengths survive in order, up to some moment. So a
    /// file may have its new length, and zeros where its data had not arrived. Each dirty page is kept or lost on its
    /// own.
    Ext4Ordered,
    /// The death of the process alone. The page cache stays as it is, dirty pages and phantoms included, so that a
    /// later power cut can still lose them; open handles and locks end.
    ProcessDeath,
}

impl Strictness {
    /// All variants, for loops over crashes.
    pub const ALL: [Strictness; 5] = [
        Strictness::LoseUnsynced,
        Strictness::RandomPages,
        Strictness::TornSectors,
        Strictness::Ext4Ordered,
        Strictness::ProcessDeath,
    ];
}

impl Image {
    /// The file system after a power cut. Files in directories whose names begin with `memory` are in persistent
    /// memory.
    pub(super) fn after_power_cut(&self, strictness: Strictness, memory: Option<&str>, random: &mut Random) -> Image {
        let in_memory = memory.map_or_else(BTreeSet::new, |name| self.files_in(name));
        // Each crash draws one probability for changes and one for pages. So crashes are frequent where nearly nothing
        // or nearly everything survives, or nearly all changes and nearly no data.
        let mut draw = || [125, 500, 875][random.below(3) as usize];
        let (changes_per_mille, pages_per_mille) = (draw(), draw());
        let kept = match strictness {
            Strictness::LoseUnsynced | Strictness::ProcessDeath => Vec::new(),
            Strictness::RandomPages | Strictness::TornSectors => self.random_changes(changes_per_mille, random),
            Strictness::Ext4Ordered => {
                let count = random.below(self.pending.len() as u64 + 1);
                self.pending.keys().copied().take(count as usize).collect()
            }
        };
        let mut directories = self.directories.clone();
        let mut new_lengths = BTreeSet::new();
        for change in kept.iter().filter_map(|number| self.pending.get(number)) {
            match change {
                Change::Names(changes) => changes.iter().for_each(|change| set_durable(&mut directories, change)),
                Change::Length(id) => drop(new_lengths.insert(*id)),
            }
        }
        Image::on_medium(&directories, self.next_inode(), |id| {
            let file = self.files.get(&id)?;
            if file.is_durable() {
                return Some(Arc::clone(file));
            }
            let bytes =
                if new_lengths.contains(&id) { new_length(file, strictness, random) } else { file.durable_bytes() };
            let survivor = file.after_power_cut(bytes, || match strictness {
                Strictness::LoseUnsynced => Survival::Old,
                _ if in_memory.contains(&id) && random.coin() => Survival::Words(Random::new(random.next_u64())),
                Strictness::TornSectors if random.coin() => {
                    let torn = (0..SECTORS).fold(0, |bits, _| bits << 1 | u8::from(random.chance(pages_per_mille)));
                    Survival::Torn(torn)
                }
                _ if random.chance(pages_per_mille) => Survival::New,
                _ => Survival::Old,
            });
            Some(Arc::new(survivor))
        })
    }

    /// The files that have or had a name in a directory whose name begins with `directory`.
    fn files_in(&self, directory: &str) -> BTreeSet<InodeId> {
        let named = |entries: &Directory| {
            let all = entries.live.iter().chain(&entries.durable);
            all.map(|(name, id)| (Arc::clone(name), *id)).collect::<Vec<_>>()
        };
        let found = self.directories.values().flat_map(|entries| named(entries));
        let directories: BTreeSet<InodeId> =
            found.filter(|(name, _)| name.starts_with(directory)).map(|(_, id)| id).collect();
        let entries = directories.iter().filter_map(|id| self.directories.get(id));
        entries.flat_map(|entries| named(entries)).map(|(_, id)| id).collect()
    }

    /// A random selection of pending changes, each with the earlier changes of the same names.
    fn random_changes(&self, per_mille: u64, random: &mut Random) -> Vec<u64> {
        if random.coin() {
            // A change that survives keeps the changes that it builds on …
            return self.closed_under_earlier(|_, _| random.chance(per_mille));
        }
        // … or a change that is lost loses the changes that build on it.
        let mut lost: BTreeSet<&Entry> = BTreeSet::new();
        let mut kept = Vec::new();
        for (number, change) in &self.pending {
            let survives = random.chance(per_mille);
            let Change::Names(changes) = change else {
                kept.extend(survives.then_some(*number));
                continue;
            };
            if survives && !changes.iter().any(|(entry, _)| lost.contains(entry)) {
                kept.push(*number);
            } else {
                lost.extend(changes.iter().map(|(entry, _)| entry));
            }
        }
        kept
    }
}

fn set_durable(
    directories: &mut BTreeMap<InodeId, Arc<Directory>>,
    ((directory, name), target): &(Entry, Option<InodeId>),
) {
    let Some(directory) = directories.get_mut(directory) else { return };
    let durable = &mut Arc::make_mut(directory).durable;
    match target {
        Some(id) => durable.insert(Arc::clone(name), *id),
        None => durable.remove(name),
    };
}

/// The length that survives when the newest change of length survives: mostly the live one. A file grows write by
/// write, and only its newest change of length is recorded, so any length in between is possible too.
fn new_length(file: &Inode, strictness: Strictness, random: &mut Random) -> u64 {
    let (low, high) = (file.lowest_bytes(), file.live_bytes());
    if random.chance(750) {
        return high;
    }
    let step = if strictness == Strictness::TornSectors { 512 } else { 4096 };
    let between = low + random.below(high - low + 1);
    (between - between % step).max(low)
}
