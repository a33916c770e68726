//! Writing manifests: the bytes a new one begins with, and making one current in the foreground (an open, a
//! checkpoint). Appending to the one in force is [`super::install`]'s; replacing it on the run is [`super::rotate`]'s.

use crate::error::Result;
use crate::format::EditId;
use crate::lineage::manifest::current::{Current, manifest_path};
use crate::lineage::manifest::fragments::{HEADER_BYTES, Header, frame};
use crate::lineage::manifest::record::{Record, edit_payload};
use crate::lineage::{Edit, State};
use crate::metrics::Metrics;
use crate::runtime::Environment;
use crate::storage::{File, Storage};
use std::path::Path;
use std::sync::Arc;

/// Bytes written at a time.
pub(in crate::lineage) const CHUNK_BYTES: usize = 256 << 10;

/// A manifest that begins with the state at a settled edit, and the unsettled edits after it, verbatim.
pub(in crate::lineage) fn image<'a>(
    header: Header,
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

/// A manifest that was just made current.
pub(in crate::lineage) struct Begun {
    pub(in crate::lineage) file: Arc<dyn File>,
    pub(in crate::lineage) header: Header,
    pub(in crate::lineage) bytes: u64,
}

/// Writes manifest `number` for `state` in `root`, makes it durable, and then current, durably.
pub(in crate::lineage) fn begin(
    environment: &Environment,
    metrics: Option<&Metrics>,
    root: &Path,
    number: u64,
    state: &State,
) -> Result<Begun> {
    let storage = &*environment.storage;
    let header = Header { number, generation: environment.entropy.next_u64() };
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
            // Nothing names it yet. What cannot be removed now is removed by the next open.
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

/// A new file with `content`, durable with its name.
fn write(storage: &dyn Storage, root: &Path, path: &Path, content: &[u8]) -> Result<Arc<dyn File>> {
    let file = storage.create(path)?;
    for (index, chunk) in content.chunks(CHUNK_BYTES).enumerate() {
        file.write_all_at((index * CHUNK_BYTES) as u64, chunk)?;
    }
    file.sync()?;
    storage.sync_directory(root)?;
    Ok(file)
}
