//! The part of `check` that is about CURRENT and the manifest. It changes nothing.
//!
//! Recovery, which `check` runs next, verifies that live tables exist and that manifest and log agree.

use crate::error::{Error, ErrorKind, Result};
use crate::lineage::manifest::medium::{Medium, read_manifest};
use crate::lineage::state::live::State;
use crate::runtime::Environment;
use std::path::Path;

/// Verifies every byte of CURRENT and the manifest, and passes each fault to `fault`. A torn tail is no fault: any
/// crash may leave one. Returns the state after the last edit, or `None` if there is no database or it cannot be read.
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
        // The state before the damage is outdated: its tables may be gone.
        fault(lost);
        return Ok(None);
    }
    Ok(Some(state))
}
