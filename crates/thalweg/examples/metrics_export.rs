//! Metrics in the text format of Prometheus, made of `Database::statistics`.
//!
//! Counters only grow while the database is open, and begin at zero at each open; what a monitor wants of them is their
//! rate. Taking them costs little: a service calls `render` whenever its `/metrics` is asked for.
//!
//! ```text
//! cargo run -p thalweg --example metrics_export
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use thalweg::{Database, Statistics};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let orders = db.keyspace("orders")?;
    for number in 0..1_000_u32 {
        orders.insert(number.to_be_bytes(), "one thalweg")?;
    }
    db.flush()?;
    let text = render(&db.statistics())?;
    print!("{text}");

    let written = value_of(&text, "thalweg_user_written_bytes_total").ok_or("what was written is told")?;
    assert_eq!(written, 1_000 * (4 + 11));
    assert!(value_of(&text, "thalweg_retained_bytes").is_some());
    assert!(text.contains("thalweg_stalls_total{cause=\"memtable\"} "));
    assert!(text.lines().all(|line| line.starts_with("# TYPE thalweg_") || line.starts_with("thalweg_")));
    Ok(db.close()?)
}

fn render(statistics: &Statistics) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let counters = [
        ("user_written_bytes_total", statistics.user_written_bytes),
        ("filter_checks_total", statistics.filter_checks),
        ("filter_negatives_total", statistics.filter_negatives),
        ("settle_rounds_total", statistics.settle_rounds),
    ];
    let gauges = [
        ("retained_bytes", statistics.retained_bytes),
        ("unsettled_edits", statistics.unsettled_edits),
        ("settle_lag_milliseconds", statistics.settle_lag_ms),
        ("log_backlog_bytes", statistics.log_backlog_bytes),
        ("memtable_bytes", statistics.memtable_bytes),
    ];
    for (kind, metrics) in [("counter", &counters[..]), ("gauge", &gauges[..])] {
        for (name, value) in metrics {
            writeln!(text, "# TYPE thalweg_{name} {kind}")?;
            writeln!(text, "thalweg_{name} {value}")?;
        }
    }
    writeln!(text, "# TYPE thalweg_stalls_total counter")?;
    for stall in &statistics.stalls {
        writeln!(text, "thalweg_stalls_total{{cause=\"{}\"}} {}", stall.cause, stall.count)?;
    }
    Ok(text)
}

fn value_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}
