//! Removes replaced tables and their files (`docs/durability.md`, How replaced tables go).
//!
//! - `retained`: the inputs of settled edits. Pure.
//! - `pace`: spreads the removal of files over time. Pure.
//! - `remover`: the coroutine that drops handles and removes files.

mod pace;
pub(super) mod remover;
pub(super) mod retained;
