//! A daemon's reports on its volume for the tools, as text or as JSON. A tool without a daemon tells the same.

use crate::daemon::Shared;
use serde_json::{Value, json};
use std::fmt::Write as _;
use thalweg_fs::{CheckEvent, CheckProgress, CheckReport, Finding, Result, Volume};

/// How much a volume has, and what was asked of it.
pub(crate) fn stat(shared: &Shared, text: &mut String) -> Result<()> {
    let volume = &shared.volume;
    let usage = volume.usage()?;
    let _ = writeln!(text, "inodes         {}", usage.inodes);
    let _ = writeln!(text, "inodes in use  {}", volume.inodes_in_use());
    let _ = writeln!(text, "free bytes     {}", usage.room.available_bytes);
    let _ = writeln!(text, "total bytes    {}", usage.room.total_bytes);
    let left = volume.reclaimable()?;
    let _ = writeln!(text, "orphans        {}", left.orphans);
    let _ = writeln!(text, "reclaim files  {}", left.objects);
    let _ = writeln!(text, "reclaim bytes  {}", left.object_bytes);
    let _ = writeln!(text, "passthrough    {}", shared.passthrough);
    text.push('\n');
    shared.operations.report(text);
    Ok(())
}

/// The faults of a volume, and its counts: a line each, or all as one JSON object.
pub(crate) fn check(
    volume: &Volume,
    is_json: bool,
    progress: &mut dyn FnMut(CheckProgress),
    text: &mut String,
) -> Result<()> {
    let mut findings = Vec::new();
    let report = volume.check_with(&mut |event| match event {
        CheckEvent::Found(finding) => findings.push(finding),
        CheckEvent::Progress(done) => progress(done),
    })?;
    if is_json {
        text.push_str(&check_as_json(&findings, &report));
    } else {
        findings.iter().for_each(|finding| _ = writeln!(text, "{finding}"));
        text.push_str(&counts(&report));
    }
    Ok(())
}

/// The findings and counts of a check as one JSON object: `findings` and `notes`, each a list of subject and fault, and
/// `counts`.
pub fn check_as_json(findings: &[Finding], report: &CheckReport) -> String {
    let list = |is_note| -> Vec<Value> {
        let chosen = findings.iter().filter(|finding| finding.is_note == is_note);
        chosen.map(|finding| json!({ "about": finding.about, "what": finding.what })).collect()
    };
    let counts = json!({
        "directories": report.directories,
        "files": report.files,
        "entries": report.entries,
        "row_bytes": report.row_bytes,
        "objects": report.objects,
        "orphans": report.orphans,
        "notes": report.notes,
        "findings": report.findings,
    });
    format!("{:#}\n", json!({ "findings": list(false), "notes": list(true), "counts": counts }))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_check_as_json_tells_findings_from_notes_and_has_all_counts() {
        let found = |about: &str, is_note| Finding { about: about.to_owned(), what: "\"so\"\n".to_owned(), is_note };
        let report = CheckReport { directories: 1, row_bytes: u64::MAX, notes: 1, findings: 1, ..Default::default() };
        let text = check_as_json(&[found("inode 7", false), found("object 8", true)], &report);
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["findings"], json!([{ "about": "inode 7", "what": "\"so\"\n" }]));
        assert_eq!(json["notes"][0]["about"], "object 8");
        assert_eq!(json["counts"]["row_bytes"], u64::MAX);
        assert_eq!(json["counts"].as_object().unwrap().len(), counts(&report).lines().count());
    }
}
