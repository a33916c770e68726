//! Tests of the cache as tables use it.

mod eviction;
mod tables;

use crate::format::Slice;

fn block(byte: u8, len: usize) -> Slice {
    Slice::from(vec![byte; len])
}
