//! [`TableOptions`]: how tables are written and read, as the builder of a database sets it.

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// LZ4 block format. A block that does not shrink by an eighth is stored as it is.
    Lz4,
}

/// Whether tables are written through the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableWrites {
    /// Through the page cache, if tables are being read, or if all tables have at most eight times the bytes that the
    /// machine and the process's control groups leave for files. Otherwise past it (direct I/O). The write-back of some
    /// tables of the upper levels waits for a settle round. Packs of a directory keyspace go through the page cache
    /// while all tables of the database fit into those bytes.
    #[default]
    Automatic,
    /// Through the page cache. As far as there is room, new tables are in memory, and reads of them need not wait for
    /// the device.
    PageCache,
    /// Past the page cache. Writing costs less processor time, and leaves the page cache to other files.
    Direct,
}

/// How `get`, `multi_get` and ranges read tables that are in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableReads {
    /// From a shared mapping of the table's file, which takes no system call, while memory has room for it.
    ///
    /// If a mapped page can no longer be read (its device fails, or another process truncates the file), the kernel
    /// sends `SIGBUS`. So the first mapping installs a handler for that signal, once for the process. The handler turns
    /// a fault in a mapping of this library into an error that names the file. It passes every other fault on to the
    /// handler that was installed before, or to the default. Processes that cannot have this handler use
    /// [`TableReads::Copied`].
    #[default]
    Automatic,
    /// By system calls only; the block cache keeps copies. No handler is installed. This is for processes that install
    /// their own handler for `SIGBUS` after opening a database without calling the previous one, and for processes
    /// whose reading threads block that signal.
    Copied,
}

/// How packs are written: for an index of directories or for an index of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PackWrites {
    /// For an index of directories.
    #[default]
    ByDirectory,
    /// For an index of items, as the PhatKV paper has it: no block crosses a boundary of 4 KiB, files are written in
    /// pieces of 4 KiB (PHAT-13), and there are no filters. The items are kept until the index has them.
    #[cfg_attr(not(feature = "experiments"), expect(dead_code, reason = "experiments alone choose it"))]
    ByItem,
}

/// How tables are written.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// A data block is closed once its entries reach this many bytes, before compression.
    pub(crate) block_bytes: usize,
    /// A block of a pack is closed once its items reach this many bytes.
    pub(crate) pack_block_bytes: usize,
    /// The compression of all levels, if `compression_per_level` is empty.
    pub(crate) compression: Compression,
    /// The compression of levels 0, 1 and so on. The last one is also that of all deeper levels.
    pub(crate) compression_per_level: Vec<Compression>,
    /// Bits per key of the table's filter. 0: no filter.
    pub(crate) filter_bits_per_key: u32,
    pub(crate) writes: TableWrites,
    /// Whether tables of the upper levels may be written to the device as late as at their sync.
    pub(crate) may_be_late: bool,
    pub(crate) pack_writes: PackWrites,
    pub(crate) reads: TableReads,
    /// The operations that the device may have at once before writes wait; see [`crate::runtime::Gate`].
    pub(crate) io_depth: usize,
    /// Whether a merge leaves its writes to the flush coroutine of its worker, or makes them itself.
    pub(crate) defers_writes: bool,
}

impl TableOptions {
    /// Returns the compression of tables of `level`.
    pub(crate) fn compression_of(&self, level: usize) -> Compression {
        let per_level = &self.compression_per_level;
        *per_level.get(level).or(per_level.last()).unwrap_or(&self.compression)
    }
}
