//! Tests of the cost models: steps by table, properties of random descriptions, counting, reports, and a small world
//! that the models drive.

mod counting;
mod properties;
mod random;
mod reports;
mod steps;
mod volume;
