//! `thalweg dump` of CURRENT and of manifests: a line for each record, change and table.

use crate::error::{Error, Result};
use crate::format::{EditId, KeyspaceKind};
use crate::lineage::files;
use crate::lineage::manifest::current::{self, Current};
use crate::lineage::manifest::fields::Undecodable;
use crate::lineage::manifest::fragments::scan;
use crate::lineage::manifest::header::ManifestHeader;
use crate::lineage::manifest::record::{Record, synced_of};
use crate::lineage::state::edit::{Change, Edit, FastPlace};
use crate::storage::Storage;
use crate::table::TableMeta;
use std::fmt::Arguments;
use std::path::Path;

/// Takes one line of a dump.
type Line<'a> = dyn FnMut(Arguments<'_>) -> std::io::Result<()> + 'a;

/// Writes the manifest or the CURRENT file at `path` in readable form.
pub(crate) fn dump(storage: &dyn Storage, path: &Path, line: &mut Line<'_>) -> Result<()> {
    let (bytes, _) = files::read_whole(storage, path, false)?;
    let mut print = |text: Arguments<'_>| line(text).map_err(|error| Error::io("print", path, error));
    if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(current::NAME)) {
        let Current { number, generation, bytes } = Current::decode(path, &bytes)?;
        return print(format_args!("current: manifest {number}, generation {generation:#018x}, {bytes} bytes durable"));
    }
    let header = ManifestHeader::decode(path, &bytes)?;
    print(format_args!("manifest {}, generation {:#018x}", header.number, header.generation))?;
    let scanned = scan(&bytes, header.generation);
    for (offset, payload) in &scanned.records {
        let synced = synced_of(payload).unwrap_or(0);
        match Record::decode(payload) {
            Ok(Record::Edit { id, edit }) => print_edit(*offset, synced, id, &edit, &mut print)?,
            Ok(record) => print_record(*offset, synced, &record, &mut print)?,
            Err(Undecodable::Newer) => {
                print(format_args!("{offset:>8} (synced {synced}) of a newer version: {} bytes", payload.len()))?;
            }
            Err(Undecodable::Malformed) => {
                print(format_args!("{offset:>8} (synced {synced}) not a record: {} bytes", payload.len()))?;
            }
        }
    }
    print(format_args!("{:>8} end of {} records", scanned.end, scanned.records.len()))?;
    if let Some(damage) = &scanned.damage {
        let kind = if scanned.end < scanned.synced { "damage" } else { "torn tail" };
        print(format_args!("{:>8} {kind}: expected {}, found {}", damage.offset, damage.expected, damage.found))?;
    }
    Ok(())
}

/// Prints one line.
type Print<'a> = dyn FnMut(Arguments<'_>) -> Result<()> + 'a;

fn print_record(offset: u64, synced: u64, record: &Record, print: &mut Print<'_>) -> Result<()> {
    let mut head = |text: Arguments<'_>| print(format_args!("{offset:>8} (synced {synced}) {text}"));
    match record {
        Record::SnapshotBegin { edit, seq, next_keyspace, next_table, log_start } => head(format_args!(
            "snapshot at edit {edit}: seq {seq}, next keyspace {next_keyspace}, next table {next_table}, log from {}",
            log_start.position
        )),
        Record::SnapshotKeyspace { keyspace, name, splits, kind, flushed } => {
            head(format_args!("{}keyspace {keyspace} {name:?}", prefix_of(*kind)))?;
            for (index, flushed) in flushed.iter().enumerate() {
                let from = index.checked_sub(1).and_then(|before| splits.get(before));
                let from = from.map(|split| split.escape_ascii().to_string()).unwrap_or_default();
                print(format_args!("           partition {index} from \"{from}\", flushed to {flushed}"))?;
            }
            Ok(())
        }
        Record::SnapshotPartitions { keyspace, created, next, ids } => {
            let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
            head(format_args!("keyspace {keyspace}: created with {created}, partitions {}, next {next}", ids.join(" ")))
        }
        Record::SnapshotTables { keyspace, partition, level, tables } => {
            head(format_args!("keyspace {keyspace} partition {partition} level {level}"))?;
            tables.iter().try_for_each(|meta| print(format_args!("           {}", table(meta))))
        }
        Record::SnapshotFastTables { keyspace, partition, tables } => {
            head(format_args!("keyspace {keyspace} partition {partition} fast tier"))?;
            tables.iter().try_for_each(|meta| print(format_args!("           {}", table(meta))))
        }
        Record::SnapshotEnd { keyspaces, tables } => {
            head(format_args!("snapshot end: {keyspaces} keyspaces, {tables} tables"))
        }
        Record::Settled { edit } => head(format_args!("settled: edit {edit}")),
        Record::Round { edit } => head(format_args!("round: edits up to {edit}")),
        Record::Closed { log_end, edit } => head(format_args!("closed at edit {edit}: log to {}", log_end.position)),
        Record::Edit { id, .. } => head(format_args!("edit {id}")),
    }
}

