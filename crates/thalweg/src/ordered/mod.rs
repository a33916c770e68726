//! Ordered keyspaces: memtables over level 0 over levels, a partition for each key range.
//!
//! A put goes to the active memtable of its partition; a full memtable is *sealed* at a sequence number and flushed to
//! a level-0 table; tables are merged downwards. A partition that has grown is split in two, and two that have shrunk
//! become one. Readers take one super version and read nothing else. In reading order:
//!
//! - `options`: how ordered keyspaces are kept;
//! - `budget`, `generation`: what the partitions of a keyspace share;
//! - `chain`: counts the compactions that a memtable waits for;
//! - `partition`: a key range with its memtables and levels, and its super version, which readers take;
//! - `read`: point reads of a super version; `cursor/`: ranges;
//! - `keyspace`: the partitions of a keyspace; `kind`: ordered keyspaces as [`crate::keyspaces`] knows them;
//! - `partitions`: all partitions of all ordered keyspaces;
//! - `dependencies`: what the background work is built on; `background`: the work put together;
//! - `indexing`: packs of directory keyspaces on their way into the index;
//! - `sealer`: seals memtables; `flush`: writes one to a table; `flusher`: the flush coroutine;
//! - `reshape`, `splits`, `merges`: partitions divided and joined;
//! - `subtasks`, `steps`, `job_runner`, `parked`, `tidying`, `requests`, `compactor`: the compaction coroutines.

mod background;
mod budget;
mod chain;
mod compactor;
pub(crate) mod cursor;
mod dependencies;
mod flush;
mod flusher;
mod generation;
mod indexing;
mod job_runner;
mod keyspace;
mod kind;
mod merges;
mod options;
mod parked;
mod partition;
mod partitions;
mod read;
mod requests;
mod reshape;
mod sealer;
mod splits;
mod steps;
mod subtasks;
mod tidying;

pub(crate) use background::OrderedBackground;
pub(crate) use dependencies::Dependencies;
pub(crate) use generation::Memory;
pub(crate) use keyspace::OrderedKeyspace;
pub(crate) use kind::OrderedKind;
pub(crate) use options::OrderedOptions;
pub(crate) use partition::{Partition, SuperVersionGuard};
pub(crate) use partitions::Partitions;
pub(crate) use read::SuperVersionSource;
