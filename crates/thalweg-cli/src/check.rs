//! `thalweg check`: verifies every byte that a database uses, and prints a line for each fault.

use crate::args::Check;
use crate::escape::escape;
use crate::numbers::{counted, size};
use crate::open;
use crate::report::{FAILED, Failure, Paint};
use std::io::{self, Write};
use thalweg::{CheckReport, Database, Error};

pub fn run(args: &Check, output: &mut dyn Write) -> Result<(), Failure> {
    open::expect_directory(&args.database)?;
    let paint = Paint::for_output();
    let mut faults = 0u64;
    let mut written: io::Result<()> = Ok(());
    let builder = open::with_fast_tier(Database::builder(&args.database), &args.place)?;
    let report = builder.check(&mut |fault| {
        faults += 1;
        if written.is_ok() {
            written = write_fault(&fault, &paint, output);
        }
    })?;
    written?;
    let faults = faults.max(report.faults);
    let (colour, verdict) = match faults {
        0 => (paint.good, "no faults".to_owned()),
        _ => (paint.bad, counted(faults, "fault")),
    };
    writeln!(output, "checked {}: {colour}{verdict}{}", looked_at(&report), paint.end)?;
    if faults > 0 { Err(Failure::Exit(FAILED)) } else { Ok(()) }
}

/// Prints a fault at once: a check of a large database takes long.
fn write_fault(fault: &Error, paint: &Paint, output: &mut dyn Write) -> io::Result<()> {
    let text = fault.to_string();
    let line = if text.contains(char::is_control) { escape(text.as_bytes()) } else { text };
    writeln!(output, "{}{line}{}", paint.bad, paint.end)?;
    output.flush()
}

fn looked_at(report: &CheckReport) -> String {
    let not_found = match report.tables_not_found {
        0 => String::new(),
        tables => format!(", but not {} of a fast tier that was not found", counted(tables, "table")),
    };
    format!(
        "{} ({} with {}) and {}{not_found}",
        counted(report.tables, "table"),
        size(report.table_bytes),
        counted_entries(report.table_entries),
        counted(report.log_records, "log record")
    )
}

fn counted_entries(entries: u64) -> String {
    match entries {
        1 => "1 entry".into(),
        _ => format!("{} entries", crate::numbers::count(entries)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_fault_is_one_line() {
        let mut output = Vec::new();
        let fault = Error::NoDatabase { path: Arc::from(Path::new("a\nb")) };
        write_fault(&fault, &Paint::NONE, &mut output).unwrap();
        assert_eq!(output, b"there is no database in a\\nb\n");
    }

    #[test]
    fn the_summary_counts_what_was_looked_at() {
        let mut report = CheckReport::default();
        assert_eq!(looked_at(&report), "0 tables (0 B with 0 entries) and 0 log records");
        report.tables_not_found = 1;
        let not_found = ", but not 1 table of a fast tier that was not found";
        assert!(looked_at(&report).ends_with(not_found), "{}", looked_at(&report));
    }
}
