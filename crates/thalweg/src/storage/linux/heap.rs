//! The heap of the process.
//!
//! glibc keeps freed memory in the arena of the thread that allocated it: after a load of 20 million entries, 215 MiB
//! that no other thread can use and that the page cache cannot have. Other allocators give free memory back by
//! themselves; glibc's must be told.
//!
//! Locks: none of the engine's. The allocator locks one arena after the other, for a few milliseconds if there is much
//! to give back; other threads that allocate there wait meanwhile.
#![allow(unsafe_code)]

/// See [`crate::storage::Storage::trim_heap`].
pub(super) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes no pointer, is safe for threads, and gives back only pages that no allocation is on.
    unsafe {
        libc::malloc_trim(0);
    }
}
