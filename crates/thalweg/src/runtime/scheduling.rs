//! [`CompactionScheduling`]: how compactions share processors and the device.

/// How compactions share processors and the device: the three ways that PM-Blade compares (PMB-13 to PMB-16, PMB-E9).
///
/// A merge has three stages: S1 reads a piece of its inputs, S2 merges, S3 writes a piece of its output. The choice is
/// stored nowhere: each open may choose another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "the others are chosen by experiments"))]
pub enum CompactionScheduling {
    /// Coroutines do S1 and S2; one flush coroutine on each worker does S3, when a gate admits the write.
    #[default]
    PmBlade,
    /// Coroutines do all three. While one waits for the device, others of its worker run. There is no gate.
    Coroutines,
    /// Threads do all three, one compaction each, and wait for each read and write in a plain call. There is no gate,
    /// and there are as many threads as there would be coroutines.
    Threads,
}

impl CompactionScheduling {
    /// Whether writes are left to a flush coroutine.
    pub(crate) fn defers_writes(self) -> bool {
        self == CompactionScheduling::PmBlade
    }

    /// Whether a compaction waits in plain calls, and so has a thread of its own.
    pub(crate) fn blocks(self) -> bool {
        self == CompactionScheduling::Threads
    }
}
