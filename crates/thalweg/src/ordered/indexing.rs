//! [`Indexing`]: adds the packs of an edit of a directory keyspace to its index. Does nothing for an ordered keyspace.
//!
//! Outputs enter the index before the edit takes their entries out of the memtables or the inputs. Inputs leave the
//! index afterwards. So every entry is found at any time.

use crate::directory::DirectoryIndex;
use crate::error::Result;
use crate::format::TableId;
use crate::planted::{Bug, planted};
use crate::table::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
pub(super) struct Indexing<'a> {
    index: Option<&'a Arc<DirectoryIndex>>,
    outputs: Vec<Arc<Table>>,
    replaced: Vec<TableId>,
    is_applied: AtomicBool,
}

impl<'a> Indexing<'a> {
    /// The indexing of `outputs`, for an edit that replaces the tables `replaced`.
    pub(super) fn new(index: Option<&'a Arc<DirectoryIndex>>, outputs: &[Arc<Table>], replaced: Vec<TableId>) -> Self {
        let outputs = if index.is_some() { outputs.to_vec() } else { Vec::new() };
        Indexing { index, outputs, replaced, is_applied: AtomicBool::new(false) }
    }

    /// Adds the outputs to the index. Called before the install.
    pub(super) async fn begin(&self) -> Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        if planted(Bug::InputsLeaveIndexFirst) {
            index.remove(&self.replaced).await;
        }
        if planted(Bug::MemtableBeforeIndex) && self.replaced.is_empty() {
            return Ok(());
        }
        for pack in &self.outputs {
            index.add(pack).await?;
        }
        #[cfg(feature = "experiments")]
        index.change_f_hashes(&self.outputs, &self.replaced).await;
        Ok(())
    }

    /// Notes that the edit is in force.
    pub(super) fn applied(&self) {
        self.is_applied.store(true, Ordering::Relaxed);
    }

    /// Removes the outputs from the index again, unless the edit was in force: then the memtable or the inputs are
    /// gone, and only the outputs have their entries. Called after an install that failed. Returns the outputs that a
    /// reader may have found.
    pub(super) fn undo(self) -> Vec<Arc<Table>> {
        if let Some(index) = self.index.filter(|_| !self.is_applied.load(Ordering::Relaxed)) {
            let outputs: Vec<TableId> = self.outputs.iter().map(|pack| pack.meta().id).collect();
            #[cfg(feature = "experiments")]
            index.lose_f_hashes(&[outputs.as_slice(), &self.replaced].concat());
            index.remove_now(&outputs);
        }
        self.outputs
    }

    /// Removes the replaced tables from the index. Called after the install.
    pub(super) async fn finish(self) -> Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        if planted(Bug::MemtableBeforeIndex) && self.replaced.is_empty() {
            for pack in &self.outputs {
                index.add(pack).await?;
            }
        }
        if planted(Bug::InputsLeaveOneByOne) {
            for input in self.replaced.iter().rev() {
                index.remove(&[*input]).await;
            }
        } else if !self.replaced.is_empty() {
            index.remove(&self.replaced).await;
        }
        Ok(())
    }
}
