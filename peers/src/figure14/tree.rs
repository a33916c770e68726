//! [`Tree`]: a tree of directories as file systems have them.
//!
//! A new directory becomes a child of directory `d` with a probability proportional to the number of `d`'s
//! subdirectories plus two: the model that fits the directories of 60 000 file systems (Agrawal, Bolosky, Douceur,
//! Lorch, "A Five-Year Study of File-System Metadata", FAST 2007). Parents at the greatest depth are drawn again.

use thalweg_bench::distribution::{Permutation, scrambled};

/// Directories, numbered from 1 in depth-first order, each after its parent. The root is number 0.
pub struct Tree {
    parents: Vec<u32>,
    names: Permutation,
}

impl Tree {
    /// A tree of `count` directories below the root, at most `depth_max` deep.
    pub fn new(count: u32, depth_max: u8, seed: u64) -> Tree {
        let parents = depth_first(&grown(count, depth_max, seed));
        Tree { parents, names: Permutation::new(1 << 32, seed) }
    }

    /// How many directories are below the root.
    pub fn count(&self) -> u32 {
        u32::try_from(self.parents.len() - 1).unwrap_or(u32::MAX)
    }

    /// The directory that a directory is in.
    pub fn parent(&self, directory: u32) -> u32 {
        self.parents[directory as usize]
    }

    /// The name of a directory, or of a file with this number.
    pub fn name(&self, number: u64) -> String {
        format!("{:08x}", self.names.number(number))
    }

    /// The path of a directory, without a slash at its end.
    pub fn path(&self, mut directory: u32) -> String {
        let mut ancestors = Vec::with_capacity(20);
        while directory != 0 {
            ancestors.push(directory);
            directory = self.parent(directory);
        }
        let mut path = String::with_capacity(9 * ancestors.len() + 10);
        for directory in ancestors.into_iter().rev() {
            path.push('/');
            path.push_str(&self.name(u64::from(directory)));
        }
        path
    }

    #[cfg(test)]
    fn depth(&self, directory: u32) -> usize {
        self.path(directory).len() / 9
    }
}

/// The parents of directories in the order in which they grow.
fn grown(count: u32, depth_max: u8, seed: u64) -> Vec<u32> {
    let (mut parents, mut depths) = (vec![0_u32], vec![0_u8]);
    let mut draw = scrambled(seed);
    for new in 1..=u64::from(count) {
        loop {
            draw = scrambled(draw);
            // Each directory counts twice, and once more for each subdirectory.
            let place = draw % (2 * new + (new - 1));
            let parent = if place < 2 * new { place / 2 } else { u64::from(parents[(place - 2 * new + 1) as usize]) };
            let depth = depths[parent as usize];
            if depth < depth_max {
                parents.push(parent as u32);
                depths.push(depth + 1);
                break;
            }
        }
    }
    parents
}

/// The same tree with its directories numbered in depth-first order.
fn depth_first(parents: &[u32]) -> Vec<u32> {
    // The children of `d` are `children[starts[d]..starts[d + 1]]`.
    let mut starts = vec![0_u32; parents.len() + 1];
    for parent in &parents[1..] {
        starts[*parent as usize + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let (mut next, mut children) = (starts.clone(), vec![0_u32; parents.len() - 1]);
    for (child, parent) in parents.iter().enumerate().skip(1) {
        children[next[*parent as usize] as usize] = child as u32;
        next[*parent as usize] += 1;
    }
    let mut renumbered = Vec::with_capacity(parents.len());
    // Directories to visit, each with the new number of its parent.
    let mut left = vec![(0_u32, 0_u32)];
    while let Some((directory, parent)) = left.pop() {
        let number = renumbered.len() as u32;
        renumbered.push(parent);
        let range = starts[directory as usize] as usize..starts[directory as usize + 1] as usize;
        left.extend(children[range].iter().rev().map(|child| (*child, number)));
    }
    renumbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_comes_after_its_parent_and_none_is_too_deep() {
        let tree = Tree::new(20_000, 8, 1);
        assert_eq!(tree.count(), 20_000);
        assert!((1..=20_000).all(|directory| tree.parent(directory) < directory));
        assert_eq!((1..=20_000).map(|directory| tree.depth(directory)).max(), Some(8));
        let names: std::collections::BTreeSet<String> = (1..=20_000).map(|number| tree.name(number)).collect();
        assert_eq!(names.len(), 20_000);
    }

    #[test]
    fn directories_are_numbered_depth_first() {
        // 0 has 1 and 2; 1 has 3 and 4.
        assert_eq!(depth_first(&[0, 0, 0, 1, 1]), [0, 0, 1, 1, 0]);
    }
}
