//! How the files of replaced tables go.

pub(super) mod remover;
pub(super) mod retained;
