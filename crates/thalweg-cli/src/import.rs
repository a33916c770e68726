//! `thalweg import`: writes lines of input to a keyspace, in batches and in bounded memory.
//!
//! A batch is applied whole or not at all. If a bad line, a signal or an error ends the import early, the batches
//! before it stay. A bad line and a signal also commit the lines read so far. The import then makes durable what it
//! committed, and names the line to go on with. An import that reaches its end is durable and in tables.
//!
//! A missing database is created with the first good line.

use crate::args::{Codec, Import};
use crate::line::{Encoding, LineFormat, Record};
use crate::numbers::{count, counted, duration, rate, size};
use crate::open;
use crate::progress::Progress;
use crate::remove::give_back;
use crate::report::{Failure, Paint, say};
use crate::signals::{stop_on_signals, stopped_by};
use crate::source::{LineEnds, LineSource, Next, open_input};
use crate::spelling::{Spelling, shown};
use crate::stat;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg::{
    Builder, Compression, Database, DirectoryKeyspace, Durability, Error, Keyspace, Statistics, WriteBatch,
    WriteOptions,
};

/// The largest database from which the end of an import removes what was overwritten: this takes a second or two.
const TIDIED_BYTES_MAX: u64 = 512 << 20;

/// The bytes at which a batch is committed.
const BATCH_BYTES: usize = 1 << 20;
/// The interval at which committed batches are made durable. After an error that prevents a sync, the import can
/// continue from the last durable line.
const PERSIST_INTERVAL: Duration = Duration::from_secs(1);
/// How many bad lines are named; further ones are counted.
const BAD_LINES_NAMED: u64 = 5;

pub fn run(args: &Import, output: &mut dyn Write) -> Result<(), Failure> {
    let name = Spelling::of_arguments(args.target.escaped).name(&args.target.keyspace)?;
    let (input, total_bytes) = open_input(&args.file)?;
    let destination = Destination::new(args, name)?;
    let stop = stop_on_signals()?;
    let format = format_of(args);
    let mut source = LineSource::new(input, format.line_bytes_max(), Arc::clone(&stop));

    let mut importer = Importer::new(args, destination, Progress::new("line", total_bytes));
    let ended = importer.all_lines(&mut source, &format);
    let ended = match ended {
        // Keep what was read before a bad line, a signal or a failed read.
        Err(Ended::BadLine(_) | Ended::Stopped | Ended::Input(_)) => importer.commit().and(ended),
        ended => ended,
    };
    let ended = importer.persist_at_end(ended);
    let time = importer.progress.finish();
    let input = if args.file.as_os_str() == "-" { "standard input".into() } else { args.file.display().to_string() };
    match ended {
        Ok(()) => {}
        Err(Ended::Failed(failure)) => {
            say(&importer.account());
            return Err(failure);
        }
        Err(Ended::Input(error)) => {
            say(&importer.account());
            return Err(Failure::io("read", &input, &error));
        }
        Err(Ended::BadLine(why)) => {
            let account = importer.account();
            let advice = "mend this line first, or skip such lines with --skip-bad";
            return Err(Failure::Said(format!("{input}, {why}; {account}; {advice}")));
        }
        Err(Ended::Stopped) => {
            say(&format!("stopped; {}", importer.account()));
            importer.destination.close()?;
            return Err(stopped_by(&stop));
        }
    }
    let summary = Summary {
        lines: importer.lines_in,
        skipped: importer.lines_skipped,
        bytes: importer.bytes_in,
        time,
        is_new: importer.destination.is_new,
    };
    let (database, _) = importer.destination.open()?;
    write!(output, "{}", summary.render(&importer.destination.name, &args.target.source.database))?;
    // After this flush, the next open has nothing to replay from the log.
    database.flush().map_err(|error| {
        Failure::Said(format!("all of it is in and durable, in the log; it cannot be put in tables now: {error}"))
    })?;
    let held = |statistics: &Statistics| -> u64 {
        statistics.keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.bytes).sum()
    };
    if held(&database.statistics()) <= TIDIED_BYTES_MAX {
        give_back(&database, &stop)?;
    }
    let statistics = database.statistics();
    write!(output, "{}", stat::render_brief(&statistics))?;
    if args.stat {
        write!(output, "\n{}", stat::render(&statistics, None, &Paint::for_output()))?;
    }
    importer.destination.close()
}

