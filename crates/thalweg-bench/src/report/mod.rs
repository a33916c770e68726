//! What is shown and written: the model of a report, tables, JSON, pages and comparisons.
//!
//! [`Metric`] turns a run into figures, [`Summary`] runs into medians and ratios; all that is shown is made of these
//! two.

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
pub(crate) mod tests;

pub use grid::{Grid, Look, Mood};
pub use limits::limits_table;
pub use metric::{Metric, Quantile, WrittenBy};
pub use model::{
    Cpu, DeviceIo, Io, Latency, Machine, Memory, Paper, PaperRow, ProcessIo, Report, Run, Sample, Second, StallPeriod,
    Stalls, Sustained, Usage,
};
pub use summary::{Entry, Spread, Step, Summary};
