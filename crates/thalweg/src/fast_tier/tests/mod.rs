//! Tests of the cost models: steps by table, properties of random descriptions, statistics, reports.

mod steps;
