//! [`Book`]: the data under the lock of an open lineage.

use super::manifest::write::Begun;
use super::removal::retained::{Input, Retained};
use super::settle::ledger::Ledger;
use super::state::edit::Edit;
use super::state::live::State;
use super::state::undo::TakeBack;
use crate::error::Error;
use crate::format::EditId;
use crate::runtime::BackgroundFile;

/// The bytes by which a manifest must grow before it is replaced; it must also grow to four times its first length. So
/// a few hundred edits share the four syncs of a new manifest.
const ROTATION_BYTES: u64 = 64 << 10;

/// The edits, the manifest in force, and the tables that were replaced.
pub(super) struct Book {
    /// The state after all edits, settled or not.
    pub(super) state: State,
    /// The bytes of the tables of `state` on the disk, each table counted once.
    live_bytes: u64,
    /// Takes the last edit of `state` back. Set while that edit is being appended.
    pub(super) tentative: Option<TakeBack>,
    pub(super) ledger: Ledger<Input>,
    /// The inputs of settled edits.
    pub(super) retained: Retained,
    pub(super) open: OpenManifest,
    /// The number of the next manifest.
    pub(super) next_number: u64,
    pub(super) rotation_bytes: u64,
    /// The last edit that a caller waits for until it is settled.
    pub(super) wanted: EditId,
    /// The last poll of the journal, for [`super::settle::backend::Rule::Commits`].
    pub(super) poll: Option<Poll>,
    /// How often settling failed without poisoning.
    pub(super) failures: u64,
    /// The last of these failures.
    pub(super) failure: Option<Error>,
    /// Whether the `closed` record was written. No record may follow it.
    pub(super) is_closed: bool,
}

/// The manifest in force.
pub(super) struct OpenManifest {
    pub(super) file: BackgroundFile,
    pub(super) number: u64,
    pub(super) generation: u64,
    /// Where the next record begins.
    pub(super) end: u64,
    /// The manifest is replaced when it is longer than this.
    pub(super) rotate_at: u64,
}

/// One reading of the journal's commit counter, with the last edit and the end of the manifest at that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) commits: u64,
    pub(super) appended: EditId,
    /// The number and length of the manifest.
    pub(super) manifest: u64,
    pub(super) end: u64,
}

impl Book {
    /// Creates the book of a lineage. Everything in `state` is settled, in the manifest `begun`.
    pub(super) fn new(state: State, begun: Begun) -> Self {
        let next_number = begun.header.number + 1;
        Book {
            ledger: Ledger::new(state.clone(), begun.bytes),
            live_bytes: disk_bytes(&state),
            state,
            tentative: None,
            retained: Retained::default(),
            open: OpenManifest::new(begun, ROTATION_BYTES),
            next_number,
            rotation_bytes: ROTATION_BYTES,
            wanted: EditId(0),
            poll: None,
            failures: 0,
            failure: None,
            is_closed: false,
        }
    }

    /// Returns the bytes of all live tables on the disk, each counted once. Pacing asks for it.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Appends an edit, which `state` already includes, to the ledger. `gone`: inputs that no partition names after it.
    pub(super) fn append(&mut self, id: EditId, edit: Edit, end: u64, gone: Vec<Input>, now_ns: u64) {
        let gone_bytes: u64 = gone.iter().map(Input::disk_bytes).sum();
        self.live_bytes = (self.live_bytes + edit.output_disk_bytes()).saturating_sub(gone_bytes);
        self.ledger.append(id, edit, end, gone, now_ns);
        // Unit tests pass inputs for which no table exists.
        #[cfg(not(test))]
        debug_assert_eq!(self.live_bytes, disk_bytes(&self.state), "what is counted is what there is");
    }
}

fn disk_bytes(state: &State) -> u64 {
    state.distinct_tables().map(|meta| meta.bytes).sum()
}

impl OpenManifest {
    /// Returns the manifest `begun`, to be replaced once it has grown by `rotation_bytes` and to four times its length.
    pub(super) fn new(begun: Begun, rotation_bytes: u64) -> Self {
        OpenManifest {
            file: BackgroundFile::new(begun.file),
            number: begun.header.number,
            generation: begun.header.generation,
            end: begun.bytes,
            rotate_at: begun.bytes.saturating_add(rotation_bytes).max(begun.bytes.saturating_mul(4)),
        }
    }
}
