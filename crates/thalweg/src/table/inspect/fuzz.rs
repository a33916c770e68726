//! Entry points for fuzzers: read any bytes as a block or a table file, in every way (packs: `fuzz_pack.rs`). They must
//! never panic or loop.

use crate::error::{Error, Result};
use crate::format::{Cursor, SeqNo, Slice};
use crate::storage::{DirectoryEntry, File, OpenMode, Storage, StorageLock};
use crate::table::format::block::{Block, BlockCursor};
use crate::table::read::file::TableFile;
use crate::table::read::table::Table;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Reads `bytes` as the content of a data block, forward, backward and by seeks.
pub(crate) fn fuzz_block(bytes: &[u8]) {
    let Ok(block) = Block::parse(Slice::from(bytes)) else { return };
    let _ = block.check_restarts();
    let mut cursor = BlockCursor::new(block);
    let mut keys = vec![(Vec::new(), SeqNo::MAX), (vec![0xff; 8], SeqNo(0))];
    let mut moved = cursor.seek_to_first();
    while moved.is_ok() && cursor.valid() {
        let _ = cursor.value();
        if keys.len() < 64 {
            keys.push((cursor.key().to_vec(), cursor.seq()));
        }
        moved = cursor.next();
    }
    let mut moved = cursor.seek_to_last();
    while moved.is_ok() && cursor.valid() {
        moved = cursor.prev();
    }
    for (key, seq) in keys {
        let _ = cursor.seek(&key, seq);
        let _ = cursor.seek_before(&key, seq);
    }
}

/// Reads `bytes` as a table file, once with its checksums verified and once without.
pub(crate) fn fuzz_table(bytes: &[u8]) {
    for verify in [true, false] {
        let file = Arc::new(Bytes(Arc::from(bytes)));
        let storage = Arc::new(OneFile(Arc::clone(&file)));
        let Ok(table_file) = TableFile::open(file, verify) else { continue };
        let table = Table::of(storage, table_file);
        read_everything(&table);
    }
}

fn read_everything(table: &Arc<Table>) {
    let mut cursor = table.cursor();
    let mut keys = vec![(Vec::new(), SeqNo::MAX), (vec![0xff; 8], SeqNo(0))];
    let mut moved = cursor.seek_to_first();
    while moved.is_ok() && cursor.valid() {
        if keys.len() < 64 {
            keys.push((cursor.key().to_vec(), cursor.seq()));
        }
        moved = cursor.next();
    }
    let mut moved = cursor.seek_to_last();
    while moved.is_ok() && cursor.valid() {
        moved = cursor.prev();
    }
    for (key, seq) in keys {
        let _ = table.get(&key, seq);
        let _ = cursor.seek(&key, seq);
        let _ = cursor.seek_before(&key, seq);
    }
}

/// A file in memory.
pub(super) struct Bytes(pub(super) Arc<[u8]>);

fn refused<T>(operation: &'static str) -> Result<T> {
    Err(Error::io(operation, Path::new("fuzzed"), io::Error::from(io::ErrorKind::Unsupported)))
}

impl File for Bytes {
    fn path(&self) -> &Path {
        Path::new("fuzzed")
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..read), rest.get(..read)) {
            to.copy_from_slice(from);
        }
        Ok(read)
    }
    fn write_all_at(&self, _: u64, _: &[u8]) -> Result<()> {
        refused("write")
    }
    fn sync(&self) -> Result<()> {
        refused("sync")
    }
    fn bytes(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn set_bytes(&self, _: u64) -> Result<()> {
        refused("truncate")
    }
}

/// A storage in which every name is that of one file.
pub(super) struct OneFile(pub(super) Arc<Bytes>);

impl Storage for OneFile {
    fn create(&self, _: &Path) -> Result<Arc<dyn File>> {
        refused("create")
    }
    fn open(&self, _: &Path, _: OpenMode) -> Result<Option<Arc<dyn File>>> {
        Ok(Some(Arc::clone(&self.0) as Arc<dyn File>))
    }
    fn file_bytes(&self, _: &Path) -> Result<Option<u64>> {
        Ok(None)
    }
    fn list(&self, _: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        Ok(None)
    }
    fn create_directory(&self, _: &Path) -> Result<()> {
        refused("create")
    }
    fn remove(&self, _: &Path) -> Result<()> {
        refused("remove")
    }
    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        refused("rename")
    }
    fn hard_link(&self, _: &Path, _: &Path) -> Result<bool> {
        Ok(false)
    }
    fn sync_directory(&self, _: &Path) -> Result<()> {
        refused("sync")
    }
    fn lock(&self, _: &Path, _: bool) -> Result<Box<dyn StorageLock>> {
        unreachable!("fuzzers lock nothing")
    }
}
