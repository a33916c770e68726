//! [`Arguments`]: the command line, with an example for each subcommand.
//!
//! Keys, values and names of keyspaces are used as they stand; with `--escaped` they are escaped text (see
//! `spelling`).

mod volume;

pub use volume::{CheckVolume, Format, Fs, FsCommand, Mount, Umount};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "thalweg",
    version,
    about = "Import, read, inspect, check and measure a Thalweg database",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  find /usr -printf '%p\\t%s %T@\\n' | thalweg import /tmp/usr.db -
  thalweg scan /tmp/usr.db --prefix /usr/bin/ --limit 5
  thalweg get /tmp/usr.db /usr/bin/env
  thalweg stat /tmp/usr.db
  thalweg bench ycsb-a
  thalweg fs format /tmp/volume && thalweg mount /tmp/volume /mnt

Keys, values and names of keyspaces are taken and printed as they stand. Bytes that are
no text are printed with escapes, and a note says so. With --escaped all of them are
escaped text, typed and printed: \\xNN, \\t, \\n, \\r, \\0, \\\\.
Exit codes: 0 done; 1 no such key, keyspace or database; 2 wrong usage; 3 failed, or
faults found by `check`; 129, 130, 143 stopped by a signal; 141 the output's reader left."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Import(Import),
    Get(Get),
    Put(Put),
    Remove(Remove),
    Scan(Scan),
    Stat(Stat),
    Check(Check),
    Compact(Compact),
    Dump(Dump),
    Keyspaces(Keyspaces),
    DropKeyspace(DropKeyspace),
    Mount(Mount),
    Umount(Umount),
    Fs(Fs),
    Bench(Box<thalweg_bench::command::Bench>),
}

/// Read lines of key, tab, value (or JSON) into a database, creating it if there is none
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  find /usr -printf '%p\\t%s %T@\\n' | thalweg import /tmp/usr.db -
  thalweg import orders.db orders.jsonl --jsonl --key-field id --value-field status
  thalweg scan old.db --escaped | thalweg import new.db - --escaped
  thalweg scan old.db --jsonl | thalweg import new.db - --jsonl
  thalweg scan old.db --keyspace files --escaped |
      thalweg import new.db - --keyspace files --directory --escaped

A line is key, tab, value; the first tab divides, and all other bytes are taken as they
stand. With --directory a line is directory, tab, name, tab, value. A byte order mark
before the first line, and carriage returns that end lines, are dropped, and a note says
so; --verbatim keeps them.

Progress goes to standard error, the summary to standard output. Ctrl-C, SIGTERM and
SIGHUP stop it; so do a bad line, an error and a full disk. The imported lines are then
made durable, and a message tells their number and the --from-line to go on with.")]
pub struct Import {
    #[command(flatten)]
    pub target: Target,
    /// The file to read, or - for standard input
    pub file: PathBuf,
    /// Each line is a JSON object
    #[arg(long)]
    pub jsonl: bool,
    /// The field of a JSON line that holds the key, or with --directory the name
    #[arg(long, value_name = "FIELD", requires = "jsonl", default_value = "key")]
    pub key_field: String,
    /// The field of a JSON line that holds the value; what is not a string is stored as its JSON text
    #[arg(long, value_name = "FIELD", requires = "jsonl", default_value = "value")]
    pub value_field: String,
    /// Skip bad lines instead of stopping at the first; the first five are named
    #[arg(long)]
    pub skip_bad: bool,
    /// Lines are directory, tab, name, tab, value, for a directory keyspace; the directory is a number
    #[arg(long)]
    pub directory: bool,
    /// The field of a JSON line that holds the directory
    #[arg(long, value_name = "FIELD", requires_all = ["jsonl", "directory"], default_value = "directory")]
    pub directory_field: String,
    /// Begin at this line of the input, to go on with a stopped import
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub from_line: u64,
    /// Keep a byte order mark, and carriage returns that end lines
    #[arg(long)]
    pub verbatim: bool,
    /// Create the keyspace in a database that has others
    #[arg(long)]
    pub create: bool,
    /// Lines a batch; a batch is also closed at 1 MiB
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub batch: u64,
    /// Make each batch durable before the next one begins
    #[arg(long)]
    pub sync: bool,
    /// Size of a memtable in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub memtable_mib: Option<u32>,
    /// Size of the block cache in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub cache_mib: Option<u32>,
    /// How blocks of tables are compressed; a directory keyspace is never compressed
    #[arg(long, value_name = "CODEC")]
    pub compression: Option<Codec>,
    /// Print all counters at the end, as `stat` does
    #[arg(long)]
    pub stat: bool,
}