/// Why an import stops reading lines.
enum Ended {
    BadLine(String),
    Stopped,
    Input(io::Error),
    Failed(Failure),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Ended::Failed(error.into())
    }
}

/// The receiver of the lines.
#[derive(Clone)]
enum Receiver {
    Map(Keyspace),
    Directories(DirectoryKeyspace),
}

impl Receiver {
    /// Adds a record to the batch.
    fn add(&self, batch: &mut WriteBatch, record: &Record<'_>) -> thalweg::Result<Result<(), String>> {
        let (key, value) = (&record.key, &record.value);
        let added = match self {
            Receiver::Map(keyspace) => batch.insert(keyspace, key, value),
            Receiver::Directories(files) => {
                let Some(directory) = record.directory else { unreachable!("the format reads a directory") };
                batch.insert_entry(files, directory, key, value)
            }
        };
        match added {
            Ok(()) => Ok(Ok(())),
            Err(Error::InvalidInput(why)) => Ok(Err(why.to_string())),
            Err(error) => Err(error),
        }
    }
}

/// The keyspace that receives the lines. An existing one is opened at once, so that a refusal comes before any input is
/// read. A missing database is created with the first good line.
struct Destination<'a> {
    args: &'a Import,
    name: String,
    is_new: bool,
    opened: Option<(Database, Receiver)>,
}

impl<'a> Destination<'a> {
    fn new(args: &'a Import, name: String) -> Result<Self, Failure> {
        let is_new = !open::is_there(&args.target.source)?;
        let mut destination = Destination { args, name, is_new, opened: None };
        if !is_new {
            destination.open()?;
        }
        Ok(destination)
    }

    fn open(&mut self) -> Result<(Database, Receiver), Failure> {
        if let Some((database, keyspace)) = &self.opened {
            return Ok((database.clone(), keyspace.clone()));
        }
        let (args, source) = (self.args, &self.args.target.source);
        let tuned = |builder| tune(builder, args);
        let database = if self.is_new { open::create(source, tuned)? } else { open::for_writing_tuned(source, tuned)? };
        let keyspace = if args.directory {
            Receiver::Directories(open::directories_for_writing(&database, &self.name, args.create)?)
        } else {
            Receiver::Map(open::keyspace_for_writing(&database, &self.name, args.create)?)
        };
        self.opened = Some((database.clone(), keyspace.clone()));
        Ok((database, keyspace))
    }

    fn close(&mut self) -> Result<(), Failure> {
        match self.opened.take() {
            Some((database, keyspace)) => {
                drop(keyspace);
                Ok(database.close()?)
            }
            None => Ok(()),
        }
    }
}

struct Importer<'a> {
    args: &'a Import,
    destination: Destination<'a>,
    /// The open batch; `None` before the first line of a batch.
    batch: Option<WriteBatch>,
    progress: Progress,
    lines_skipped: u64,
    /// Lines in committed batches.
    lines_in: u64,
    /// Bytes of the accepted lines.
    bytes_in: u64,
    /// Lines of the input up to the last one that was batched or skipped.
    batched: u64,
    /// Lines of the input up to the last one that was committed.
    committed: u64,
    /// Lines of the input up to the last one that is durable.
    durable: u64,
    persisted_at: Instant,
    ends: LineEnds,
}

