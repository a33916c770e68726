//! `thalweg fs`: format, check, stat, dump and sync of volumes. A volume that is mounted is reached by its daemon.

use crate::args::{Format, FsCommand};
use crate::report::{FAILED, Failure};
use std::io::Write;
use std::path::Path;
use thalweg_fs::{FormatOptions, Volume};

pub fn run(command: &FsCommand, output: &mut dyn Write) -> Result<(), Failure> {
    match command {
        FsCommand::Format(args) => format(args, output),
        FsCommand::Check(args) => check(&args.volume, output),
        FsCommand::Stat(args) => ask(&args.volume, "stat", output),
        FsCommand::Dump(args) => dump(&args.volume, output),
        FsCommand::Sync(args) => ask(&args.volume, "sync", output),
    }
}

fn said(error: &thalweg_fs::Error) -> Failure {
    match error.errno() {
        // A volume that is not there.
        2 => Failure::NotThere(error.to_string()),
        _ => Failure::Said(error.to_string()),
    }
}

fn format(args: &Format, output: &mut dyn Write) -> Result<(), Failure> {
    let options = FormatOptions { uid: args.uid, gid: args.gid, mode: args.mode, uuid: [0; 16] };
    Volume::format(&args.volume, options).map_err(|error| said(&error))?;
    Ok(writeln!(output, "made a volume in {}", args.volume.display())?)
}

/// Checks a volume: by its daemon if it is mounted.
fn check(volume: &Path, output: &mut dyn Write) -> Result<(), Failure> {
    let answer = thalweg_mount::ask(volume, "check").map_err(|error| Failure::Said(error.to_string()))?;
    let is_sound = if let Some(answer) = answer {
        output.write_all(answer.as_bytes())?;
        !answer.lines().any(|line| line.starts_with("finding: "))
    } else {
        let mut written = Ok(());
        let report = Volume::check_at(volume, &mut |finding| {
            if written.is_ok() {
                written = writeln!(output, "{finding}");
            }
        });
        written?;
        let report = report.map_err(|error| said(&error))?;
        output.write_all(thalweg_mount::counts(&report).as_bytes())?;
        report.findings == 0
    };
    if is_sound { Ok(()) } else { Err(Failure::Exit(FAILED)) }
}

/// Prints what the daemon of a mounted volume answers.
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
