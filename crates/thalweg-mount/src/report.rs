//! What a daemon tells the tools about its volume, as text.

use crate::daemon::Shared;
use std::fmt::Write as _;
use thalweg_fs::{CheckReport, Finding, Result, Volume};

/// How much a volume has, and what was asked of it.
pub(crate) fn stat(shared: &Shared, text: &mut String) -> Result<()> {
    let volume = &shared.volume;
    let usage = volume.usage()?;
    let _ = writeln!(text, "inodes         {}", usage.inodes);
    let _ = writeln!(text, "inodes in use  {}", volume.inodes_in_use());
    let _ = writeln!(text, "free bytes     {}", usage.room.available_bytes);
    let _ = writeln!(text, "total bytes    {}", usage.room.total_bytes);
    let _ = writeln!(text, "passthrough    {}", shared.passthrough);
    let headings = ("operation", "asked", "failed", "mean us", "longest us");
    let (operation, asked, failed, mean, longest) = headings;
    let _ = writeln!(text, "\n{operation:<12} {asked:>12} {failed:>10} {mean:>12} {longest:>14}");
    shared.operations.report(text);
    Ok(())
}

/// What is wrong with a volume, a line each, and what it has.
pub(crate) fn check(volume: &Volume, text: &mut String) -> Result<()> {
    let mut findings = String::new();
    let report = volume.check(&mut |finding: Finding| _ = writeln!(findings, "{finding}"))?;
    text.push_str(&findings);
    text.push_str(&counts(&report));
    Ok(())
}

/// The counts of a check, a line each.
pub fn counts(report: &CheckReport) -> String {
    let lines = [
        ("directories", report.directories),
        ("files", report.files),
        ("entries", report.entries),
        ("bytes in rows", report.row_bytes),
        ("objects", report.objects),
        ("orphans", report.orphans),
        ("notes", report.notes),
        ("findings", report.findings),
    ];
    lines.iter().map(|(name, count)| format!("{name:<14} {count}\n")).collect()
}
