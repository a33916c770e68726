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
//!   `write_buffer`: how its writers are slowed down;
//! - `level0_reads`: whether reads have paid for a compaction of level 0; `no_job`: remembers that none is wanted;
//! - `read`: point reads of a super version; `cursor/`: ranges;
//! - `micro_run`: what the fast tier costs on this machine; `tier`, `fast_level`, `tiering`: the tier, what a partition
//!   has in it, and how that changes;
//! - `pins`: from where a partition needs the log;
//! - `keyspace`: the partitions of a keyspace; `kind`: ordered keyspaces as [`crate::keyspaces`] knows them;
//! - `partitions`: all partitions of all ordered keyspaces;
//! - `dependencies`: what the background work is built on; `background`: the work put together;
//! - `indexing`: packs of directory keyspaces on their way into the index;
//! - `sealer`: seals memtables; `flush`: writes one to a table; `flusher`: the flush coroutine;
//! - `replaying`: flushes while the log is replayed;
//! - `description`: what the models of the fast tier are told; `eviction`: merges of fast tables; `evictor`: the
//!   coroutines that run them;
//! - `reshape`, `splits`, `merges`: partitions divided and joined;
//! - `subtasks`, `steps`, `job_runner`, `parked`, `tidying`, `requests`, `compactor`: the compaction coroutines.

mod background;
mod budget;
mod chain;
mod compactor;
pub(crate) mod cursor;
mod dependencies;
mod description;
mod eviction;
mod evictor;
mod fast_level;
mod flush;
mod flusher;
mod generation;
mod indexing;
mod job_runner;
mod keyspace;
mod kind;
mod level0_reads;
mod merges;
mod micro_run;
mod no_job;
mod options;
mod parked;
mod partition;
mod partitions;
mod pins;
mod read;
mod replaying;
mod requests;
mod reshape;
mod sealer;
mod splits;
mod steps;
mod subtasks;
mod tidying;
mod tier;
mod tiering;
mod write_buffer;

pub(crate) use background::OrderedBackground;
pub(crate) use dependencies::Dependencies;
pub(crate) use evictor::Evictor;
pub(crate) use fast_level::have_lost_tables;
pub(crate) use generation::Memory;
pub(crate) use keyspace::OrderedKeyspace;
pub(crate) use kind::OrderedKind;
pub(crate) use options::OrderedOptions;
pub(crate) use partition::{Partition, SuperVersionGuard};
pub(crate) use partitions::Partitions;
pub(crate) use read::SuperVersionSource;
pub(crate) use replaying::ReplayBounds;
pub(crate) use tier::Tier;
