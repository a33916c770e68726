//! [`SealedEntries`]: what a flush reads.

use crate::format::{EntryKind, SeqNo};

/// The entries of a buffer that takes no more inserts, in internal-key order.
pub(crate) trait SealedEntries: Send {
    /// Moves to the next entry, at the first call to the first one. Returns `false` after the last one; it is not
    /// called again then.
    fn advance(&mut self) -> bool;
    /// The key of the entry. This and the methods below require that the last `advance` returned `true`.
    fn key(&self) -> &[u8];
    fn seq(&self) -> SeqNo;
    fn kind(&self) -> EntryKind;
    fn value(&self) -> &[u8];
}
