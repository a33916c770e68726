//! `thalweg import`: lines into a keyspace, in batches, in bounded memory.
//!
//! A batch is applied whole or not at all. Whatever ends the import early (a bad line, a signal, an error), the batches
//! before it are in; a bad line and a signal also commit the lines read so far and make them durable. At its end an
//! import is durable and in tables.

use crate::args::{Codec, Import};
use crate::line::LineFormat;
use crate::numbers::{count, counted, duration, rate, size};
use crate::open;
use crate::progress::Progress;
use crate::report::{Failure, Paint, say};
use crate::source::{LineSource, Next};
use crate::stat;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use thalweg::{Builder, Compression, Database, Durability, Error, Keyspace, WriteBatch};

/// A batch is closed once it has this many bytes.
const BATCH_BYTES: usize = 1 << 20;

pub fn run(args: &Import, output: &mut dyn Write) -> Result<(), Failure> {
    let (input, total_bytes) = open_input(&args.file)?;
    let stop = stop_on_signals()?;
    let database = open::for_writing(&args.target.source, true, |builder| tune(builder, args))?;
    let keyspace = database.keyspace(&args.target.keyspace)?;
    let format = format_of(args);
    let mut source = LineSource::new(input, format.line_bytes_max(), Arc::clone(&stop));

    let mut importer = Importer::new(args, database.clone(), keyspace, Progress::new(total_bytes));
    let ended = importer.all_lines(&mut source, &format);
    let lines = importer.lines_in;
    let skipped = importer.lines_skipped;
    let ended = match ended {
        // What was read before a bad line, a signal or a failed read is worth keeping.
        Ok(()) | Err(Ended::BadLine(_) | Ended::Stopped | Ended::Input(_)) => {
            importer.commit().and_then(|()| database.persist()).map_err(Ended::Engine).and(ended)
        }
        engine => engine,
    };
    let lines = importer.lines_in.max(lines);
    let summary = Summary { lines, skipped, bytes: source.bytes_read(), time: importer.progress.finish() };
    let name = if args.file.as_os_str() == "-" { "standard input".into() } else { args.file.display().to_string() };
    match ended {
        Ok(()) => {}
        Err(Ended::Engine(error)) => {
            say(&format!("{} are in, of them durable what was synced before the error", counted(lines, "line")));
            return Err(error.into());
        }
        Err(Ended::Input(error)) => {
            say(&format!("{} are in and durable", counted(lines, "line")));
            return Err(Failure::io("read", &name, &error));
        }
        Err(Ended::BadLine(why)) => {
            return Err(Failure::Said(format!(
                "{name}, {why}; the {} before it are in and durable: mend the line, or skip such lines with --skip-bad",
                counted(lines, "line")
            )));
        }
        Err(Ended::Stopped) => {
            say(&format!("stopped; {} are in and durable", counted(lines, "line")));
            database.close()?;
            let signal = stop.load(Ordering::Relaxed);
            return Err(Failure::Exit(u8::try_from(128 + signal).unwrap_or(130)));
        }
    }
    write!(output, "{}", summary.render(&args.target.keyspace, &args.target.source.database))?;
    // What is in tables need not be replayed by whoever opens the database next.
    database.flush()?;
    let statistics = database.statistics();
    write!(output, "{}", stat::render_brief(&statistics))?;
    if args.stat {
        write!(output, "\n{}", stat::render(&statistics, None, &Paint::for_output()))?;
    }
    database.close()?;
    Ok(())
}

/// Why lines are no longer taken.
enum Ended {
    BadLine(String),
    Stopped,
    Input(io::Error),
    Engine(Error),
}

struct Importer<'a> {
    args: &'a Import,
    database: Database,
    keyspace: Keyspace,
    batch: WriteBatch,
    progress: Progress,
    /// Of batches that are committed.
    lines_in: u64,
    lines_skipped: u64,
}

impl<'a> Importer<'a> {
    fn new(args: &'a Import, database: Database, keyspace: Keyspace, progress: Progress) -> Self {
        let batch = new_batch(&database, args.sync);
        Importer { args, database, keyspace, batch, progress, lines_in: 0, lines_skipped: 0 }
    }

