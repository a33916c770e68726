//! `thalweg remove`: removes named keys, the keys that a file names, or all keys of a prefix or a range; and entries of
//! a directory.
//!
//! Many keys are removed in batches, each whole or not at all. No other process can write meanwhile, so a range is read
//! without a snapshot, and compactions can free space while the command runs. After many removals the command waits
//! until compactions have freed what they can.

use crate::args::Remove;
use crate::bounds::Bounds;
use crate::line::KEY_BYTES_MAX;
use crate::numbers::counted;
use crate::open;
use crate::progress::Progress;
use crate::report::{Failure, say};
use crate::signals::{Stop, stop_on_signals, stopped_by, unless_stopped};
use crate::source::{LineEnds, LineSource, Next, open_input};
use crate::spelling::{Spelling, shown};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg::{Database, DirectoryKeyspace, Durability, Keyspace, WriteBatch, WriteOptions};

/// The keys, or the bytes, at which a batch is committed.
const BATCH_KEYS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// The most bytes of keys from a pipe. All are read before the database is opened, since their writer may read it.
const PIPED_BYTES_MAX: u64 = 1 << 30;

pub fn run(args: &Remove, output: &mut dyn Write) -> Result<(), Failure> {
    let spelling = Spelling::of_arguments(args.target.escaped);
    let name = spelling.name(&args.target.keyspace)?;
    if !args.keys.is_empty() {
        return remove_named(args, &spelling, &name);
    }
    if args.range.prefix.as_ref().is_some_and(|prefix| prefix.is_empty()) {
        return Err(Failure::Usage("every key begins with an empty prefix; to remove them all, say --all".into()));
    }
    let what = match &args.keys_from {
        Some(path) => What::Lines(keys_of(path)?),
        None if args.range.is_given() || args.all => What::Range(Bounds::new(&args.range, &spelling)?),
        None => return Err(Failure::Usage("name keys, or --keys-from, --prefix, --from, --to or --all".into())),
    };
    if let What::Range(bounds) = &what
        && !args.yes
    {
        return Err(unconfirmed(args, &name, bounds)?);
    }
    let stop = stop_on_signals()?;
    let database = open::for_writing(&args.target.source)?;
    let place = Place::open(args, &database, &name)?;
    let mut remover = Remover::new(args, &database, &place);
    let ended = match (what, &place) {
        (What::Lines(lines), _) => remover.lines(lines, &spelling, &stop),
        (What::Range(bounds), Place::Keyspace(keyspace)) => remover.range(keyspace, bounds, &stop),
        (What::Range(_), Place::Directory(files, directory)) => remover.directory(files, *directory, &stop),
    };
    remover.finish(ended, &name, &stop, output)?;
    Ok(database.close()?)
}

/// The keys to remove.
enum What {
    /// The keys in a file, one a line.
    Lines(Box<dyn Read + Send>),
    Range(Bounds),
}

/// Where keys are removed.
enum Place {
    Keyspace(Keyspace),
    Directory(DirectoryKeyspace, u64),
}

impl Place {
    fn open(args: &Remove, database: &Database, name: &str) -> Result<Place, Failure> {
        Ok(match args.directory {
            Some(directory) => Place::Directory(open::existing_directories(database, name)?, directory),
            None => Place::Keyspace(open::existing(database, name)?),
        })
    }

    fn remove(&self, batch: &mut WriteBatch, key: &[u8]) -> thalweg::Result<()> {
        match self {
            Place::Keyspace(keyspace) => batch.remove(keyspace, key),
            Place::Directory(files, directory) => batch.remove_entry(files, *directory, key),
        }
    }
}

/// Removes the named keys in one batch.
fn remove_named(args: &Remove, spelling: &Spelling, name: &str) -> Result<(), Failure> {
    let keys: Vec<_> = args.keys.iter().map(|key| spelling.argument("key", key)).collect::<Result<_, _>>()?;
    let database = open::for_writing(&args.target.source)?;
    let place = Place::open(args, &database, name)?;
    let mut batch = database.batch();
    for key in keys {
        place.remove(&mut batch, &key)?;
    }
    batch.commit_with(options(args.sync))?;
    Ok(database.close()?)
}

fn options(sync: bool) -> WriteOptions {
    if sync { Durability::Sync.into() } else { WriteOptions::new() }
}

/// Opens the keys of a file. Reads anything but a regular file whole, at once.
fn keys_of(path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    let (input, bytes) = open_input(path)?;
    if bytes.is_some() {
        return Ok(input);
    }
    let mut keys = Vec::new();
    let failed = |error| Failure::io("read", "the keys", &error);
    input.take(PIPED_BYTES_MAX + 1).read_to_end(&mut keys).map_err(failed)?;
    if keys.len() as u64 > PIPED_BYTES_MAX {
        return Err(Failure::Usage("more than 1 GiB of keys from a pipe; write them to a file and name it".into()));
    }
    Ok(Box::new(Cursor::new(keys)))
}

/// Counts the keys that would be removed, and says so.
fn unconfirmed(args: &Remove, name: &str, bounds: &Bounds) -> Result<Failure, Failure> {
    let source = &args.target.source;
    let mut keys = 0u64;
    let mut count = |entry: thalweg::Result<()>| {
        keys += 1;
        entry
    };
    let place = if let Some(directory) = args.directory {
        let (_database, files) = open::directories_for_reading(source, name)?;
        files.list(directory).try_for_each(|entry| count(entry.map(drop)))?;
        format!("directory {directory} of keyspace")
    } else {
        let (_database, keyspace) = open::keyspace_for_reading(source, name)?;
        bounds.of(&keyspace).try_for_each(|entry| count(entry.map(drop)))?;
        "keyspace".to_owned()
    };
    let (keys, name) = (counted(keys, "key"), shown(name.as_bytes()));
    Ok(Failure::Usage(format!("this is about {keys} of {place} {name}; to remove them, say --yes")))
}

