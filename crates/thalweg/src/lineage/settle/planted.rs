//! The behaviour of some planted bugs, in place of the correct behaviour (`docs/testing.md`).

use crate::error::Result;
use crate::format::{EditId, TableFile};
use crate::lineage::open::Lineage;

impl Lineage {
    /// Releases the log of an edit that is not settled.
    pub(in crate::lineage) fn let_log_go_unsettled(&self) {
        let log_start = self.book().state.log_start;
        self.log_and_tables().settled(EditId(0), Some(log_start));
    }

    /// Unlinks the inputs of an edit, whether it is settled or not.
    pub(in crate::lineage) fn unlink_inputs(&self, id: EditId) {
        let inputs = self.book().ledger.take_inputs(id);
        inputs.iter().for_each(|input| drop(self.log_and_tables().remove(input.file)));
    }

    /// Makes the outputs of an edit durable only after its inputs are gone.
    pub(in crate::lineage) async fn prepare_late(
        &self,
        id: EditId,
        tables: &[TableFile],
        is_flush: bool,
    ) -> Result<()> {
        self.unlink_inputs(id);
        self.backend.prepare(self.unsynced(tables.iter().copied()), is_flush).await
    }

    /// Syncs the manifest of a round before the outputs of the round are durable.
    pub(in crate::lineage) async fn sync_manifest_early(&self, target: EditId) -> Result<()> {
        self.book().ledger.make_sound(target);
        self.sync_manifest_after(None).await
    }
}