    fn all_lines(&mut self, source: &mut LineSource, format: &LineFormat) -> Result<(), Ended> {
        let mut line = Vec::new();
        let mut number = 0u64;
        loop {
            let next = source.next_line(&mut line).map_err(Ended::Input)?;
            number += 1;
            let taken = match next {
                Next::Line => self.take(&line, format)?,
                Next::TooLong => Err(format!("the line has more than {} bytes", format.line_bytes_max())),
                Next::End => return Ok(()),
                Next::Stopped => return Err(Ended::Stopped),
            };
            match taken {
                Ok(()) => {}
                Err(_) if self.args.skip_bad => self.lines_skipped += 1,
                Err(why) => return Err(Ended::BadLine(format!("line {number}: {why}"))),
            }
            if self.batch.len() as u64 >= self.args.batch || self.batch.bytes() >= BATCH_BYTES {
                self.commit().map_err(Ended::Engine)?;
                self.progress.update(self.lines_in, source.bytes_read());
            }
        }
    }

    /// Puts the record of a line in the batch; a batch that it would make too large is committed before.
    fn take(&mut self, line: &[u8], format: &LineFormat) -> Result<Result<(), String>, Ended> {
        let (key, value) = match format.record(line) {
            Ok(record) => record,
            Err(why) => return Ok(Err(why)),
        };
        if self.batch.bytes() + key.len() + value.len() > BATCH_BYTES {
            self.commit().map_err(Ended::Engine)?;
        }
        match self.batch.insert(&self.keyspace, &key, &value) {
            Ok(()) => Ok(Ok(())),
            Err(Error::InvalidInput(why)) => Ok(Err(why.to_string())),
            Err(error) => Err(Ended::Engine(error)),
        }
    }

    fn commit(&mut self) -> thalweg::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, new_batch(&self.database, self.args.sync));
        let lines = batch.len() as u64;
        batch.commit()?;
        self.lines_in += lines;
        Ok(())
    }
}

fn new_batch(database: &Database, sync: bool) -> WriteBatch {
    let mut batch = database.batch();
    if sync {
        batch.durability(Durability::Sync);
    }
    batch
}

fn format_of(args: &Import) -> LineFormat {
    if args.jsonl {
        LineFormat::Json { key_field: args.key_field.clone(), value_field: args.value_field.clone() }
    } else {
        LineFormat::Tabs { escaped: args.escaped }
    }
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

/// The input, and its length when it is a regular file.
fn open_input(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let name = path.display().to_string();
    let failed = |error: io::Error| Failure::io("read", &name, &error);
    let found = fs::metadata(path).map_err(failed)?;
    if found.is_dir() {
        return Err(Failure::Usage(format!("{name} is a directory; name a file of lines, or - for standard input")));
    }
    let file = fs::File::open(path).map_err(failed)?;
    Ok((Box::new(file), found.is_file().then_some(found.len())))
}

/// The first signal asks to stop; the second ends the process at once.
fn stop_on_signals() -> Result<Arc<AtomicUsize>, Failure> {
    let stop = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag that the first one set.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
            .and_then(|_| flag::register(signal, Arc::clone(&asked)))
            .and_then(|_| flag::register_usize(signal, Arc::clone(&stop), signal.unsigned_abs() as usize))
            .map_err(|error| Failure::io("listen to", "signals", &error))?;
    }
    Ok(stop)
}

struct Summary {
    lines: u64,
    skipped: u64,
    bytes: u64,
    time: Duration,
}

impl Summary {
    fn render(&self, keyspace: &str, database: &Path) -> String {
        let mut text = format!(
            "imported {} ({}) into {}, keyspace {keyspace}, in {}: {} lines/s, {}/s, durable\n",
            counted(self.lines, "line"),
            size(self.bytes),
            database.display(),
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
        let summary = Summary { lines: 1000, skipped: 0, bytes: 1 << 20, time: Duration::from_secs(2) };
        let text = summary.render("default", Path::new("/tmp/db"));
        assert_eq!(
            text,
            "imported 1,000 lines (1.0 MiB) into /tmp/db, keyspace default, in 2.0 s: \
             500 lines/s, 512.0 KiB/s, durable\n"
        );
        let skipped = Summary { skipped: 1, ..summary };
        assert!(skipped.render("default", Path::new("/tmp/db")).ends_with("skipped 1 bad line\n"));
    }
}
