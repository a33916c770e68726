//! Writes whole manifests: for a database that is opened, and for a checkpoint.
//!
//! `settle/append.rs` appends to the manifest in force, `settle/rotate.rs` replaces it while the database runs.

use crate::error::Result;
use crate::format::EditId;
use crate::lineage::files::manifest_path;
use crate::lineage::manifest::current::Current;
use crate::lineage::manifest::fragments::frame;
use crate::lineage::manifest::header::{HEADER_BYTES, ManifestHeader};
use crate::lineage::manifest::record::{Record, edit_payload};
use crate::lineage::state::edit::Edit;
use crate::lineage::state::live::State;
use crate::metrics::Metrics;
use crate::runtime::Environment;
use crate::storage::{File, Storage};
use std::path::Path;
use std::sync::Arc;

/// How many bytes are written at a time.
pub(in crate::lineage) const CHUNK_BYTES: usize = 256 << 10;

/// Returns the bytes of a manifest: the state at a settled edit, then the unsettled edits after it, verbatim.
pub(in crate::lineage) fn image<'a>(
    header: ManifestHeader,
    base: &State,
    edits: impl Iterator<Item = (EditId, &'a Edit)>,
) -> Vec<u8> {
    let mut bytes = header.encode();
    let mut at = HEADER_BYTES;
    let mut put = |payload: &[u8]| at = frame(&mut bytes, header.generation, at, payload);
    for record in Record::snapshot(base) {
        put(&record.payload(0));
    }
    for (id, edit) in edits {
        put(&edit_payload(id, edit, 0));
    }
    bytes
}

/// A manifest that has just become the current one.
pub(in crate::lineage) struct Begun {
    pub(in crate::lineage) file: Arc<dyn File>,
    pub(in crate::lineage) header: ManifestHeader,
    pub(in crate::lineage) bytes: u64,
}

/// Writes manifest `number` for `state` in `root` and makes it durable. Then makes it the current one, durably.
pub(in crate::lineage) fn begin(
    environment: &Environment,
    metrics: Option<&Metrics>,
    root: &Path,
    number: u64,
    state: &State,
) -> Result<Begun> {
    let storage = &*environment.storage;
    let header = ManifestHeader { number, generation: environment.entropy.next_u64() };
    let content = image(header, state, std::iter::empty());
    let bytes = content.len() as u64;
    let path = manifest_path(root, number);
    let written = write(storage, root, &path, &content).and_then(|file| {
        Current { number, generation: header.generation, bytes }.write_new(storage, root)?;
        Ok(file)
    });
    let file = match written {
        Ok(file) => file,
        Err(error) => {
            // Nothing names this file yet. If the removal fails, the next open removes it.
            let _ = storage.remove(&path);
            return Err(error);
        }
    };
    Current::put_in_force(storage, root)?;
    storage.sync_directory(root)?;
    if let Some(metrics) = metrics {
        metrics.manifest_written_bytes.add(bytes);
    }
    Ok(Begun { file, header, bytes })
}

/// Writes a manifest for `state` in `root`, the directory of a checkpoint, and makes it the current one, durably. The
/// tables and the log of the checkpoint, and their names, must be durable before: a directory without CURRENT is not
/// finished.
pub(crate) fn write_checkpoint_manifest(environment: &Environment, root: &Path, state: &State) -> Result<()> {
    begin(environment, None, root, 1, state).map(drop)
}

/// Creates a file with `content`, durable with its name.
fn write(storage: &dyn Storage, root: &Path, path: &Path, content: &[u8]) -> Result<Arc<dyn File>> {
    let file = storage.create(path)?;
    for (index, chunk) in content.chunks(CHUNK_BYTES).enumerate() {
        file.write_all_at((index * CHUNK_BYTES) as u64, chunk)?;
    }
    file.sync()?;
    storage.sync_directory(root)?;
    Ok(file)
}
