//! Makes the checkpoints of a simulated client, opens each, and checks its content.

use super::client::ClientRun;
use crate::keys;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg::{Keyspace, ReadOnlyDatabase};

impl ClientRun {
    /// Makes a checkpoint, opens it, and checks its content.
    pub(super) fn checkpoint(&mut self) {
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

    pub(super) fn check_copy(
        &mut self,
        copy: &ReadOnlyDatabase,
        keyspaces: Vec<(Arc<str>, Keyspace)>,
        began: u64,
        ended: u64,
    ) {
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
        if self.stage.check_view(&copied, began, ended)
            && let Some((name, _)) = &self.files
        {
            match copy.existing_directory_keyspace(keys::FILES) {
                Ok(Some(files)) => self.stage.check_files(name, &files, began, ended),
                Ok(None) => panic!("a checkpoint has no keyspace {name}"),
                Err(error) => self.stage.expect_trouble("existing_directory_keyspace of a checkpoint", &error),
            }
        }
    }
}
