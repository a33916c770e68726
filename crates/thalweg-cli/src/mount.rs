//! `thalweg mount` and `thalweg umount`.
//!
//! Without `--foreground` the command starts itself again with `--foreground`, in a process group of its own, and waits
//! for one line from this daemon: "mounted". The daemon's standard error goes to `VOLUME/mount.log`. If the mount
//! fails, the command prints what the daemon wrote there.

use crate::args::{Mount, Umount};
use crate::report::{Failure, say};
use crate::signals::{SIGNAL_CHECK_INTERVAL, obeyed_signals, stop_on_signals, stopped_by};
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use thalweg_fs::Volume;
use thalweg_mount::{MountOptions, find_mount};

/// mount(8)'s exit code for a mount that failed.
const MOUNT_FAILED: u8 = 32;
/// The message of a daemon to the command that started it.
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
    let signals = obeyed_signals();
    let served = thalweg_mount::mount(&args.volume, &args.directory, &options, &signals, database, || {
        // The reader may be gone; the daemon continues anyway.
        let mut output = io::stdout();
        let _ = writeln!(output, "{MOUNTED}").and_then(|()| output.flush());
    });
    served.map_err(|error| failed(&format!("cannot mount {}: {error}", args.volume.display())))
}

fn failed(text: &str) -> Failure {
    say(text);
    Failure::Exit(MOUNT_FAILED)
}

/// Starts the daemon, and returns when it has mounted. If it fails to mount, prints what it wrote to its log.
fn start_daemon(args: &Mount) -> Result<(), Failure> {
    // Checked before the log is created: `fs format` requires an empty folder.
    match Volume::is_in(&args.volume) {
        Ok(true) => {}
        Ok(false) => {
            let volume = args.volume.display();
            return Err(failed(&format!("cannot mount {volume}: it has no volume; `thalweg fs format` makes one")));
        }
        Err(error) => return Err(failed(&format!("cannot look into {}: {error}", args.volume.display()))),
    }
    let log = args.volume.join(LOG);
    let log_file = OpenOptions::new().create(true).append(true).mode(0o600).open(&log);
    let log_file =
        log_file.map_err(|error| failed(&Failure::io("write", &log.display().to_string(), &error).to_string()))?;
    let start = log_file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    let stop = stop_on_signals()?;
    let spawned = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        // The name of this program may be that of a helper of mount(8), so the daemon gets the name `thalweg`.
        command.arg0("thalweg").arg("mount").arg(&args.volume).arg(&args.directory).arg("--foreground");
        if !args.options.is_empty() {
            command.arg("-o").arg(args.options.join(","));
        }
        if let Some(bytes) = args.memory_budget {
            command.arg("--memory-budget").arg(bytes.as_u64().to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file).process_group(0).spawn()
    });
    let mut daemon = spawned.map_err(|error| failed(&format!("cannot start the daemon: {error}")))?;
    let (sender, lines) = channel();
    if let Some(output) = daemon.stdout.take() {
        thread::spawn(move || {
            let mut line = String::new();
            // After an error the line is empty, which the receiver treats as a failure.
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = sender.send(line);
        });
    }
    let line = loop {
        match lines.recv_timeout(SIGNAL_CHECK_INTERVAL) {
            Ok(line) => break line,
            Err(RecvTimeoutError::Disconnected) => break String::new(),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) != 0 => {
                // The daemon has a process group of its own, so a terminal's Ctrl-C does not reach it.
                thalweg_mount::ask_to_end(daemon.id());
                let _ = daemon.wait();
                return Err(stopped_by(&stop));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
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
        _ if !args.lazy && !mounted.volume.is_absolute() => {
            // The option fsname= shows another name in place of the volume's path.
            say("unmounted; whether the volume is closed cannot be seen, because the mount has another name");
            Ok(())
        }
        _ => Ok(()),
    }
}
