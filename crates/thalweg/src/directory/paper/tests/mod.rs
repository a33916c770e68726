//! F-hashes against maps.

mod f_cache;
mod image;
