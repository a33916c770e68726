//! [`Supply`]: how fast the background makes one kind of room.

/// The factor by which the weight of all earlier measurements shrinks at the next one.
const DECAY: f64 = 0.7;

pub(super) const NS_A_SECOND: f64 = 1e9;

/// The rate at which the background makes one kind of room while it works on that: bytes over time. The latest
/// measurement has the most weight, and a measurement of few bytes changes little.
#[derive(Clone, Debug, Default)]
pub(super) struct Supply {
    /// Since when the background has had work to do.
    busy_since_ns: Option<u64>,
    pub(super) bytes: f64,
    ns: f64,
}

impl Supply {
    pub(super) fn due(&mut self, now_ns: u64) {
        self.busy_since_ns.get_or_insert(now_ns);
    }

    pub(super) fn gave(&mut self, now_ns: u64, bytes: f64, has_more: bool) {
        if let Some(since) = self.busy_since_ns {
            self.bytes = self.bytes * DECAY + bytes;
            self.ns = self.ns * DECAY + now_ns.saturating_sub(since) as f64;
        }
        self.busy_since_ns = has_more.then_some(now_ns);
    }

    /// Notes that the work under way pauses voluntarily for `ns`. A pause does not count as work.
    pub(super) fn rested(&mut self, ns: u64) {
        if let Some(since_ns) = &mut self.busy_since_ns {
            *since_ns = since_ns.saturating_add(ns);
        }
    }

    /// Ends a piece of work that is not measured.
    pub(super) fn pass_over(&mut self, now_ns: u64, has_more: bool) {
        self.busy_since_ns = has_more.then_some(now_ns);
    }

    /// Bytes a second; `None` before the first measurement.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate_at(0)
    }

    /// The same, if the piece of work that is under way at `now_ns` has made `bytes` of room so far.
    pub(super) fn rate_with(&self, now_ns: u64, bytes: f64) -> Option<f64> {
        let Some(since) = self.busy_since_ns else { return self.rate() };
        let ns = self.ns + now_ns.saturating_sub(since) as f64;
        let bytes = self.bytes + bytes;
        (bytes > 0.0).then(|| bytes / ns.max(1.0) * NS_A_SECOND)
    }

    /// As [`Supply::rate`], but lower while the piece of work under way at `now_ns` takes longer than the average one:
    /// the time beyond the average counts as work that gives nothing.
    pub(super) fn rate_at(&self, now_ns: u64) -> Option<f64> {
        let under_way = self.busy_since_ns.map_or(0, |since| now_ns.saturating_sub(since)) as f64;
        let mean = self.ns * (1.0 - DECAY);
        let ns = self.ns + (under_way - mean).max(0.0);
        (self.bytes > 0.0).then(|| self.bytes / ns.max(1.0) * NS_A_SECOND)
    }
}
