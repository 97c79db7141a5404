//! Sources of the pages' figures: each figure has one. `benches/plots/figures.tsv` has the measurements. Two tables of
//! BENCHMARKS.md have rounded rows of it, and another page quotes a cell of the first table with a comment after the
//! number: `22<!-- bytes per key: keylatch -->`. `benches/LOCKS.md` has tables of `benches/locks/figures.tsv`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::pages::{Page, pages};
use crate::tidy::root;

/// Columns of the table, with their columns in `figures.tsv`.
const COLUMNS: [(&str, &str); 3] = [("keylatch", "keylatch"), ("redis-server", "redis"), ("times", "ratio")];

/// Row of a table, by the names of the columns.
type Line = BTreeMap<String, String>;

/// Reads a file with columns separated by tabs.
fn lines(path: &str) -> Vec<Line> {
    let text = fs::read_to_string(root().join(path)).expect(path);
    let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    lines.map(|cells| head.iter().cloned().zip(cells).collect()).collect()
}

/// Returns the text of a page between two marks.
fn between<'a>(page: &'a Page, name: &str) -> &'a str {
    let rest = page.text.split_once(&format!("<!-- {name} -->\n")).map(|(_, rest)| rest);
    let found = rest.and_then(|rest| rest.split_once(&format!("<!-- /{name} -->")));
    found.unwrap_or_else(|| panic!("{} has no block {name}", page.path.display())).0
}

/// Returns the cells of a table of a page.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows =
        table.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-") && !line.starts_with("| -"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
}

/// Parses a table of BENCHMARKS.md, by the name of each figure: the `figures` at its head, or the `slower` ones.
fn figures(table: &str) -> BTreeMap<String, Line> {
    let page = Page::read(Path::new("BENCHMARKS.md"));
    let mut rows = rows(between(&page, table)).map(|row| row.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    rows.map(|row| (row[0].clone(), head.iter().cloned().zip(row).collect())).collect()
}

/// Returns whether a text is the number, rounded to the digits shown: `4.3 million`, `8,737`, `0.28`.
fn rounds(text: &str, number: f64) -> bool {
    let (digits, unit) = text.strip_suffix(" million").map_or((text, 1.0), |digits| (digits, 1e6));
    let digits = digits.replace(',', "");
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    digits
        .parse::<f64>()
        .is_ok_and(|shown| (shown * unit - number).abs() <= 0.501 * unit / 10_f64.powi(decimals as i32))
}

#[test]
fn the_figures_of_the_benchmarks_are_those_on_record() {
    let records = lines("benches/plots/figures.tsv");
    let (headline, slower) = (figures("figures"), figures("slower"));
    assert!(headline.len() > 15 && slower.len() > 8, "only {} and {} figures", headline.len(), slower.len());
    for (name, row) in headline.into_iter().chain(slower) {
        let key: Vec<&str> = row["row of figures.tsv"].split("; ").collect();
        let is_row = |record: &&Line| ["area", "workload", "unit"].iter().map(|&column| &record[column]).eq(&key);
        let record = records.iter().find(is_row).unwrap_or_else(|| panic!("figures.tsv has no row {key:?}"));
        for (column, source) in COLUMNS {
            let (shown, measured) = (&row[column], &record[source]);
            let is_right = shown.is_empty() || measured.parse().is_ok_and(|number| rounds(shown, number));
            assert!(is_right, "BENCHMARKS.md, {name}: {shown} is not {measured}");
        }
    }
}

#[test]
fn every_area_says_which_commits_were_measured() {
    let page = Page::read(Path::new("benches/RECORD.md"));
    let commands = page.text.split("\n## Commands\n").nth(1).expect("the section");
    for record in lines("benches/plots/figures.tsv") {
        let (area, commit) = (&record["area"], record["source"].split(", ").next().unwrap_or_default());
        let row = rows(commands).find(|row| row[0] == format!("`{area}`"));
        let is_there = row.is_some_and(|row| row.last().is_some_and(|cell| cell.contains(commit)));
        assert!(
            is_there && commit.contains(" of 20"),
            "benches/RECORD.md does not say that {area} was measured at {commit}"
        );
    }
}

#[test]
fn what_pages_quote_from_the_benchmarks_is_what_stands_there() {
    let headline = figures("figures");
    let is_column = |name: &str| COLUMNS.iter().any(|(column, _)| *column == name);
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let mut quoted = 0;
    for page in pages() {
        let mut before = "";
        for part in page.text.split("<!-- ") {
            let (comment, behind) = part.split_once(" -->").unwrap_or(("", part));
            if let Some((name, column)) = comment.rsplit_once(": ").filter(|quote| is_column(quote.1)) {
                let row = headline.get(name).unwrap_or_else(|| panic!("BENCHMARKS.md has no figure {name}"));
                let rest = before.strip_suffix(row[column].as_str());
                let is_same = !row[column].is_empty() && rest.is_some_and(|rest| !rest.ends_with(is_of_number));
                assert!(is_same, "{}: {name}, {column}, is {}", page.path.display(), row[column]);
                quoted += 1;
            }
            before = behind;
        }
    }
    assert!(quoted >= 8, "only {quoted} quotes");
}

#[test]
fn the_pages_that_everybody_reads_state_no_ratio_without_its_source() {
    for name in ["README.md", "ARCHITECTURE.md"] {
        let page = Page::read(Path::new(name));
        for unit in [" times", " %"] {
            let is_number = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
            let bare = page.text.match_indices(unit).find(|&(at, _)| is_number(&page.text[..at]));
            let line = bare.map(|(at, _)| page.text[..at].lines().next_back().unwrap_or_default());
            assert_eq!(line, None, "{name} states a ratio that BENCHMARKS.md may not have");
        }
    }
}

#[test]
fn the_tables_on_locks_are_those_on_record() {
    let page = Page::read(Path::new("benches/LOCKS.md"));
    for section in ["contention", "failures", "crowd", "memory"] {
        let records = lines("benches/locks/figures.tsv");
        let records: Vec<Line> = records.into_iter().filter(|record| record["section"] == section).collect();
        let table = between(&page, section);
        for row in rows(table).skip(1) {
            for cell in row[1..].iter().filter(|cell| !cell.is_empty()) {
                let is_there =
                    |record: &Line| record["value"] == **cell || record["row"].ends_with(&format!(", {cell}"));
                assert!(records.iter().any(is_there), "benches/LOCKS.md, {section}: {cell} was not measured");
            }
        }
        let source = format!("Measured with {}.", records[0]["source"]);
        assert!(table.contains(&source), "benches/LOCKS.md, {section}: not {source}");
    }
}
