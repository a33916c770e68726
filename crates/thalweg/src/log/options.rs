//! [`LogOptions`] and [`DamagePolicy`]: what the caller chooses.

use crate::runtime::Space;
use std::sync::Arc;
use std::time::Duration;

/// How the log is laid out and synced.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    /// The most bytes of a segment file; a multiple of 32 KiB, at least 64 KiB.
    pub(crate) segment_bytes: u32,
    /// How often published records are made durable without a request; `None`: never.
    pub(crate) sync_interval: Option<Duration>,
    /// How much room there is for segments.
    pub(crate) space: Arc<Space>,
}

/// How an open treats damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamagePolicy {
    /// Refuse to open, change nothing (the default).
    #[default]
    Strict,
    /// Open with the records written before the damage. Everything after it is copied to `lost/` and reported.
    PointInTime,
}
