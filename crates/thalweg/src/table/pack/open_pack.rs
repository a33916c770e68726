//! [`OpenPack`]: an open pack, and foreground reads of it.
//!
//! Of a pack, the block cache has pages of 4 KiB, not blocks: a page may have the blocks of several directories, which
//! are read together (PHAT-5). A block is verified at each read, unless it is the last verified block of a cached page
//! (`read.rs`). No locks: an open pack never changes.

use super::block::{Block, Content, Item};
use super::contents::{self, BlockAt, Decoded, Fences, PackSpan};
use super::extent::{extent_bytes, verify_extent};
use super::{FORMAT_VERSION, Format, MAGIC, PAGE_BYTES, Place};
use crate::cache::{BlockCache, Charge, TableBlocks};
use crate::error::{Error, Result};
use crate::format::{EntryKey, EntryKind, HashKey, NameHash, SeqNo, Slice};
use crate::memory::Buffer;
use crate::planted::{Bug, planted};
use crate::storage::{File, Storage};
use crate::table::format::damage::Damage;
use crate::table::format::filter::{self, Filter};
use crate::table::format::footer::{FOOTER_BYTES, Footer, Region};
use crate::table::format::properties::Properties;
use crate::table::meta::TableMeta;
use crate::table::read::file::{open_file, read_region};
use crate::table::read::file_reads::{FileReads, Pages};
use std::path::Path;
use std::sync::Arc;

/// See the module.
pub(in crate::table) struct OpenPack {
    pub(in crate::table) file: Arc<dyn File>,
    pub(in crate::table) footer: Footer,
    pub(in crate::table) properties: Properties,
    pub(in crate::table) hash_key: HashKey,
    pub(in crate::table) fences: Fences,
    filter: Option<Filter>,
    pub(in crate::table) reads: FileReads,
    /// The pages of the pack in the block cache.
    pub(in crate::table) cached: TableBlocks,
    /// The charge for filter, fences and slots in the memory budget.
    _charge: Charge,
}

/// A version of an entry that a pack has.
#[derive(Clone, Debug)]
pub(crate) struct PackVersion {
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) value: PackValue,
}

