//! [`ClientRun`]: the random operations of one simulated client, over the whole API, each checked while it runs.
//!
//! A client ends after its operations, or a few reads after its first write that failed for good. This file chooses the
//! operations. `writing.rs`, `reading.rs`, `keyspaces.rs`, `files.rs`, `many_files.rs` and `copies.rs` have the
//! operations, and `client.rs` has their random choices.

mod client;
mod copies;
mod files;
mod keyspaces;
mod many_files;
mod reading;
mod writing;

pub use client::{ClientRun, Files, Temporary};

use crate::keys::STABLE;

impl ClientRun {
    /// Runs the client to its end.
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

    fn step(&mut self) {
        if self.rng.one_in(self.stage.plan.checkpoint_one_in) {
            return self.checkpoint();
        }
        if let Some((name, keyspace)) = self.going_keyspace()
            && self.rng.one_in(2)
        {
            return self.read_many(&name, &keyspace);
        }
        if self.number == 0 && self.stage.plan.churns && self.rng.one_in(8) {
            return self.change_keyspaces();
        }
        if self.stage.plan.clears && self.rng.one_in(30) {
            return self.clear();
        }
        if self.stage.plan.wanes && self.rng.one_in(6) {
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
            48 if self.stage.plan.compacts_ranges => self.compact_range(),
            48 => self.wait_for_compactions(),
            49..52 if self.number == 0 => self.change_keyspaces(),
            49..52 => self.nap(),
            52 => self.look_at_statistics(),
            _ => self.read(),
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
}
