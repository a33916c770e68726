//! [`Reason`]: why edits should be settled, and what makes rounds begin before the interval is over.

use crate::lineage::open::Lineage;
use crate::lineage::removal::retained::Input;
use crate::lineage::settle::backend::Rule;
use std::sync::atomic::Ordering;

/// The upper bound of the default limit of retained bytes. The default is four times the live bytes, but at most this,
/// or a tenth of the live bytes if that is more.
pub(crate) const RETAINED_BYTES_MAX: u64 = 1 << 30;

/// The lower bound of the default limit of retained bytes. Writers are not slowed down for fewer bytes.
const RETAINED_BYTES_FEW: u64 = 256 << 20;

/// A disk is low on space when the retained bytes exceed this part of its free bytes: a half.
const LOW_SPACE_PART: u64 = 2;

/// Why edits are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) enum Reason {
    /// The interval is over.
    Time,
    /// A checkpoint, the close or a call of `settle` waits.
    Requested,
    /// The inputs take too much space.
    Space,
    /// The edits pin too much of the log.
    Log,
    /// The outputs keep too many files open.
    Files,
}

impl Reason {
    /// Returns the name for traces.
    pub(in crate::lineage) fn name(self) -> &'static str {
        match self {
            Reason::Time => "time",
            Reason::Requested => "asked",
            Reason::Space => "space",
            Reason::Log => "log",
            Reason::Files => "files",
        }
    }
}

impl Lineage {
    /// Returns why unsettled edits should be settled; `None` when all are settled.
    pub(in crate::lineage) fn reason_to_settle(&self) -> Option<Reason> {
        let (retained, fast_retained, log_start): (u64, u64, _) = {
            let book = self.book();
            let ledger = &book.ledger;
            if ledger.settled() >= ledger.appended() {
                return None;
            }
            if ledger.settled() < book.wanted {
                return Some(Reason::Requested);
            }
            let fast_retained = ledger.inputs().map(Input::fast_bytes).sum();
            (ledger.inputs().map(Input::disk_bytes).sum(), fast_retained, ledger.log_start())
        };
        // An earlier poll of the journal does not make it commit.
        if self.backend.rule() == Rule::Commits {
            return Some(Reason::Time);
        }
        let is_too_much = self.is_too_much(retained) || self.is_too_much_fast(fast_retained);
        let log_waits = log_start.map_or(0, |mark| self.log_and_tables().log_bytes_before(mark));
        if is_too_much || self.rounds_for_space.load(Ordering::Relaxed) > 0 || self.is_low_on_space(retained) {
            Some(Reason::Space)
        } else if self.log_and_tables().unsynced_files() > self.unsynced_files_max {
            Some(Reason::Files)
        } else if log_waits > self.settling.log_bytes_max / 2 {
            Some(Reason::Log)
        } else {
            Some(Reason::Time)
        }
    }

    /// Returns whether the retained bytes are many, compared with the free space that the next compaction may need.
    pub(in crate::lineage) fn is_low_on_space(&self, retained: u64) -> bool {
        // The common case: nothing is retained, and no system call is needed.
        let free = || self.environment.storage.free_bytes(&self.root);
        retained > 0 && free().is_some_and(|free| retained > free / LOW_SPACE_PART)
    }

    /// Returns whether replaced tables take half of the space that they may take. Compactions fill the other half until
    /// the first half is released.
    pub(in crate::lineage) fn is_too_much(&self, retained: u64) -> bool {
        match self.settling.retained_bytes_max {
            Some(bytes) => retained > bytes / 2,
            None => retained > RETAINED_BYTES_FEW / 2 && retained > self.retained_bytes_default() / 2,
        }
    }

    /// Returns whether replaced fast tables are many, compared with the fast tier.
    pub(in crate::lineage) fn is_too_much_fast(&self, retained: u64) -> bool {
        self.settling.fast_retained_bytes_max.is_some_and(|most| retained > most)
    }

    /// Returns the share of the space for replaced tables that is in use, 1 at `retained_bytes_max`. Only tables that
    /// rounds and the remover will give back count, not those that a reader holds. A cap counts as at least
    /// [`RETAINED_BYTES_FEW`].
    pub(crate) fn retained_share(&self) -> f64 {
        let retained = {
            let book = self.book();
            book.ledger.inputs().map(Input::disk_bytes).sum::<u64>() + book.retained.disk_waiting_bytes()
        };
        let most = match self.settling.retained_bytes_max {
            Some(bytes) => bytes.max(RETAINED_BYTES_FEW),
            None if retained <= RETAINED_BYTES_FEW => RETAINED_BYTES_FEW,
            None => self.retained_bytes_default(),
        };
        retained as f64 / most as f64
    }

    /// Returns how many bytes may be retained if the builder does not say.
    fn retained_bytes_default(&self) -> u64 {
        let live = self.book().live_bytes();
        live.saturating_mul(4).clamp(RETAINED_BYTES_FEW, RETAINED_BYTES_MAX).max(live / 10)
    }
}