/// Print the value of a key
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg get /tmp/usr.db /usr/bin/env
  thalweg get photos.db cat.jpg --raw > cat.jpg
  thalweg get index.db '\\x00\\x01' --escaped --keyspace numbers

The value is printed with a newline behind it; text as it is, other bytes with escapes.
If the key is missing, the exit code is 1 and standard output is empty.")]
pub struct Get {
    #[command(flatten)]
    pub target: Target,
    /// The key
    pub key: OsString,
    /// Get the entry with this name from a directory of a directory keyspace
    #[arg(long, value_name = "NUMBER")]
    pub directory: Option<u64>,
    /// Print the bytes as they are, without escapes and without a newline at the end
    #[arg(long)]
    pub raw: bool,
}

/// Write one key
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg put notes.db monday 'water the plants' --create
  thalweg put photos.db cat.jpg < cat.jpg
  thalweg put index.db '\\x00\\x01' '\\xff' --escaped
  thalweg put notes.db dash '\\x2d' --escaped --sync
  thalweg put fs.db notes.txt 'mode 644' --directory 7 --keyspace files --create")]
pub struct Put {
    #[command(flatten)]
    pub target: Target,
    /// The key
    pub key: OsString,
    /// The value; without one, or with -, all of standard input (with --escaped: escaped text, less its last newline)
    #[arg(allow_negative_numbers = true)]
    pub value: Option<OsString>,
    /// Put the entry with this name into a directory of a directory keyspace
    #[arg(long, value_name = "NUMBER")]
    pub directory: Option<u64>,
    /// Return only when the write survives a power cut
    #[arg(long)]
    pub sync: bool,
    /// Create the database, or the keyspace in one that has others, if there is none
    #[arg(long)]
    pub create: bool,
}

/// Remove keys; a missing key is no error
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg remove notes.db monday tuesday
  thalweg remove /tmp/usr.db --prefix /usr/share/doc/ --yes
  thalweg scan events.db --keys-only --escaped | grep ^2023 |
      thalweg remove events.db --escaped --keys-from -
  thalweg remove fs.db --directory 7 --all --keyspace files --yes

Named keys are removed all together. Others are removed in batches of a thousand; Ctrl-C
stops between batches, and at the end the command waits until compactions have freed the
space.
Without --yes, the keys of a prefix or a range are only counted.")]
pub struct Remove {
    #[command(flatten)]
    pub target: Target,
    /// The keys
    #[arg(value_name = "KEY", conflicts_with_all = ["keys_from", "prefix", "from", "to", "all"])]
    pub keys: Vec<OsString>,
    /// Remove the keys that this file names, one a line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prefix", "from", "to", "all"])]
    pub keys_from: Option<PathBuf>,
    /// Keep a byte order mark and carriage returns in the lines of --keys-from
    #[arg(long, requires = "keys_from")]
    pub verbatim: bool,
    #[command(flatten)]
    pub range: KeyRange,
    /// Remove all keys of the keyspace, or all entries of the directory
    #[arg(long, conflicts_with_all = ["prefix", "from", "to"])]
    pub all: bool,
    /// Remove the entries with these names from a directory of a directory keyspace
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["prefix", "from", "to"])]
    pub directory: Option<u64>,
    /// Remove the keys of --prefix, --from, --to or --all instead of counting them
    #[arg(long)]
    pub yes: bool,
    /// Make each batch durable before the next one begins
    #[arg(long)]
    pub sync: bool,
}

