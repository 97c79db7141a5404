//! Results of the test suites of Redis and Valkey: parses the tables in `tests/suite/` for `docs/COMPATIBILITY.md`.
//!
//! `tests/suite/run.sh` uses the same tables, so the page lists exactly the skipped tests.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Suites: name on the page, name of the table, and the table.
const SUITES: [(&str, &str, &str); 4] = [
    ("Redis 7.0.15", "results-7.0.txt", include_str!("../../suite/results-7.0.txt")),
    ("Redis, October 2024", "results-redis.txt", include_str!("../../suite/results-redis.txt")),
    ("Valkey, October 2024", "results-valkey.txt", include_str!("../../suite/results-valkey.txt")),
    ("Valkey 9.0, hash fields", "results-valkey-9.0.txt", include_str!("../../suite/results-valkey-9.0.txt")),
];

const REASONS: &str = include_str!("../../suite/reasons.txt");

/// Maximum number of tests with one reason that are listed by name; of more, only the number is.
const NAMED_MAX: usize = 8;

struct Unit {
    name: &'static str,
    /// Number of passing tests when the suite starts the servers, and when it uses a running one.
    passed: [usize; 2],
    /// Tags whose tests are skipped.
    tags: Vec<&'static str>,
    /// Tests that are skipped, or run although they fail: reason and name.
    left_out: Vec<(&'static str, &'static str)>,
}

/// Content of a table.
struct Suite {
    title: &'static str,
    table: &'static str,
    units: Vec<Unit>,
}

/// Returns the keywords of reasons with their meanings.
fn reasons() -> Vec<(&'static str, &'static str)> {
    let lines = REASONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').expect("a reason has a word and a meaning")).collect()
}

fn suites() -> [Suite; 4] {
    SUITES.map(|(title, table, text)| Suite { title, table, units: read(text) })
}

fn read(table: &'static str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(test) = line.strip_prefix("  ") {
            let (reason, test) = test.split_once(": ").expect("a test has a reason and a name");
            let unit = units.last_mut().expect("a test stands below its unit");
            unit.left_out.push((reason.trim_end_matches('!'), test));
        } else {
            let mut words = line.split(' ');
            let name = words.next().expect("a line that is not empty has a word");
            let passed = words.next().and_then(|counts| counts.split_once('/')).expect("a unit has two counts");
            let passed = [passed.0, passed.1].map(|count| count.parse().expect("a number"));
            let tags = words.filter_map(|word| word.strip_prefix('-')).collect();
            units.push(Unit { name, passed, tags, left_out: Vec::new() });
        }
    }
    units
}

impl Suite {
    fn unit(&self, name: &str) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.name == name)
    }

    fn passed(&self, mode: usize) -> usize {
        self.units.iter().map(|unit| unit.passed[mode]).sum()
    }

    fn left_out(&self) -> usize {
        self.units.iter().map(|unit| unit.left_out.len()).sum()
    }

    /// Returns the tests of a reason, by unit.
    fn left_out_for(&self, reason: &str) -> BTreeMap<&str, Vec<&str>> {
        let mut by_unit: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for unit in &self.units {
            for (_, test) in unit.left_out.iter().filter(|(word, _)| *word == reason) {
                by_unit.entry(unit.name).or_default().push(test);
            }
        }
        by_unit
    }
}

/// Title of the page's section about the suites.
pub(super) const TITLE: &str = "The test suites of Redis and Valkey";

/// Writes the page's section about the suites.
pub(super) fn section() -> String {
    let suites = suites();
    let mut text = format!(
        "\n## {TITLE}\n\n\
         The Tcl suites run with keylatch in place of their server (`tests/suite/run.sh`): as the program that they start\n\
         themselves, and as a server that they are given (`--external`). All tests of the units below pass but those\n\
         that are left out, or fail, for a reason of the list behind it. Where a tag is named, the blocks of tests that\n\
         have it are left out as a whole. Tests that need gigabytes are off in the suites themselves, and many need a server\n\
         of their own.\n\n\
         | Suite | Passed, started by it | Passed, external | Left out | Table |\n|---|---|---|---|---|\n",
    );
    // Writing to a string cannot fail.
    for suite in &suites {
        let (started, external, left_out) = (suite.passed(0), suite.passed(1), suite.left_out());
        let _ = writeln!(text, "| {} | {started} | {external} | {left_out} | `{}` |", suite.title, suite.table);
    }
    text.push_str("\nPassed, and left out, of each unit when the suite starts the server:\n\n| Unit |");
    for suite in &suites {
        let _ = write!(text, " {} |", suite.title);
    }
    text.push_str("\n|---|---|---|---|\n");
    let names: BTreeMap<&str, ()> = suites.iter().flat_map(|suite| &suite.units).map(|unit| (unit.name, ())).collect();
    for name in names.keys() {
        let cell = |suite: &Suite| suite.unit(name).map_or_else(String::new, cell);
        let _ = writeln!(text, "| {name} | {} |", suites.each_ref().map(cell).join(" | "));
    }
    text.push_str("\n| Left out for lack of | What that is | Tests |\n|---|---|---|\n");
    for (word, meaning) in reasons() {
        let _ = writeln!(text, "| {word} | {meaning} | {} |", tests_of(&suites, word).replace('|', "\\|"));
    }
    text
}

fn cell(unit: &Unit) -> String {
    let mut cell = format!("{}, {}", unit.passed[0], unit.left_out.len());
    for tag in &unit.tags {
        let _ = write!(cell, ", tag `{tag}`");
    }
    cell
}

/// Lists the tests of a reason, or their number in each suite if there are many.
fn tests_of(suites: &[Suite], reason: &str) -> String {
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (unit, tests) in suites.iter().flat_map(|suite| suite.left_out_for(reason)) {
        let known = named.entry(unit).or_default();
        for test in tests {
            if !known.contains(&test) {
                known.push(test);
            }
        }
    }
    if named.values().map(Vec::len).sum::<usize>() > NAMED_MAX {
        let count = |suite: &Suite| suite.left_out_for(reason).values().map(Vec::len).sum::<usize>().to_string();
        return suites.iter().map(count).collect::<Vec<_>>().join(", ");
    }
    named.iter().map(|(unit, tests)| format!("{unit}: {}", tests.join("; "))).collect::<Vec<_>>().join(". ")
}

#[test]
fn every_skipped_test_has_a_declared_reason_and_is_listed_once() {
    for suite in suites() {
        for (at, unit) in suite.units.iter().enumerate() {
            let (table, name) = (suite.table, unit.name);
            assert!(suite.units[..at].iter().all(|before| before.name != name), "{table}: {name} twice");
            for (at, (reason, test)) in unit.left_out.iter().enumerate() {
                assert!(reasons().iter().any(|(word, _)| word == reason), "{table}: {name}: '{reason}' is no reason");
                assert!(
                    !unit.left_out[..at].iter().any(|(_, before)| before == test),
                    "{table}: {name}: '{test}' twice"
                );
            }
        }
    }
    for (word, _) in reasons() {
        assert!(suites().iter().any(|suite| !suite.left_out_for(word).is_empty()), "nothing is left out for {word}");
    }
}
