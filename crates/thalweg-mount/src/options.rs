//! [`MountOptions`]: how a volume is mounted, and what the kernel is asked for.

use fuser::{Config, InitFlags, KernelConfig, MountOption, SessionACL};
use std::fmt;
use std::path::Path;

/// The longest write of one request, in bytes: the kernel's limit without a setting of the administrator's.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends without a process waiting for each, at most: read-ahead, asynchronous direct I/O.
const BACKGROUND_MAX: u16 = 64;
/// The name under which mounts are listed: `fuse.thalweg`.
pub(crate) const SUBTYPE: &str = "thalweg";

/// When a listing of a directory gives the kernel the attributes of the entries, beside their names.
///
/// With them a `find` or `ls -l` over a directory asks for no file singly. Without them a listing of names alone is
/// faster, and the kernel and the daemon keep nothing of its files (`docs/file-system.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListAttributes {
    /// With every part of a listing.
    #[default]
    Always,
    /// As the kernel decides: with the first part, and with more once a program has asked for an entry's attributes.
    Auto,
    /// Never: each file is asked for singly.
    Never,
}

impl ListAttributes {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "always" => Some(ListAttributes::Always),
            "auto" => Some(ListAttributes::Auto),
            "never" => Some(ListAttributes::Never),
            _ => None,
        }
    }

    fn flags(self) -> InitFlags {
        match self {
            ListAttributes::Always => InitFlags::FUSE_DO_READDIRPLUS,
            ListAttributes::Auto => InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO,
            ListAttributes::Never => InitFlags::empty(),
        }
    }
}

/// The options that a mount gives the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub passthrough: bool,
    pub list_attributes: ListAttributes,
    /// Changes of names are durable when they are answered.
    pub synced_names: bool,
    /// Threads that read requests.
    pub threads: usize,
}

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    options: Vec<MountOption>,
    has_devices: bool,
    has_suid: bool,
    has_synced_names: bool,
    /// The source that mounts are listed under, in place of the volume's path.
    source: Option<String>,
    /// Threads that read requests.
    pub threads: usize,
    /// Whether the kernel reads and writes large files by itself, if it can.
    pub has_passthrough: bool,
    /// When listings have attributes.
    pub list_attributes: ListAttributes,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            options: Vec::new(),
            has_devices: false,
            has_suid: false,
            has_synced_names: false,
            source: None,
            threads: 4,
            has_passthrough: true,
            list_attributes: ListAttributes::default(),
        }
    }
}

/// A mount option that `thalweg mount` does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOption(pub String);

impl fmt::Display for UnknownOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = "ro, rw, dev, nodev, suid, nosuid, exec, noexec, noatime, sync, dirsync, no_passthrough, \
            readdirplus=always|auto|never, fsname=NAME, threads=N, _netdev";
        write!(f, "unknown mount option '{}'; known are {known}", self.0)
    }
}

impl std::error::Error for UnknownOption {}

impl MountOptions {
    /// Takes options as mount(8) has them, without the commas.
    ///
    /// # Errors
    /// The first option that is not known.
    pub fn parse<'a>(options: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownOption> {
        let mut parsed = MountOptions::default();
        for option in options {
            parsed.take(option).ok_or_else(|| UnknownOption(option.to_owned()))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, option: &str) -> Option<()> {
        match option {
            "ro" => self.options.push(MountOption::RO),
            "rw" => self.options.push(MountOption::RW),
            "dev" => self.has_devices = true,
            "nodev" => self.has_devices = false,
            "suid" => self.has_suid = true,
            "nosuid" => self.has_suid = false,
            "exec" => self.options.push(MountOption::Exec),
            "noexec" => self.options.push(MountOption::NoExec),
            // The kernel syncs after each write by itself. After a change of names it asks for no sync.
            "sync" => {
                self.options.push(MountOption::Sync);
                self.has_synced_names = true;
            }
            "no_passthrough" => self.has_passthrough = false,
            "dirsync" => {
                self.options.push(MountOption::DirSync);
                self.has_synced_names = true;
            }
            // What every mount does or has no meaning here; fstab and mount(8) pass them.
            ""
            | "_netdev"
            | "noatime"
            | "relatime"
            | "strictatime"
            | "lazytime"
            | "diratime"
            | "nodiratime"
            | "atime"
            | "defaults"
            | "auto"
            | "noauto"
            | "nofail"
            | "default_permissions"
            | "allow_other"
            | "user"
            | "nouser" => {}
            other if other.starts_with("fsname=") => self.source = other.strip_prefix("fsname=").map(str::to_owned),
            other if other.starts_with("readdirplus=") => {
                self.list_attributes = ListAttributes::parse(other.strip_prefix("readdirplus=")?)?;
            }
            other => self.threads = other.strip_prefix("threads=")?.parse().ok().filter(|n| (1..=64).contains(n))?,
        }
        Some(())
    }