impl<'a> Importer<'a> {
    fn new(args: &'a Import, destination: Destination<'a>, progress: Progress) -> Self {
        let before = args.from_line - 1;
        Importer {
            args,
            destination,
            batch: None,
            progress,
            lines_skipped: 0,
            lines_in: 0,
            bytes_in: 0,
            batched: before,
            committed: before,
            durable: before,
            persisted_at: Instant::now(),
            ends: LineEnds::new(args.verbatim),
        }
    }

    fn all_lines(&mut self, source: &mut LineSource, format: &LineFormat) -> Result<(), Ended> {
        let mut line = Vec::new();
        let mut number = 0u64;
        loop {
            let next = source.next_line(&mut line).map_err(Ended::Input)?;
            number += 1;
            match next {
                Next::Line | Next::TooLong if number < self.args.from_line => continue,
                Next::End if number < self.args.from_line => {
                    let why = format!("the input has {}", counted(number - 1, "line"));
                    let from = self.args.from_line;
                    return Err(Ended::Failed(Failure::Usage(format!("{why}, there is no line {from} to begin at"))));
                }
                Next::End => return self.commit(),
                Next::Stopped => return Err(Ended::Stopped),
                Next::Line | Next::TooLong => {}
            }
            let taken = if next == Next::TooLong {
                Err(format!("the line has more than {} bytes", format.line_bytes_max()))
            } else {
                // In JSON a carriage return is white space.
                let has_returns = matches!(format.encoding, Encoding::Tabs { .. });
                let line = self.ends.trimmed(number, &line, has_returns, |note| self.progress.say(note));
                self.take(line, format)?
            };
            match taken {
                Ok(()) => self.bytes_in += line.len() as u64 + 1,
                Err(why) if self.args.skip_bad => self.skip(number, &why),
                Err(why) => return Err(Ended::BadLine(format!("line {number}: {why}"))),
            }
            self.batched = number;
            let (lines, bytes) = self.batch.as_ref().map_or((0, 0), |batch| (batch.len(), batch.bytes()));
            if lines as u64 >= self.args.batch || bytes >= BATCH_BYTES {
                self.commit()?;
                self.progress.update(self.lines_in, source.bytes_read());
            }
        }
    }

    fn skip(&mut self, number: u64, why: &str) {
        self.lines_skipped += 1;
        match self.lines_skipped {
            1..=BAD_LINES_NAMED => self.progress.say(&format!("skipped line {number}: {why}")),
            skipped if skipped == BAD_LINES_NAMED + 1 => {
                self.progress.say("more bad lines follow, and are only counted");
            }
            _ => {}
        }
    }

    /// Adds the record of a line to the batch. Commits the batch first if it would become too large.
    fn take(&mut self, line: &[u8], format: &LineFormat) -> Result<Result<(), String>, Ended> {
        let record = match format.record(line) {
            Ok(record) => record,
            Err(why) => return Ok(Err(why)),
        };
        let bytes = record.key.len() + record.value.len();
        if self.batch.as_ref().is_some_and(|batch| batch.bytes() + bytes > BATCH_BYTES) {
            self.commit()?;
        }
        let (database, keyspace) = self.destination.open().map_err(Ended::Failed)?;
        let batch = self.batch.get_or_insert_with(|| database.batch());
        Ok(keyspace.add(batch, &record)?)
    }

    fn commit(&mut self) -> Result<(), Ended> {
        let Some(mut batch) = self.batch.take() else {
            self.committed = self.batched;
            return Ok(());
        };
        let lines = batch.len() as u64;
        batch.commit_with(if self.args.sync { Durability::Sync.into() } else { WriteOptions::new() })?;
        self.lines_in += lines;
        self.committed = self.batched;
        if self.args.sync {
            self.durable = self.committed;
        } else if self.persisted_at.elapsed() >= PERSIST_INTERVAL {
            self.persist()?;
        }
        Ok(())
    }

    fn persist(&mut self) -> thalweg::Result<()> {
        if let Some((database, _)) = &self.destination.opened {
            database.persist()?;
        }
        self.durable = self.committed;
        self.persisted_at = Instant::now();
        Ok(())
    }

