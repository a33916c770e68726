//! [`Descriptor`]: where an item is: the slot of its pack, the place of its block, and its number in the block.
//!
//! A descriptor has 48 bits. The other 16 of its 8 bytes belong to the bucket that it is in (PHAT-A1).

/// The bits of the slot of a pack, of the place of a block, and of the number of an item.
const PACK_BITS: u32 = 12;
const PLACE_BITS: u32 = 26;
const ITEM_BITS: u32 = 10;

const _: () = assert!(PACK_BITS + PLACE_BITS + ITEM_BITS == BITS);

/// The bits of a descriptor.
pub(super) const BITS: u32 = 48;

/// The place of an item; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::directory) struct Descriptor(u64);

impl Descriptor {
    /// The descriptor of an item of a block at `place`, in units of 8 bytes. `None` if the pack is the 4 097th, the
    /// block lies beyond 512 MiB, or the block has 1 024 items before this one.
    pub(in crate::directory) fn new(pack: u32, place: u32, item: usize) -> Option<Descriptor> {
        let (pack, place, item) = (u64::from(pack), u64::from(place), item as u64);
        let fits = pack >> PACK_BITS == 0 && place >> PLACE_BITS == 0 && item >> ITEM_BITS == 0;
        fits.then_some(Descriptor(pack << (PLACE_BITS + ITEM_BITS) | place << ITEM_BITS | item))
    }

    /// The slot of the pack.
    pub(in crate::directory) fn pack(self) -> u32 {
        (self.0 >> (PLACE_BITS + ITEM_BITS)) as u32
    }

    /// The offset of the block in the pack, in units of 8 bytes.
    pub(in crate::directory) fn place(self) -> u32 {
        (self.0 >> ITEM_BITS) as u32 & ((1 << PLACE_BITS) - 1)
    }

    /// The number of the item in the block.
    pub(in crate::directory) fn item(self) -> usize {
        self.0 as usize & ((1 << ITEM_BITS) - 1)
    }

    /// Its bits, the highest 16 of which are 0.
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// The descriptor with these bits; the highest 16 do not count.
    pub(super) fn from_bits(bits: u64) -> Descriptor {
        Descriptor(bits & ((1 << BITS) - 1))
    }
}