    /// The options that a mount gives the kernel.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            passthrough: self.has_passthrough,
            list_attributes: self.list_attributes,
            synced_names: self.has_synced_names,
            threads: self.threads,
        }
    }

    /// The configuration of a mount of `volume`.
    pub(crate) fn config(&self, volume: &Path) -> Config {
        let mut config = Config::default();
        config.mount_options.push(MountOption::DefaultPermissions);
        let source = self.source.clone().unwrap_or_else(|| volume.display().to_string());
        config.mount_options.push(MountOption::FSName(source));
        // fuser's own option for it does not reach the kernel when fuser mounts without libfuse.
        config.mount_options.push(MountOption::CUSTOM(format!("subtype={SUBTYPE}")));
        config.mount_options.push(if self.has_devices { MountOption::Dev } else { MountOption::NoDev });
        config.mount_options.push(if self.has_suid { MountOption::Suid } else { MountOption::NoSuid });
        config.mount_options.extend(self.options.iter().cloned());
        config.acl = SessionACL::All;
        config.n_threads = Some(self.threads);
        config.clone_fd = true;
        config
    }
}

/// Asks the kernel for its capabilities. What it does not have is left out. Returns whether it has passthrough, which
/// is left out unless it is wanted.
///
/// Not among them: `FUSE_ATOMIC_O_TRUNC`. With it a file is truncated by its open, before the kernel checks whether it
/// is a running program (`ETXTBSY`). Without it the kernel truncates by a `SETATTR` afterwards.
pub(crate) fn negotiate(config: &mut KernelConfig, wants: Wanted) -> bool {
    let flags = InitFlags::FUSE_ASYNC_READ
        | InitFlags::FUSE_CACHE_SYMLINKS
        | InitFlags::FUSE_EXPLICIT_INVAL_DATA
        | InitFlags::FUSE_HANDLE_KILLPRIV_V2
        | InitFlags::FUSE_NO_EXPORT_SUPPORT
        | InitFlags::FUSE_PARALLEL_DIROPS
        | wants.list_attributes.flags();
    let has_passthrough = wants.passthrough && config.capabilities().contains(InitFlags::FUSE_PASSTHROUGH);
    let flags = if has_passthrough { flags | InitFlags::FUSE_PASSTHROUGH } else { flags };
    // All or none are granted, and the kernel grants what it has. The two limits are within fuser's bounds.
    let granted = config.add_capabilities(flags & config.capabilities());
    debug_assert!(granted.is_ok(), "the kernel grants what it has");
    let limits = (config.set_max_write(WRITE_BYTES_MAX), config.set_max_background(BACKGROUND_MAX));
    // Backing files are on a file system that stands on a device.
    let depth = config.set_max_stack_depth(u32::from(has_passthrough));
    debug_assert!(limits.0.is_ok() && limits.1.is_ok() && depth.is_ok(), "the limits are within bounds");
    has_passthrough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_not_known_is_refused_by_name() {
        let refused = MountOptions::parse(["ro", "quota"]).err();
        assert_eq!(refused, Some(UnknownOption("quota".to_owned())));
        for wrong in
            ["readdirplus", "readdirplus=", "readdirplus=yes", "threads=0", "threads=65", "threads=x", "threads="]
        {
            assert!(MountOptions::parse([wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn listings_have_attributes_as_the_option_says() {
        let parsed =
            |options: &[&str]| MountOptions::parse(options.iter().copied()).map(|o| o.wanted().list_attributes);
        assert_eq!(parsed(&[]), Ok(ListAttributes::Always));
        assert_eq!(parsed(&["readdirplus=auto"]), Ok(ListAttributes::Auto));
        assert_eq!(parsed(&["readdirplus=auto", "readdirplus=never"]), Ok(ListAttributes::Never));
        let [always, auto, never] =
            [ListAttributes::Always, ListAttributes::Auto, ListAttributes::Never].map(ListAttributes::flags);
        assert!(never.is_empty() && auto.contains(always) && auto != always);
    }

    #[test]
    fn names_are_synced_by_sync_and_by_dirsync() {
        for (options, expected) in [(&["rw"][..], false), (&["sync"], true), (&["ro", "dirsync"], true)] {
            let parsed = MountOptions::parse(options.iter().copied());
            assert_eq!(parsed.map(|parsed| parsed.wanted().synced_names), Ok(expected), "{options:?}");
        }
    }

    #[test]
    fn what_fstab_passes_is_taken() {
        let options = MountOptions::parse(["rw", "noatime", "_netdev", "nofail", "threads=8", "fsname=data"]);
        assert_eq!(options.map(|options| (options.threads, options.source)), Ok((8, Some("data".to_owned()))));
    }
}
