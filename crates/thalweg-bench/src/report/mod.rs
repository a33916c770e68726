//! The output of runs: tables, JSON, pages and comparisons.
//!
//! - `model`: a report; `latency`: its percentiles
//! - `json`: a report as a file
//! - `metric`: figures of a run
//! - `summary`: medians and ratios of runs; all output is made from `metric` and `summary`
//! - `number`, `grid`, `terms`: numbers, tables of text, sentences on settings and memory
//! - `table`: what a run prints; `limits`: the limits of the machine
//! - `compare`: two reports
//! - `results`: a Markdown page of stored reports
//! - `html/`: a page with plots

pub mod compare;
mod grid;
pub mod html;
pub mod json;
mod latency;
mod limits;
mod metric;
mod model;
pub(crate) mod number;
pub mod results;
mod summary;
pub mod table;
mod terms;
#[cfg(test)]
mod tests;

pub use grid::{Grid, Look, Mood};
pub use limits::limits_table;
pub use metric::{Metric, Quantile, WrittenBy};
pub use model::{
    Cpu, DeviceIo, Io, Latency, Machine, Memory, Paper, PaperRow, ProcessIo, Report, Run, Sample, Second, StallPeriod,
    Stalls, Sustained, Usage,
};
pub use summary::{Entry, Spread, Step, Summary};