/// A value, or its place.
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
        pages: &Pages,
        visit: &mut dyn FnMut(u64, PackSpan),
    ) -> Result<OpenPack> {
        let file = open_file(storage, path, meta)?;
        let file_bytes = file.bytes()?;
        if file_bytes != meta.bytes {
            let found = format!("{file_bytes} bytes");
            return Err(Error::corruption(path, file_bytes, format!("a pack of {} bytes", meta.bytes), found));
        }
        let pack = Self::open(file, cache, pages, visit)?;
        let checked = pack.properties.check(meta);
        checked.map_err(|damage| damage.in_block(path, pack.footer.properties.offset))?;
        Ok(pack)
    }

    /// Opens any pack.
    pub(in crate::table) fn open(
        file: Arc<dyn File>,
        cache: &Arc<BlockCache>,
        pages: &Pages,
        visit: &mut dyn FnMut(u64, PackSpan),
    ) -> Result<OpenPack> {
        let (path, file_bytes) = (file.path(), file.bytes()?);
        let Some(footer_start) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
            let expected = format!("a pack with a footer of {FOOTER_BYTES} bytes");
            return Err(Error::corruption(path, 0, expected, format!("a file of {file_bytes} bytes")));
        };
        let mut bytes = [0; FOOTER_BYTES];
        file.read_exact_at(footer_start, &mut bytes)?;
        let footer = Footer::decode(&bytes, path, file_bytes, true, (MAGIC, FORMAT_VERSION))?;
        let read = |region: Region| read_region(&*file, &footer, region);
        let at = |region: Region| move |damage: Damage| damage.in_block(path, region.offset);
        let properties = Properties::decode(&read(footer.properties)?).map_err(at(footer.properties))?;
        if properties.table != footer.table {
            let (expected, found) = (format!("table {}", footer.table), format!("table {}", properties.table));
            return Err(Error::corruption(path, footer.properties.offset, expected, found));
        }
        let decoded = contents::decode(&read(footer.index)?, footer.data_end(), visit).map_err(at(footer.index))?;
        let Decoded { hash_key, fences, blocks } = decoded;
        // Only the index of the keyspace will have the places of directories of one block.
        if blocks != properties.data_blocks {
            let expected = format!("{} blocks", properties.data_blocks);
            return Err(Error::corruption(path, footer.index.offset, expected, format!("{blocks} in the contents")));
        }
        let filter = match footer.filter {
            Some(region) => Some(Filter::decode(&read(region)?).map_err(at(region))?),
            None => None,
        };
        if (properties.filter_bits_per_key > 0) != filter.is_some() {
            let expected = format!("a filter of {} bits a key", properties.filter_bits_per_key);
            return Err(Error::corruption(path, footer_start, expected, "another"));
        }
        let reads = FileReads::new(Arc::clone(&file), file_bytes, pages);
        let pages = usize::try_from(footer.data_end()).unwrap_or(usize::MAX).div_ceil(PAGE_BYTES);
        let cached = cache.table(footer.table, pages);
        let of_filter = filter.as_ref().map_or(0, Filter::memory_bytes);
        let bytes = of_filter + size_of_val(&*fences) + TableBlocks::memory_bytes(pages);
        let charge = Charge::new(cache, bytes as u64);
        Ok(OpenPack { file, footer, properties, hash_key, fences, filter, reads, cached, _charge: charge })
    }

    /// Whether the file ends as a pack does. Any file that is neither pack nor table is damaged as either.
    pub(in crate::table) fn is_pack(file: &dyn File) -> Result<bool> {
        let mut magic = [0; 8];
        let Some(offset) = file.bytes()?.checked_sub(magic.len() as u64) else { return Ok(false) };
        file.read_exact_at(offset, &mut magic)?;
        Ok(u64::from_le_bytes(magic) == MAGIC)
    }

    /// The blocks of a span.
    pub(in crate::table) fn blocks_of(&self, span: PackSpan) -> Vec<BlockAt> {
        self.blocks_from(span, NameHash(0)).collect()
    }

    /// Returns the blocks of a span, from the first that may have entries with this hash.
    pub(in crate::table) fn blocks_from(&self, span: PackSpan, hash: NameHash) -> impl Iterator<Item = BlockAt> {
        let blocks = span.blocks(&self.fences, self.footer.data_end());
        let is_next = planted(Bug::EqualFenceSkipped);
        let first = blocks.first_for(if is_next { hash.fence().saturating_add(1) } else { hash.fence() });
        (first..blocks.len()).filter_map(move |number| blocks.block(number))
    }

    /// Gives each directory to `visit`.
    pub(in crate::table) fn visit_directories(&self, visit: &mut dyn FnMut(u64, PackSpan)) -> Result<()> {
        let decoded = contents::decode(&self.contents()?, self.footer.data_end(), visit);
        decoded.map(drop).map_err(|damage| damage.in_block(self.file.path(), self.footer.index.offset))
    }

    /// The contents, as they are in the file.
    pub(in crate::table) fn contents(&self) -> Result<Slice> {
        read_region(&*self.file, &self.footer, self.footer.index)
    }

    /// Whether the pack may have the entry with this hash ([`entry_hash`]).
    pub(in crate::table) fn may_have(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Reads and verifies the value in the extent at `offset`.
    pub(in crate::table) fn read_extent(&self, offset: u64, value_bytes: u32) -> Result<Slice> {
        let value_bytes = value_bytes as usize;
        let bytes = extent_bytes(value_bytes);
        let is_within = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.footer.data_end());
        if !is_within {
            let expected = format!("an extent of {bytes} bytes before {}", self.footer.data_end());
            return Err(Error::corruption(self.file.path(), offset, expected, "the end of the blocks"));
        }
        let buffer = Buffer::filled(bytes, |buffer| self.file.read_exact_at(offset, buffer))?;
        verify_extent(&buffer, value_bytes, self.place(offset))?;
        Ok(Slice::of(&buffer, 0, value_bytes))
    }

    /// Returns the block of `directory` that lies at `offset`, from the beginning of `bytes`.
    pub(in crate::table) fn decode<'a>(&'a self, bytes: &'a [u8], offset: u64, directory: u64) -> Result<Block<'a>> {
        self.of_directory(Block::decode(bytes, self.place(offset), directory)?, offset, directory)
    }

    /// As [`OpenPack::decode`], for bytes whose checksum was found right before.
    pub(in crate::table) fn decode_again<'a>(
        &'a self,
        bytes: &'a [u8],
        offset: u64,
        directory: u64,
    ) -> Result<Block<'a>> {
        self.of_directory(Block::decode_again(bytes, self.place(offset), directory)?, offset, directory)
    }

    fn of_directory<'a>(&self, block: Block<'a>, offset: u64, directory: u64) -> Result<Block<'a>> {
        if block.directory() != directory {
            let (expected, found) =
                (format!("a block of directory {directory}"), format!("one of {}", block.directory()));
            return Err(Error::corruption(self.file.path(), offset + 8, expected, found));
        }
        Ok(block)
    }

    pub(in crate::table) fn place(&self, offset: u64) -> Place<'_> {
        let format = Format::of_version(self.footer.version);
        Place { path: self.file.path(), pack: self.footer.table, offset, format }
    }
}

/// Returns the hash of an entry in the filters of packs.
pub(crate) fn entry_hash(key: &EntryKey<'_>) -> u64 {
    filter::hash(&key.prefix())
}

/// Returns `part`, which lies within `bytes`, as a slice. `bytes` begins with a block.
pub(in crate::table) fn part_of(bytes: &Slice, part: &[u8]) -> Slice {
    let start = part.as_ptr().addr() - bytes.as_ptr().addr();
    bytes.slice(start..start + part.len())
}

/// Returns the version that an item states. If the item has an extent, it is at `extent`.
pub(in crate::table) fn version(bytes: &Slice, item: &Item<'_>, extent: u64) -> PackVersion {
    let (kind, value) = match item.content {
        Content::Remove => (EntryKind::Remove, PackValue::Here(Slice::EMPTY)),
        Content::Inline(value) => (EntryKind::Put, PackValue::Here(part_of(bytes, value))),
        Content::Extent(value_bytes) => (EntryKind::Put, PackValue::Extent(extent, value_bytes)),
    };
    PackVersion { seq: item.seq, kind, value }
}
