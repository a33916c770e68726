//! [`ClearedGenerations`]: generations of keyspaces that were cleared and that snapshots may still read.
//!
//! Invariant: a cleared generation can be read while the visible number, or a snapshot, is older than the clear.
//!
//! Locks: `kept` is held for a push or a sweep.

use super::keyspace::Keyspace;
use super::signals::Signals;
use super::snapshots::SnapshotRegistry;
use crate::format::SeqNo;
use crate::lineage::Lineage;
use crate::log::Log;
use crate::sync::Mutex;
use std::sync::Arc;

struct Cleared {
    /// The number of the record that clears it.
    at: SeqNo,
    keyspace: Arc<dyn Keyspace>,
}

/// See the module.
pub(crate) struct ClearedGenerations {
    kept: Mutex<Vec<Cleared>>,
    snapshots: Arc<SnapshotRegistry>,
    log: Arc<Log>,
    lineage: Arc<Lineage>,
    signals: Arc<Signals>,
}

impl ClearedGenerations {
    pub(crate) fn new(
        snapshots: &Arc<SnapshotRegistry>,
        log: &Arc<Log>,
        lineage: &Arc<Lineage>,
        signals: &Arc<Signals>,
    ) -> Arc<Self> {
        Arc::new(ClearedGenerations {
            kept: Mutex::default(),
            snapshots: Arc::clone(snapshots),
            log: Arc::clone(log),
            lineage: Arc::clone(lineage),
            signals: Arc::clone(signals),
        })
    }

    /// Keeps a generation that was cleared by the record `at`, and that the manifest knows of, until nobody can read
    /// it.
    pub(super) fn keep(&self, keyspace: Arc<dyn Keyspace>, at: SeqNo) {
        keyspace.retire_buffers();
        let mut kept = self.kept.lock();
        kept.push(Cleared { at, keyspace });
        self.snapshots.notify_returns(true);
    }

    /// Empties and releases the generations that nobody can read.
    pub(crate) fn sweep(&self) {
        if !self.snapshots.notifies_returns() {
            return;
        }
        let oldest = self.snapshots.boundaries(|| self.log.visible()).first().copied().unwrap_or_default();
        let unread: Vec<Cleared> = {
            let mut kept = self.kept.lock();
            let unread = kept.extract_if(.., |cleared| cleared.at <= oldest).collect();
            self.snapshots.notify_returns(!kept.is_empty());
            unread
        };
        for Cleared { keyspace, .. } in &unread {
            keyspace.empty();
        }
        if !unread.is_empty() {
            self.lineage.wake_cleanup();
            self.signals.progress.notify_all();
        }
    }
}