/// The words before "keyspace".
fn prefix_of(kind: KeyspaceKind) -> &'static str {
    match kind {
        KeyspaceKind::Ordered => "",
        KeyspaceKind::Directory(_) => "directory ",
    }
}

fn print_edit(offset: u64, synced: u64, id: EditId, edit: &Edit, print: &mut Print<'_>) -> Result<()> {
    let from = edit.log_start.map(|mark| format!(", log from {}", mark.position)).unwrap_or_default();
    print(format_args!("{offset:>8} (synced {synced}) edit {id}: seq {}{from}", edit.seq))?;
    for change in &edit.changes {
        match change {
            Change::CreateKeyspace { keyspace, name, splits, kind } => {
                let (kind, splits) = (prefix_of(*kind), splits.len());
                print(format_args!("           create {kind}keyspace {keyspace} {name:?}, {splits} splits"))?;
            }
            Change::ClearKeyspace { keyspace, seq } => {
                print(format_args!("           clear keyspace {keyspace} of what is at or below {seq}"))?
            }
            Change::DropKeyspace { keyspace } => print(format_args!("           drop keyspace {keyspace}"))?,
            Change::Add { keyspace, partition, level, meta } => {
                print(format_args!("           add {keyspace}/{partition} level {level} {}", table(meta)))?;
            }
            Change::Remove { keyspace, partition, level, table } => {
                print(format_args!("           remove {keyspace}/{partition} level {level} table {table}"))?;
            }
            Change::Move { keyspace, partition, from, to, table } => {
                print(format_args!("           move {keyspace}/{partition} level {from} to {to} table {table}"))?;
            }
            Change::AddFast { keyspace, partition, place, meta } => {
                let place = match place {
                    FastPlace::Newest => "above",
                    FastPlace::Oldest => "below",
                    FastPlace::Inputs => "in its place among",
                };
                print(format_args!(
                    "           add {keyspace}/{partition} fast tier, {place} the others, {}",
                    table(meta)
                ))?;
            }
            Change::RemoveFast { keyspace, partition, table } => {
                print(format_args!("           remove {keyspace}/{partition} fast tier table {table}"))?;
            }
            Change::Flushed { keyspace, partition, seq } => {
                print(format_args!("           flushed {keyspace}/{partition} to {seq}"))?;
            }
            Change::Split { keyspace, partition, at, into } => {
                let at = at.escape_ascii();
                print(format_args!("           split {keyspace}/{partition} at \"{at}\" into {into}"))?;
            }
            Change::Merge { keyspace, partition, next } => {
                print(format_args!("           merge {keyspace}/{partition} with {next}"))?;
            }
        }
    }
    Ok(())
}

fn table(meta: &TableMeta) -> String {
    format!(
        "table {}: {} bytes, checksum {:#018x}, {} entries ({} tombstones, {} keys), seq {}..={}, \"{}\"..=\"{}\"",
        meta.id,
        meta.bytes,
        meta.checksum,
        meta.entries,
        meta.tombstones,
        meta.keys,
        meta.seq_min,
        meta.seq_max,
        meta.key_min.escape_ascii(),
        meta.key_max.escape_ascii()
    )
}
