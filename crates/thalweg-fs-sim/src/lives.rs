//! Lives with crashes. After each life, the state found is judged by the *prefix rule*: names and rows are as after
//! some prefix of the operations, which includes all durable ones. If only the process died, no acknowledged operation
//! is missing. [`Evidence`] judges the bytes of objects.

use crate::answer::{Answer, of_model};
use crate::clock::{SharedClock, VirtualClock};
use crate::evidence::Evidence;
use crate::ground::Ground;
use crate::histories::{formatted, small_limits, work_all};
use crate::memory::End;
use crate::model::Model;
use crate::operation::{Histories, Operation};
use crate::pair::{Applied, Pair, Tree, check, recount};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_fs::{Ino, Limits, OpenOptions, Promise, ROOT, RenameFlags, Time, Volume};
use thalweg_sim::Rng;

/// The operations of a life, kept until the state that the life left is judged.
struct Past {
    /// The states after each operation.
    states: Vec<Model>,
    /// For each state, the number of changes of bytes recorded before it.
    noted: Vec<u64>,
    /// The index of the newest state that is known to be durable.
    durable: usize,
    /// The operation during which the life ended.
    in_flight: Option<(usize, Operation, Time)>,
    /// The index of the state before `in_flight`, if later operations followed that cannot have changed rows.
    failed_at: Option<usize>,
    /// Whether a sync of objects may have failed before a kill. The error was reported then, and no later sync makes
    /// the lost pages durable. A power cut shows the durable bytes and resets this.
    may_lack_pages: bool,
    /// Whether the log of an engine may have failed. Then it keeps only a prefix of the batches, even after a kill.
    may_lose_batches: bool,
    how: End,
}

/// A volume over several lives.
struct Lives<'g> {
    ground: &'g mut dyn Ground,
    clock: Arc<VirtualClock>,
    rng: Rng,
    /// A generator for choices other than those of `rng`, so that seeds keep their operations.
    others: Rng,
    histories: Histories,
    limits: Limits,
    evidence: Evidence,
    past: Past,
    highest: Ino,
    /// Files that replaced others by a rename: their promotion must not skip the sync.
    replacing: BTreeSet<Ino>,
    /// Whether the background works right after each removal: in one seed of four.
    works_after_removals: bool,
    /// Whether the first sync after each open fails, for data of an earlier process: in one seed of eight.
    fails_first_sync: bool,
    says: bool,
}

/// Runs the lives of a seed. `clock` is that of `ground`.
///
/// # Errors
/// The first violation.
pub fn run_lives(
    seed: u64,
    ground: &mut dyn Ground,
    clock: &Arc<VirtualClock>,
    says: bool,
) -> std::result::Result<(), String> {
    let mut rng = Rng::new(seed ^ 0x11fe);
    clock.advance();
    let limits = small_limits(seed, &mut rng);
    ground.format(clock).map_err(|error| format!("format: {error}"))?;
    let options = OpenOptions::new().limits(limits).clock(Box::new(SharedClock(Arc::clone(clock))));
    let volume = ground.open(options).map_err(|error| format!("open: {error}"))?;
    let model = formatted(&volume, clock);
    drop(volume);
    ground.end(End::Kill, &mut rng);
    let past = Past {
        states: vec![model],
        noted: vec![0],
        durable: 0,
        in_flight: None,
        failed_at: None,
        may_lack_pages: false,
        may_lose_batches: false,
        how: End::Kill,
    };
    let histories = Histories::new(rng.next_u64());
    let (evidence, replacing) = (Evidence::default(), BTreeSet::new());
    let clock = Arc::clone(clock);
    let (highest, works_after_removals, fails_first_sync) = (ROOT, seed % 4 == 3, seed % 8 == 4);
    let others = Rng::new(seed ^ 0x07_4e25);
    let mut lives = Lives {
        ground,
        clock,
        rng,
        others,
        histories,
        limits,
        evidence,
        past,
        highest,
        replacing,
        works_after_removals,
        fails_first_sync,
        says,
    };
    for life in 0..lives.rng.between(2, 6) {
        lives.say(|| format!("life {life}"));
        lives.live().map_err(|violation| format!("seed {seed}, life {life}: {violation}"))?;
    }
    Ok(())
}

