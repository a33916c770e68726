//! [`Demand`]: whether callers often wait for syncs of the log. That decides how the next segment is written. Pure.
//!
//! A store to a mapped page costs less than a write by position. But a sync write-protects the pages that it writes,
//! and one store to a large folio makes all its pages dirty: the next sync writes the whole folio again, up to 512 KiB.
//! So with few bytes between two syncs writes by position cost less, for the processor and for the device.

/// Callers wait often if the log has at most this number of bytes for each of them.
const BYTES_A_CALLER: u64 = 64 << 10;

/// The numbers of callers and bytes of the log up to the latest look, and its result.
#[derive(Debug, Default)]
pub(super) struct Demand {
    callers: u64,
    written_bytes: u64,
    is_frequent: bool,
}

impl Demand {
    /// Returns whether callers wait often. `callers` and `written_bytes` are totals since the log began. If only a few
    /// bytes were written since the latest look, the result stays the same.
    pub(super) fn look(&mut self, callers: u64, written_bytes: u64) -> bool {
        let bytes = written_bytes.saturating_sub(self.written_bytes);
        if bytes >= BYTES_A_CALLER {
            let waited = callers.saturating_sub(self.callers);
            let is_frequent = waited.saturating_mul(BYTES_A_CALLER) >= bytes;
            *self = Demand { callers, written_bytes, is_frequent };
        }
        self.is_frequent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_wait_often_if_there_is_one_for_each_64_kib_since_the_latest_look() {
        let mut demand = Demand::default();
        assert!(!demand.look(3, 60 << 10), "too few bytes to tell");
        assert!(demand.look(3, 180 << 10));
        assert!(demand.look(3, 200 << 10), "too few bytes to tell");
        assert!(!demand.look(4, 400 << 10));
        assert!(demand.look(104, 6 << 20));
    }
}
