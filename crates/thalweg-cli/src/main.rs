//! The `thalweg` command: imports, reads, inspects, checks and measures a database.
//!
//! Each subcommand has a file. Exit codes: 0 done; 1 no such key, keyspace or database; 2 wrong usage; 3 failed, or
//! faults found; 129, 130 and 143 stopped by a signal; 141 the reader of the output is gone.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod args;
mod bench;
mod bounds;
mod check;
mod compact;
mod dump;
mod escape;
mod fs;
mod get;
mod import;
mod keyspaces;
mod line;
mod mount;
mod numbers;
mod open;
mod progress;
mod put;
mod remove;
mod report;
mod running;
mod scan;
mod signals;
mod source;
mod spelling;
mod stat;
mod stat_json;

use args::{Arguments, Command};
use clap::Parser;
use report::Failure;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(command_line());
    let mut output = BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    let done = run(&arguments.command, &mut output);
    // Show what a failed command printed before it failed. Its failure outranks an error of this flush.
    let flushed = output.flush().map_err(Failure::from);
    match done.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The arguments of this command; if it was called as a helper of mount(8), converted to those of `thalweg mount`.
fn command_line() -> Vec<OsString> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == "mount.fuse.thalweg" || name == "mount.thalweg") {
        return arguments_of_helper(arguments);
    }
    arguments
}

/// Converts the arguments of a helper of mount(8), which differ from ours: `-s`, `-n` and `-v` have no effect here,
/// `-N` and `-t` come with a value, and `-f` means everything except the mount.
fn arguments_of_helper(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut ours = Vec::new();
    let mut rest = arguments.into_iter();
    ours.extend(rest.next());
    ours.push("mount".into());
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-o") => {
                ours.push(argument);
                ours.extend(rest.next());
            }
            Some("-N" | "-t") => drop(rest.next()),
            Some(flags) if is_flags(flags) => {
                if flags.contains('f') {
                    std::process::exit(0);
                }
            }
            _ => ours.push(argument),
        }
    }
    ours
}

fn is_flags(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|flags| !flags.is_empty() && flags.chars().all(|flag| "sfnv".contains(flag)))
}

fn run(command: &Command, output: &mut dyn Write) -> Result<(), Failure> {
    match command {
        Command::Import(args) => import::run(args, output),
        Command::Get(args) => get::run(args, output),
        Command::Put(args) => put::run(args),
        Command::Remove(args) => remove::run(args, output),
        Command::Scan(args) => scan::run(args, output),
        Command::Stat(args) => stat::run(args, output),
        Command::Check(args) => check::run(args, output),
        Command::Compact(args) => compact::run(args, output),
        Command::Dump(args) => dump::run(args, output),
        Command::Keyspaces(args) => keyspaces::run(args, output),
        Command::DropKeyspace(args) => keyspaces::drop_keyspace(args, output),
        Command::Mount(args) => mount::run(args),
        Command::Umount(args) => mount::unmount(args),
        Command::Fs(args) => fs::run(&args.command, output),
        Command::Bench(args) => bench::run(args, output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_of_mount_takes_what_mount_passes_to_it() {
        let ours = |line: &str| {
            let arguments = arguments_of_helper(line.split(' ').map(OsString::from).collect());
            arguments.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(ours("mount.thalweg /v /m -sn -v -o ro,dev"), "mount.thalweg mount /v /m -o ro,dev");
        assert_eq!(ours("mount.thalweg /v /m -t fuse.thalweg -N 7 -o -n"), "mount.thalweg mount /v /m -o -n");
        assert!(is_flags("-sf") && !is_flags("-") && !is_flags("--foreground") && !is_flags("-fx"));
    }
}
