//! [`Spot`], [`Value`]: the keys and values that the oracle compares, and their words for reports.

use std::sync::Arc;

/// A keyspace's name and a key in it.
pub type Spot = (Arc<str>, Vec<u8>);

/// The value that a read gave or a write left; `None` when there is no such key.
pub type Value = Option<Arc<[u8]>>;

/// Bytes of the token that makes a value unique.
pub const TOKEN_BYTES: usize = 12;

/// Whether no other write has this value.
pub fn is_unique(value: &Value) -> bool {
    value.as_ref().is_some_and(|value| value.len() >= TOKEN_BYTES)
}

/// A value in words.
pub fn describe(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) => match value.first_chunk::<TOKEN_BYTES>() {
            Some(token) => {
                let number = |at: usize| u32::from_le_bytes([token[at], token[at + 1], token[at + 2], token[at + 3]]);
                format!("value {}.{}.{} of {} bytes", number(0), number(4), number(8), value.len())
            }
            None => format!("{value:02x?}"),
        },
    }
}

/// A key in words.
pub fn describe_spot(spot: &Spot) -> String {
    format!("{}/{}", spot.0, spot.1.escape_ascii())
}
