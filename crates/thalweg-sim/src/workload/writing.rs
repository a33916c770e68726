//! The writes of a simulated client: batches, single changes, clears, and the calls that make writes durable.

use super::client::ClientRun;
use crate::keys::{self, STABLE};
use crate::oracle::Position;
use crate::spot::{Value, describe_spot};
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use thalweg::{CommitTicket, DirectoryKeyspace, Durability, ErrorKind, Keyspace, WriteOptions};

/// One change of a batch: the keyspace, the key, and the new value.
type Change = ((Arc<str>, Target), Vec<u8>, Value);

/// The keyspace of a change.
#[derive(Clone)]
pub(super) enum Target {
    Map(Keyspace),
    Files(DirectoryKeyspace),
}

impl ClientRun {
    /// Chooses the keyspace of a change; the directory keyspace gets its percentage.
    fn some_target(&mut self) -> (Arc<str>, Target) {
        if let Some((name, files)) = self.files.clone()
            && self.rng.percent(self.stage.plan.files_percent)
        {
            return (name, Target::Files(files));
        }
        let (name, keyspace) = self.some_keyspace();
        (name, Target::Map(keyspace))
    }

    /// Writes one to many changes in one batch, over all keyspaces.
    pub(super) fn batch(&mut self) {
        let count = if self.rng.one_in(15) { self.rng.between(10, 40) } else { self.rng.between(1, 5) };
        let write = self.stage.next_write();
        let mut changes = Vec::new();
        for index in 0..count {
            let target = self.some_target();
            let scope = keys::scope(&mut self.rng, self.number);
            let key = keys::key(&scope, self.rng.below(self.stage.plan.keys));
            changes.push((target, key, self.stage.value(&mut self.rng, self.number, write, index as u32)));
        }
        let durability = self.some_durability();
        self.commit(write, changes, durability);
    }

    /// Writes the same value under the same key in two keyspaces.
    pub(super) fn twins(&mut self) {
        let write = self.stage.next_write();
        let key = keys::key(keys::TWINS, self.rng.below(5));
        let value = self.stage.value(&mut self.rng, self.number, write, 0);
        let stable =
            self.stable.iter().take(2).map(|(name, keyspace)| (Arc::clone(name), Target::Map(keyspace.clone())));
        let changes = stable.map(|target| (target, key.clone(), value.clone())).collect();
        let durability = self.some_durability();
        self.commit(write, changes, durability);
    }

    /// Clears a keyspace. For the oracle this is a write that removes every key that can be written.
    pub(super) fn clear(&mut self) {
        let write = self.stage.next_write();
        let (name, target) = self.some_target();
        let label = format!("write {}.{write}, a clear of {name}", self.number);
        let own = (0..self.stage.plan.clients.max(2)).map(keys::own_scope);
        let numbers = 0..self.stage.plan.keys.max(5);
        let keys = own.chain([keys::SHARED, keys::TWINS].map(Into::into)).flat_map(|scope| {
            let keys: Vec<_> = numbers.clone().map(|number| keys::key(&scope, number)).collect();
            keys
        });
        // The clear also removes the keys that the session writes between clients.
        let others = self.stage.oracle.borrow().keys_of(&name);
        let spots: Vec<_> = keys.chain(others).map(|key| ((Arc::clone(&name), key), None)).collect();
        let id = self.stage.oracle.borrow_mut().begin(label.clone(), spots);
        self.stage.world.doing(|| label.clone());
        let outcome = match target {
            Target::Map(keyspace) => keyspace.clear_seq(),
            Target::Files(files) => files.clear_seq(),
        };
        if matches!(&outcome, Err(error) if error.kind() == ErrorKind::NoKeyspace) {
            assert!(!self.stage.oracle.borrow().is_keyspace_present(&name), "{label} misses a keyspace that is there");
            return self.stage.oracle.borrow_mut().refuse(id);
        }
        self.judge(id, &label, outcome.map(Some), Durability::Sync);
    }

    /// Removes the keys of a keyspace in one batch and flushes, so that its partitions become small and merge. Twins
    /// stay: they are always written in two keyspaces.
    pub(super) fn sweep(&mut self) {
        let (name, keyspace) = self.some_keyspace();
        let target = (name, Target::Map(keyspace));
        let keys = self.stage.oracle.borrow().keys_of(&target.0);
        let write = self.stage.next_write();
        let changes: Vec<Change> =
            keys.into_iter().filter(|key| !keys::is_twin(key)).map(|key| (target.clone(), key, None)).collect();
        if !changes.is_empty() {
            self.commit(write, changes, Durability::Buffered);
        }
        // Partitions that merge have memtables, too.
        for step in [Self::flush, Self::batch, Self::wait_for_compactions] {
            if !self.is_overtaken() && !self.broken {
                step(self);
            }
        }
    }

