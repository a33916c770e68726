//! [`TableFile`]: an open table file, with footer, properties, index and filter in memory.
//!
//! Every read of a block verifies it. No locks: an open file never changes.

use crate::error::{Error, Result};
use crate::format::Slice;
use crate::memory::Buffer;
use crate::storage::{File, IoBuffer, Storage};
use crate::table::format::block::{BlockAddress, TRAILER_BYTES, unseal};
use crate::table::format::damage::Damage;
use crate::table::format::filter::Filter;
use crate::table::format::footer::{FOOTER_BYTES, FORMAT_VERSION, Footer, MAGIC, Region};
use crate::table::format::index::{BlockHandle, Index};
use crate::table::format::properties::Properties;
use crate::table::meta::TableMeta;
use std::path::Path;
use std::sync::Arc;

/// See the module.
pub(in crate::table) struct TableFile {
    pub(in crate::table) file: Arc<dyn File>,
    pub(in crate::table) file_bytes: u64,
    pub(in crate::table) footer: Footer,
    pub(in crate::table) properties: Properties,
    pub(in crate::table) index: Index,
    pub(in crate::table) filter: Option<Filter>,
    /// Whether checksums are verified. Only fuzzers switch it off.
    verify: bool,
}

impl TableFile {
    /// Opens a table of the set of live files. Anything that differs from the manifest's `meta` is corruption.
    pub(in crate::table) fn open_live(storage: &dyn Storage, path: &Path, meta: &TableMeta) -> Result<TableFile> {
        let file = open_file(storage, path, meta)?;
        let file_bytes = file.bytes()?;
        if file_bytes != meta.bytes {
            let found = format!("{file_bytes} bytes");
            return Err(Error::corruption(path, file_bytes, format!("a table of {} bytes", meta.bytes), found));
        }
        let table_file = TableFile::open(file, true)?;
        let checked = table_file.properties.check(meta);
        checked.map_err(|damage| damage.in_block(path, table_file.footer.properties.offset))?;
        Ok(table_file)
    }

