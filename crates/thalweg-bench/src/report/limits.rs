//! The table of `bench limits`.

use super::grid::Grid;
use super::number::{bytes, time};
use crate::machine::Limits;

/// A row for each limit.
pub fn limits_table(limits: &Limits) -> Grid {
    let mut grid = Grid::new(["limit", "median", "P99"]);
    let record = format!("CRC-32C and copy of a record of {} + {} B", limits.key_bytes, limits.value_bytes);
    let none = || "–".to_owned();
    let rate = format!("{}/s", bytes(limits.write_bytes_per_second));
    grid.row(["direct read of 4 KiB at random".into(), time(limits.read_4k.median_ns), time(limits.read_4k.p99_ns)]);
    grid.row(["direct writes in sequence, with their sync".into(), rate, none()]);
    grid.row(["write of 4 KiB and fdatasync".into(), time(limits.sync_4k.median_ns), time(limits.sync_4k.p99_ns)]);
    grid.row([record, time(limits.record_ns), none()]);
    grid
}
