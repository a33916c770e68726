//! The write-ahead log: one for the whole database. It keeps the promises that writes get (`docs/log.md`,
//! `docs/format/log.md`).
//!
//! The life of a record: [`RecordBuilder`] encodes it. [`Log::reserve_and`] gives it a place, [`Log::copy_in`] writes
//! it there, [`Log::publish`] makes it visible, [`Log::sync`] makes it durable. After a crash [`Scan`] finds it, and
//! [`LogReader`] reads it again.
//! [`Log::let_go`] gives its segment back.
//!
//! Files, in reading order:
//! - `record`: the body of a record.
//! - `header`, `framing`: segment headers, fragments and seals as bytes.
//! - `options`: what the caller chooses.
//! - `segment`: a segment file that is open for writing.
//! - `preparation`: how a slot gets the identity of a new segment.
//! - `sizing`: how large the next segment is, and when it is made ready.
//! - `demand`: whether callers often wait for syncs.
//! - `forgetting`: which pages of the log the page cache forgets.
//! - `supply`, `tail`: spare segments and idle slots; where the next record goes.
//! - `published`, `syncs`: which records are published; which syncs are in flight.
//! - `callbacks`: which callbacks wait for a position to be durable.
//! - `open`: the log of an open database, and its locks.
//! - `layout`, `reserve`, `write`: places of records, and the copy into them.
//! - `publish`: makes records visible in order.
//! - `frontier`, `interval`: the durable frontier, group commit, and the sync at intervals.
//! - `answer`: syncs the log for the callbacks that wait, and calls them.
//! - `recycle`, `preparer`, `populater`: releases segments, makes new ones, makes their pages ready for stores.
//! - `quiet`: gives back what a quiet log does not use.
//! - `slots`, `walk`, `search`, `scan`, `reader`: reads a log after a crash.
//! - `lost`, `begin`: keeps what `PointInTime` drops; begins and closes a log.
//! - `copy`, `dump`, `fuzz`: checkpoints, `thalweg dump`, fuzzing.

mod answer;
mod begin;
mod callbacks;
mod copy;
mod demand;
mod dump;
mod forgetting;
mod framing;
mod frontier;
#[cfg(any(test, feature = "simulation"))]
mod fuzz;
mod header;
mod interval;
mod layout;
mod lost;
mod open;
mod options;
mod populater;
mod preparation;
mod preparer;
mod publish;
mod published;
mod quiet;
mod reader;
mod record;
mod recycle;
mod reserve;
mod scan;
mod search;
mod segment;
mod sizing;
mod slots;
mod supply;
mod syncs;
mod tail;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub(crate) use callbacks::{CallbackId, Callbacks};
pub(crate) use dump::dump;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use fuzz::fuzz_segment;
pub(crate) use open::Log;
pub use options::DamagePolicy;
pub(crate) use options::LogOptions;
pub(crate) use reader::LogReader;
pub(crate) use record::{Operation, Record, RecordBuilder};
pub(crate) use reserve::Reservation;
pub(crate) use scan::Scan;
