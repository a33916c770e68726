//! Tests of what all kinds of keyspaces share: a sketch of a second kind, beside the ordered one, must be able to live
//! on it alone.

mod map_keyspace;
mod second_kind;
mod shared_pace;
mod world;
