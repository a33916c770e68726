//! `thalweg fs`: format, check, stat, dump and sync of volumes. A volume that is mounted is reached by its daemon.

use crate::args::{CheckVolume, Format, FsCommand};
use crate::numbers::counted;
use crate::progress::Progress;
use crate::report::{FAILED, Failure};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use thalweg_fs::{CheckEvent, CheckProgress, FormatOptions, Volume};

pub fn run(command: &FsCommand, output: &mut dyn Write) -> Result<(), Failure> {
    match command {
        FsCommand::Format(args) => format(args, output),
        FsCommand::Check(args) => check(args, output),
        FsCommand::Stat(args) => ask(&args.volume, "stat", output),
        FsCommand::Dump(args) => dump(&args.volume, output),
        FsCommand::Sync(args) => ask(&args.volume, "sync", output),
    }
}

fn said(error: &thalweg_fs::Error) -> Failure {
    match error.errno() {
        // ENOENT: the volume does not exist.
        2 => Failure::NotThere(error.to_string()),
        _ => Failure::Said(error.to_string()),
    }
}

fn format(args: &Format, output: &mut dyn Write) -> Result<(), Failure> {
    let options = FormatOptions { uid: args.uid, gid: args.gid, mode: args.mode, uuid: [0; 16] };
    Volume::format(&args.volume, options).map_err(|error| said(&error))?;
    Ok(writeln!(output, "made a volume in {}", args.volume.display())?)
}

/// Checks a volume; if it is mounted, its daemon does the check.
fn check(args: &CheckVolume, output: &mut dyn Write) -> Result<(), Failure> {
    let progress = Progress::on_terminal("inode");
    let mut request = if args.json { "check json".to_owned() } else { "check".to_owned() };
    if progress.is_shown() {
        request.push_str(" progress");
    }
    let answer = thalweg_mount::ask_with(&args.volume, &request, &mut |done| show(&progress, done));
    let is_sound = match answer.map_err(|error| Failure::Said(error.to_string()))? {
        Some(answer) => {
            progress.finish();
            output.write_all(answer.as_bytes())?;
            if args.json {
                has_no_findings(&answer)?
            } else {
                !answer.lines().any(|line| line.starts_with("finding: "))
            }
        }
        None => check_here(args, &progress, output)?,
    };
    if is_sound { Ok(()) } else { Err(Failure::Exit(FAILED)) }
}

fn show(progress: &Progress, done: CheckProgress) {
    progress.update_of(done.inodes, done.inodes_total, counted(done.rows, "row"));
}

/// Whether a check as JSON found nothing wrong.
fn has_no_findings(answer: &str) -> Result<bool, Failure> {
    let found: Option<Value> = serde_json::from_str(answer).ok();
    let count = found.and_then(|found| found["counts"]["findings"].as_u64());
    count.map(|count| count == 0).ok_or_else(|| Failure::Said("the daemon's answer is no check".to_owned()))
}

/// Checks a volume that is not mounted. Returns whether nothing is wrong. As text, each finding is printed at once: a
/// check of a large volume takes long.
fn check_here(args: &CheckVolume, progress: &Progress, output: &mut dyn Write) -> Result<bool, Failure> {
    let mut findings = Vec::new();
    let mut written = Ok(());
    let report = Volume::check_at(&args.volume, &mut |event| match event {
        CheckEvent::Found(finding) if args.json => findings.push(finding),
        CheckEvent::Found(finding) if written.is_ok() => {
            written = progress.above(|| writeln!(output, "{finding}").and_then(|()| output.flush()));
        }
        CheckEvent::Found(_) => {}
        CheckEvent::Progress(done) => show(progress, done),
    });
    progress.finish();
    written?;
    let report = report.map_err(|error| said(&error))?;
    let text =
        if args.json { thalweg_mount::check_as_json(&findings, &report) } else { thalweg_mount::counts(&report) };
    output.write_all(text.as_bytes())?;
    Ok(report.findings == 0)
}

/// Prints the answer of a mounted volume's daemon.
fn ask(volume: &Path, request: &str, output: &mut dyn Write) -> Result<(), Failure> {
    match thalweg_mount::ask(volume, request) {
        Ok(Some(answer)) => Ok(output.write_all(answer.as_bytes())?),
        Ok(None) => Err(Failure::NotThere(format!("{} is not mounted", volume.display()))),
        Err(error) => Err(Failure::Said(error.to_string())),
    }
}

fn dump(volume: &Path, output: &mut dyn Write) -> Result<(), Failure> {
    let mut written = Ok(());
    let dumped = Volume::dump_at(volume, &mut |line| {
        if written.is_ok() {
            written = writeln!(output, "{line}");
        }
        written.is_ok()
    });
    written?;
    dumped.map_err(|error| said(&error))
}
