//! The names of a simulated disk, as seen by programs and as left by a power cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::persist::disk::parent;
use crate::random::Random;

/// Target of a name: a directory, or the number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameTarget {
    Dir,
    File(usize),
}

/// A change of a name since the last sync of its directory.
#[derive(Clone, Debug)]
enum Change {
    Add(PathBuf, NameTarget),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, NameTarget),
}

impl Change {
    /// Returns the directory whose sync makes the change durable.
    fn dir(&self) -> &Path {
        match self {
            Change::Add(path, _) | Change::Remove(path) | Change::Rename(_, path, _) => parent(path),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, NameTarget>) {
        match self {
            Change::Add(path, target) => _ = names.insert(path.clone(), *target),
            Change::Remove(path) => _ = names.remove(path),
            Change::Rename(from, to, target) => {
                if names.get(from) == Some(target) {
                    names.remove(from);
                }
                names.insert(to.clone(), *target);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct DiskNames {
    live: BTreeMap<PathBuf, NameTarget>,
    durable: BTreeMap<PathBuf, NameTarget>,
    changes: Vec<Change>,
}

impl DiskNames {
    pub(super) fn get(&self, path: &Path) -> Option<NameTarget> {
        self.live.get(path).copied()
    }

    /// Returns the names in a directory.
    pub(super) fn list<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.live.keys().map(PathBuf::as_path).filter(move |path| parent(path) == dir)
    }

    /// Returns the names of files, each with the file's number.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.live.iter().filter_map(|(path, target)| match target {
            NameTarget::Dir => None,
            NameTarget::File(number) => Some((path.as_path(), *number)),
        })
    }

    pub(super) fn add(&mut self, path: &Path, target: NameTarget) {
        self.change(Change::Add(path.to_owned(), target));
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.change(Change::Remove(path.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, target: NameTarget) {
        self.change(Change::Rename(from.to_owned(), to.to_owned(), target));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push(change);
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync(&mut self, dir: &Path) {
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            let is_synced = change.dir() == dir;
            if is_synced {
                change.apply(durable);
            }
            !is_synced
        });
    }

    /// Returns the names found after a power cut: the durable ones, changed by some of the later changes, in any order.
    pub(super) fn after_power_cut(&self, random: &mut Random) -> DiskNames {
        let mut names = self.durable.clone();
        let mut changes: Vec<&Change> = self.changes.iter().collect();
        let in_order = random.below(2) == 0;
        while !changes.is_empty() {
            let change = changes.remove(if in_order { 0 } else { random.below(changes.len()) });
            if random.below(2) == 0 {
                change.apply(&mut names);
            }
        }
        let dirs: Vec<PathBuf> =
            names.iter().filter(|(_, target)| **target == NameTarget::Dir).map(|(path, _)| path.clone()).collect();
        // A name in a directory that does not exist cannot be found.
        names.retain(|path, _| parent(path) == Path::new("/") || dirs.iter().any(|dir| dir == parent(path)));
        DiskNames { live: names.clone(), durable: names, changes: Vec::new() }
    }
}
