//! Tests of whole fast tables.
//!
//! - `entries`: entries, and tables made of them
//! - `model`: reads against a sorted vector
//! - `damaged`: reads of damaged tables
//! - `files`: tables in files
//! - `golden`: tables byte for byte
//! - `shapes`: the largest keys and values, ties, versions over many groups

mod damaged;
mod entries;
mod files;
mod golden;
mod model;
mod shapes;
