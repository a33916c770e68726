//! [`ClientRun`]: what one simulated client does: random operations of the whole API, each checked while it runs.
//!
//! A client ends after its operations, or a few reads after its first write that failed for good. Reads are in
//! `reading.rs`; this file has the writes and the choice of operations.

use crate::keys::{self, STABLE, TEMPORARY};
use crate::reading::View;
use crate::rng::Rng;
use crate::spot::{Spot, Value, describe_spot};
use crate::stage::Stage;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use thalweg::{Database, Durability, Error, ErrorKind, Keyspace, ReadOnlyDatabase};

/// One change of a batch: the key's place, and its new value.
type Change = ((Arc<str>, Keyspace), Vec<u8>, Value);

/// The existing temporary keyspaces, by the oracle's names, shared by all clients.
pub type Temporary = Rc<RefCell<Vec<(Arc<str>, Keyspace)>>>;

/// One simulated client.
pub struct ClientRun {
    pub(crate) stage: Rc<Stage>,
    pub(crate) db: Database,
    pub(crate) rng: Rng,
    pub(crate) number: usize,
    pub(crate) stable: Vec<(Arc<str>, Keyspace)>,
    pub(crate) temporary: Temporary,
    pub(crate) views: Vec<View>,
    /// Operations left; only a few after a write has failed for good.
    left: u64,
    broken: bool,
    life: u64,
}

impl ClientRun {
    /// Client `number` of a database whose stable keyspaces exist.
    pub fn new(
        stage: &Rc<Stage>,
        db: &Database,
        stable: &[(Arc<str>, Keyspace)],
        temporary: &Temporary,
        number: usize,
        rng: Rng,
    ) -> Self {
        ClientRun {
            stage: Rc::clone(stage),
            db: db.clone(),
            rng,
            number,
            stable: stable.to_vec(),
            temporary: Rc::clone(temporary),
            views: Vec::new(),
            left: stage.plan.operations,
            broken: false,
            life: stage.life.get(),
        }
    }

    /// Runs to the end.
    pub fn run(mut self) {
        if self.number == 0 {
            self.find_temporary();
        }
        while self.left > 0 && !self.is_overtaken() {
            self.left -= 1;
            if self.rng.one_in(2) {
                self.stage.world.pause();
            }
            self.step();
        }
        self.stage.world.doing(|| "drops its handles".into());
    }

    /// Whether the other clients have ended while this one was parked. Its last write then stays a maybe.
    fn is_overtaken(&self) -> bool {
        self.stage.life.get() != self.life
    }

    /// Whether this is the only client.
    pub(crate) fn is_alone(&self) -> bool {
        self.stage.plan.clients == 1
    }

    fn step(&mut self) {
        if self.rng.one_in(self.stage.plan.checkpoint_one_in) {
            return self.checkpoint();
        }
        if let Some((name, keyspace)) = self.going_keyspace()
            && self.rng.one_in(2)
        {
            return self.read_many(&name, &keyspace);
        }
        if self.stage.plan.clears && self.rng.one_in(30) {
            return self.clear();
        }
        if self.stage.plan.wanes && self.rng.one_in(15) {
            return self.sweep();
        }
        match self.rng.below(100) {
            0..28 => self.batch(),
            28..40 if self.is_alone() => self.single(),
            28..40 => self.batch(),
            40..45 if !self.stage.plan.one_partition => self.twins(),
            40..45 => self.batch(),
            45..47 => self.persist(),
            47 => self.flush(),
            48 => self.wait_for_compactions(),
            49..52 if self.number == 0 => self.change_keyspaces(),
            49..52 => self.nap(),
            52 => self.look_at_statistics(),
            _ => self.read(),
        }
    }

    // Writes.

