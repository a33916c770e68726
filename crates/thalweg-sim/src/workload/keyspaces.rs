//! Temporary keyspaces: a simulated client creates and drops them while others use them.

use super::client::ClientRun;
use crate::keys::{self, TEMPORARY};
use std::sync::Arc;
use thalweg::{ErrorKind, Keyspace};

impl ClientRun {
    pub(super) fn find_temporary(&mut self) {
        for name in TEMPORARY {
            let Some(incarnation) = self.stage.oracle.borrow().present(name) else { continue };
            match self.db.existing_keyspace(name) {
                Ok(Some(keyspace)) => self.temporary.borrow_mut().push((incarnation, keyspace)),
                Ok(None) => panic!("keyspace {name} is not there"),
                Err(error) => self.fails("existing_keyspace", &error),
            }
        }
    }

    pub(super) fn change_keyspaces(&mut self) {
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
    pub(super) fn drop_keyspace(&mut self, name: &str, incarnation: &Arc<str>, keyspace: &Keyspace) {
        let before = self.stage.oracle.borrow().newest();
        self.stage.oracle.borrow_mut().keyspace_begins(incarnation);
        self.stage.world.doing(|| format!("drop keyspace {incarnation}"));
        // Lets other clients begin to read the keyspace.
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

    pub(super) fn create_keyspace(&mut self, name: &str) {
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
}
