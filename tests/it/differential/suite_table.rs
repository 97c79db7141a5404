//! What came of Redis' own test-suite: `tests/suite/results.txt`, read and told for `COMPATIBILITY.md`.
//!
//! The table is what `tests/suite/run.sh` goes by, so that what the page says is left out is what is left out.

use std::collections::BTreeMap;
use std::fmt::Write;

const TABLE: &str = include_str!("../../suite/results.txt");

/// How many tests of one reason are named one by one; of more, only the units are.
const NAMED_MAX: usize = 8;

/// One file of the suite.
struct Unit {
    name: &'static str,
    passed: usize,
    /// The tags whose tests are left out.
    tags: Vec<&'static str>,
    /// The tests that are left out, or run although they fail: reason and name.
    left_out: Vec<(&'static str, &'static str)>,
}

/// What the table says.
struct Table {
    /// The word for a reason, and what it means.
    reasons: Vec<(&'static str, &'static str)>,
    units: Vec<Unit>,
}

impl Table {
    fn read() -> Self {
        let mut table = Table { reasons: Vec::new(), units: Vec::new() };
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(reason) = line.strip_prefix("= ") {
                let (word, meaning) = reason.split_once(' ').expect("a reason has a word and a meaning");
                table.reasons.push((word, meaning.trim()));
            } else if let Some(test) = line.strip_prefix("  ") {
                let (reason, test) = test.split_once(": ").expect("a test has a reason and a name");
                let unit = table.units.last_mut().expect("a test stands below its unit");
                unit.left_out.push((reason.trim_end_matches('!'), test));
            } else {
                let mut words = line.split(' ');
                let name = words.next().expect("a line that is not empty has a word");
                let passed = words.next().and_then(|count| count.parse().ok()).expect("a unit has a count");
                let tags = words.filter_map(|word| word.strip_prefix('-')).collect();
                table.units.push(Unit { name, passed, tags, left_out: Vec::new() });
            }
        }
        table
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

/// Writes the page's part about the suite.
pub(super) fn section() -> String {
    let table = Table::read();
    let passed: usize = table.units.iter().map(|unit| unit.passed).sum();
    let left_out: usize = table.units.iter().map(|unit| unit.left_out.len()).sum();
    let mut text = format!(
        "\n## Redis' own test-suite\n\n\
         The Tcl suite of Redis 7.0.15 runs with keylatch in place of `redis-server` (`tests/suite/run.sh`): {passed} tests\n\
         of the units below pass, and {left_out} are left out, or fail, for a reason of this list; no other fails. Where a\n\
         tag is named, the blocks of tests that have it are left out as a whole. Tests that need gigabytes are off in the\n\
         suite itself. `tests/suite/results.txt` names every test.\n\n\
         | Unit | Passed | Left out | For want of |\n|---|---|---|---|\n"
    );
    // Writing to a string cannot fail.
    for unit in &table.units {
        let counts = table.reasons.iter().filter_map(|(word, _)| {
            let count = unit.left_out.iter().filter(|(reason, _)| reason == word).count();
            (count > 0).then(|| format!("{word} {count}"))
        });
        let tags = unit.tags.iter().map(|tag| format!("tag `{tag}`"));
        let counts = counts.chain(tags).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| {} | {} | {} | {counts} |", unit.name, unit.passed, unit.left_out.len());
    }
    text.push_str("\n| For want of | What that is | Tests |\n|---|---|---|\n");
    for (word, meaning) in &table.reasons {
        let by_unit = table.left_out_for(word);
        let count: usize = by_unit.values().map(Vec::len).sum();
        let tests = match count > NAMED_MAX {
            true => format!("{count}"),
            false => by_unit
                .iter()
                .map(|(unit, tests)| format!("{unit}: {}", tests.join("; ")))
                .collect::<Vec<_>>()
                .join(". "),
        };
        let _ = writeln!(text, "| {word} | {meaning} | {} |", tests.replace('|', "\\|"));
    }
    text
}

#[test]
fn every_test_that_is_left_out_has_a_declared_reason_and_stands_there_once() {
    let table = Table::read();
    for (at, unit) in table.units.iter().enumerate() {
        assert!(table.units[..at].iter().all(|before| before.name != unit.name), "{} twice", unit.name);
        for (at, (reason, test)) in unit.left_out.iter().enumerate() {
            assert!(table.reasons.iter().any(|(word, _)| word == reason), "{}: '{reason}' is no reason", unit.name);
            assert!(!unit.left_out[..at].iter().any(|(_, before)| before == test), "{}: '{test}' twice", unit.name);
        }
    }
    for (word, _) in &table.reasons {
        assert!(!table.left_out_for(word).is_empty(), "nothing is left out for want of {word}");
    }
}