    /// Makes one change by a call of [`Keyspace`], whose place in the order only a lone client knows.
    pub(super) fn single(&mut self) {
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

    pub(super) fn commit(&mut self, write: u32, changes: Vec<Change>, durability: Durability) {
        let mut batch = self.db.batch();
        for ((name, target), key, value) in &changes {
            let directory = keys::directory_of(key);
            let outcome = match (target, value) {
                (Target::Map(keyspace), Some(value)) => batch.insert(keyspace, key, value),
                (Target::Map(keyspace), None) => batch.remove(keyspace, key),
                (Target::Files(files), Some(value)) => batch.insert_entry(files, directory, key, value),
                (Target::Files(files), None) => batch.remove_entry(files, directory, key),
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
        let options = WriteOptions::from(durability).frees_space(self.rng.aside(33).one_in(3));
        let mut ticket = None;
        let outcome = if durability == Durability::Buffered && self.takes_ticket() {
            batch.commit_ticket_seq(options).map(|(seq, given)| {
                ticket = Some((seq, given));
                seq
            })
        } else {
            batch.commit_seq(options)
        };
        if matches!(&outcome, Err(error) if error.kind() == ErrorKind::NoKeyspace) {
            let is_dropped = |name: &Arc<str>| !self.stage.oracle.borrow().is_keyspace_present(name);
            assert!(names.iter().any(is_dropped), "{label} misses a keyspace, and all are there");
            return self.stage.oracle.borrow_mut().refuse(id);
        }
        self.judge(id, &label, outcome.map(Some), durability);
        // After a power cut the write is a maybe, though a sync before the cut may have made it durable.
        if let Some((seq, ticket)) = ticket.filter(|_| !self.is_overtaken() && !self.stage.is_dead()) {
            self.use_ticket(&ticket, (seq, 0));
        }
    }

    /// Whether the next buffered batch gives a ticket.
    fn takes_ticket(&self) -> bool {
        self.rng.aside(31).percent(self.stage.plan.tickets_percent)
    }

    /// Waits for a ticket for everything up to `position`, by a callback or in place, or drops the ticket.
    fn use_ticket(&mut self, ticket: &CommitTicket, position: Position) {
        match self.rng.aside(32).below(10) {
            0 => {}
            1..4 => {
                self.stage.world.doing(|| "waits for a ticket".into());
                match ticket.wait() {
                    Ok(()) => {
                        assert!(ticket.is_durable(), "a ticket is not durable after a wait for it");
                        self.stage.oracle.borrow_mut().promised(position);
                    }
                    Err(error) => self.fails("a wait for a ticket", &error),
                }
            }
            _ if ticket.is_durable() => self.stage.oracle.borrow_mut().promised(position),
            _ => self.stage.answers.ask(ticket, position),
        }
    }

    pub(super) fn judge(
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

    pub(super) fn persist(&mut self) {
        self.stage.world.doing(|| "persist".into());
        let before = self.stage.oracle.borrow().newest();
        if self.takes_ticket() {
            return match self.db.ticket() {
                Ok(ticket) => self.use_ticket(&ticket, before),
                Err(error) => self.fails("ticket", &error),
            };
        }
        match self.db.persist() {
            Ok(()) => self.stage.oracle.borrow_mut().promised(before),
            Err(error) => self.fails("persist", &error),
        }
    }

    pub(super) fn flush(&mut self) {
        self.stage.world.doing(|| "flush".into());
        if let Err(error) = self.db.flush() {
            self.fails("flush", &error);
        }
    }

    pub(super) fn wait_for_compactions(&mut self) {
        self.stage.world.doing(|| "wait for compactions".into());
        if let Err(error) = self.db.wait_for_compactions() {
            self.fails("wait_for_compactions", &error);
        }
    }

    /// Compacts a keyspace, all of it or everything after its first key. Or compacts the fast tier, or waits for
    /// compactions.
    pub(super) fn compact_range(&mut self) {
        let mut rng = self.rng.aside(36);
        if rng.one_in(3) {
            return self.wait_for_compactions();
        }
        if self.stage.plan.tier.merges && rng.one_in(2) {
            self.stage.world.doing(|| "compact the fast tier".into());
            return match self.db.compact_fast_tier() {
                Ok(()) => {}
                Err(error) => self.fails("compact_fast_tier", &error),
            };
        }
        let (number, is_whole) = (rng.index(STABLE.len() + 1), rng.one_in(2));
        let compacted = match (&self.files, self.stable.get(number)) {
            (_, Some((name, keyspace))) => {
                self.stage.world.doing(|| format!("compact {name}"));
                let first = keyspace.first().ok().flatten().filter(|_| !is_whole);
                match first {
                    Some((first, _)) => keyspace.compact_range((Bound::Excluded(first), Bound::Unbounded)),
                    None => keyspace.compact_range(..),
                }
            }
            (Some((name, files)), None) => {
                self.stage.world.doing(|| format!("compact {name}"));
                files.compact()
            }
            (None, None) => Ok(()),
        };
        if let Err(error) = compacted {
            self.fails("compact_range", &error);
        }
    }
}
