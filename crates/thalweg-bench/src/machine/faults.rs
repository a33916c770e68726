//! Page faults of the calling thread: memory that it was the first to touch, or that the kernel had protected.
//!
//! An engine that takes fresh memory, or stores through a mapping that a sync has protected, causes these faults in its
//! callers' threads. The process's counters do not separate them from those of background threads.

use std::fs;

/// Minor and major page faults of this thread so far; 0 if the kernel does not report them (`/proc/thread-self/stat`).
pub fn of_this_thread() -> u64 {
    fs::read_to_string("/proc/thread-self/stat").ok().and_then(|text| parse(&text)).unwrap_or(0)
}

/// `pid (name) state …`: the name may hold anything, so the fields are counted from its last parenthesis on. proc(5)
/// counts from 1: the state is field 3, minor faults are field 10, major ones field 12.
fn parse(text: &str) -> Option<u64> {
    let (_, fields) = text.rsplit_once(')')?;
    let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3)?.parse::<u64>().ok();
    Some(field(10)? + field(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_touched_first_is_a_fault() {
        let before = of_this_thread();
        let pages = 4096;
        let mut memory = vec![0_u8; pages * 4096];
        for page in memory.chunks_mut(4096) {
            page[0] = 1;
        }
        std::hint::black_box(&memory);
        // If the kernel gives huge pages, one fault covers 512 of these.
        assert!(of_this_thread() >= before + 8);
    }

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let fields = "S 1 2 3 4 5 6 70 8 9 10";
        assert_eq!(parse(&format!("12 (a) b ( c) {fields}")), Some(79));
        assert_eq!(parse("12 (a) S 1"), None);
    }
}
