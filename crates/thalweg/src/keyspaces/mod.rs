//! Keyspaces of any kind: which ones exist, what they need of the log, and how writers wait for them.
//!
//! A kind of keyspace implements [`Keyspace`] and [`Kind`], registers its keyspaces in the [`Registry`], and has its
//! own background work. This module knows no kind. In reading order:
//!
//! - `keyspace`: the traits;
//! - `lifecycle`: whether a keyspace was dropped or cleared;
//! - `definitions`: the queue of creations, clears and drops that the manifest does not know yet;
//! - `registry`: the keyspaces that exist;
//! - `replay`: the log read into keyspaces when a database is opened;
//! - `snapshots`: the sequence numbers that readers pin;
//! - `log_pins`: from where the log is needed;
//! - `signals`: the events by which foreground and background wake each other;
//! - `cleared`: cleared generations that older snapshots still read;
//! - `installer`: definitions on their way into the manifest;
//! - `supply`: how fast the background makes one kind of room;
//! - `level0_job`: what the compaction of level 0 that is under way means for the pressure on writers;
//! - `compaction_pace`: the rate of compactions that nobody waits for;
//! - `pacer`: the rate at which writers of one buffer may go;
//! - `tier_room`: how full the fast tier is;
//! - `backpressure`: how writers are slowed down and stopped, by cause;
//! - `space_watch`: refuses puts and frees space when the file system has little room;
//! - `idle_memory`: memory that a quiet database gives back.

mod backpressure;
mod cleared;
mod compaction_pace;
mod definitions;
mod idle_memory;
mod installer;
mod keyspace;
mod level0_job;
mod lifecycle;
mod log_pins;
mod pacer;
mod registry;
mod replay;
mod signals;
mod snapshots;
mod space_watch;
mod supply;
#[cfg(test)]
mod tests;
mod tier_room;

pub(crate) use backpressure::{Backpressure, BackpressureLimits, WriteBuffer};
pub(crate) use cleared::ClearedGenerations;
pub(crate) use compaction_pace::CompactionPace;
pub(crate) use idle_memory::IdleMemory;
pub(crate) use installer::DefinitionInstaller;
pub(crate) use keyspace::{Keyspace, Kind, NewKeyspace, ReplayedEntry};
pub(crate) use level0_job::CompactionDebt;
pub(crate) use lifecycle::Lifecycle;
pub(crate) use log_pins::LogPins;
pub(crate) use pacer::Pacer;
pub(crate) use registry::{KeyspaceMap, Registry};
pub(crate) use replay::{Replay, Replayed};
pub(crate) use signals::Signals;
pub(crate) use snapshots::{SnapshotRegistry, SnapshotSeq};
pub(crate) use space_watch::SpaceWatch;
pub(crate) use tier_room::{TierCharge, TierDrain, TierRoom};
