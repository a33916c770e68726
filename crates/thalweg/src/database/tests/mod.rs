//! Tests of the engine that need more than one of its files.

mod dropped;
mod panics;
mod parked;
