//! [`OpenPack`]: an open pack, and foreground reads of it.
//!
//! The block cache has pages of 4 KiB of a pack, not blocks: a page may have the blocks of several directories, which
//! are read together (PHAT-5). Every read of a block verifies it. No locks: an open pack never changes.

use super::block::{ALIGNMENT, Block, Content, Item};
use super::contents::{self, Fences, PackSpan};
use super::extent::{extent_bytes, verify_extent};
use super::{MAGIC, Place};
use crate::cache::{BlockCache, TableBlocks};
use crate::error::{Error, Result};
use crate::format::{EntryKey, EntryKind, HashKey, NameHash, SeqNo, Slice, name_hash, zeroed};
use crate::metrics::Metrics;
use crate::storage::{File, Storage};
use crate::table::format::damage::Damage;
use crate::table::format::filter::{self, Filter};
use crate::table::format::footer::{FOOTER_BYTES, Footer, Region};
use crate::table::format::properties::Properties;
use crate::table::meta::TableMeta;
use crate::table::read::file::{open_file, read_region};
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: usize = 4 << 10;

/// See the module.
pub(in crate::table) struct OpenPack {
    pub(in crate::table) file: Arc<dyn File>,
    pub(in crate::table) footer: Footer,
    pub(in crate::table) properties: Properties,
    pub(in crate::table) hash_key: HashKey,
    pub(in crate::table) fences: Fences,
    filter: Option<Filter>,
    /// The pages of the pack in the block cache.
    cached: TableBlocks,
}

/// A version of an entry that a pack has.
#[derive(Clone, Debug)]
pub(crate) struct PackVersion {
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) value: PackValue,
}

/// A value, or where it is.
#[derive(Clone, Debug)]
pub(crate) enum PackValue {
    Here(Slice),
    /// The offset of its extent, and its bytes.
    Extent(u64, u32),
}

impl OpenPack {
    /// Opens a pack of the set of live files, and gives each of its directories to `visit`.
    pub(in crate::table) fn open_live(
        storage: &dyn Storage,
        path: &Path,
        meta: &TableMeta,
        cache: &Arc<BlockCache>,
        visit: &mut dyn FnMut(u64, PackSpan),
    ) -> Result<OpenPack> {
        let file = open_file(storage, path, meta)?;
        let file_bytes = file.bytes()?;
        if file_bytes != meta.bytes {
            let found = format!("{file_bytes} bytes");
            return Err(Error::corruption(path, file_bytes, format!("a pack of {} bytes", meta.bytes), found));
        }
        let pack = Self::open(file, cache, visit)?;
        let checked = pack.properties.check(meta);
        checked.map_err(|damage| damage.in_block(path, pack.footer.properties.offset))?;
        Ok(pack)
    }

