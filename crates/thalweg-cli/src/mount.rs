//! `thalweg mount` and `thalweg umount`.
//!
//! Without `--foreground` the command starts itself again with it, in a session of its own, and waits for one line from
//! it: "mounted". The daemon's standard error goes to `VOLUME/mount.log` from then on; before, to the caller.

use crate::args::{Mount, Umount};
use crate::report::{Failure, say};
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use thalweg_mount::{MountOptions, find_mount};

/// mount(8)'s exit code for a mount that failed.
const MOUNT_FAILED: u8 = 32;
/// What a daemon says to the command that started it.
const MOUNTED: &str = "mounted";
/// The log of a daemon, in the volume.
const LOG: &str = "mount.log";

/// `thalweg mount`.
pub fn run(args: &Mount) -> Result<(), Failure> {
    let options = MountOptions::parse(args.options.iter().map(String::as_str));
    let options = options.map_err(|error| Failure::Usage(error.to_string()))?;
    if !args.foreground {
        return start_daemon(args);
    }
    let budget = args.memory_budget.map(|bytes| bytes.as_u64());
    let database = || {
        thalweg_fs::OpenOptions::new().database(move |builder| match budget {
            Some(bytes) => builder.memory_budget(bytes),
            None => builder,
        })
    };
    let served = thalweg_mount::mount(&args.volume, &args.directory, &options, database, || {
        // Nobody may be reading, which is no reason to end.
        let mut output = io::stdout();
        let _ = writeln!(output, "{MOUNTED}").and_then(|()| output.flush());
    });
    served.map_err(|error| failed(&format!("cannot mount {}: {error}", args.volume.display())))
}

fn failed(text: &str) -> Failure {
    say(text);
    Failure::Exit(MOUNT_FAILED)
}

/// Starts the daemon, and returns when it has mounted. What it says until then is its user's to read.
fn start_daemon(args: &Mount) -> Result<(), Failure> {
    let log = args.volume.join(LOG);
    let log_file = OpenOptions::new().create(true).append(true).mode(0o600).open(&log);
    let log_file =
        log_file.map_err(|error| failed(&Failure::io("write", &log.display().to_string(), &error).to_string()))?;
    let start = log_file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    let spawned = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.arg("mount").arg(&args.volume).arg(&args.directory).arg("--foreground");
        if !args.options.is_empty() {
            command.arg("-o").arg(args.options.join(","));
        }
        if let Some(bytes) = args.memory_budget {
            command.arg("--memory-budget").arg(bytes.as_u64().to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file).process_group(0).spawn()
    });
    let mut daemon = spawned.map_err(|error| failed(&format!("cannot start the daemon: {error}")))?;
    let mut line = String::new();
    if let Some(output) = daemon.stdout.take() {
        // An error is told by the empty line.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    if line.trim_end() == MOUNTED {
        return Ok(());
    }
    let code = daemon.wait().ok().and_then(|status| status.code());
    let said = std::fs::read(&log).unwrap_or_default();
    let said = said.get(usize::try_from(start).unwrap_or(0)..).unwrap_or_default();
    let _ = io::stderr().write_all(said);
    if said.is_empty() {
        say("the daemon ended before it had mounted");
    }
    Err(Failure::Exit(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(MOUNT_FAILED)))
}

/// `thalweg umount`.
pub fn unmount(args: &Umount) -> Result<(), Failure> {
    let shown = args.directory.display();
    let mounted = find_mount(&args.directory).map_err(|error| Failure::io("find", &shown.to_string(), &error))?;
    let Some(mounted) = mounted else {
        return Err(Failure::NotThere(format!("no volume is mounted on {shown}")));
    };
    let wait = thalweg_mount::wait_for_end(&mounted.volume);
    thalweg_mount::unmount(&mounted.directory, args.lazy).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => Failure::Said(format!(
            "{shown} is in use: `fuser -vm {shown}` shows by whom; `thalweg umount --lazy {shown}` detaches it"
        )),
        _ => Failure::Said(format!("cannot unmount {shown}: {error}")),
    })?;
    match wait {
        Ok(Some(wait)) if !args.lazy => {
            wait().map_err(|error| Failure::Said(format!("unmounted; the daemon's end cannot be seen: {error}")))
        }
        _ => Ok(()),
    }
}
