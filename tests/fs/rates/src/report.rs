//! Prints one run, or the medians of several.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::clock::Rate;

/// Prints a run as a table, and writes it as JSON.
pub(crate) fn print(rates: &[Rate], json: Option<&Path>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:10} {:>7} {:>12} {:>14} {:>14}",
        "phase", "threads", "each second", "client us/op", "server us/op"
    )?;
    for rate in rates {
        let (client, server) = rate.cpu_us();
        let server = server.map_or_else(|| "-".to_owned(), |server| format!("{server:.1}"));
        let (phase, threads, each_second) = (&rate.phase, rate.threads, rate.per_second());
        writeln!(out, "{phase:10} {threads:>7} {each_second:>12.0} {client:>14.1} {server:>14}")?;
    }
    if let Some(path) = json {
        serde_json::to_writer_pretty(File::create(path)?, rates)?;
    }
    Ok(())
}

/// Prints a table of medians: a row for each phase and number of threads, a column for each name of a file system. In
/// parentheses the processor time of an operation in microseconds, the client's and the server's.
pub(crate) fn medians(files: &[PathBuf]) -> io::Result<()> {
    let mut cells: BTreeMap<(String, usize, String), Vec<Rate>> = BTreeMap::new();
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let column = name.split('.').next().unwrap_or_default().to_owned();
        if !columns.contains(&column) {
            columns.push(column.clone());
        }
        for rate in read(path)? {
            let row = (rate.phase.clone(), rate.threads);
            if !rows.contains(&row) {
                rows.push(row.clone());
            }
            cells.entry((row.0, row.1, column.clone())).or_default().push(rate);
        }
    }
    let mut out = io::stdout().lock();
    write!(out, "| phase | threads |")?;
    columns.iter().try_for_each(|column| write!(out, " {column} |"))?;
    writeln!(out, "\n|-|--:|{}", "--:|".repeat(columns.len()))?;
    for (phase, threads) in rows {
        write!(out, "| {phase} | {threads} |")?;
        for column in &columns {
            let cell = cells.get(&(phase.clone(), threads, column.clone())).map(|rates| text(rates));
            write!(out, " {} |", cell.unwrap_or_default())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Prints what several runs measured as JSON, a line for each figure.
pub(crate) fn join(files: &[PathBuf]) -> io::Result<()> {
    let mut lines = Vec::new();
    for path in files {
        for rate in read(path)? {
            lines.push(serde_json::to_string(&rate)?);
        }
    }
    writeln!(io::stdout().lock(), "[\n{}\n]", lines.join(",\n"))
}

fn read(path: &Path) -> io::Result<Vec<Rate>> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn text(rates: &[Rate]) -> String {
    let each_second = median(rates.iter().map(Rate::per_second));
    let client = median(rates.iter().map(|rate| rate.cpu_us().0));
    let servers: Vec<f64> = rates.iter().filter_map(|rate| rate.cpu_us().1).collect();
    if servers.is_empty() {
        return format!("{each_second:.0} ({client:.1})");
    }
    format!("{each_second:.0} ({client:.1} + {:.1})", median(servers.into_iter()))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle)) {
        (0, Some(above)) => (values[middle - 1] + above) / 2.0,
        (_, Some(value)) => *value,
        (_, None) => f64::NAN,
    }
}

/// Says on standard error what went wrong.
pub(crate) fn complain(error: &io::Error) {
    let _ = writeln!(io::stderr(), "yardstick-rates: {error}");
}
