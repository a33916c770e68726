//! All workloads, by name.

use super::{Definition, metadata, numbered, prefix_dist, retail, ycsb};

/// Every workload, in the order of `bench list`.
pub fn all() -> impl Iterator<Item = &'static Definition> {
    [numbered::DEFINITIONS, ycsb::DEFINITIONS, metadata::DEFINITIONS, retail::DEFINITIONS, prefix_dist::DEFINITIONS]
        .into_iter()
        .flatten()
}

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Definition> {
    all().find(|definition| definition.name == name)
}

/// The workloads of a family name, in the order in which they are to run.
pub fn expand(name: &str) -> Option<&'static [&'static str]> {
    families().find(|(family, _)| *family == name).map(|(_, members)| members)
}

/// Every family name with its workloads.
pub fn families() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    [("db_bench", DB_BENCH), ("ycsb", YCSB), ("metadata", metadata::FAMILY)].into_iter()
}

/// First the workloads that begin with an empty database, the random fill last. Then those that read its data, those
/// that write to it, and finally those that remove from it.
const DB_BENCH: &[&str] = &[
    "fillseq",
    "fillsync",
    "fillrandom",
    "readseq",
    "readrandom",
    "readmissing",
    "seekrandom",
    "overwrite",
    "readwhilewriting",
    "deleterandom",
];

/// YCSB's own order: D, which inserts, is the last but one, and E is left to the end.
const YCSB: &[&str] = &["ycsb-load", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d", "ycsb-e"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_loads_load_what_is_needed() {
        let mut names = HashSet::new();
        for definition in all() {
            assert!(names.insert(definition.name), "{}", definition.name);
            let load = find(definition.load).unwrap();
            assert_eq!(load.load, load.name, "{} is loaded by what needs a load itself", definition.name);
            assert_eq!(load.dataset, definition.dataset, "{}", definition.name);
            assert!(load.defaults.seconds.is_none(), "{} would be cut short", load.name);
        }
    }

    #[test]
    fn a_family_consists_of_workloads_and_a_workload_is_no_family() {
        for (family, members) in families() {
            assert!(find(family).is_none(), "{family}");
            assert_eq!(expand(family), Some(members));
            for member in members {
                assert!(find(member).is_some() && expand(member).is_none(), "{member}");
            }
        }
        assert_eq!(expand("nothing"), None);
    }
}
