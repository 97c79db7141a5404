//! The lists of mutants in `tests/mutants/`, of the rules of locks and of persistence, must fit the source.
//! `tests/mutants/run.py` builds them and shows that tests detect them.

use std::collections::HashSet;
use std::fs;

use crate::tidy::root;

/// Lists, with the minimum number of mutants of each.
const LISTS: [(&str, usize); 3] = [("locks", 25), ("safety", 77), ("helpers", 8)];

/// Change of a file: its path, a text, and its replacement.
type Change = (String, Vec<String>, Vec<String>);

/// Reads the mutants of a list, each with its changes.
fn mutants(list: &str) -> Vec<(String, Vec<Change>)> {
    let list = fs::read_to_string(root().join(format!("tests/mutants/{list}.txt"))).expect("the list");
    let mut mutants: Vec<(String, Vec<Change>)> = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        let (kind, rest) = line.split_at(1);
        if kind == "=" {
            mutants.push((rest.trim().to_owned(), Vec::new()));
            continue;
        }
        let Some((name, changes)) = mutants.last_mut() else { continue };
        match (kind, changes.last_mut()) {
            ("#" | "?", _) => {}
            ("@", _) => changes.push((rest.trim().to_owned(), Vec::new(), Vec::new())),
            ("-", Some((_, old, new))) if new.is_empty() => old.push(rest.to_owned()),
            ("+", Some((_, _, new))) => new.push(rest.to_owned()),
            _ => panic!("{name}: {line}"),
        }
    }
    mutants
}

#[test]
fn every_mutant_still_fits_the_source() {
    for (list, least) in LISTS {
        let (mutants, mut names) = (mutants(list), HashSet::new());
        assert!(mutants.len() >= least, "only {} in {list}", mutants.len());
        for (name, changes) in &mutants {
            assert!(names.insert(name), "two mutants are called: {name}");
            assert!(!changes.is_empty(), "{name}: it changes nothing");
            for (path, old, new) in changes {
                let text = fs::read_to_string(root().join(path));
                let text = text.unwrap_or_else(|error| panic!("{name}: {path}: {error}"));
                let (old, new) = (old.join("\n"), new.join("\n"));
                assert!(!old.is_empty() && old != new, "{name}: it leaves {path} as it is");
                assert_eq!(text.matches(&old).count(), 1, "{name}: {path} has to have this text once:\n{old}");
            }
        }
    }
}