    /// Writes one to many changes in one batch, over all keyspaces.
    fn batch(&mut self) {
        let count = if self.rng.one_in(15) { self.rng.between(10, 40) } else { self.rng.between(1, 5) };
        let write = self.stage.next_write();
        let mut changes = Vec::new();
        for index in 0..count {
            let keyspace = self.some_keyspace();
            let scope = keys::scope(&mut self.rng, self.number);
            let key = keys::key(&scope, self.rng.below(self.stage.plan.keys));
            changes.push((keyspace, key, self.stage.value(&mut self.rng, self.number, write, index as u32)));
        }
        let durability = self.some_durability();
        self.commit(write, changes, durability);
    }

    /// Writes the same value under the same key in two keyspaces.
    fn twins(&mut self) {
        let write = self.stage.next_write();
        let key = keys::key(keys::TWINS, self.rng.below(5));
        let value = self.stage.value(&mut self.rng, self.number, write, 0);
        let changes =
            self.stable.iter().take(2).map(|keyspace| (keyspace.clone(), key.clone(), value.clone())).collect();
        let durability = self.some_durability();
        self.commit(write, changes, durability);
    }

    /// Clears a keyspace; for the oracle that is a write that removes every key that can be written.
    fn clear(&mut self) {
        let write = self.stage.next_write();
        let (name, keyspace) = self.some_keyspace();
        let label = format!("write {}.{write}, a clear of {name}", self.number);
        let own = (0..self.stage.plan.clients.max(2)).map(keys::own_scope);
        let numbers = 0..self.stage.plan.keys.max(5);
        let keys = own.chain([keys::SHARED, keys::TWINS].map(Into::into)).flat_map(|scope| {
            let keys: Vec<_> = numbers.clone().map(|number| keys::key(&scope, number)).collect();
            keys
        });
        // Also the keys that a session writes between clients.
        let others = self.stage.oracle.borrow().keys_of(&name);
        let spots: Vec<_> = keys.chain(others).map(|key| ((Arc::clone(&name), key), None)).collect();
        let id = self.stage.oracle.borrow_mut().begin(label.clone(), spots);
        self.stage.world.doing(|| label.clone());
        let outcome = keyspace.clear_seq();
        if matches!(&outcome, Err(error) if error.kind() == ErrorKind::NoKeyspace) {
            assert!(!self.stage.oracle.borrow().is_keyspace_present(&name), "{label} misses a keyspace that is there");
            return self.stage.oracle.borrow_mut().refuse(id);
        }
        self.judge(id, &label, outcome.map(Some), Durability::Sync);
    }

    /// Removes the keys of a keyspace in one batch and flushes, so that its partitions become small and merge. Twins
    /// stay: they are always written in two keyspaces.
    fn sweep(&mut self) {
        let keyspace = self.some_keyspace();
        let keys = self.stage.oracle.borrow().keys_of(&keyspace.0);
        let write = self.stage.next_write();
        let changes: Vec<Change> =
            keys.into_iter().filter(|key| !keys::is_twin(key)).map(|key| (keyspace.clone(), key, None)).collect();
        if !changes.is_empty() {
            self.commit(write, changes, Durability::Buffered);
        }
        for wait in [Self::flush, Self::wait_for_compactions] {
            if !self.is_overtaken() && !self.broken {
                wait(self);
            }
        }
    }

    /// Makes one change by a call of [`Keyspace`], whose place in the order only a lone client knows.
    fn single(&mut self) {
        let write = self.stage.next_write();
        let (name, keyspace) = self.some_keyspace();
        let scope = keys::scope(&mut self.rng, self.number);
        let key = keys::key(&scope, self.rng.below(self.stage.plan.keys));
        let value = self.stage.value(&mut self.rng, self.number, write, 0);
        let spot = (name, key);
        let label = format!("write {}.{write} of {}", self.number, describe_spot(&spot));
        let id = self.stage.oracle.borrow_mut().begin(label.clone(), [(spot.clone(), value.clone())]);
        self.stage.world.doing(|| label.clone());
        let mut durability = self.stage.plan.durability();
        let outcome = match &value {
            None if self.rng.one_in(3) => {
                durability = self.some_durability();
                keyspace.remove_with(&spot.1, durability)
            }
            None => keyspace.remove(&spot.1),
            Some(value) if self.rng.one_in(3) => {
                durability = self.some_durability();
                keyspace.insert_with(&spot.1, value, durability)
            }
            Some(value) => keyspace.insert(&spot.1, value),
        };
        self.judge(id, &label, outcome.map(|()| None), durability);
    }

