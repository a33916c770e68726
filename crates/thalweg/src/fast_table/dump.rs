//! [`dump`]: prints the file of a fast table in readable form, for `thalweg dump`. It needs no manifest.

use super::extent::Extent;
use super::header::Known;
use super::loaded::LoadedGroup;
use super::table::FastTable;
use crate::error::{Error, Result};
use crate::format::EntryKind;
use crate::metrics::Metrics;
use crate::storage::{OpenMode, Storage};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a value that are printed.
const VALUE_BYTES_MAX: usize = 64;

/// Prints a line.
type Line<'a> = dyn FnMut(fmt::Arguments<'_>) -> io::Result<()> + 'a;

/// Prints header and entries of the table at `path`, a line at a time. Stops with an error at the first damage.
pub(crate) fn dump(storage: &dyn Storage, path: &Path, line: &mut Line<'_>) -> Result<()> {
    let Some(file) = storage.open(path, OpenMode::Read)? else {
        return Err(Error::corruption(path, 0, "a fast table", "no such file"));
    };
    let bytes = file.bytes()?;
    let extent = Extent::paged(file, bytes, Arc::<Metrics>::default());
    let table = FastTable::open_with(extent, Known::Itself, true)?;
    let mut out = |arguments: fmt::Arguments<'_>| line(arguments).map_err(|error| Error::io("print", path, error));
    dump_head(&table, &mut out)?;
    let mut loaded = LoadedGroup::default();
    for group in 0..table.groups() {
        let place = table.place(group)?.0;
        out(format_args!("group {group} at {}: {} bytes", place.start, place.len()))?;
        loaded.load(&table, group)?;
        for at in 0..loaded.len() {
            let (key, seq, value) = (loaded.key(at).escape_ascii(), loaded.seq(at), loaded.value(&table, at));
            match (loaded.kind(at), value.get(..VALUE_BYTES_MAX)) {
                (EntryKind::Remove, _) => out(format_args!("  \"{key}\" @{seq} removed"))?,
                (EntryKind::Put, Some(start)) if value.len() > VALUE_BYTES_MAX => {
                    let start = start.escape_ascii();
                    out(format_args!("  \"{key}\" @{seq} = \"{start}\"… ({} bytes)", value.len()))?;
                }
                (EntryKind::Put, _) => out(format_args!("  \"{key}\" @{seq} = \"{}\"", value.escape_ascii()))?,
            }
        }
    }
    match bytes.saturating_sub(table.bytes()) {
        0 => Ok(()),
        more => Err(Error::corruption(path, table.bytes(), "the end of the file", format!("{more} more bytes"))),
    }
}

fn dump_head(table: &FastTable, out: &mut dyn FnMut(fmt::Arguments<'_>) -> Result<()>) -> Result<()> {
    let (header, meta) = (&table.header, table.meta());
    let generation = header.identity.generation;
    out(format_args!("fast table {}: {} bytes, generation {generation:#018x}", meta.id, meta.bytes))?;
    let (layout, entries, prefix) = (header.layout, header.group_entries, header.prefix_bytes);
    out(format_args!("layout {layout:?}: groups of {entries} entries, prefixes of {prefix} bytes"))?;
    match header.filter_lines {
        0 => out(format_args!("no filter"))?,
        lines => out(format_args!("filter of {lines} lines of 64 bytes, {} probes", header.probes))?,
    }
    out(format_args!(
        "{} entries, {} of them tombstones, of {} keys; {} key bytes, {} value bytes",
        meta.entries, meta.tombstones, meta.keys, header.key_bytes, header.value_bytes
    ))?;
    out(format_args!("{} groups in {} spaces", header.groups, header.spaces))?;
    out(format_args!("sequence numbers {}..={}", meta.seq_min, meta.seq_max))?;
    let (min, max) = (meta.key_min.escape_ascii(), meta.key_max.escape_ascii());
    out(format_args!("keys \"{min}\"..=\"{max}\""))
}
