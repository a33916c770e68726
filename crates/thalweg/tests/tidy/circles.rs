//! No circle of files: a file does not use a file that uses it, directly or through others.
//!
//! A file uses another if its imports or paths lead there. A path is followed through re-exports to the file that
//! defines the item. The `mod` and `pub use` lines of a `mod.rs` are no use of its children.

use crate::Violation;
use crate::paths::{Paths, Use};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many re-exports one path may lead through.
const HOPS_MAX: usize = 16;

/// The circles of a crate: the file where a circle begins, with the line of the import and the circle.
pub fn check(sources: &[&Source]) -> Vec<(String, Violation)> {
    Crate::new(sources).circles()
}

/// The production files of a crate and their modules.
struct Crate<'a> {
    files: Vec<File<'a>>,
    /// The file of each module by its path from the root.
    modules: BTreeMap<Vec<String>, usize>,
}

struct File<'a> {
    path: &'a str,
    module: Vec<String>,
    /// A `mod.rs` or the root of a crate.
    declares: bool,
    paths: Paths,
}

/// The files that a file uses, each with the line of the first use.
type Edges = BTreeMap<usize, usize>;

impl<'a> Crate<'a> {
    fn new(sources: &[&'a Source]) -> Crate<'a> {
        let mut files = Vec::new();
        let mut modules = BTreeMap::new();
        for source in sources {
            let Some((_, inner)) = source.path.split_once("src/").filter(|(_, inner)| !inner.starts_with("bin/"))
            else {
                continue;
            };
            let mut module: Vec<String> = inner.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            let declares = matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main"));
            if declares {
                module.pop();
            }
            modules.entry(module.clone()).or_insert(files.len());
            let paths = Paths::new(&source.code_outside_tests());
            files.push(File { path: &source.path, module, declares, paths });
        }
        Crate { files, modules }
    }

    /// The file that defines what the path names in `module`, and whether it names a module as a whole.
    fn resolve(&self, module: &[String], segments: &[String], hops: usize) -> Option<(usize, bool)> {
        let (first, mut rest) = segments.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module.split_last()?.1.to_vec(),
            _ => {
                rest = segments;
                module.to_vec()
            }
        };
        let named = rest.len() == segments.len();
        while let Some((next, after)) = rest.split_first() {
            if next == "super" {
                at.pop()?;
            } else if self.modules.contains_key(&[at.as_slice(), std::slice::from_ref(next)].concat()) {
                at.push(next.clone());
            } else if let Some(target) = self.import(&at, next) {
                let path = [target, after].concat();
                return if hops == 0 { None } else { self.resolve(&at, &path, hops - 1) };
            } else if named && rest.len() == segments.len() {
                // The name of an item here, of another crate, or of the language.
                return None;
            } else {
                return self.modules.get(&at).map(|file| (*file, false));
            }
            rest = after;
        }
        self.modules.get(&at).map(|file| (*file, true))
    }

    /// The path that an import of the module gives a name.
    fn import(&self, module: &[String], name: &str) -> Option<&[String]> {
        let file = &self.files[*self.modules.get(module)?];
        let import = file.paths.imports.iter().find(|import| import.name.as_deref() == Some(name))?;
        (import.segments.first().map(String::as_str) != Some(name)).then_some(&import.segments)
    }

    fn edges(&self, file: &File<'_>) -> Edges {
        let mut edges = Edges::new();
        let imports = file.paths.imports.iter().filter(|import| !(file.declares && import.exported));
        let imports = imports.map(|import| (import.line, &import.segments));
        let uses = file.paths.uses.iter().map(|Use { line, segments }| (*line, segments));
        for (line, segments) in imports.chain(uses) {
            let Some((target, whole)) = self.resolve(&file.module, segments, HOPS_MAX) else { continue };
            // A module of many files that is imported as a whole is used where its name stands in a path.
            let named_only = whole && self.files[target].declares;
            if !named_only && self.files[target].path != file.path {
                edges.entry(target).or_insert(line);
            }
        }
        edges
    }

    fn circles(&self) -> Vec<(String, Violation)> {
        let edges: Vec<Edges> = self.files.iter().map(|file| self.edges(file)).collect();
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut found = Vec::new();
        for start in 0..self.files.len() {
            let Some(circle) = shortest_circle(&edges, start).filter(|_| !seen.contains(&start)) else { continue };
            let knot = knot(&edges, start);
            seen.extend(&knot);
            let names: Vec<&str> = circle.iter().map(|file| self.files[*file].path).collect();
            let what = format!("a circle of files (of {} in a knot): {}", knot.len(), names.join(" → "));
            found.push((self.files[start].path.to_owned(), (edges[start][&circle[1]], what)));
        }
        found
    }
}

/// The shortest way from a file back to itself.
fn shortest_circle(edges: &[Edges], start: usize) -> Option<Vec<usize>> {
    let mut before = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for next in edges[file].keys() {
            if *next == start {
                let mut circle = vec![start, file];
                while circle.last() != Some(&start) {
                    circle.push(before[&circle[circle.len() - 1]]);
                }
                circle.reverse();
                return Some(circle);
            }
            if !before.contains_key(next) {
                before.insert(*next, file);
                queue.push_back(*next);
            }
        }
    }
    None
}

/// The files that `start` leads to and that lead back to it.
fn knot(edges: &[Edges], start: usize) -> BTreeSet<usize> {
    let reached = reach(edges, start);
    reached.into_iter().filter(|file| reach(edges, *file).contains(&start)).collect()
}

fn reach(edges: &[Edges], start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        open.extend(edges[file].keys().filter(|next| reached.insert(**next)));
    }
    reached
}
