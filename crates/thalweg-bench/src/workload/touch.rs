//! [`touch`]: reads a value from memory. An engine that returns a slice of mapped memory has read nothing yet.

const CACHE_LINE_BYTES: usize = 64;

/// Reads a byte of every cache line that a value lies in.
pub(super) fn touch(value: &[u8]) {
    let lines = value.iter().step_by(CACHE_LINE_BYTES).fold(0, |sum, byte| sum ^ byte);
    // The last byte may lie in a line that the loop did not reach.
    std::hint::black_box(lines ^ value.last().unwrap_or(&0));
}
