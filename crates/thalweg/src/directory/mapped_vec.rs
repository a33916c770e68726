//! [`MappedVec`]: a vector whose memory goes back to the system when the vector is dropped.
//!
//! Lists of spans grow to hundreds of megabytes between two merges, and another thread drops them. In the allocator
//! they would lie among blocks that live on: their memory would stay, and be missing for tables. The same is true of
//! the tables of an index, which all grow at about the same time. So a vector of more than [`SMALL_BYTES_MAX`] has a
//! mapping of its own. A vector that does not grow has one if it has at least [`FILLED_BYTES_MIN`].
//!
//! Invariants: `len <= capacity`; the first `len` elements of the memory are initialised. Locks: none.

#![cfg_attr(all(target_os = "linux", not(miri)), allow(unsafe_code))]

use std::ops::{Deref, DerefMut};

/// A smaller vector is left to the allocator: a mapping has 4 KiB at least.
const SMALL_BYTES_MAX: usize = 2 << 10;

/// A smaller vector that does not grow is left to the allocator: the half of a page that a mapping leaves unused would
/// be more than a thirtieth of it.
const FILLED_BYTES_MIN: usize = 64 << 10;

/// A vector whose memory goes back to the system when it is dropped; see the module.
pub(super) struct MappedVec<T> {
    /// The elements, while they are few.
    small: Vec<T>,
    #[cfg(all(target_os = "linux", not(miri)))]
    mapping: Option<mapping::Mapping<T>>,
}

impl<T> Default for MappedVec<T> {
    fn default() -> Self {
        MappedVec {
            small: Vec::new(),
            #[cfg(all(target_os = "linux", not(miri)))]
            mapping: None,
        }
    }
}

impl<T: Copy> MappedVec<T> {
    /// A vector of `count` elements that equal `element`. It has no room for more elements than fit into its last page.
    pub(super) fn filled(element: T, count: usize) -> Self {
        #[cfg(all(target_os = "linux", not(miri)))]
        if count * size_of::<T>() >= FILLED_BYTES_MIN
            && let Some(mapping) = mapping::Mapping::filled(element, count)
        {
            return MappedVec { small: Vec::new(), mapping: Some(mapping) };
        }
        MappedVec { small: vec![element; count], ..MappedVec::default() }
    }

    /// Appends an element.
    pub(super) fn push(&mut self, element: T) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            if self.mapping.is_none() && (self.small.len() + 1) * size_of::<T>() > SMALL_BYTES_MAX {
                self.mapping = mapping::Mapping::of(&self.small);
                if self.mapping.is_some() {
                    self.small = Vec::new();
                }
            }
            if let Some(mapping) = &mut self.mapping {
                return mapping.push(element);
            }
        }
        if self.small.len() == self.small.capacity() {
            self.small.reserve_exact((self.small.len() / 2).max(4));
        }
        self.small.push(element);
    }

    /// The bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(mapping) = &self.mapping {
            return mapping.bytes();
        }
        self.small.capacity() * size_of::<T>()
    }
}

impl<T> Deref for MappedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(mapping) = &self.mapping {
            return mapping.elements();
        }
        &self.small
    }
}

impl<T> DerefMut for MappedVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(mapping) = &mut self.mapping {
            return mapping.elements_mut();
        }
        &mut self.small
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod mapping {
    use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};
    use std::ptr::NonNull;

    const PAGE_BYTES: usize = 4 << 10;

    /// Elements in anonymous memory.
    pub(super) struct Mapping<T> {
        memory: NonNull<T>,
        len: usize,
        bytes: usize,
    }

    // SAFETY: the memory is owned, and of no thread.
    unsafe impl<T: Send> Send for Mapping<T> {}
    // SAFETY: a shared mapping of memory is read only.
    unsafe impl<T: Sync> Sync for Mapping<T> {}

    impl<T: Copy> Mapping<T> {
        /// A mapping with these elements and room for more. `None` where the kernel refuses one.
        pub(super) fn of(elements: &[T]) -> Option<Self> {
            let mut mapping = Self::with_room(size_of_val(elements) + 1)?;
            elements.iter().for_each(|element| mapping.push(*element));
            Some(mapping)
        }

        /// A mapping with equal elements. `None` where the kernel refuses one.
        pub(super) fn filled(element: T, count: usize) -> Option<Self> {
            let mut mapping = Self::with_room((count * size_of::<T>()).max(1))?;
            (0..count).for_each(|_| mapping.push(element));
            Some(mapping)
        }

        /// An empty mapping with room for `bytes` bytes, at least one.
        fn with_room(bytes: usize) -> Option<Self> {
            const { assert!(size_of::<T>() > 0 && align_of::<T>() <= PAGE_BYTES) };
            let bytes = bytes.next_multiple_of(PAGE_BYTES);
            let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new mapping where the kernel likes overlaps nothing.
            let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, flags.0, flags.1) };
            Some(Mapping { memory: NonNull::new(memory.ok()?.cast::<T>())?, len: 0, bytes })
        }

        pub(super) fn push(&mut self, element: T) {
            if (self.len + 1) * size_of::<T>() > self.bytes {
                self.grow();
            }
            // SAFETY: the element lies within the mapping, which begins at a page and is owned.
            unsafe { self.memory.add(self.len).write(element) };
            self.len += 1;
        }

        /// Grows by a quarter.
        #[cold]
        fn grow(&mut self) {
            let bytes = (self.bytes + (self.bytes / 4).max(size_of::<T>())).next_multiple_of(PAGE_BYTES);
            // SAFETY: the mapping is owned, and nothing refers to its elements while it is borrowed mutably.
            let memory = unsafe { mremap(self.memory.as_ptr().cast(), self.bytes, bytes, MremapFlags::MAYMOVE) };
            match memory.ok().and_then(|memory| NonNull::new(memory.cast::<T>())) {
                Some(memory) => (self.memory, self.bytes) = (memory, bytes),
                None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<T>()),
            }
        }

        pub(super) fn bytes(&self) -> usize {
            self.bytes
        }
    }

    impl<T> Mapping<T> {
        #[inline]
        pub(super) fn elements(&self) -> &[T] {
            // SAFETY: the first `len` elements are initialised, and nobody changes them while this is borrowed.
            unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
        }

        #[inline]
        pub(super) fn elements_mut(&mut self) -> &mut [T] {
            // SAFETY: as above, and nobody else refers to them.
            unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
        }
    }

    impl<T> Drop for Mapping<T> {
        fn drop(&mut self) {
            // SAFETY: the mapping is owned, and nothing refers to it any more. It fails only where the kernel has no
            // room for the bookkeeping: then the memory stays.
            let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_as_the_vector_grows() {
        for count in [0, 1, 127, 128, 129, 1000, 5000] {
            let mut vector = MappedVec::default();
            (0..count).for_each(|number: u64| vector.push((number, !number)));
            assert!((0..count).all(|number| vector[number as usize] == (number, !number)));
            assert_eq!(vector.len() as u64, count);
            assert!((count * 16..=count * 20 + 4096).contains(&(vector.bytes() as u64)), "{count}: {}", vector.bytes());
            let filled = MappedVec::filled((7, 8), count as usize);
            assert!(filled.len() as u64 == count && filled.iter().all(|element: &(u64, u64)| *element == (7, 8)));
            assert!((count * 16..=count * 16 + 4096).contains(&(filled.bytes() as u64)), "{count}: {}", filled.bytes());
            vector.iter_mut().for_each(|element| element.0 += 1);
            assert_eq!(vector.iter().map(|element| element.0).sum::<u64>(), count * (count + 1) / 2);
        }
    }
}
