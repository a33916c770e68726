//! `bench limits`: measures the machine itself, and shows the figures as a table and as JSON.

use super::args;
use super::draft::Draft;
use super::output::print;
use super::place::Place;
use super::stop::Stop;
use crate::error::{Error, Result};
use crate::machine::{Limits, Measure};
use crate::report::{Look, limits_table};
use std::io::Write;
use std::time::Duration;

/// The largest value of a run.
const VALUE_BYTES_MAX: u32 = 64 << 20;

/// Measures in a directory of its own, which is removed.
pub fn run(args: &args::Limits, output: &mut dyn Write) -> Result<()> {
    // Opened first: a path that cannot be written fails before any measurement.
    let draft = args.json.as_deref().map(Draft::open).transpose()?;
    if args.value_bytes > VALUE_BYTES_MAX {
        return Err(Error::Usage("value-bytes must be at most 64 MiB".into()));
    }
    // A signal ends the measurement early, so that the directory is removed.
    let stop = Stop::on_signals()?;
    let place = Place::create(args.directory.as_deref(), false)?;
    let measured = Limits::measure(&Measure {
        directory: place.path(),
        file_bytes: args.file,
        longest: Duration::try_from_secs_f64(args.seconds)
            .map_err(|error| Error::Usage(format!("--seconds {}: {error}", args.seconds)))?,
        key_bytes: args.key_bytes as usize,
        value_bytes: args.value_bytes as usize,
        stop: &|| stop.code().is_some(),
    });
    drop(place);
    if let Some(code) = stop.code() {
        return Err(Error::Exit(code));
    }
    let limits = measured?;
    if let Some(draft) = draft {
        let text = serde_json::to_string_pretty(&limits);
        draft.finish(&text.map_err(|error| Error::Said(format!("cannot write JSON: {error}")))?)?;
    }
    print(output, &text(&limits, &args.colour.look()))
}

fn text(limits: &Limits, look: &Look) -> String {
    let mut text = limits_table(limits).draw(look);
    text.push_str("\nThe memtable's insert is not among them: it cannot be reached from outside the engine.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Times;

    #[test]
    fn each_limit_has_a_row_in_its_unit() {
        let times = |median_ns| Times { median_ns, p99_ns: 2.0 * median_ns, count: 10 };
        let limits = Limits {
            read_4k: times(60_000.0),
            write_bytes_per_second: 1.5e9,
            sync_4k: times(500_000.0),
            record_ns: 130.0,
            key_bytes: 16,
            value_bytes: 1000,
            file_bytes: 1 << 29,
        };
        let text = text(&limits, &Look { terminal: false, width: 100 });
        for words in ["60.0 µs", "120 µs", "1.40 GiB/s", "500 µs", "130 ns", "16 + 1000 B"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