    /// Makes all committed batches durable, however the import ended. After an error it also flushes what it can.
    fn persist_at_end(&mut self, ended: Result<(), Ended>) -> Result<(), Ended> {
        let persisted = self.persist().map_err(Ended::from);
        if let (Err(Ended::Failed(_)), Some((database, _))) = (&ended, &self.destination.opened) {
            // The error that ended the import is the one to report.
            let _ = database.flush();
        }
        ended.and(persisted)
    }

    /// Describes what was imported, what of it is durable, and where to go on.
    fn account(&self) -> String {
        if self.destination.opened.is_none() {
            // The database may have been created before the keyspace was refused.
            let database = &self.args.target.source.database;
            let made =
                if database.exists() { String::new() } else { format!(", and {} not created", database.display()) };
            return format!("nothing was imported{made}");
        }
        let lines = counted(self.lines_in, "line");
        let are = if self.lines_in == 1 { "is" } else { "are" };
        let next = self.durable + 1;
        let made = if self.destination.is_new && self.lines_in == 0 { "the new database is empty; " } else { "" };
        if self.durable == self.committed {
            format!("{made}{lines} {are} in and durable; go on with --from-line {next}")
        } else {
            format!("{made}{lines} {are} in, durable up to line {}; go on with --from-line {next}", self.durable)
        }
    }
}

fn format_of(args: &Import) -> LineFormat {
    let encoding = if args.jsonl {
        Encoding::Json {
            directory_field: args.directory_field.clone(),
            key_field: args.key_field.clone(),
            value_field: args.value_field.clone(),
        }
    } else {
        Encoding::Tabs { escaped: args.target.escaped }
    };
    LineFormat { encoding, directories: args.directory }
}

fn tune(mut builder: Builder, args: &Import) -> Builder {
    if let Some(mib) = args.memtable_mib {
        builder = builder.memtable_bytes((mib as usize) << 20);
    }
    if let Some(mib) = args.cache_mib {
        builder = builder.block_cache_bytes(u64::from(mib) << 20);
    }
    match args.compression {
        Some(Codec::None) => builder.compression(Compression::None),
        Some(Codec::Lz4) => builder.compression(Compression::Lz4),
        None => builder,
    }
}

struct Summary {
    lines: u64,
    skipped: u64,
    bytes: u64,
    time: Duration,
    is_new: bool,
}

impl Summary {
    fn render(&self, keyspace: &str, database: &Path) -> String {
        let mut text = format!(
            "imported {} ({}) into {}{}, keyspace {}, in {}: {} lines/s, {}/s, durable\n",
            counted(self.lines, "line"),
            size(self.bytes),
            if self.is_new { "the new database " } else { "" },
            database.display(),
            shown(keyspace.as_bytes()),
            duration(self.time),
            count(rate(self.lines, self.time)),
            size(rate(self.bytes, self.time)),
        );
        if self.skipped > 0 {
            text.push_str(&format!("skipped {}\n", counted(self.skipped, "bad line")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_lines_bytes_time_and_rates() {
        let summary = Summary { lines: 1000, skipped: 0, bytes: 1 << 20, time: Duration::from_secs(2), is_new: false };
        let text = summary.render("default", Path::new("/tmp/db"));
        assert_eq!(
            text,
            "imported 1,000 lines (1.0 MiB) into /tmp/db, keyspace default, in 2.0 s: \
             500 lines/s, 512.0 KiB/s, durable\n"
        );
        let skipped = Summary { skipped: 1, ..summary };
        assert!(skipped.render("default", Path::new("/tmp/db")).ends_with("skipped 1 bad line\n"));
        let new = Summary { is_new: true, ..skipped };
        assert!(new.render("default", Path::new("/tmp/db")).contains(" into the new database /tmp/db, "));
    }
}