/// Print keys and values in key order, or the entries of directories
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg scan /tmp/usr.db --prefix /usr/bin/ --limit 5
  thalweg scan events.db --from 2024-01 --to 2024-02 --jsonl
  thalweg scan events.db --reverse --limit 1
  thalweg scan old.db --escaped | thalweg import new.db - --escaped
  thalweg scan fs.db --keyspace files
  thalweg scan fs.db --keyspace files --directory 7
  thalweg scan fs.db --keyspace files --directories

A line is key, tab, value. Text is printed as it is, other bytes with escapes, and a note
says so. With --escaped every line reads back exactly; with --jsonl those that need it
are marked, and with both all are escaped and marked. The lines of a whole directory
keyspace begin with the directory and a tab (\"directory\" in JSON), as `import
--directory` reads them. Directories come in the order of their numbers; the entries of
each come in an order of their own.")]
pub struct Scan {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub range: KeyRange,
    /// Print only the entries of this directory of a directory keyspace, without its number
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["reverse", "prefix", "from", "to"])]
    pub directory: Option<u64>,
    /// Print only the numbers of the directories of a directory keyspace, one a line
    #[arg(long, conflicts_with_all = ["directory", "reverse", "prefix", "from", "to", "jsonl", "keys_only"])]
    pub directories: bool,
    /// Stop after N entries or directories
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print the last key first
    #[arg(long)]
    pub reverse: bool,
    /// One JSON object a line; bytes that are no text are escaped and marked "escaped":true
    #[arg(long)]
    pub jsonl: bool,
    /// Print no values
    #[arg(long)]
    pub keys_only: bool,
}

/// Show levels, space and counters of a database
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg stat /tmp/usr.db
  thalweg stat /tmp/usr.db --levels
  thalweg stat /tmp/usr.db --json | jq .keyspaces

While another process has the database open, this shows the statistics that the process
last wrote, and their age (\"running\" in JSON).")]
pub struct Stat {
    #[command(flatten)]
    pub source: Source,
    /// Show only this keyspace
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// The name of the keyspace is escaped text
    #[arg(long)]
    pub escaped: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Draw the tables of each level
    #[arg(long, conflicts_with = "json")]
    pub levels: bool,
}

/// Verify every byte that a database uses; print the first fault of each file
#[derive(Debug, Args)]
#[command(after_help = "Example:
  thalweg check /tmp/usr.db

The exit code is 3 if there is a fault. Nothing is changed.")]
pub struct Check {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub database: PathBuf,
    #[command(flatten)]
    pub place: FastTierPlace,
}

/// Compact a keyspace, or a range of its keys, down to the last level
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  thalweg compact /tmp/usr.db
  thalweg compact events.db --to 2024

Every old version and every removal of these keys goes, and so do the files that had
them. The background compacts what pays by itself: this is for data that will be read
much and written no more. Ctrl-C stops it; what is compacted by then stays compacted. A
directory keyspace is compacted as a whole.")]
pub struct Compact {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub range: KeyRange,
}

/// Print one file of a database (log segment, manifest, table, pack or fast table) in readable form
#[derive(Debug, Args)]
#[command(after_help = "Example:
  ls -R /tmp/usr.db
  thalweg dump /tmp/usr.db/FILE | less

Numbers of bytes and offsets are decimal. A pack is a table of a directory keyspace.
Log segment: the line of a record begins with its offset, the line of an operation with
its sequence number. \"log durable before 2:64\" says that the log was durable up to
offset 64 of segment 2 when the record got its place.
Table and pack: after the sizes of the parts come blocks. An entry is its key (in a pack:
its name), @ and the sequence number of the write, then the value or \"removed\". Long
values are cut; \"2080 bytes at 240\" is a long value at offset 240 of the pack.
In a log or manifest a key of a directory keyspace is the directory (8 bytes), the hash
of the name (8 bytes) and the name.")]
pub struct Dump {
    /// The file
    pub file: PathBuf,
}

/// List the keyspaces of a database
#[derive(Debug, Args)]
#[command(after_help = "Example:
  thalweg keyspaces /tmp/usr.db

A line is a name. Behind the name of a directory keyspace come a tab and the word
\"directory\".")]
pub struct Keyspaces {
    #[command(flatten)]
    pub source: Source,
    /// Print names as escaped text, as --keyspace takes them with --escaped
    #[arg(long)]
    pub escaped: bool,
}

/// Remove a keyspace with everything in it
#[derive(Debug, Args)]
#[command(after_help = "Example:
  thalweg drop-keyspace orders.db drafts --yes

Without --yes the command only shows what the keyspace holds.")]
pub struct DropKeyspace {
    #[command(flatten)]
    pub source: Source,
    /// The keyspace
    #[arg(value_name = "NAME")]
    pub keyspace: String,
    /// The name is escaped text
    #[arg(long)]
    pub escaped: bool,
    /// Remove the keyspace instead of showing what it holds
    #[arg(long)]
    pub yes: bool,
}

/// A database, and how it is opened.
#[derive(Debug, Args)]
pub struct Source {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub database: PathBuf,
    /// What to do when the end of the log or of the manifest is damaged
    #[arg(long, value_name = "POLICY", default_value = "strict")]
    pub damage: Damage,
    #[command(flatten)]
    pub place: FastTierPlace,
}

/// Where the fast tier of a database is.
#[derive(Debug, Args)]
pub struct FastTierPlace {
    /// The directory of the database's fast tier, also where it was moved. A command that writes without it empties the
    /// tier
    #[arg(long, value_name = "DIR")]
    pub fast_tier: Option<PathBuf>,
}

/// A keyspace of a database.
#[derive(Debug, Args)]
pub struct Target {
    #[command(flatten)]
    pub source: Source,
    /// The keyspace
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub keyspace: String,
    /// Keys, values and the keyspace's name are escaped text, typed and printed: \xNN \t \n \r \0 \\
    #[arg(long)]
    pub escaped: bool,
}

/// A contiguous range of the keys of a keyspace.
#[derive(Debug, Args)]
pub struct KeyRange {
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<OsString>,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
}

impl KeyRange {
    /// Returns whether a prefix or a bound is given.
    pub fn is_given(&self) -> bool {
        self.prefix.is_some() || self.from.is_some() || self.to.is_some()
    }
}

/// See `thalweg::DamagePolicy`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Damage {
    /// Refuse to open, change nothing
    Strict,
    /// Open with what was written before the damage, and report what was dropped
    PointInTime,
}

/// See `thalweg::Compression`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Codec {
    None,
    Lz4,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_an_example() {
        for subcommand in Arguments::command().get_subcommands() {
            let help = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("thalweg "), "{} has no example", subcommand.get_name());
        }
    }

    #[test]
    fn a_dash_is_a_file_and_a_value() {
        let Command::Import(import) = Arguments::parse_from(["thalweg", "import", "db", "-"]).command else {
            panic!("not an import");
        };
        assert_eq!(import.file, PathBuf::from("-"));
        let Command::Put(put) = Arguments::parse_from(["thalweg", "put", "db", "k", "-"]).command else {
            panic!("not a put");
        };
        assert_eq!(put.value, Some(OsString::from("-")));
    }

    #[test]
    fn a_prefix_and_a_range_exclude_each_other() {
        assert!(Arguments::try_parse_from(["thalweg", "scan", "db", "--prefix", "a", "--from", "b"]).is_err());
    }
}