impl Lives<'_> {
    fn say(&self, line: impl FnOnce() -> String) {
        if self.says {
            eprintln!("{}", line());
        }
    }

    fn live(&mut self) -> std::result::Result<(), String> {
        for attempt in 0.. {
            if attempt < 3 && self.rng.one_in(3) {
                self.ground.arm(&mut self.rng);
            }
            match self.open_and_judge()? {
                Some(pair) => {
                    self.ground.arm(&mut self.rng);
                    if self.fails_first_sync || self.others.one_in(4) {
                        self.ground.fail(&mut self.others);
                    }
                    return self.work_and_die(pair);
                }
                None => self.end_of_life(None),
            }
        }
        Ok(())
    }

    /// Opens the volume and judges its contents. `None`: the ground died meanwhile.
    fn open_and_judge(&mut self) -> std::result::Result<Option<Pair>, String> {
        let options = OpenOptions::new().limits(self.limits).clock(Box::new(SharedClock(Arc::clone(&self.clock))));
        let failed = |ground: &dyn Ground, what: String| if ground.is_dead() { Ok(None) } else { Err(what) };
        let volume = match self.ground.open(options) {
            Ok(volume) => volume,
            Err(error) => return failed(self.ground, format!("open: {error}")),
        };
        let tree = match Tree::of(&volume) {
            Ok(tree) => tree,
            Err(what) => return failed(self.ground, what),
        };
        let is_known = |finding: &str| finding.contains("its file is missing") || finding.contains("that no row knows");
        if let Err(what) = check(&volume, is_known) {
            return failed(self.ground, what);
        }
        let model = self.judge(&tree)?;
        let (states, how) = (vec![model.clone()], self.past.how);
        let may_lack_pages = self.past.may_lack_pages;
        let noted = vec![self.evidence.noted()];
        self.past = Past {
            states,
            noted,
            durable: 0,
            in_flight: None,
            failed_at: None,
            may_lack_pages,
            may_lose_batches: false,
            how: End::Kill,
        };
        // An open volume's rows are durable. After a power cut its objects are durable too.
        for (ino, _) in tree.inodes.iter().filter(|(_, seen)| !seen.is_object || how == End::PowerCut) {
            if let Some(inode) = model.inode(*ino) {
                self.evidence.is_durable(*ino, &inode.bytes);
            }
        }
        self.replacing.clear();
        let pair = Pair::new(volume, model, &self.clock, self.highest);
        if self.rng.one_in(2) {
            let worked = work_all(&pair.volume)
                .and_then(|()| pair.check(|finding| finding.contains("its file is missing")))
                .and_then(|()| has_no_orphans(&pair.volume))
                .and_then(|()| recount(&pair.volume))
                .and_then(|()| pair.compare());
            if let Err(what) = worked {
                return failed(self.ground, format!("after the work: {what}"));
            }
            self.note_all_synced(&pair.model);
        }
        Ok(Some(pair))
    }

    /// Finds the prefix that the volume holds. Returns its state, with the objects as found.
    fn judge(&self, tree: &Tree) -> std::result::Result<Model, String> {
        let past = &self.past;
        let last = past.states.len() - 1;
        let keeps_all = past.how == End::Kill && !past.may_lose_batches;
        let from = if keeps_all { last } else { past.durable };
        let mut differences = Vec::new();
        for (number, mut state) in self.candidates(tree, from) {
            state.remount();
            match tree.compare_without_objects(&state) {
                Ok(()) => return self.judge_objects(tree, state),
                Err(difference) => differences.push(format!("{number} of {last}: {difference}")),
            }
        }
        differences.truncate(4);
        Err(format!("what is there is no prefix from {from} on ({:?}):\n{}", past.how, differences.join("\n")))
    }

    /// The states that may be left, the newest first.
    fn candidates(&self, tree: &Tree, from: usize) -> Vec<(usize, Model)> {
        let past = &self.past;
        let mut all = Vec::new();
        let last = past.states.len() - 1;
        let before = past.failed_at.unwrap_or(last);
        if let (Some((caller, operation, now)), Some(state)) = (&past.in_flight, past.states.get(before)) {
            let mut state = state.clone();
            state.now = *now;
            let new = match operation {
                Operation::Create { spot, .. } => tree.entries.get(spot).copied().unwrap_or(0),
                _ => 0,
            };
            // A number that was given out before cannot be that of the created inode.
            if !matches!(operation, Operation::Create { .. }) || new > self.highest {
                if !matches!(operation, Operation::Release(_) | Operation::Forget(_)) {
                    let _ = of_model(&mut state, *caller, operation, new);
                }
                all.push((last + 1, as_promoted(&state, tree, file_of(operation))));
                all.push((last + 1, state));
            }
            all.extend(past.states.last().map(|state| (last, as_promoted(state, tree, file_of(operation)))));
        }
        for number in (from..=last).rev() {
            all.push((number, past.states[number].clone()));
            // A promotion is a batch of its own, before the batch of its operation.
            let promoted = past.states.get(number + 1).into_iter().flat_map(Model::inodes).filter(|inode| {
                let before = past.states[number].inode(inode.stat.ino);
                inode.is_object && before.is_some_and(|before| !before.is_object)
            });
            if let Some(promoted) = promoted.map(|inode| inode.stat.ino).next() {
                all.push((number, as_promoted(&past.states[number], tree, Some(promoted))));
            }
        }
        all
    }

    fn judge_objects(&self, tree: &Tree, mut state: Model) -> std::result::Result<Model, String> {
        let changed = self.past.in_flight.as_ref().and_then(|(_, operation, _)| file_of(operation));
        let newest = self.past.states.last().filter(|_| self.past.how == End::Kill);
        for (ino, seen) in tree.inodes.iter().filter(|(_, seen)| seen.is_object) {
            // A kill loses no bytes of objects, even if it loses batches: then the objects are ahead of their rows.
            let newest = newest.and_then(|state| state.inode(*ino)).filter(|_| changed != Some(*ino));
            if let Some(newest) = newest.filter(|newest| seen.bytes != *newest.bytes) {
                let (found, expected) = (seen.bytes.len(), newest.bytes.len());
                return Err(format!("object {ino}: {found} bytes are not the {expected} that were acknowledged"));
            }
            self.evidence.judge(*ino, &seen.bytes)?;
            let inode = state.inode_mut(*ino);
            inode.bytes = Rc::new(seen.bytes.clone());
            inode.stat.size = seen.bytes.len() as u64;
        }
        Ok(state)
    }

    fn note_all_synced(&mut self, model: &Model) {
        for inode in model.inodes().filter(|inode| inode.is_object) {
            self.note_synced(inode.stat.ino, &inode.bytes);
        }
    }

    fn note_synced(&mut self, object: Ino, bytes: &Rc<Vec<u8>>) {
        if !self.past.may_lack_pages {
            self.evidence.is_durable(object, bytes);
        }
    }

    fn work_and_die(&mut self, mut pair: Pair) -> std::result::Result<(), String> {
        let operations = self.rng.between(1, 60);
        let asks = self.rng.one_in(2);
        let mut has_removed = false;
        let mut promises: VecDeque<(usize, Box<dyn Promise>)> = VecDeque::new();
        for number in 0..operations {
            let (caller, mut operation) = self.histories.next(&pair.model);
            let is_after_removal = std::mem::take(&mut has_removed) && self.works_after_removals;
            if is_after_removal || (number == 0 && self.fails_first_sync) {
                operation = Operation::Work;
            }
            while promises.front().is_some_and(|(_, promise)| promise.is_durable()) {
                let number = promises.pop_front().map_or(0, |(number, _)| number);
                self.past.durable = self.past.durable.max(number);
            }
            let size = file_of(&operation).and_then(|ino| pair.model.inode(ino)).map_or(0, |inode| inode.stat.size);
            self.evidence.note(&operation, size);
            self.say(|| format!("{} {caller}: {operation:?}", self.past.states.len()));
            let was_poisoned = self.ground.is_poisoned();
            if was_poisoned && file_of(&operation).is_some() {
                continue;
            }
            let answer = match pair.apply(caller, &operation)? {
                Applied::Agreed(answer) if !self.ground.is_dead() => answer,
                _ if self.ground.is_dead() => {
                    // If rows are poisoned, only the operation that failed can have changed them.
                    self.past.in_flight.get_or_insert((caller, operation, pair.model.now));
                    break;
                }
                Applied::Failed(errno, what) if self.ground.has_failed() => {
                    self.say(|| format!("failed: {what}"));
                    if self.goes_on_after((caller, operation), errno, was_poisoned, &pair)? {
                        continue;
                    }
                    break;
                }
                failed => return Err(format!("{operation:?}: {failed:?}")),
            };
            self.highest = pair.highest;
            has_removed = matches!(operation, Operation::Unlink(_) | Operation::Rename(..)) && answer == Answer::Done;
            self.past.states.push(pair.model.clone());
            self.past.noted.push(self.evidence.noted());
            self.note_done(&pair.model, &operation, &answer);
            if asks && let Ok(promise) = pair.volume.promise() {
                promises.push_back((self.past.states.len() - 1, promise));
            }
        }
        if self.ground.has_failed() && !self.ground.is_dead() {
            match Tree::of(&pair.volume) {
                Err(what) if !self.ground.is_dead() => return Err(format!("no reads after an error: {what}")),
                _ => {}
            }
        }
        if !self.ground.is_dead() && self.others.one_in(2) {
            match recount(&pair.volume) {
                Err(what) if !self.ground.is_dead() => return Err(format!("after the operations: {what}")),
                _ => {}
            }
        }
        if !self.ground.is_dead() && self.rng.one_in(3) {
            self.close(&pair);
        }
        drop(promises);
        self.end_of_life(Some(pair.volume));
        Ok(())
    }

    fn close(&mut self, pair: &Pair) {
        let closed = pair.volume.close();
        // With an operation in flight, half a change of an object may be durable too, which the model does not have.
        if closed.is_ok() && !self.ground.is_dead() && self.past.in_flight.is_none() {
            self.past.durable = self.past.states.len() - 1;
            self.note_all_synced(&pair.model);
        }
    }

    /// Judges an operation that failed on a failing disk: the first error must be `EIO`, later changes of rows get
    /// `EROFS`. Returns whether the life continues. It ends after half a change of an object, and if it is unknown what
    /// has failed.
    fn goes_on_after(
        &mut self,
        (caller, operation): (usize, Operation),
        errno: i32,
        was_poisoned: bool,
        pair: &Pair,
    ) -> std::result::Result<bool, String> {
        let syncs_objects = matches!(operation, Operation::Sync | Operation::SyncFile(_) | Operation::Work);
        if was_poisoned && errno != libc::EROFS && !syncs_objects {
            return Err(format!("{operation:?} gave {errno} where rows are poisoned"));
        }
        let is_poisoned = self.ground.is_poisoned();
        if is_poisoned && !was_poisoned && errno != libc::EIO {
            return Err(format!("{operation:?} met the error, and gave {errno}"));
        }
        let is_object = file_of(&operation).is_some_and(|ino| pair.volume.has_object(ino));
        let goes_on = self.ground.knows_poison() && !is_object;
        if (is_poisoned || !goes_on) && self.past.in_flight.is_none() {
            self.past.in_flight = Some((caller, operation, pair.model.now));
            self.past.failed_at = Some(self.past.states.len() - 1);
        }
        Ok(goes_on)
    }

    fn end_of_life(&mut self, volume: Option<Volume>) {
        drop(volume);
        let how = if self.rng.one_in(3) { End::Kill } else { End::PowerCut };
        self.say(|| format!("ends by {how:?}"));
        if self.ground.has_failed() && !self.ground.knows_poison() {
            (self.past.may_lose_batches, self.past.may_lack_pages) = (true, true);
        }
        self.ground.end(how, &mut self.rng);
        // A later power cut can lose what earlier deaths left in the cache.
        if how == End::PowerCut {
            self.past.how = End::PowerCut;
            self.past.may_lack_pages = false;
        }
    }

    /// Records what the operation made durable.
    fn note_done(&mut self, model: &Model, operation: &Operation, answer: &Answer) {
        let now = self.past.states.len() - 1;
        let is_refused = matches!(answer, Answer::Refused(_));
        match operation {
            Operation::SyncFile(ino) if !is_refused => {
                self.past.durable = now;
                if let Some(inode) = model.inode(*ino).filter(|inode| inode.is_object) {
                    self.note_synced(*ino, &inode.bytes);
                }
            }
            Operation::Sync => {
                self.past.durable = now;
                self.note_all_synced(model);
            }
            Operation::Work => self.note_all_synced(model),
            Operation::Rename((old, name), (new, new_name), RenameFlags::Replace) if !is_refused => {
                let at = |state: &Model, directory: Ino, name: &[u8]| {
                    state.inode(directory).and_then(|inode| inode.entries.get(name).copied())
                };
                let before = &self.past.states[now - 1];
                if let (Some(moved), Some(there)) = (at(before, *old, name), at(before, *new, new_name))
                    && moved != there
                    && let Some(inode) = model.inode(moved)
                {
                    if inode.is_object {
                        self.note_synced(moved, &inode.bytes);
                    } else if inode.stat.size > 0 {
                        // An empty file has no bytes that it could lose later.
                        self.replacing.insert(moved);
                    }
                }
            }
            Operation::Write { ino, .. } | Operation::Allocate { ino, .. } => self.note_promoted(model, *ino),
            // An emptied file gets only new bytes from here on.
            Operation::Change(ino, change) if !is_refused && change.size == Some(0) => {
                self.replacing.remove(ino);
            }
            _ => {}
        }
    }

    /// Records the bytes that a promotion must have synced.
    fn note_promoted(&mut self, model: &Model, ino: Ino) {
        let now = self.past.states.len() - 1;
        let was_rows = |state: &Model| state.inode(ino).is_some_and(|inode| !inode.is_object);
        if !model.inode(ino).is_some_and(|inode| inode.is_object) || !was_rows(&self.past.states[now - 1]) {
            return;
        }
        let from = if self.replacing.contains(&ino) { now - 1 } else { self.past.durable };
        let state = &self.past.states[from];
        if let Some(inode) = state.inode(ino).filter(|inode| !inode.is_object) {
            self.evidence.was_durable(ino, &inode.bytes, self.past.noted[from]);
        }
    }
}

/// Checks that a mount with nothing open has no orphans after its background work.
fn has_no_orphans(volume: &Volume) -> std::result::Result<(), String> {
    match volume.check(&mut |_| ()) {
        Ok(report) if report.orphans == 0 => Ok(()),
        Ok(report) => Err(format!("{} orphans are left", report.orphans)),
        Err(error) => Err(error.to_string()),
    }
}

/// The state in which a file is an object, if it is one in the volume.
fn as_promoted(state: &Model, tree: &Tree, file: Option<Ino>) -> Model {
    let mut state = state.clone();
    if let Some(ino) = file
        && tree.inodes.get(&ino).is_some_and(|seen| seen.is_object)
        && state.inode(ino).is_some()
    {
        state.inode_mut(ino).is_object = true;
    }
    state
}

/// The file whose bytes an operation may change.
fn file_of(operation: &Operation) -> Option<Ino> {
    match operation {
        Operation::Write { ino, .. } | Operation::Allocate { ino, .. } | Operation::Change(ino, _) => Some(*ino),
        _ => None,
    }
}
