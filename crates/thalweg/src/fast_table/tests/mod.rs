//! Tests of whole fast tables.
//!
//! - `entries`: entries, and tables made of them
//! - `model`: reads against a sorted vector
//! - `shapes`: the largest keys and values, ties, versions over many groups

mod entries;
mod model;
mod shapes;
