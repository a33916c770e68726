//! Lineage's part of `check`: CURRENT and the whole manifest. Changes nothing. That the live tables are there, and that
//! manifest and log agree, is for recovery to tell, which `check` runs next.

use crate::error::{Error, ErrorKind, Result};
use crate::lineage::State;
use crate::lineage::recovery::{Medium, read_manifest};
use crate::runtime::Environment;
use std::path::Path;

/// Verifies every byte of CURRENT and the manifest, and gives the state after its last edit; `None` when there is no
/// database, or none can be read. Each fault is told; a torn tail, which any crash leaves, is none.
pub(crate) fn check(environment: &Environment, root: &Path, fault: &mut dyn FnMut(Error)) -> Result<Option<State>> {
    let storage = &*environment.storage;
    let read = read_manifest(&Medium { storage, read_only: true }, root);
    let read = read.and_then(|read| match read {
        Some((path, contents)) => contents.last(&path).map(|state| Some((contents, state))),
        None => Ok(None),
    });
    let (contents, state) = match read {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::Corruption => {
            fault(error);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if let Some(lost) = contents.lost {
        // What the manifest says before the damage is out of date: its tables may well be gone.
        fault(lost);
        return Ok(None);
    }
    Ok(Some(state))
}
