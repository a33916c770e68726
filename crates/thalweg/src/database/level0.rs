//! How many tables level 0 may have: options of [`Builder`], and what follows from them.

use super::builder::Builder;
use super::options::Options;
use crate::compaction::LEVEL0_URGENT;

/// The trigger of level 0 of a directory keyspace, divided by that of an ordered one.
const DIRECTORY_LEVEL0_FACTOR: usize = 16;

/// The patience of level 0, divided by its trigger. With 6, overwrites of small tables write 7 % fewer bytes than with
/// 4; with 8 they write as many as with 6. The first read after many writes looks at a filter of each of these tables.
const PATIENCE_FACTOR: usize = 6;

impl Builder {
    /// Tables in level 0 that start a compaction (default: 4; 1 with vLSM). If this is not set, or if
    /// [`Builder::level0_patience`] is, the number depends on the reads, but not with a fast tier or vLSM. It lies
    /// between the two numbers: the more reads look into level 0, the sooner a compaction is due. Once reads have spent
    /// as much time on level 0 as a compaction takes, it is due with however few tables. Writers wait at the larger of
    /// five times this number and three times `level0_patience`, but at least at 12 (24 with vLSM).
    pub fn level0_trigger(mut self, level0_trigger: usize) -> Self {
        self.options.level0_trigger = Some(level0_trigger);
        self
    }

    /// Tables in level 0 at which an ordered keyspace compacts it while nobody reads (default: 24, or
    /// [`Builder::level0_trigger`] if that is set; never less than that). Not used with a fast tier, nor with vLSM. One
    /// compaction of many tables writes fewer bytes than many compactions of few. A level 0 that has an eighth of a
    /// partition's bytes is compacted at `level0_trigger`.
    pub fn level0_patience(mut self, level0_patience: usize) -> Self {
        self.options.level0_patience = Some(level0_patience);
        self
    }

    /// As [`Builder::level0_trigger`], for directory keyspaces (default: 16 times that). A merge of level 0 brings the
    /// entries of each directory together. The more packs it takes at once, the fewer bytes are written in all, but the
    /// more places a listing reads meanwhile. Writers wait at twice as many. Level 1 grows in the same proportion.
    pub fn directory_level0_trigger(mut self, directory_level0_trigger: usize) -> Self {
        self.options.directory_level0_trigger = Some(directory_level0_trigger);
        self
    }
}

impl Options {
    pub(super) fn level0_trigger(&self) -> usize {
        self.level0_trigger.unwrap_or(if self.is_vlsm() { 1 } else { 4 })
    }

    /// A trigger that was set holds whether or not somebody reads. Tables that leave a fast tier are large.
    pub(super) fn level0_patience(&self) -> usize {
        let trigger = self.level0_trigger();
        if self.is_vlsm() || self.fast_tier.is_some() {
            return trigger;
        }
        let default = if self.level0_trigger.is_some() { trigger } else { trigger.saturating_mul(PATIENCE_FACTOR) };
        self.level0_patience.unwrap_or(default).max(trigger)
    }

    /// Tables in level 0 at which it goes before deeper levels: a quarter of the way from where it is due to where
    /// writers wait.
    pub(super) fn level0_urgent(&self) -> usize {
        let patience = self.level0_patience();
        self.level0_trigger().saturating_mul(LEVEL0_URGENT).max(patience.saturating_add(patience / 2))
    }

    /// Tables in level 0 at which writers wait.
    pub(super) fn level0_stop(&self) -> usize {
        self.level0_trigger().saturating_mul(5).max(self.level0_patience().saturating_mul(3))
    }

    pub(super) fn directory_level0_trigger(&self) -> usize {
        let default = self.level0_trigger().saturating_mul(DIRECTORY_LEVEL0_FACTOR);
        self.directory_level0_trigger.unwrap_or(default)
    }
}
