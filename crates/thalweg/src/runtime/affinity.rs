//! [`bind_to_processor`]: keeps a worker thread on one processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Binds the calling thread to processor `number` of those that it may run on, modulo their count. If the operating
/// system refuses, nothing changes, because the binding only affects speed.
pub(super) fn bind_to_processor(number: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
    let Some(processor) = processors.get(number % processors.len().max(1)) else { return };
    let mut only = CpuSet::new();
    only.set(*processor);
    let _ = sched_setaffinity(None, &only);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
    }

    #[test]
    fn a_thread_gets_one_of_its_processors_and_others_keep_theirs() {
        let before = allowed();
        for number in 0..2 * before.len() {
            let expected = before[number % before.len()];
            let bound = std::thread::spawn(move || {
                bind_to_processor(number);
                allowed()
            });
            assert_eq!(bound.join().unwrap(), [expected]);
        }
        assert_eq!(allowed(), before);
    }
}
