//! The manifest of a checkpoint: a directory of its own, with links to the tables of a durable state and a copy of the
//! log (DESIGN 6, Checkpoint). Its CURRENT comes last: a directory without one was not finished.

use crate::error::Result;
use crate::lineage::State;
use crate::lineage::manifest::write::begin;
use crate::runtime::Environment;
use std::path::Path;

/// Writes a manifest for `state` in `root` (a checkpoint), durable, and makes it current. Tables and log must be there,
/// durable with their names, before.
pub(crate) fn write_checkpoint_manifest(environment: &Environment, root: &Path, state: &State) -> Result<()> {
    begin(environment, None, root, 1, state).map(drop)
}
