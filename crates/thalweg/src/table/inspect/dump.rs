//! [`dump`]: prints a table file in readable form, for `thalweg dump`. It needs no manifest.

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::{EntryKind, Slice};
use crate::memory::Buffer;
use crate::storage::{File, OpenMode, Storage};
use crate::table::format::block::{Block, BlockCursor};
use crate::table::format::footer::Footer;
use crate::table::format::index::BlockHandle;
use crate::table::format::properties::Properties;
use crate::table::pack::open_pack::{OpenPack, PackValue, PackVersion};
use crate::table::pack::read::{trimmed, visit_block};
use crate::table::read::file::TableFile;
use crate::table::read::file_reads::Pages;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a value that are printed.
const VALUE_BYTES_MAX: usize = 64;

/// Prints a line.
type Line<'a> = dyn FnMut(fmt::Arguments<'_>) -> io::Result<()> + 'a;

/// Prints footer, properties, index and entries of the table at `path`, a line at a time. Stops with an error at the
/// first damage.
pub(crate) fn dump(storage: &dyn Storage, path: &Path, line: &mut Line<'_>) -> Result<()> {
    let Some(file) = storage.open(path, OpenMode::Read)? else {
        return Err(Error::corruption(path, 0, "a table", "no such file"));
    };
    let mut out = |arguments: fmt::Arguments<'_>| line(arguments).map_err(|error| Error::io("print", path, error));
    if OpenPack::is_pack(&*file)? {
        return dump_pack(file, &mut out);
    }
    let table_file = TableFile::open(file, true)?;
    dump_head(&table_file.footer, &table_file.properties, table_file.file_bytes, &mut out)?;
    for at in 0..table_file.index.blocks() {
        let Some(handle) = table_file.index.handle(at) else { break };
        dump_block(&table_file, at, handle, &mut out)?;
    }
    Ok(())
}

