//! The checker: decides whether a power cut may have left a database in the state found.
//!
//! The order prevents repairs before the checks. First a `check`, which changes nothing, verifies every byte. Then a
//! read-only open is judged. Then an open is judged, and must give the same result. Then the workload continues, and
//! the database is closed, opened, judged and verified once more.

use crate::judge::Found;
use crate::options::{Choice, builder};
use crate::workload::Workload;
use crate::writer::Keyspaces;
use std::path::Path;
use thalweg::{Database, Error};

/// The input of the checker.
#[derive(Clone, Debug)]
pub struct Question {
    /// The seed of the workload.
    pub seed: u64,
    /// How the database is opened.
    pub choice: Choice,
    /// The last write that was promised (0: none).
    pub promised: u64,
    /// The number of writes to continue with.
    pub go_on: u64,
}

/// The checker's answer on a correct database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// The number of writes after which the database has this state.
    pub prefix: u64,
    /// Keys with a value.
    pub keys: usize,
    /// Live tables, before the open.
    pub tables: u64,
    /// Records of the log that recovery read.
    pub log_records: u64,
}

/// Judges the database.
///
/// # Errors
/// The violation found.
pub fn check(path: &Path, question: &Question) -> Result<Answer, String> {
    let workload = Workload { seed: question.seed };
    let mut answer = Answer::default();
    let verified = verify(path, question)?;
    if let Some((tables, log_records)) = verified {
        answer.tables = tables;
        answer.log_records = log_records;
    } else if question.promised > 0 {
        return Err(format!("there is no database, but write {} was promised", question.promised));
    }
    let mut read_only = None;
    if verified.is_some() {
        let database = builder(path, question.seed, &question.choice).open_read_only();
        let database = database.map_err(|error| format!("a read-only open failed: {error}"))?;
        let found = Found::read(&database, workload).map_err(|fault| format!("open for reading: {fault}"))?;
        found.prefix(workload, question.promised).map_err(|fault| format!("open for reading: {fault}"))?;
        read_only = Some(found);
    }
    let database = open(path, question)?;
    let found = Found::read(&database.clone().into(), workload)?;
    answer.prefix = found.prefix(workload, question.promised)?;
    answer.keys = found.len();
    if read_only.is_some_and(|read_only| read_only != found) {
        return Err("the open and the read-only open before it differ".to_owned());
    }
    go_on(database, question, answer.prefix)?;
    let database = open(path, question).map_err(|fault| format!("after going on: {fault}"))?;
    let found = Found::read(&database.clone().into(), workload).map_err(|fault| format!("after going on: {fault}"))?;
    let wanted = answer.prefix + question.go_on;
    found.prefix(workload, wanted).map_err(|fault| format!("after going on: {fault}"))?;
    database.close().map_err(|error| format!("after going on: close failed: {error}"))?;
    verify(path, question).map_err(|fault| format!("after going on: {fault}"))?;
    Ok(answer)
}

/// Returns the numbers of tables and log records; `None`: there is no database.
fn verify(path: &Path, question: &Question) -> Result<Option<(u64, u64)>, String> {
    let mut faults = Vec::new();
    let report = match builder(path, question.seed, &question.choice).check(&mut |fault| faults.push(fault.to_string()))
    {
        Ok(report) => report,
        Err(Error::NoDatabase { .. }) => return Ok(None),
        Err(error) => return Err(format!("the check failed: {error}")),
    };
    if faults.is_empty() && report.faults == 0 {
        return Ok(Some((report.tables, report.log_records)));
    }
    Err(format!("the check found {} faults: {}", report.faults, faults.join("; ")))
}

fn open(path: &Path, question: &Question) -> Result<Database, String> {
    let opened = builder(path, question.seed, &question.choice).open();
    let database = opened.map_err(|error| format!("open failed: {error}"))?;
    match database.dropped_by_recovery() {
        [] => Ok(database),
        dropped => Err(format!("recovery dropped something: {}", dropped.join("; "))),
    }
}

fn go_on(database: Database, question: &Question, prefix: u64) -> Result<(), String> {
    let workload = Workload { seed: question.seed };
    let keyspaces = Keyspaces::open(&database).map_err(|error| format!("a keyspace cannot be made: {error}"))?;
    for number in prefix + 1..=prefix + question.go_on {
        let applied = keyspaces.apply(&database, workload, &workload.write(number));
        applied.map_err(|error| format!("going on: write {number} failed: {error}"))?;
    }
    database.persist().map_err(|error| format!("going on: persist failed: {error}"))?;
    drop(keyspaces);
    database.close().map_err(|error| format!("going on: close failed: {error}"))
}
