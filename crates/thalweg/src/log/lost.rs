//! Copies what `PointInTime` drops to `lost/` beside the log, before anything is overwritten.
//!
//! Files are named `{index:08}-{generation:016x}.log`, or `slot-{number:08}.log` without a readable header. A copy of
//! an earlier attempt is replaced. Locks: none.

use super::copy::copy_file;
use super::scan::Scan;
use super::slots::SlotFile;
use crate::error::Result;
use crate::runtime::Environment;
use std::path::Path;

/// Copies every file with content after the end of the log, durably.
pub(super) fn copy_lost(environment: &Environment, directory: &Path, scan: &Scan) -> Result<()> {
    let Some(root) = directory.parent() else {
        return Ok(());
    };
    let lost = root.join("lost");
    let storage = &environment.storage;
    storage.create_directory(&lost)?;
    storage.sync_directory(root)?;
    for slot in &scan.slots.slots {
        let Some(name) = lost_name(slot, scan.end.position.segment()) else {
            continue;
        };
        let to = lost.join(name);
        if storage.file_bytes(&to)?.is_some() {
            storage.remove(&to)?;
        }
        copy_file(environment, &slot.path, &to, slot.bytes, slot.bytes)?;
    }
    storage.sync_directory(&lost)
}

/// Returns the name of the copy, if the slot has content after the end of the log.
fn lost_name(slot: &SlotFile, end: u32) -> Option<String> {
    match slot.id() {
        Some(id) => (id.index >= end).then(|| format!("{:08}-{:016x}.log", id.index, id.generation)),
        None => slot.header_is_damaged.then(|| format!("slot-{:08}.log", slot.number)),
    }
}