/// Why a removal ends early.
enum Ended {
    Stopped,
    Failed(Failure),
}

impl From<thalweg::Error> for Ended {
    fn from(error: thalweg::Error) -> Self {
        Ended::Failed(error.into())
    }
}

struct Remover<'a> {
    args: &'a Remove,
    database: &'a Database,
    place: &'a Place,
    batch: WriteBatch,
    progress: Progress,
    keys: u64,
    bytes: u64,
}

impl<'a> Remover<'a> {
    fn new(args: &'a Remove, database: &'a Database, place: &'a Place) -> Self {
        let batch = database.batch();
        Remover { args, database, place, batch, progress: Progress::new("key", None), keys: 0, bytes: 0 }
    }

    fn lines(&mut self, input: Box<dyn Read + Send>, spelling: &Spelling, stop: &Stop) -> Result<(), Ended> {
        // Escaped, each byte may take four characters; and a line may end in a carriage return.
        let mut source = LineSource::new(input, 4 * KEY_BYTES_MAX + 1, Arc::clone(stop));
        let (mut line, mut number) = (Vec::new(), 0u64);
        let mut ends = LineEnds::new(self.args.verbatim);
        loop {
            let next = source.next_line(&mut line);
            number += 1;
            let bad = |why: &str| Ended::Failed(Failure::Said(format!("line {number} of the keys: {why}")));
            match next.map_err(|error| Ended::Failed(Failure::io("read", "the keys", &error)))? {
                Next::End => return self.commit(),
                Next::Stopped => return Err(Ended::Stopped),
                Next::TooLong => return Err(bad("it is longer than a key can be")),
                Next::Line => {}
            }
            let line = ends.trimmed(number, &line, true, |note| self.progress.say(note));
            let key = spelling.typed(line).map_err(|why| bad(&why))?;
            self.remove(&key).map_err(|error| bad(&error.to_string()))?;
            if self.is_full() {
                self.commit()?;
            }
        }
    }

    fn range(&mut self, keyspace: &Keyspace, mut bounds: Bounds, stop: &Stop) -> Result<(), Ended> {
        loop {
            if stop.load(Ordering::Relaxed) != 0 {
                return Err(Ended::Stopped);
            }
            let mut last = None;
            for entry in bounds.of(keyspace) {
                let (key, _) = entry?;
                self.remove(&key)?;
                last = Some(key.to_vec());
                if self.is_full() {
                    break;
                }
            }
            self.commit()?;
            match last {
                Some(key) => bounds.go_on_behind(key),
                None => return Ok(()),
            }
        }
    }

    fn directory(&mut self, files: &DirectoryKeyspace, directory: u64, stop: &Stop) -> Result<(), Ended> {
        // A listing shows one moment, and compactions keep the entries that it may still show. So each batch lists
        // again.
        let mut cursor = 0;
        loop {
            let mut last = None;
            for entry in files.list_from(directory, cursor) {
                let entry = entry?;
                // Entries with equal cursors are removed together: none of them is listed after that cursor.
                if self.is_full() && last != Some(entry.cursor()) {
                    break;
                }
                self.remove(entry.name())?;
                last = Some(entry.cursor());
            }
            self.commit()?;
            let Some(last) = last else { return Ok(()) };
            cursor = last;
            if stop.load(Ordering::Relaxed) != 0 {
                return Err(Ended::Stopped);
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> thalweg::Result<()> {
        self.bytes += key.len() as u64;
        self.place.remove(&mut self.batch, key)
    }

    fn is_full(&self) -> bool {
        self.batch.len() >= BATCH_KEYS || self.batch.bytes() >= BATCH_BYTES
    }

    fn commit(&mut self) -> Result<(), Ended> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let keys = self.batch.len() as u64;
        self.batch.commit_with(options(self.args.sync))?;
        self.keys += keys;
        self.progress.update(self.keys, self.bytes);
        Ok(())
    }

    /// Makes the removals durable, reports their number, and lets compactions free their space.
    fn finish(
        mut self,
        ended: Result<(), Ended>,
        name: &str,
        stop: &Stop,
        output: &mut dyn Write,
    ) -> Result<(), Failure> {
        // Keep what was read before a signal, or before a line that is no key.
        let ended = if ended.is_err() { self.commit().and(ended) } else { ended };
        let (database, keys) = (self.database, self.keys);
        let persisted = database.persist();
        self.progress.finish();
        let durable = if persisted.is_ok() { "durable" } else { "not known to be durable" };
        let told = format!("removed {} of keyspace {}, {durable}", counted(keys, "key"), shown(name.as_bytes()));
        match ended {
            Ok(()) => {
                persisted?;
                writeln!(output, "{told}")?;
            }
            Err(Ended::Failed(failure)) => {
                say(&told);
                return Err(failure);
            }
            Err(Ended::Stopped) => {
                say(&format!("stopped; {told}"));
                return Err(stopped_by(stop));
            }
        }
        give_back(database, stop)
    }
}

/// Waits until compactions have freed the space that they can free, or a signal asks to stop.
pub fn give_back(database: &Database, stop: &Stop) -> Result<(), Failure> {
    let background = database.clone();
    match unless_stopped(stop, move || background.tidy().and_then(|()| background.settle())) {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => {
            say(&format!("space is given back later, because: {error}"));
            Ok(())
        }
        None => {
            say("stopped; space is given back later");
            database.clone().close()?;
            Err(stopped_by(stop))
        }
    }
}
