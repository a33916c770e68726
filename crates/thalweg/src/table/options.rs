//! How tables are written and read: what the builder of a database sets.

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// LZ4 block format; a block that does not shrink by an eighth is stored as it is.
    Lz4,
}

/// Whether tables are written through the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableWrites {
    /// Through it while all tables of the database fit in the memory that the machine and the process's control groups
    /// leave for files, if the table is of level 2 or below, or somebody reads; past it (direct I/O) else.
    #[default]
    Automatic,
    /// Through it: what was written is in memory, as far as there is room, and whoever reads it need not wait for the
    /// device.
    PageCache,
    /// Past it: writing costs less processor time, and leaves the page cache to others.
    Direct,
}

/// How `get`, `multi_get` and ranges read tables that are in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableReads {
    /// From a shared mapping of the table's file, which takes no system call, while memory has room for it; see
    /// [`TableReads::Copied`] for what that asks of the process.
    ///
    /// A mapped page that cannot be read any more (its device fails, somebody cuts the file short) makes the kernel
    /// send `SIGBUS`. So the first mapping installs a handler for that signal, once for the process. It answers faults
    /// in the mappings of this library, so that the read becomes an error that names the file, and passes everything
    /// else on to the handler that was there before, or to the default.
    #[default]
    Automatic,
    /// By system calls only, and the block cache keeps copies. No handler is installed. For processes that install a
    /// handler of their own for `SIGBUS` after opening a database, without calling the one that was there, or whose
    /// reading threads block that signal.
    Copied,
}

/// How tables are written.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// A data block is closed once its entries reach this many bytes (before compression).
    pub(crate) block_bytes: usize,
    /// Of a level that `compression_per_level` does not name, because it is empty.
    pub(crate) compression: Compression,
    /// Of level 0, 1 and so on; the last also of all deeper ones.
    pub(crate) compression_per_level: Vec<Compression>,
    /// Bits a key of the table's filter; 0: no filter.
    pub(crate) filter_bits_per_key: u32,
    pub(crate) writes: TableWrites,
    pub(crate) reads: TableReads,
    /// Operations that the device may have at once before writes wait; see [`crate::runtime::Gate`].
    pub(crate) io_depth: usize,
}

impl TableOptions {
    /// How tables that are written for `level` are compressed.
    pub(crate) fn compression_of(&self, level: usize) -> Compression {
        let per_level = &self.compression_per_level;
        *per_level.get(level).or(per_level.last()).unwrap_or(&self.compression)
    }
}
