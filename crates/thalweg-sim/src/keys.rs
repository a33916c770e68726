//! The keyspaces and keys that simulated clients use.

use crate::rng::Rng;

/// A keyspace that every simulation has, and the split points of its partitions.
pub struct Stable {
    /// Its name.
    pub name: &'static str,
    /// Where partitions begin.
    pub splits: &'static [&'static [u8]],
}

/// The keyspaces that stay. The last one is cold: written once in a while, so that it pins the log.
pub const STABLE: [Stable; 3] = [
    Stable { name: "k0", splits: &[] },
    Stable { name: "k1", splits: &[b"c0/02", b"c1", b"c2/\xff", b"s"] },
    Stable { name: "k2", splits: &[b"c1"] },
];

/// The keyspaces that come and go: client 0 creates and drops them, all use them.
pub const TEMPORARY: [&str; 2] = ["t0", "t1"];

/// What the oracle calls a temporary keyspace: each that is created has a name of its own there, so that a read that
/// began before the drop can still be judged.
pub fn incarnation(name: &str, number: u32) -> String {
    format!("{name}#{number}")
}

/// What the database calls a keyspace that the oracle has this name for.
pub fn name_of(incarnation: &str) -> &str {
    incarnation.split('#').next().unwrap_or(incarnation)
}

/// Key `number` in some scope; scopes with different names share no key. Some are long, some hold odd bytes.
pub fn key(scope: &str, number: u64) -> Vec<u8> {
    let mut key = format!("{scope}/{number:02}").into_bytes();
    match number % 7 {
        3 => key.extend_from_slice(&[b'x'; 90]),
        4 => key.extend_from_slice(b"\0"),
        5 => key.extend_from_slice(b"\xff\xff"),
        _ => {}
    }
    key
}

/// The scope that only one client writes to.
pub fn own_scope(client: usize) -> String {
    format!("c{client}")
}

/// The scope that all write to.
pub const SHARED: &str = "s";

/// The scope of twins: keys that are always written together in two keyspaces, with one value.
pub const TWINS: &str = "t";

/// A scope by chance, mostly the client's own.
pub fn scope(rng: &mut Rng, client: usize) -> String {
    if rng.one_in(5) { SHARED.into() } else { own_scope(client) }
}