    /// Opens any pack.
    pub(in crate::table) fn open(
        file: Arc<dyn File>,
        cache: &Arc<BlockCache>,
        visit: &mut dyn FnMut(u64, PackSpan),
    ) -> Result<OpenPack> {
        let (path, file_bytes) = (file.path(), file.bytes()?);
        let Some(footer_start) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
            let expected = format!("a pack with a footer of {FOOTER_BYTES} bytes");
            return Err(Error::corruption(path, 0, expected, format!("a file of {file_bytes} bytes")));
        };
        let mut bytes = [0; FOOTER_BYTES];
        file.read_exact_at(footer_start, &mut bytes)?;
        let footer = Footer::decode(&bytes, path, file_bytes, true, MAGIC)?;
        let read = |region: Region| read_region(&*file, &footer, region);
        let at = |region: Region| move |damage: Damage| damage.in_block(path, region.offset);
        let properties = Properties::decode(&read(footer.properties)?).map_err(at(footer.properties))?;
        if properties.table != footer.table {
            let (expected, found) = (format!("table {}", footer.table), format!("table {}", properties.table));
            return Err(Error::corruption(path, footer.properties.offset, expected, found));
        }
        let (hash_key, fences) =
            contents::decode(&read(footer.index)?, footer.data_end(), visit).map_err(at(footer.index))?;
        let filter = match footer.filter {
            Some(region) => Some(Filter::decode(&read(region)?).map_err(at(region))?),
            None => None,
        };
        if (properties.filter_bits_per_key > 0) != filter.is_some() {
            let expected = format!("a filter of {} bits a key", properties.filter_bits_per_key);
            return Err(Error::corruption(path, footer_start, expected, "another"));
        }
        file.expect_random_reads();
        let pages = usize::try_from(footer.data_end()).unwrap_or(usize::MAX).div_ceil(PAGE_BYTES);
        let cached = cache.table(footer.table, pages);
        Ok(OpenPack { file, footer, properties, hash_key, fences, filter, cached })
    }

    /// Whether the file ends as a pack does. Any file that is neither pack nor table is damaged as either.
    pub(in crate::table) fn is_pack(file: &dyn File) -> Result<bool> {
        let mut magic = [0; 8];
        let Some(offset) = file.bytes()?.checked_sub(magic.len() as u64) else { return Ok(false) };
        file.read_exact_at(offset, &mut magic)?;
        Ok(u64::from_le_bytes(magic) == MAGIC)
    }

    /// The offsets of the blocks of a span.
    pub(in crate::table) fn offsets_of(&self, span: PackSpan) -> Vec<u64> {
        let offset = |at: u32| u64::from(at) * ALIGNMENT as u64;
        match span.blocks {
            1 => vec![offset(span.at)],
            _ => self.fences_of(span).iter().map(|fence| offset(fence.at)).collect(),
        }
    }

    /// Gives each directory to `visit`.
    pub(in crate::table) fn visit_directories(&self, visit: &mut dyn FnMut(u64, PackSpan)) -> Result<()> {
        let region = self.footer.index;
        let content = read_region(&*self.file, &self.footer, region)?;
        let decoded = contents::decode(&content, self.footer.data_end(), visit);
        decoded.map(drop).map_err(|damage| damage.in_block(self.file.path(), region.offset))
    }

    /// Whether the pack may have an entry of this directory and hash.
    pub(in crate::table) fn may_have(&self, directory: u64, hash: NameHash) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.may_contain(filter::hash(&name_hash::prefix(directory, hash))))
    }

    /// The offsets of the blocks of a span that may have entries with this hash, and the fence of the block after the
    /// first of them, from which on it has none.
    pub(in crate::table) fn blocks_from(&self, span: PackSpan, hash: NameHash) -> BlocksFrom<'_> {
        if span.blocks == 1 {
            return BlocksFrom::One(u64::from(span.at) * ALIGNMENT as u64);
        }
        let fences = self.fences_of(span);
        // Entries of one hash may go on from the block before one that begins with the hash.
        let first = fences.partition_point(|fence| fence.hash < hash.fence()).saturating_sub(1);
        BlocksFrom::Several(&fences[first..])
    }

    /// The blocks of a span of several.
    pub(in crate::table) fn fences_of(&self, span: PackSpan) -> &[contents::Fence] {
        let start = span.at as usize;
        self.fences.get(start..start + span.blocks as usize).unwrap_or_default()
    }

    /// The newest version of a name, among those of a span, that is visible at `visible`.
    pub(in crate::table) fn newest(
        &self,
        span: PackSpan,
        key: &EntryKey<'_>,
        visible: SeqNo,
        metrics: &Metrics,
    ) -> Result<Option<PackVersion>> {
        let EntryKey { directory, hash, name } = *key;
        let mut newest: Option<PackVersion> = None;
        let mut look = |offset: u64| -> Result<()> {
            let bytes = self.block_bytes(offset, metrics)?;
            let block = self.decode(&bytes, offset, directory)?;
            let mut extent = offset + bytes.len() as u64;
            if block.fingerprints().all(|fingerprint| fingerprint != hash.fingerprint()) {
                return Ok(());
            }
            for (number, fingerprint) in block.fingerprints().enumerate() {
                let item = block.item(number)?;
                let at = extent;
                if let Content::Extent(value_bytes) = item.content {
                    extent += extent_bytes(value_bytes as usize) as u64;
                }
                let is_newer = newest.as_ref().is_none_or(|found| found.seq < item.seq);
                if fingerprint == hash.fingerprint() && item.name == name && item.seq <= visible && is_newer {
                    newest = Some(version(&bytes, &item, at));
                }
            }
            Ok(())
        };
        match self.blocks_from(span, hash) {
            BlocksFrom::One(offset) => look(offset)?,
            BlocksFrom::Several(fences) => {
                for (number, fence) in fences.iter().enumerate() {
                    if number > 0 && fence.hash > hash.fence() {
                        break;
                    }
                    look(u64::from(fence.at) * ALIGNMENT as u64)?;
                }
            }
        }
        Ok(newest)
    }

    /// Gives all versions in the block at `offset` to `visit`, with their names, in the order of the block.
    pub(in crate::table) fn visit_block(
        &self,
        offset: u64,
        directory: u64,
        metrics: &Metrics,
        visit: &mut dyn FnMut(Slice, PackVersion),
    ) -> Result<()> {
        let bytes = self.block_bytes(offset, metrics)?;
        let block = self.decode(&bytes, offset, directory)?;
        let mut extent = offset + bytes.len() as u64;
        for number in 0..block.len() {
            let item = block.item(number)?;
            let at = extent;
            if let Content::Extent(value_bytes) = item.content {
                extent += extent_bytes(value_bytes as usize) as u64;
            }
            visit(part_of(&bytes, item.name), version(&bytes, &item, at));
        }
        Ok(())
    }

    /// A value that is in an extent.
    pub(in crate::table) fn read_extent(&self, offset: u64, value_bytes: u32) -> Result<Slice> {
        let value_bytes = value_bytes as usize;
        let bytes = extent_bytes(value_bytes);
        let is_within = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.footer.data_end());
        if !is_within {
            let expected = format!("an extent of {bytes} bytes before {}", self.footer.data_end());
            return Err(Error::corruption(self.file.path(), offset, expected, "the end of the blocks"));
        }
        let mut buffer = zeroed(bytes);
        self.file.read_exact_at(offset, Arc::make_mut(&mut buffer))?;
        verify_extent(&buffer, value_bytes, self.place(offset))?;
        Ok(Slice::of(&buffer, 0, value_bytes))
    }

    fn decode<'a>(&'a self, bytes: &'a [u8], offset: u64, directory: u64) -> Result<Block<'a>> {
        let block = Block::decode(bytes, self.place(offset))?;
        if block.directory() != directory {
            let (expected, found) =
                (format!("a block of directory {directory}"), format!("one of {}", block.directory()));
            return Err(Error::corruption(self.file.path(), offset + 8, expected, found));
        }
        Ok(block)
    }

    pub(in crate::table) fn place(&self, offset: u64) -> Place<'_> {
        Place { path: self.file.path(), pack: self.footer.table, offset }
    }

    /// The bytes of the block at `offset`, from the cache or the file.
    fn block_bytes(&self, offset: u64, metrics: &Metrics) -> Result<Slice> {
        let number = (offset / PAGE_BYTES as u64) as usize;
        let at = (offset % PAGE_BYTES as u64) as usize;
        let first = self.page(number, metrics)?;
        // A block begins at a multiple of 8, so the page has the first 8 bytes of it.
        let bytes = first.get(at + 4..at + 6).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
        if at + bytes <= first.len() {
            return Ok(first.slice(at..at + bytes));
        }
        let mut gathered = first[at..].to_vec();
        let second = self.page(number + 1, metrics)?;
        let missing = (bytes - gathered.len()).min(second.len());
        gathered.extend_from_slice(&second[..missing]);
        Ok(Slice::from_long(&gathered))
    }

    /// A page of the blocks; the last one may be short.
    fn page(&self, number: usize, metrics: &Metrics) -> Result<Slice> {
        if let Some(page) = self.cached.get(number) {
            metrics.reads().cache_hits.increment();
            return Ok(page);
        }
        metrics.reads().cache_misses.increment();
        let offset = number as u64 * PAGE_BYTES as u64;
        let bytes = self.footer.data_end().saturating_sub(offset).min(PAGE_BYTES as u64) as usize;
        let mut buffer = zeroed(bytes);
        self.file.read_exact_at(offset, Arc::make_mut(&mut buffer))?;
        let page = Slice::start_of(buffer, bytes);
        self.cached.insert(number, page.clone());
        Ok(page)
    }
}

/// See [`OpenPack::blocks_from`].
pub(in crate::table) enum BlocksFrom<'a> {
    /// The offset of the only block.
    One(u64),
    Several(&'a [contents::Fence]),
}

/// The part of `bytes`, which begins a block, that is `part`.
fn part_of(bytes: &Slice, part: &[u8]) -> Slice {
    let start = part.as_ptr().addr() - bytes.as_ptr().addr();
    bytes.slice(start..start + part.len())
}

fn version(bytes: &Slice, item: &Item<'_>, extent: u64) -> PackVersion {
    let (kind, value) = match item.content {
        Content::Remove => (EntryKind::Remove, PackValue::Here(Slice::EMPTY)),
        Content::Inline(value) => (EntryKind::Put, PackValue::Here(part_of(bytes, value))),
        Content::Extent(value_bytes) => (EntryKind::Put, PackValue::Extent(extent, value_bytes)),
    };
    PackVersion { seq: item.seq, kind, value }
}
