//! The list of mutants of the rules of locks, `tests/mutants/locks.txt`: that it fits the source. Whether tests notice them
//! is shown by `tests/mutants/run.py`, which builds each.

use std::collections::HashSet;
use std::fs;

use crate::tidy::root;

/// How many there are at least.
const MUTANTS_MIN: usize = 25;

/// A change of a file: its path, a text, and what replaces it.
type Change = (String, Vec<String>, Vec<String>);

/// Reads the list: the mutants, each with its changes.
fn mutants() -> Vec<(String, Vec<Change>)> {
    let list = fs::read_to_string(root().join("tests/mutants/locks.txt")).expect("the list");
    let mut mutants: Vec<(String, Vec<Change>)> = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        let (kind, rest) = line.split_at(1);
        if kind == "=" {
            mutants.push((rest.trim().to_owned(), Vec::new()));
            continue;
        }
        let Some((name, changes)) = mutants.last_mut() else { continue };
        match (kind, changes.last_mut()) {
            ("#", _) => {}
            ("@", _) => changes.push((rest.trim().to_owned(), Vec::new(), Vec::new())),
            ("-", Some((_, old, new))) if new.is_empty() => old.push(rest.to_owned()),
            ("+", Some((_, _, new))) => new.push(rest.to_owned()),
            _ => panic!("{name}: {line}"),
        }
    }
    mutants
}

#[test]
fn every_mutant_of_the_rules_of_locks_still_fits_the_source() {
    let (mutants, mut names) = (mutants(), HashSet::new());
    assert!(mutants.len() >= MUTANTS_MIN, "only {}", mutants.len());
    for (name, changes) in &mutants {
        assert!(names.insert(name), "two mutants are called: {name}");
        assert!(!changes.is_empty(), "{name}: it changes nothing");
        for (path, old, new) in changes {
            let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{name}: {path}: {error}"));
            let (old, new) = (old.join("\n"), new.join("\n"));
            assert!(!old.is_empty() && old != new, "{name}: it leaves {path} as it is");
            assert_eq!(text.matches(&old).count(), 1, "{name}: {path} has to have this text once:\n{old}");
        }
    }
}
