//! [`Costs`]: the seconds that operations of the tier take; [`Calibration`]: their measurement.

use crate::sync::Mutex;

/// Seconds per operation or per entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// `I_get`, the paper's `I_b` for point reads: to look into one more table, filters included (PMB-A9).
    pub(crate) get_seconds: f64,
    /// `I_seek`: to position one more table of a range, and to merge it.
    pub(crate) seek_seconds: f64,
    /// `I_p`: to merge an entry within the tier.
    pub(crate) internal_seconds: f64,
    /// `I_s`: to compact an entry below the tier.
    pub(crate) major_seconds: f64,
}

impl Default for Costs {
    /// Orders of magnitude of memory and a fast SSD with entries of 1 KiB: for simulations, which must not measure.
    fn default() -> Costs {
        Costs { get_seconds: 0.2e-6, seek_seconds: 1.0e-6, internal_seconds: 0.8e-6, major_seconds: 4.0e-6 }
    }
}

/// The weight of one more job in the average.
const JOB_WEIGHT: f64 = 0.2;
/// The fewest entries of a job that is measured: a smaller one would measure its own start and end.
const ENTRIES_MIN: u64 = 1000;
/// One measurement moves a cost by this factor at most: a job may have been suspended.
const STEP_MAX: f64 = 4.0;

/// Averages of measured jobs, beginning with constants.
#[derive(Debug)]
pub(crate) struct Calibration {
    costs: Mutex<Costs>,
}

impl Calibration {
    /// Creates a calibration that returns `costs` until jobs are measured.
    pub(crate) fn new(costs: Costs) -> Calibration {
        Calibration { costs: Mutex::new(costs) }
    }

    pub(crate) fn costs(&self) -> Costs {
        *self.costs.lock()
    }

    /// Begins with measured costs instead of constants.
    pub(crate) fn begin_with(&self, costs: Costs) {
        *self.costs.lock() = costs;
    }

    /// Notes that an internal compaction read `entries` and kept a core busy for `seconds`.
    pub(crate) fn measured_internal(&self, entries: u64, seconds: f64) {
        self.measured(entries, seconds, |costs| &mut costs.internal_seconds);
    }

    /// Notes that an eviction wrote `entries` of the tier. With the compactions that it caused it took `seconds` of
    /// core or disk, whichever is longer.
    pub(crate) fn measured_major(&self, entries: u64, seconds: f64) {
        self.measured(entries, seconds, |costs| &mut costs.major_seconds);
    }

    fn measured(&self, entries: u64, seconds: f64, cost: impl Fn(&mut Costs) -> &mut f64) {
        if entries < ENTRIES_MIN || !seconds.is_finite() || seconds <= 0.0 {
            return;
        }
        let mut costs = self.costs.lock();
        let average = cost(&mut costs);
        let bounded = (seconds / entries as f64).clamp(*average / STEP_MAX, *average * STEP_MAX);
        *average += JOB_WEIGHT * (bounded - *average);
    }
}
