//! The keyspaces and keys that simulated clients use.

use crate::rng::Rng;

/// A keyspace that every simulation has, and the split points of its partitions.
pub struct Stable {
    /// Its name.
    pub name: &'static str,
    /// The first keys of its partitions.
    pub splits: &'static [&'static [u8]],
}

/// The keyspaces that stay. The last one is cold: it is written rarely, so that it pins the log.
pub const STABLE: [Stable; 3] = [
    Stable { name: "k0", splits: &[] },
    Stable { name: "k1", splits: &[b"c0/02", b"c1", b"c2/\xff", b"s"] },
    Stable { name: "k2", splits: &[b"c1"] },
];

/// The temporary keyspaces: client 0 creates and drops them, and all clients use them.
pub const TEMPORARY: [&str; 2] = ["t0", "t1"];

/// The directory keyspace, in the plans that have one.
pub const FILES: &str = "files";

/// Its directories.
pub const DIRECTORIES: u64 = 4;

/// The directory in which the entry of a key lies. Most keys are in the first one.
pub fn directory_of(key: &[u8]) -> u64 {
    let sum: u64 = key.iter().map(|byte| u64::from(*byte)).sum();
    if sum.is_multiple_of(2) { 0 } else { sum / 2 % DIRECTORIES }
}

/// The oracle's name of a temporary keyspace. Each created keyspace has its own name there, so that a read that began
/// before the drop can still be checked.
pub fn incarnation(name: &str, number: u32) -> String {
    format!("{name}#{number}")
}

/// The database's name of a keyspace with this name in the oracle.
pub fn name_of(incarnation: &str) -> &str {
    incarnation.split('#').next().unwrap_or(incarnation)
}

/// Key `number` of a scope. Scopes with different names share no key. Some keys are long, some have unusual bytes.
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

/// The scope to which only one client writes.
pub fn own_scope(client: usize) -> String {
    format!("c{client}")
}

/// The scope to which all clients write.
pub const SHARED: &str = "s";

/// The scope of twins: keys that are always written together in two keyspaces, with the same value.
pub const TWINS: &str = "t";

/// Whether a key is in the scope of twins.
pub fn is_twin(key: &[u8]) -> bool {
    key.starts_with(b"t/")
}

/// A random scope, mostly the client's own.
pub fn scope(rng: &mut Rng, client: usize) -> String {
    if rng.one_in(5) { SHARED.into() } else { own_scope(client) }
}
