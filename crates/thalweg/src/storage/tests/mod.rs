//! Tests of the disk seam.

mod contract;
mod defaults;
mod descriptors;
mod directory;

pub(super) use directory::TestDirectory;
