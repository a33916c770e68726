//! The subcommands on volumes: `mount`, `umount`, `fs`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Mount a volume on a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg fs format /srv/volume
  thalweg mount /srv/volume /mnt
  thalweg mount /srv/volume /mnt -o ro,nodev

It returns when the directory is mounted; a daemon serves it until `thalweg umount`, and
keeps its log in VOLUME/mount.log. A directory whose daemon is gone is detached first.
Options: ro, rw, dev, nodev, suid, nosuid, exec, noexec, sync, dirsync, no_passthrough,
readdirplus=always|auto|never, fsname=NAME, threads=N, and, without effect, noatime and
_netdev. nodev and nosuid are the default. no_passthrough: large files are read and written
by the daemon. readdirplus: when listings bring the attributes of files (default: always).
A link to this program named mount.fuse.thalweg is a helper of mount(8).
Exit codes: 0 mounted, 32 not mounted.")]
pub struct Mount {
    /// The folder of the volume
    pub volume: PathBuf,
    /// The directory to mount on
    pub directory: PathBuf,
    /// Mount options, with commas between
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    pub options: Vec<String>,
    /// Serve from this process, and say everything on standard error
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// Memory for caches and buffers in bytes, e.g. 512MiB (default: a quarter of the machine's)
    #[arg(long, value_name = "BYTES")]
    pub memory_budget: Option<bytesize::ByteSize>,
}

/// Unmount a directory, and wait until the volume is closed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg umount /mnt
  thalweg umount --lazy /mnt")]
pub struct Umount {
    /// The directory that a volume is mounted on
    pub directory: PathBuf,
    /// Detach it now; it ends with its last user. Does not wait
    #[arg(long, short = 'l')]
    pub lazy: bool,
}

/// Make, check and look at volumes
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  thalweg fs format /srv/volume
  thalweg fs check /srv/volume
  thalweg fs stat /srv/volume"
)]
pub struct Fs {
    #[command(subcommand)]
    pub command: FsCommand,
}

/// The subcommands of `fs`.
#[derive(Debug, Subcommand)]
pub enum FsCommand {
    /// Make an empty volume in a folder that is missing or empty
    Format(Format),
    /// Read all of a volume, mounted or not, and list what is wrong; exit code 3 if something is
    Check(CheckVolume),
    /// Show what a mounted volume has, and what was asked of it
    Stat(OfVolume),
    /// Print the rows of a volume that is not mounted, a line each
    Dump(OfVolume),
    /// Make all that was done to a mounted volume durable
    Sync(OfVolume),
}

/// What to format.
#[derive(Debug, Args)]
pub struct Format {
    /// The folder of the volume
    pub volume: PathBuf,
    /// The owner of the root directory
    #[arg(long, default_value_t = 0)]
    pub uid: u32,
    /// Its group
    #[arg(long, default_value_t = 0)]
    pub gid: u32,
    /// Its permission bits, octal
    #[arg(long, default_value = "755", value_parser = octal)]
    pub mode: u16,
}

/// What to check.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg fs check /srv/volume
  thalweg fs check /srv/volume --json | jq .findings

Notes are what a power cut may leave of files that were never synced: no damage.
Exit codes: 0 no findings, 1 no volume, 3 findings, or the volume cannot be read.")]
pub struct CheckVolume {
    /// The folder of the volume
    pub volume: PathBuf,
    /// Print one JSON object: findings, notes, counts
    #[arg(long)]
    pub json: bool,
}

/// A volume.
#[derive(Debug, Args)]
pub struct OfVolume {
    /// The folder of the volume
    pub volume: PathBuf,
}

fn octal(text: &str) -> Result<u16, String> {
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| mode & !0o7777 == 0);
    mode.ok_or_else(|| format!("'{text}' is no mode, such as 755"))
}
