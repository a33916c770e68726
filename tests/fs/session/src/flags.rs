//! The options of the command line, and the capabilities that a yardstick asks the kernel for.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use fuser::{Config, InitFlags, KernelConfig, MountOption, SessionACL};

/// The longest write that one request carries, in bytes.
const MAX_WRITE: u32 = 1 << 20;

/// Requests that the kernel sends without a process waiting, at most: read-ahead and asynchronous direct I/O.
const MAX_BACKGROUND: u16 = 64;

/// A year is for ever to a mount.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long the kernel may keep names and attributes.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(pub Duration);

impl FromStr for Timeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "inf" {
            return Ok(Self(FOREVER));
        }
        let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is neither a number of seconds nor 'inf'"))?;
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|error| error.to_string())
    }
}

/// The options that every yardstick has.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The directory to mount on.
    pub directory: PathBuf,
    /// How long the kernel may keep names and attributes: seconds, or "inf". Missing names are kept as long.
    #[arg(long, default_value = "inf")]
    pub timeout: Timeout,
    /// Threads that read requests, each from a descriptor of its own.
    #[arg(long, default_value_t = 4)]
    pub threads: usize,
    /// Mount options, separated by commas, as mount(8) passes them.
    #[arg(short = 'o', value_delimiter = ',')]
    pub options: Vec<String>,
    /// Returns when the file system is mounted, and leaves a process behind that serves it.
    #[arg(long)]
    pub background: bool,
}

impl Options {
    /// Returns fuser's configuration of the mount, or an error that names the option it does not know.
    pub(crate) fn config(&self, name: &str, source: &str) -> io::Result<Config> {
        let mut config = Config::default();
        config.mount_options.push(MountOption::DefaultPermissions);
        // Of two sources fuser takes the first: that of the command line.
        for option in &self.options {
            config.mount_options.extend(mount_option(option)?);
        }
        config.mount_options.push(MountOption::FSName(source.to_owned()));
        // fuser's own option of that name never reaches the kernel when fuser mounts without libfuse.
        config.mount_options.push(MountOption::CUSTOM(format!("subtype={name}")));
        config.acl = SessionACL::All;
        config.n_threads = Some(self.threads);
        config.clone_fd = true;
        Ok(config)
    }
}

fn mount_option(option: &str) -> io::Result<Option<MountOption>> {
    Ok(Some(match option {
        "rw" => MountOption::RW,
        "ro" => MountOption::RO,
        "suid" => MountOption::Suid,
        "nosuid" => MountOption::NoSuid,
        "dev" => MountOption::Dev,
        "nodev" => MountOption::NoDev,
        "exec" => MountOption::Exec,
        "noexec" => MountOption::NoExec,
        "noatime" => MountOption::NoAtime,
        "sync" => MountOption::Sync,
        "dirsync" => MountOption::DirSync,
        "" | "_netdev" | "atime" | "relatime" | "default_permissions" | "allow_other" => return Ok(None),
        other => {
            let Some(name) = other.strip_prefix("fsname=") else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("unknown mount option '{other}'")));
            };
            MountOption::FSName(name.to_owned())
        }
    }))
}

/// Asks the kernel for the capabilities of every yardstick. A capability that the kernel does not have is left out.
pub fn negotiate(config: &mut KernelConfig) {
    let wanted = InitFlags::FUSE_ASYNC_READ
        | InitFlags::FUSE_CACHE_SYMLINKS
        | InitFlags::FUSE_DO_READDIRPLUS
        | InitFlags::FUSE_EXPLICIT_INVAL_DATA
        | InitFlags::FUSE_HANDLE_KILLPRIV_V2
        | InitFlags::FUSE_NO_EXPORT_SUPPORT
        | InitFlags::FUSE_PARALLEL_DIROPS
        | InitFlags::FUSE_READDIRPLUS_AUTO;
    // It takes all or none: the intersection with what the kernel has cannot fail.
    let granted = config.add_capabilities(wanted & config.capabilities());
    debug_assert!(granted.is_ok());
    // Both lie within fuser's bounds: the errors are for values outside of them.
    let write = config.set_max_write(MAX_WRITE);
    let background = config.set_max_background(MAX_BACKGROUND);
    debug_assert!(write.is_ok() && background.is_ok());
}