fn dump_pack(file: Arc<dyn File>, out: &mut dyn FnMut(fmt::Arguments<'_>) -> Result<()>) -> Result<()> {
    let (mut directories, bytes) = (Vec::new(), file.bytes()?);
    let mut visit = |directory, span| directories.push((directory, span));
    let pack = OpenPack::open(file, &BlockCache::new(0), &Pages::all_there(), &mut visit)?;
    dump_pack_head(&pack, bytes, directories.len(), out)?;
    for (directory, span) in directories {
        for at in pack.blocks_of(span) {
            out(format_args!("block at {}: directory {directory}", at.offset))?;
            let mut versions = Vec::new();
            let bytes = Buffer::filled(at.bytes_max, |bytes| pack.file.read_exact_at(at.offset, bytes))?;
            let bytes = trimmed(Slice::from(bytes));
            let block = pack.decode(&bytes, at.offset, directory)?;
            visit_block(&bytes, &block, at.offset, &mut |name, version| versions.push((name, version)))?;
            for (name, PackVersion { seq, kind, value }) in versions {
                let name = name.escape_ascii();
                match (kind, value) {
                    (EntryKind::Remove, _) => out(format_args!("  \"{name}\" @{seq} removed"))?,
                    (EntryKind::Put, PackValue::Extent(offset, bytes)) => {
                        out(format_args!("  \"{name}\" @{seq} = a value of {bytes} bytes at {offset}"))?;
                    }
                    (EntryKind::Put, PackValue::Here(value)) => {
                        let (start, more) = match value.get(..VALUE_BYTES_MAX) {
                            Some(start) if value.len() > VALUE_BYTES_MAX => (start, "…"),
                            _ => (&value[..], ""),
                        };
                        out(format_args!("  \"{name}\" @{seq} = \"{}\"{more}", start.escape_ascii()))?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn dump_pack_head(
    pack: &OpenPack,
    bytes: u64,
    directories: usize,
    out: &mut dyn FnMut(fmt::Arguments<'_>) -> Result<()>,
) -> Result<()> {
    let (footer, properties) = (&pack.footer, &pack.properties);
    out(format_args!("pack {} (a table of a directory keyspace): {bytes} bytes", footer.table))?;
    match footer.filter {
        Some(filter) => out(format_args!(
            "filter at {}: {} bytes, {} bits an entry",
            filter.offset, filter.bytes, properties.filter_bits_per_key
        ))?,
        None => out(format_args!("no filter"))?,
    }
    out(format_args!("contents at {}: {} bytes", footer.index.offset, footer.index.bytes))?;
    out(format_args!("properties at {}: {} bytes", footer.properties.offset, footer.properties.bytes))?;
    out(format_args!("directories: {directories}; different names in them: {}", properties.keys))?;
    out(format_args!("versions of entries: {}; of them removals: {}", properties.entries, properties.tombstones))?;
    out(format_args!("bytes of values: {}", properties.value_bytes))?;
    out(format_args!("blocks: {}, in {} bytes with their long values", properties.data_blocks, properties.data_bytes))?;
    out(format_args!("sequence numbers: {} to {}", properties.seq_min, properties.seq_max))?;
    out(format_args!("below each block its versions: \"name\" @sequence number = value"))
}

fn dump_head(
    footer: &Footer,
    properties: &Properties,
    file_bytes: u64,
    out: &mut dyn FnMut(fmt::Arguments<'_>) -> Result<()>,
) -> Result<()> {
    out(format_args!("table {}: {file_bytes} bytes", footer.table))?;
    match footer.filter {
        Some(filter) => out(format_args!(
            "filter at {}: {} bytes, {} bits a key",
            filter.offset, filter.bytes, properties.filter_bits_per_key
        ))?,
        None => out(format_args!("no filter"))?,
    }
    out(format_args!("index at {}: {} bytes", footer.index.offset, footer.index.bytes))?;
    out(format_args!("properties at {}: {} bytes", footer.properties.offset, footer.properties.bytes))?;
    out(format_args!(
        "{} entries, {} of them tombstones, of {} keys; {} key bytes, {} value bytes",
        properties.entries, properties.tombstones, properties.keys, properties.key_bytes, properties.value_bytes
    ))?;
    out(format_args!("{} data blocks in {} bytes", properties.data_blocks, properties.data_bytes))?;
    out(format_args!("sequence numbers {}..={}", properties.seq_min, properties.seq_max))?;
    let (min, max) = (properties.key_min.escape_ascii(), properties.key_max.escape_ascii());
    out(format_args!("keys \"{min}\"..=\"{max}\""))
}

fn dump_block(
    table_file: &TableFile,
    at: usize,
    handle: BlockHandle,
    out: &mut dyn FnMut(fmt::Arguments<'_>) -> Result<()>,
) -> Result<()> {
    let (last, seq) = table_file.index.last_key(at).unwrap_or_default();
    out(format_args!(
        "block {at} at {}: {} bytes, {} uncompressed, up to \"{}\" @{seq}",
        handle.offset,
        handle.bytes,
        handle.raw_bytes,
        last.escape_ascii()
    ))?;
    let block = Block::parse(table_file.read_block(handle)?).map_err(table_file.damaged(handle))?;
    let mut cursor = BlockCursor::new(block);
    cursor.seek_to_first().map_err(table_file.damaged(handle))?;
    while cursor.valid() {
        let (key, seq, value) = (cursor.key().escape_ascii(), cursor.seq(), cursor.value_bytes());
        match (cursor.kind(), value.get(..VALUE_BYTES_MAX)) {
            (EntryKind::Remove, _) => out(format_args!("  \"{key}\" @{seq} removed"))?,
            (EntryKind::Put, Some(start)) if value.len() > VALUE_BYTES_MAX => {
                out(format_args!("  \"{key}\" @{seq} = \"{}\"… ({} bytes)", start.escape_ascii(), value.len()))?;
            }
            (EntryKind::Put, _) => out(format_args!("  \"{key}\" @{seq} = \"{}\"", value.escape_ascii()))?,
        }
        cursor.next().map_err(table_file.damaged(handle))?;
    }
    Ok(())
}
