//! The manifest: its bytes, and the files it lies in.

pub(super) mod check;
pub(super) mod checkpoint;
pub(super) mod current;
pub(super) mod dump;
pub(super) mod fragments;
pub(super) mod reader;
pub(super) mod record;
pub(super) mod write;
