//! Stored reports: prints them, compares them, or makes a page of them.

use super::args::{Compare, Results, Show};
use super::draft::Draft;
use super::output::print;
use super::variant;
use crate::error::Result;
use crate::report::{Summary, compare, html, json, results, table};
use std::io::Write;

/// `bench show`.
pub fn show(args: &Show, output: &mut dyn Write) -> Result<()> {
    let report = json::read(&args.report)?;
    // Summarised first: a wrong baseline must not write a page.
    let summary = match &args.baseline {
        Some(baseline) => Summary::against(&report, &variant::canonical(baseline))?,
        None => Summary::of(&report),
    };
    let table = table::text(&summary, &args.colour.look());
    if let Some(path) = &args.html {
        Draft::open(path)?.finish(&html::page(&summary))?;
    }
    print(output, &table)
}

/// `bench compare`.
pub fn compare_reports(args: &Compare, output: &mut dyn Write) -> Result<()> {
    let (before, after) = (json::read(&args.before)?, json::read(&args.after)?);
    print(output, &compare::compare(&before, &after).text(&args.colour.look()))
}

/// `bench report`.
pub fn results(args: &Results, output: &mut dyn Write) -> Result<()> {
    let page = results::Results::read(&args.directory)?.markdown()?;
    match &args.markdown {
        Some(path) => Draft::open(path)?.finish(&page),
        None => print(output, &page),
    }
}
