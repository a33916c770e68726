//! `damage`: a small database, cleanly closed, in which every byte of every file is damaged in turn and every file is
//! cut at every length. Each time every read must be right or an error that names the file, nothing may panic, and
//! `check` must find the damage (`closed.rs`). Then the same for the log of a database that was not closed
//! (`unclean.rs`). `fault.rs` has the damages, and what an open and a check must report.
//!
//! Damage to unused bytes may go unnoticed, but then every read must be right. `LOCK` and `RESERVE` have no content,
//! and an open does not read `STATUS`. In the log the used bytes are those that recovery reads, as the engine reports
//! them.

mod closed;
mod fault;
mod unclean;

pub use fault::DamageReport;

/// Damages every offset of every file; with `quick`, a sample.
pub fn run(seed: u64, quick: bool) -> Result<DamageReport, String> {
    let mut report = DamageReport::default();
    closed::run(seed, quick, &mut report)?;
    unclean::run(seed, quick, &mut report)?;
    Ok(report)
}
