//! [`read_together`]: blocks of several tables read at once, for `multi_get`.
//!
//! None of them is in the block cache when they are asked for; all are in it afterwards, as far as it has room. A block
//! is read as a point read would read it, through the page cache or past it (`live.rs`); what differs is that nobody
//! waits for one before the next is begun. One that fails does not keep the others from the cache.

use super::open_table::{Live, Planned};
use super::table::{BlockNumber, Table};
use crate::error::Result;
use crate::format::Slice;
use crate::runtime::ForegroundRead;
use crate::storage::IoBuffer;
use crate::table::format::index::Handle;

/// So many are planned, and have a buffer, at a time.
const AT_ONCE: usize = 64;

/// A block as it was read.
pub(crate) struct ReadBlock {
    pub(in crate::table) at: usize,
    pub(in crate::table) content: Slice,
}

/// One of those that are being read.
struct OnItsWay<'a> {
    table: &'a Table,
    live: &'a Live,
    at: usize,
    handle: Handle,
    /// Where in the buffer it will lie; `None` for a block that is too large for one and is read at the end.
    place: Option<(usize, usize)>,
}

/// Reads `wanted`, which should name each block once, and gives what became of each, in their order.
pub(crate) fn read_together(wanted: &[(&Table, BlockNumber)]) -> Vec<Result<ReadBlock>> {
    wanted.chunks(AT_ONCE).flat_map(read_some).collect()
}

fn read_some(wanted: &[(&Table, BlockNumber)]) -> Vec<Result<ReadBlock>> {
    let Some((first, _)) = wanted.first() else { return Vec::new() };
    let (mut reads, mut ways) = (Vec::new(), Vec::new());
    // Without a ring they come one after the other, and only through the page cache can the kernel read ahead of that.
    let has_ring = wanted.len() == 1 || first.io.rings.are_to_be_had();
    for (table, BlockNumber(at)) in wanted {
        ways.push(plan(table, *at, has_ring, &mut reads));
    }
    let mut read = first.io.rings.read(&first.io.gate, reads).into_iter();
    let arrived = |way: Result<OnItsWay<'_>>| {
        let way = way?;
        way.arrived(way.place.and_then(|_| read.next()))
    };
    ways.into_iter().map(arrived).collect()
}

/// Adds the read of block `at` to `reads`, unless it is too large.
fn plan<'a>(table: &'a Table, at: usize, has_ring: bool, reads: &mut Vec<ForegroundRead>) -> Result<OnItsWay<'a>> {
    let live = table.live()?;
    let Some(handle) = live.opened.index.handle(at) else { return Err(table.ends_early(&live.opened, at)) };
    live.warm(&table.io);
    let medium = table.past_the_cache(live, handle);
    let held = live.opened.file.held();
    let has_ring = has_ring || held.as_ref().unwrap_or(&live.opened.file).descriptor().is_none();
    let medium = medium.filter(|_| has_ring);
    if !has_ring {
        let end = handle.end().unwrap_or(handle.offset);
        live.opened.file.will_need(handle.offset, end - handle.offset);
    }
    if medium.is_some() {
        table.metrics.reads().direct_reads.increment();
    }
    let place = live.plan(medium, handle, &table.io.block_buffers).map(|Planned { read, skip, bytes }| {
        reads.push(read);
        (skip, bytes)
    });
    Ok(OnItsWay { table, live, at, handle, place })
}

impl OnItsWay<'_> {
    fn arrived(&self, read: Option<Result<IoBuffer>>) -> Result<ReadBlock> {
        self.table.metrics.reads().cache_misses.increment();
        let content = match (self.place, read) {
            (Some((skip, bytes)), Some(read)) => self.live.opened.unseal_part(&read?, skip, bytes, self.handle)?,
            _ => self.live.opened.read_block(self.handle)?,
        };
        self.live.cached.insert(self.at, content.clone());
        Ok(ReadBlock { at: self.at, content })
    }
}