    /// Opens any table file.
    pub(in crate::table) fn open(file: Arc<dyn File>, verify: bool) -> Result<TableFile> {
        let file_bytes = file.bytes()?;
        let Some(footer_start) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
            let expected = format!("a table with a footer of {FOOTER_BYTES} bytes");
            return Err(Error::corruption(file.path(), 0, expected, format!("a file of {file_bytes} bytes")));
        };
        let mut bytes = [0; FOOTER_BYTES];
        file.read_exact_at(footer_start, &mut bytes)?;
        let footer = Footer::decode(&bytes, file.path(), file_bytes, verify, (MAGIC, FORMAT_VERSION))?;
        let read = |region: Region| -> Result<Slice> {
            let handle = BlockHandle { offset: region.offset, bytes: region.bytes, raw_bytes: region.bytes };
            read_block(&*file, &footer, handle, verify)
        };
        let at = |region: Region| {
            let path = file.path();
            move |damage: Damage| damage.in_block(path, region.offset)
        };
        let properties = Properties::decode(&read(footer.properties)?).map_err(at(footer.properties))?;
        let index = Index::decode(read(footer.index)?, footer.data_end()).map_err(at(footer.index))?;
        let filter = match footer.filter {
            Some(region) => Some(Filter::decode(&read(region)?).map_err(at(region))?),
            None => None,
        };
        if properties.table != footer.table {
            let (expected, found) = (format!("table {}", footer.table), format!("table {}", properties.table));
            return Err(Error::corruption(file.path(), footer.properties.offset, expected, found));
        }
        if (properties.filter_bits_per_key > 0) != filter.is_some() {
            let expected = format!("a filter of {} bits a key", properties.filter_bits_per_key);
            return Err(Error::corruption(file.path(), footer_start, expected, "another"));
        }
        Ok(TableFile { file, file_bytes, footer, properties, index, filter, verify })
    }

    pub(in crate::table) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads one data block from the file.
    pub(in crate::table) fn read_block(&self, handle: BlockHandle) -> Result<Slice> {
        read_block(&*self.file, &self.footer, handle, self.verify)
    }

    /// Returns the content of a data block, given the block and its trailer.
    pub(in crate::table) fn unseal(&self, sealed: &Slice, handle: BlockHandle) -> Result<Slice> {
        let address = BlockAddress { path: self.path(), table: self.footer.table, offset: handle.offset };
        unseal(sealed, address, handle.raw_bytes, self.verify)
    }

    /// Returns the content of a data block that lies, with its trailer, in the `bytes` bytes of `read` after `skip`.
    pub(in crate::table) fn unseal_part(
        &self,
        read: &IoBuffer,
        skip: usize,
        bytes: usize,
        handle: BlockHandle,
    ) -> Result<Slice> {
        let sealed = skip.checked_add(bytes).and_then(|end| read.filled().get(skip..end));
        let Some(sealed) = sealed else {
            let missing = (skip + bytes).saturating_sub(read.len());
            let (at, expected) = (handle.offset + (bytes - missing.min(bytes)) as u64, format!("{missing} more bytes"));
            return Err(Error::corruption(self.path(), at, expected, "the end of the file"));
        };
        self.unseal(&Slice::from_long(sealed), handle)
    }

    /// Returns a function that makes an error of damage inside the data block `handle`.
    pub(in crate::table) fn damaged(&self, handle: BlockHandle) -> impl FnOnce(Damage) -> Error {
        move |damage| damage.in_block(self.path(), handle.offset)
    }

    /// Returns the error for damage inside data block `at`.
    #[cold]
    pub(in crate::table) fn block_damaged(&self, at: usize, damage: Damage) -> Error {
        damage.in_block(self.path(), self.index.handle(at).map_or(0, |handle| handle.offset))
    }

    /// Returns the error for a block `at` that ends before the key that the index has for it.
    #[cold]
    pub(in crate::table) fn ends_early(&self, at: usize) -> Error {
        let last = self.index.last_key(at).map(|(key, _)| key).unwrap_or_default();
        let offset = self.index.handle(at).map_or(0, |handle| handle.offset);
        Error::corruption(self.path(), offset, format!("a block up to key \"{}\"", last.escape_ascii()), "its end")
    }
}

pub(in crate::table) fn open_file(storage: &dyn Storage, path: &Path, meta: &TableMeta) -> Result<Arc<dyn File>> {
    match storage.open_evictable(path) {
        Ok(file) => Ok(file),
        Err(error) if error.is_missing() => Err(missing(path, meta)),
        Err(error) => Err(error),
    }
}

fn missing(path: &Path, meta: &TableMeta) -> Error {
    Error::corruption(path, 0, format!("a table of {} bytes", meta.bytes), "no such file")
}

/// Reads a part of a file that is not a data block.
pub(in crate::table) fn read_region(file: &dyn File, footer: &Footer, region: Region) -> Result<Slice> {
    let handle = BlockHandle { offset: region.offset, bytes: region.bytes, raw_bytes: region.bytes };
    read_block(file, footer, handle, true)
}

fn read_block(file: &dyn File, footer: &Footer, handle: BlockHandle, verify: bool) -> Result<Slice> {
    // Footer and index are checked to lie within the file, so this allocates no more than the length of the file.
    let Some(sealed_bytes) = handle.sealed_bytes() else {
        let expected = format!("a block and a trailer of {TRAILER_BYTES} bytes");
        return Err(Error::corruption(file.path(), handle.offset, expected, format!("{handle:?}")));
    };
    let sealed = Buffer::filled(sealed_bytes, |sealed| file.read_exact_at(handle.offset, sealed))?;
    let address = BlockAddress { path: file.path(), table: footer.table, offset: handle.offset };
    unseal(&Slice::from(sealed), address, handle.raw_bytes, verify)
}
