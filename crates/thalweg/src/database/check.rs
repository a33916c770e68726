//! `check`: reads and verifies every byte a database uses, without changing one.

use super::directory::lock_for_reading;
use super::fast_home::{self, FastHome};
use crate::error::{Error, Result};
use crate::fast_table::check_fast_file;
use crate::format::{Home, TableFile};
use crate::lineage::{self, FAST, Homes, Recovered, State};
use crate::log::DamagePolicy;
use crate::runtime::Environment;
use crate::table;
use std::path::Path;
use std::sync::Arc;

/// The extent of a check: how much it has read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Live tables.
    pub tables: u64,
    /// Live tables of a fast tier that was not found. They are not checked, and no other field counts them.
    pub tables_not_found: u64,
    /// Entries of the live tables, tombstones and old versions included.
    pub table_entries: u64,
    /// Bytes of the live tables.
    pub table_bytes: u64,
    /// Records of the log, from where recovery reads it.
    pub log_records: u64,
    /// Faults found.
    pub faults: u64,
}

/// Reports each fault once, and counts the faults.
struct Teller<'a> {
    tell: &'a mut dyn FnMut(Error),
    told: Vec<Error>,
}

impl Teller<'_> {
    /// Reports damage as a fault. Returns any other error as the error of the check itself.
    fn fault(&mut self, error: Error) -> Result<()> {
        let Error::Corruption(damage) = &error else { return Err(error) };
        let known = self.told.iter().any(|told| matches!(told, Error::Corruption(other) if other == damage));
        if !known {
            self.told.push(error.clone());
            (self.tell)(error);
        }
        Ok(())
    }

    /// Whether a fault of this file was reported.
    fn has_told_of(&self, path: &Path) -> bool {
        self.told.iter().any(|told| matches!(told, Error::Corruption(damage) if *damage.path == *path))
    }
}

/// See [`super::Builder::check`]. Recovers the state as an open would. Then it reads to the last byte the parts that
/// recovery verifies only in part: live tables, padding, the seals of a clean close. `fast_tier`: the directory that
/// the caller names.
pub(super) fn check(
    environment: &Environment,
    root: &Path,
    fast_tier: Option<&Path>,
    fault: &mut dyn FnMut(Error),
) -> Result<CheckReport> {
    let _lock = lock_for_reading(environment, root)?;
    let mut report = CheckReport::default();
    let mut teller = Teller { tell: fault, told: Vec::new() };
    let mut faults = Vec::new();
    let found = lineage::check(environment, root, &mut |error| faults.push(error))?;
    let is_absent = found.is_none() && faults.is_empty();
    faults.into_iter().try_for_each(|error| teller.fault(error))?;
    if is_absent {
        return Err(Error::NoDatabase { path: Arc::from(root) });
    }
    let fast_tier = fast_tier.map(|directory| environment.storage.resolved(directory)).transpose()?;
    let found_home = FastHome::find(&*environment.storage, root, fast_tier.as_deref()).or_else(|error| {
        teller.fault(error)?;
        Ok::<_, Error>(None)
    })?;
    let homes = fast_home::homes(root, found_home.as_ref());
    // Without `FAST` recovery cannot find the fast tables, if there are any. That is not a fault of its own.
    let is_lost = teller.has_told_of(&root.join(FAST));
    let recovered = if is_lost { Ok(None) } else { Recovered::run(environment, homes, DamagePolicy::Strict, true) };
    match recovered.map_err(|error| fast_home::trouble_or(found_home.as_ref(), error)) {
        Ok(Some(recovered)) => check_recovered(environment, homes, &recovered, &mut report, &mut teller)?,
        Ok(None) => check_tables(environment, homes, &found.unwrap_or_default(), &mut report, &mut teller)?,
        Err(error) => {
            // An open would be refused. The tables can be checked all the same, unless the state that names them is out
            // of date.
            let trusted = found.filter(|_| !is_of_manifest(&error));
            teller.fault(error)?;
            check_tables(environment, homes, &trusted.unwrap_or_default(), &mut report, &mut teller)?;
        }
    }
    report.faults = teller.told.len() as u64;
    Ok(report)
}

fn check_recovered(
    environment: &Environment,
    homes: Homes<'_>,
    recovered: &Recovered,
    report: &mut CheckReport,
    teller: &mut Teller<'_>,
) -> Result<()> {
    check_tables(environment, homes, &recovered.state, report, teller)?;
    report.log_records = recovered.log.records;
    recovered.log.check(recovered.closed).into_iter().try_for_each(|error| teller.fault(error))
}

/// See [`super::Builder::used_log_ranges`].
#[cfg(feature = "simulation")]
pub(super) fn used_log_ranges(
    environment: &Environment,
    root: &Path,
) -> Result<Vec<(std::path::PathBuf, std::ops::Range<u64>)>> {
    let _lock = lock_for_reading(environment, root)?;
    let found = FastHome::find(&*environment.storage, root, None)?;
    let homes = fast_home::homes(root, found.as_ref());
    let recovered = Recovered::run(environment, homes, DamagePolicy::Strict, true)?;
    Ok(recovered.map(|recovered| recovered.log.used_ranges()).unwrap_or_default())
}

fn is_of_manifest(error: &Error) -> bool {
    let Error::Corruption(damage) = error else { return false };
    damage.path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("manifest-"))
}

/// The first fault of each live table.
fn check_tables(
    environment: &Environment,
    homes: Homes<'_>,
    state: &State,
    report: &mut CheckReport,
    teller: &mut Teller<'_>,
) -> Result<()> {
    let disk = state.distinct_tables().map(|meta| (Home::Disk, meta));
    let fast = state.distinct_fast_tables().map(|meta| (Home::Fast, meta));
    for (home, meta) in disk.chain(fast) {
        // If the tier was not found, that is reported instead of its tables.
        if home == Home::Fast && homes.fast.is_none() {
            report.tables_not_found += 1;
            continue;
        }
        report.tables += 1;
        report.table_entries += meta.entries;
        report.table_bytes += meta.bytes;
        let path = homes.path(TableFile { home, id: meta.id })?;
        // The failed open has reported a fault of this file: another one would count twice.
        if teller.has_told_of(&path) {
            continue;
        }
        let checked = match home {
            Home::Disk => table::check(environment, &path, meta),
            Home::Fast => check_fast_file(environment, &path, meta),
        };
        checked.or_else(|error| teller.fault(error))?;
    }
    Ok(())
}
