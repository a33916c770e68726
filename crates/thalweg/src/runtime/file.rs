//! [`BackgroundFile`]: a file as background coroutines use it.
//!
//! Each call is a point where the coroutine gives way, before and after. Today the call itself blocks its worker; the
//! ring (io_uring) will take its place behind the same functions.

use super::yield_now;
use crate::error::Result;
use crate::storage::File;
use std::path::Path;
use std::sync::Arc;

/// A file with asynchronous reads, writes and syncs.
#[derive(Clone)]
pub(crate) struct BackgroundFile {
    file: Arc<dyn File>,
}

impl BackgroundFile {
    pub(crate) fn new(file: Arc<dyn File>) -> Self {
        BackgroundFile { file }
    }

    /// The file itself, for foreground use.
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Fills `buffer` from `offset`; corruption when the file ends before.
    pub(crate) async fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        yield_now().await;
        self.file.read_exact_at(offset, buffer)
    }

    /// Writes all of `bytes` at `offset`.
    pub(crate) async fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        yield_now().await;
        self.file.write_all_at(offset, bytes)?;
        yield_now().await;
        Ok(())
    }

    /// Makes bytes and length durable.
    pub(crate) async fn sync(&self) -> Result<()> {
        yield_now().await;
        self.file.sync()?;
        yield_now().await;
        Ok(())
    }
}
