//! [`ClientRun`]: a simulated client, and the choices that its operations draw.

use crate::keys;
use crate::rng::Rng;
use crate::spot::Spot;
use crate::stage::Stage;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use thalweg::{Database, DirectoryKeyspace, Durability, Error, ErrorKind, Keyspace, Snapshot};

/// The existing temporary keyspaces, by the oracle's names, shared by all clients.
pub type Temporary = Rc<RefCell<Vec<(Arc<str>, Keyspace)>>>;

/// The directory keyspace, if there is one, by the oracle's name.
pub type Files = Option<(Arc<str>, DirectoryKeyspace)>;

/// A snapshot, and the ticks between which it was taken.
pub struct View {
    pub(super) snapshot: Snapshot,
    /// The keyspaces that existed before the snapshot.
    pub(super) keyspaces: Vec<(Arc<str>, Keyspace)>,
    pub(super) began: u64,
    pub(super) ended: u64,
}

/// One simulated client.
pub struct ClientRun {
    pub(super) stage: Rc<Stage>,
    pub(super) db: Database,
    pub(super) rng: Rng,
    pub(super) number: usize,
    pub(super) stable: Vec<(Arc<str>, Keyspace)>,
    pub(super) files: Files,
    pub(super) temporary: Temporary,
    pub(super) views: Vec<View>,
    /// Operations left; only a few after a write has failed for good.
    pub(super) left: u64,
    pub(super) broken: bool,
    life: u64,
}

impl ClientRun {
    /// Client `number` of a database whose stable keyspaces exist.
    pub fn new(
        stage: &Rc<Stage>,
        db: &Database,
        (stable, files): (&[(Arc<str>, Keyspace)], &Files),
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
            files: files.clone(),
            temporary: Rc::clone(temporary),
            views: Vec::new(),
            left: stage.plan.operations,
            broken: false,
            life: stage.life.get(),
        }
    }

    /// Whether the other clients have ended while this one was parked. Its last write then stays a maybe.
    pub(super) fn is_overtaken(&self) -> bool {
        self.stage.life.get() != self.life
    }

    /// Whether this is the only client.
    pub(super) fn is_alone(&self) -> bool {
        self.stage.plan.clients == 1
    }

    /// Reduces the remaining operations after a write that failed for good, which check that reads work and writes stay
    /// refused.
    pub(super) fn give_up(&mut self, error: &Error) {
        self.broken |= error.kind() == ErrorKind::Poisoned;
        self.left = self.left.min(3);
    }

    pub(super) fn fails(&mut self, what: &str, error: &Error) {
        self.stage.expect_trouble(what, error);
        if error.kind() != ErrorKind::NoSpace {
            self.give_up(error);
        }
    }

    pub(super) fn some_keyspace(&mut self) -> (Arc<str>, Keyspace) {
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
    pub(super) fn going_keyspace(&self) -> Option<(Arc<str>, Keyspace)> {
        let oracle = self.stage.oracle.borrow();
        self.temporary.borrow().iter().find(|(name, _)| !oracle.is_keyspace_present(name)).cloned()
    }

    /// A key for a read: the client's own, a shared one, or one that was never written.
    pub(super) fn some_spot(&mut self) -> (Spot, Keyspace) {
        let (name, keyspace) = self.some_keyspace();
        let scope = keys::scope(&mut self.rng, self.number);
        let number = self.rng.below(self.stage.plan.keys + 2);
        ((name, keys::key(&scope, number)), keyspace)
    }

    pub(super) fn some_durability(&mut self) -> Durability {
        if self.rng.percent(self.stage.plan.sync_percent) { Durability::Sync } else { Durability::Buffered }
    }
}