    fn commit(&mut self, write: u32, changes: Vec<Change>, durability: Durability) {
        let mut batch = self.db.batch();
        for ((name, keyspace), key, value) in &changes {
            let outcome = match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            };
            if let Err(error) = outcome {
                return self.stage.expect_trouble_in(name, &format!("adding {name} to a batch"), &error);
            }
        }
        let label = format!("write {}.{write} of {} changes, {durability:?}", self.number, changes.len());
        let names: Vec<Arc<str>> = changes.iter().map(|((name, _), _, _)| Arc::clone(name)).collect();
        let spots = changes.into_iter().map(|((name, _), key, value)| ((name, key), value));
        let id = self.stage.oracle.borrow_mut().begin(label.clone(), spots);
        self.stage.world.doing(|| label.clone());
        let outcome = batch.commit_seq(durability);
        if matches!(&outcome, Err(error) if error.kind() == ErrorKind::NoKeyspace) {
            let is_dropped = |name: &Arc<str>| !self.stage.oracle.borrow().is_keyspace_present(name);
            assert!(names.iter().any(is_dropped), "{label} misses a keyspace, and all are there");
            return self.stage.oracle.borrow_mut().refuse(id);
        }
        self.judge(id, &label, outcome.map(Some), durability);
    }

    fn judge(
        &mut self,
        id: crate::oracle::WriteId,
        label: &str,
        outcome: thalweg::Result<Option<u64>>,
        durability: Durability,
    ) {
        let stage = Rc::clone(&self.stage);
        stage.world.note(outcome.as_ref().map_or(u64::MAX, |seq| seq.unwrap_or(0)));
        if self.is_overtaken() {
            return;
        }
        match outcome {
            // Stores to a mapping cannot fail, so a write without a sync does not fail after a power cut. Its result
            // was never reported: its caller ended with the power.
            Ok(_) if stage.is_dead() && durability == Durability::Buffered && !stage.plan.refuse_mappings => {
                stage.oracle.borrow_mut().fail(id);
            }
            Ok(seq) => {
                stage.world.say(|| format!("{label} published, sequence number {seq:?}"));
                let mut oracle = stage.oracle.borrow_mut();
                let outcome = oracle.acknowledge(id, seq, durability == Durability::Sync);
                stage.acknowledged.borrow_mut().push((stage.world.now_ns(), oracle.newest()));
                drop(oracle);
                stage.must(outcome);
                assert!(!self.broken, "{label} was taken after a write had failed for good");
            }
            Err(error) => {
                stage.expect_trouble(label, &error);
                if error.kind() == ErrorKind::NoSpace {
                    stage.oracle.borrow_mut().refuse(id);
                } else {
                    stage.oracle.borrow_mut().fail(id);
                    self.give_up(&error);
                }
            }
        }
    }

    /// Leaves a few more operations after a write that failed for good, to check that reads work and writes stay
    /// refused.
    pub(crate) fn give_up(&mut self, error: &Error) {
        self.broken |= error.kind() == ErrorKind::Poisoned;
        self.left = self.left.min(3);
    }

    fn persist(&mut self) {
        self.stage.world.doing(|| "persist".into());
        let before = self.stage.oracle.borrow().newest();
        match self.db.persist() {
            Ok(()) => self.stage.oracle.borrow_mut().promised(before),
            Err(error) => self.fails("persist", &error),
        }
    }

    fn flush(&mut self) {
        self.stage.world.doing(|| "flush".into());
        if let Err(error) = self.db.flush() {
            self.fails("flush", &error);
        }
    }

    fn wait_for_compactions(&mut self) {
        self.stage.world.doing(|| "wait for compactions".into());
        if let Err(error) = self.db.wait_for_compactions() {
            self.fails("wait_for_compactions", &error);
        }
    }

    fn fails(&mut self, what: &str, error: &Error) {
        self.stage.expect_trouble(what, error);
        if error.kind() != ErrorKind::NoSpace {
            self.give_up(error);
        }
    }

    fn nap(&mut self) {
        let ns = self.rng.below(50_000_000);
        self.stage.world.doing(|| "sleeps".into());
        self.stage.world.sleep(ns);
    }

    fn look_at_statistics(&mut self) {
        let statistics = self.db.statistics();
        assert!(statistics.keyspaces.len() >= STABLE.len(), "statistics tell of every keyspace");
        self.db.draw_levels();
        if let Some(expected) = self.stage.oracle.borrow().keyspaces() {
            assert_eq!(self.db.keyspaces(), expected, "the keyspaces there are");
        }
    }

    // Temporary keyspaces.

    fn find_temporary(&mut self) {
        for name in TEMPORARY {
            let Some(incarnation) = self.stage.oracle.borrow().present(name) else { continue };
            match self.db.existing_keyspace(name) {
                Ok(Some(keyspace)) => self.temporary.borrow_mut().push((incarnation, keyspace)),
                Ok(None) => panic!("keyspace {name} is not there"),
                Err(error) => self.fails("existing_keyspace", &error),
            }
        }
    }

    fn change_keyspaces(&mut self) {
        let name = *self.rng.choose(&TEMPORARY);
        if self.stage.oracle.borrow().is_name_open(name) {
            return;
        }
        let found = self.temporary.borrow().iter().find(|(other, _)| keys::name_of(other) == name).cloned();
        match found {
            Some((incarnation, keyspace)) => self.drop_keyspace(name, &incarnation, &keyspace),
            None => self.create_keyspace(name),
        }
    }

    /// Drops a keyspace that others may be using.
    fn drop_keyspace(&mut self, name: &str, incarnation: &Arc<str>, keyspace: &Keyspace) {
        let before = self.stage.oracle.borrow().newest();
        self.stage.oracle.borrow_mut().keyspace_begins(incarnation);
        self.stage.world.doing(|| format!("drop keyspace {incarnation}"));
        // Lets others begin to read it.
        for _ in 0..self.rng.below(6) {
            self.stage.world.pause();
        }
        let outcome = self.db.drop_keyspace(name);
        self.temporary.borrow_mut().retain(|(other, _)| other != incarnation);
        match outcome {
            _ if self.is_overtaken() => {}
            Ok(()) => {
                let mut oracle = self.stage.oracle.borrow_mut();
                oracle.keyspace_dropped(incarnation);
                oracle.promised(before);
                drop(oracle);
                let kind = keyspace.get(b"c0/00").map_err(|error| error.kind());
                assert!(matches!(kind, Err(ErrorKind::NoKeyspace)), "a dropped keyspace gave {kind:?}");
                let kind = keyspace.iter().next().transpose().map_err(|error| error.kind());
                assert!(matches!(kind, Err(ErrorKind::NoKeyspace)), "a dropped keyspace gave {kind:?}");
            }
            Err(error) => self.fails("drop_keyspace", &error),
        }
    }

    fn create_keyspace(&mut self, name: &str) {
        let before = self.stage.oracle.borrow().newest();
        let incarnation: Arc<str> = Arc::from(keys::incarnation(name, self.stage.next_write()));
        self.stage.oracle.borrow_mut().keyspace_begins(&incarnation);
        let splits: &[&[u8]] = if self.rng.one_in(2) { &[] } else { &[b"c0/01", b"c1", b"c2", b"s"] };
        self.stage.world.doing(|| format!("create keyspace {incarnation}"));
        match self.db.create_keyspace(name, splits) {
            _ if self.is_overtaken() => {}
            Ok(keyspace) => {
                let mut oracle = self.stage.oracle.borrow_mut();
                oracle.keyspace_created(&incarnation);
                oracle.promised(before);
                drop(oracle);
                self.temporary.borrow_mut().push((incarnation, keyspace));
            }
            Err(error) => self.fails("create_keyspace", &error),
        }
    }

    // Checkpoints.

    /// Makes a checkpoint, opens it, and checks its content.
    fn checkpoint(&mut self) {
        let path = PathBuf::from(format!("/checkpoint-{}", self.stage.next_write()));
        self.stage.world.doing(|| format!("checkpoint to {}", path.display()));
        let keyspaces: Vec<_> = self.stable.iter().chain(self.temporary.borrow().iter()).cloned().collect();
        let began = self.stage.tick();
        let outcome = self.db.checkpoint(&path);
        let ended = self.stage.tick();
        if let Err(error) = outcome {
            return self.fails("checkpoint", &error);
        }
        // The checkpoint is durable now, whatever happens to the database.
        let builder = match self.rng.aside(1).one_in(2) {
            true => self.stage.builder_after_a_power_cut(&path),
            false => self.stage.builder(&path),
        };
        let builder = builder.create_if_missing(false);
        self.stage.world.doing(|| "open of a checkpoint".into());
        let opened =
            if self.rng.one_in(2) { builder.open().map(ReadOnlyDatabase::from) } else { builder.open_read_only() };
        match opened {
            Ok(copy) => {
                self.check_copy(&copy, keyspaces, began, ended);
                self.stage.world.doing(|| "close of a checkpoint".into());
                drop(copy);
            }
            Err(error) => self.stage.expect_trouble("open of a checkpoint", &error),
        }
    }

    fn check_copy(&mut self, copy: &ReadOnlyDatabase, keyspaces: Vec<(Arc<str>, Keyspace)>, began: u64, ended: u64) {
        let mut copied = Vec::new();
        for (name, _) in keyspaces {
            if !self.stage.oracle.borrow().is_keyspace_present(&name) {
                continue; // Dropped meanwhile.
            }
            match copy.existing_keyspace(keys::name_of(&name)) {
                Ok(Some(keyspace)) => copied.push((name, keyspace)),
                Ok(None) => panic!("a checkpoint has no keyspace {name}"),
                Err(error) => return self.stage.expect_trouble("existing_keyspace of a checkpoint", &error),
            }
        }
        self.stage.check_view(&copied, began, ended);
    }

    // Choices.

    pub(crate) fn some_keyspace(&mut self) -> (Arc<str>, Keyspace) {
        if self.stage.plan.one_partition {
            return self.stable[0].clone();
        }
        if !self.temporary.borrow().is_empty() && self.rng.one_in(6) {
            return self.rng.choose(&self.temporary.borrow()).clone();
        }
        // The last stable keyspace is cold.
        if self.rng.one_in(25) {
            return self.stable[self.stable.len() - 1].clone();
        }
        self.stable[self.rng.index(self.stable.len() - 1)].clone()
    }

    /// A keyspace that client 0 is about to drop, or is dropping.
    fn going_keyspace(&self) -> Option<(Arc<str>, Keyspace)> {
        let oracle = self.stage.oracle.borrow();
        self.temporary.borrow().iter().find(|(name, _)| !oracle.is_keyspace_present(name)).cloned()
    }

    /// A key for a read: the client's own, a shared one, or one that was never written.
    pub(crate) fn some_spot(&mut self) -> (Spot, Keyspace) {
        let (name, keyspace) = self.some_keyspace();
        let scope = keys::scope(&mut self.rng, self.number);
        let number = self.rng.below(self.stage.plan.keys + 2);
        ((name, keys::key(&scope, number)), keyspace)
    }

    fn some_durability(&mut self) -> Durability {
        if self.rng.percent(self.stage.plan.sync_percent) { Durability::Sync } else { Durability::Buffered }
    }
}
