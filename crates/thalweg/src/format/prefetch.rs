//! [`prefetch`], [`prefetch_range`]: hints to the processor to load memory before it is needed. They change no result.

#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Prefetches the cache line at `address`. This memory need not exist.
#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program could see, and faults at no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Prefetches `bytes` bytes from `address` on. This memory need not exist.
#[inline]
pub(crate) fn prefetch_range<T>(address: *const T, bytes: usize) {
    let start = address.cast::<u8>();
    // Under Miri a prefetch does nothing, and the loop would only take time.
    let bytes = if cfg!(miri) { 0 } else { bytes };
    (0..bytes).step_by(LINE_BYTES).for_each(|at| prefetch(start.wrapping_add(at)));
}

/// The most bytes that are prefetched for the next record. Bytes beyond them do not stay in the cache for long enough.
const NEXT_BYTES_MAX: usize = 1 << 10;

/// Prefetches memory from `end` on, where the next record will be written, so that its stores need not wait for memory.
/// Records are mostly as long as the previous one, so this prefetches `bytes`, the length of the previous record, but
/// at most the `left` bytes of room.
#[inline]
pub(crate) fn prefetch_next(end: *const u8, bytes: usize, left: usize) {
    prefetch_range(end, bytes.min(left).min(NEXT_BYTES_MAX));
}
