//! The style, guarded by a test: sizes of files and functions, where time and `unsafe` may be, fresh documentation.

use std::fs;
use std::path::{Path, PathBuf};

use keylatch::internals::{CommandSpec, FAMILIES, table};

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
const FUNCTION_LINES_P95: usize = 35;

/// A file of the project: its path below the root, and its text.
struct File {
    path: String,
    text: String,
}

impl File {
    /// Returns the lines before the unit tests.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("\n#[cfg(test)]").unwrap_or(self.text.len());
        self.text[..tests].lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads every Rust file below a folder of the project.
fn rust_files(folder: &str) -> Vec<File> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("text");
                let path = path.strip_prefix(root()).expect("below the root").display().to_string();
                files.push(File { path, text });
            }
        }
    }
    assert!(!files.is_empty());
    files
}

/// Drops comments and the inside of strings, so that only code is left to search.
fn without_comments_and_strings(line: &str) -> String {
    let code = if line.trim_start().starts_with("//") { "" } else { line.split(" // ").next().unwrap_or_default() };
    code.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// Finds functions by their indentation, which rustfmt guarantees: name and number of lines of each.
fn functions(file: &File) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    // Name, first line and indentation of the function being read.
    let mut open: Option<(String, usize, usize)> = None;
    for (number, line) in file.text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some((name, start, depth)) = &open {
            let is_last = indent == *depth && (line.trim() == "}" || line.trim() == "};");
            if is_last || number == *start && line.ends_with('}') {
                found.push((name.clone(), number - start + 1));
                open = None;
            }
            continue;
        }
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
        let qualifiers = ["pub", "crate", "super", "in", "const", "async", "unsafe", "extern"];
        let at = words.iter().position(|word| !qualifiers.contains(word));
        if let Some(at) = at
            && words[at] == "fn"
            && words.len() > at + 1
            && !line.trim_start().starts_with("//")
            && !line.ends_with(';')
        {
            if line.ends_with('}') {
                found.push((words[at + 1].to_owned(), 1));
            } else {
                open = Some((words[at + 1].to_owned(), number, indent));
            }
        }
    }
    found
}

/// Asserts that no line of code of the sources has `word`, but for the files that may.
#[track_caller]
fn assert_nowhere(word: &str, but: &[&str]) {
    for file in rust_files("src") {
        if but.contains(&file.path.as_str()) {
            continue;
        }
        for (number, line) in file.code() {
            assert!(!without_comments_and_strings(line).contains(word), "{}:{number}: {word}", file.path);
        }
    }
}

#[test]
fn files_stay_short() {
    for folder in ["src", "tests", "benches"] {
        for file in rust_files(folder) {
            let lines = file.text.lines().count();
            assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", file.path);
        }
    }
}

#[test]
fn functions_stay_short() {
    let mut lengths = Vec::new();
    for file in rust_files("src") {
        for (name, lines) in functions(&file) {
            assert!(lines <= FUNCTION_LINES_MAX, "{}: {name} has {lines} lines", file.path);
            lengths.push(lines);
        }
    }
    lengths.sort_unstable();
    assert!(lengths.len() > 300, "only {} functions were found", lengths.len());
    let p95 = lengths[lengths.len() * 95 / 100];
    assert!(p95 <= FUNCTION_LINES_P95, "one function in twenty is longer than {p95} lines");
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in ["src", "tests", "benches"] {
        for file in rust_files(folder) {
            let first = file.text.lines().next().unwrap_or_default();
            assert!(first.starts_with("//! ") && first.len() > 20, "{} begins with {first:?}", file.path);
        }
    }
}

#[test]
fn unsafe_code_lives_in_the_entry_and_the_table_and_each_block_says_why_it_is_sound() {
    let may = ["src/store/entry.rs", "src/store/table.rs"];
    assert_nowhere("unsafe", &[&may[..], &["src/lib.rs"]].concat());
    for file in rust_files("src").iter().filter(|file| may.contains(&file.path.as_str())) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if without_comments_and_strings(line).contains("unsafe {") {
                let note = lines[at.saturating_sub(6)..at].iter().any(|line| line.contains("SAFETY"));
                assert!(note, "{}:{}: no SAFETY note", file.path, at + 1);
            }
        }
    }
}

#[test]
fn only_the_clock_reads_the_systems_time() {
    for word in ["Instant::now", "SystemTime::now", "UNIX_EPOCH", "thread::sleep"] {
        assert_nowhere(word, &["src/time/clock.rs"]);
    }
}

#[test]
fn nothing_unfinished_and_nothing_that_panics_for_want_of_a_reason_is_left() {
    for word in [".unwrap()", "todo!", "dbg!", "unimplemented!"] {
        assert_nowhere(word, &[]);
    }
}

#[test]
fn the_store_knows_no_wire_no_session_and_no_async() {
    for file in rust_files("src").iter().filter(|file| file.path.starts_with("src/store/")) {
        for (number, line) in file.code() {
            let code = without_comments_and_strings(line);
            for word in ["crate::resp", "crate::client", "crate::net", "async ", ".await", "tokio"] {
                assert!(!code.contains(word), "{}:{number}: {word}", file.path);
            }
        }
    }
}

#[test]
fn the_codec_does_no_io() {
    for file in rust_files("src").iter().filter(|file| file.path.starts_with("src/resp/")) {
        for (number, line) in file.code() {
            let code = without_comments_and_strings(line);
            for word in ["tokio::", "std::net", "crate::store", "crate::dispatch", "crate::client"] {
                assert!(!code.contains(word), "{}:{number}: {word}", file.path);
            }
        }
    }
}

#[test]
fn no_test_is_ignored_and_none_sleeps() {
    let (ignored, sleeping) = (["#[", "ignore"].concat(), ["::", "sleep("].concat());
    for file in rust_files("src").into_iter().chain(rust_files("tests")) {
        // Locks of real clients end by the clock of the world.
        let is_test = file.path.starts_with("tests/") && !file.path.starts_with("tests/clients/");
        for (number, line) in file.text.lines().enumerate() {
            let code = without_comments_and_strings(line);
            assert!(!code.contains(&ignored), "{}:{}", file.path, number + 1);
            assert!(!is_test || !code.contains(&sleeping), "{}:{}: a test sleeps", file.path, number + 1);
        }
    }
}

#[test]
fn the_invariants_are_written_down() {
    let text = fs::read_to_string(root().join("src/lib.rs")).expect("lib.rs");
    let invariants: Vec<&str> =
        text.lines().filter(|line| line.starts_with("//! - **Architecture Invariant:** ")).collect();
    assert!(invariants.len() >= 8, "only {}", invariants.len());
    for word in ["resp", "store", "View", "dispatch", "expired", "globals", "session", "unsafe"] {
        assert!(invariants.iter().any(|line| line.contains(word)), "none is about {word}");
    }
}

#[test]
fn every_dependency_says_what_it_is_for() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && line.contains('=') && !line.starts_with('#') {
            // The codec's buffers are the protocol's; nothing needs to be said about them.
            assert!(line.contains(" # "), "{line}");
        }
    }
}

#[test]
fn the_readmes_command_table_is_the_one_the_declarations_give() {
    let path = root().join("README.md");
    let Ok(readme) = fs::read_to_string(&path) else { return };
    let (begin, end) = ("<!-- commands -->\n", "<!-- /commands -->");
    let (head, rest) = readme.split_once(begin).expect("a marker where the table begins");
    let (found, tail) = rest.split_once(end).expect("a marker where the table ends");
    let expected = command_table();
    if std::env::var_os("KEYLATCH_BLESS").is_some() {
        fs::write(&path, [head, begin, &expected, end, tail].concat()).expect("a writable repository");
    } else {
        assert_eq!(found, expected, "stale; KEYLATCH_BLESS=1 writes it anew");
    }
}

/// Lists the commands by group, in the order in which the families declare them.
fn command_table() -> String {
    let mut groups: Vec<&str> = Vec::new();
    for command in FAMILIES.iter().copied().flatten() {
        if !groups.contains(&command.group.name()) {
            groups.push(command.group.name());
        }
    }
    let mut text = format!("{} commands:\n\n", table().all().len());
    for group in groups {
        let of_group = table().all().iter().filter(|command| command.command.group.name() == group);
        let names: Vec<String> = of_group.map(shown).collect();
        let (first, others) = group.split_at(1);
        text.push_str(&wrapped(&format!("- **{}{others}**: {}", first.to_uppercase(), names.join(", "))));
    }
    text
}

/// Names a command, with its subcommands in parentheses.
fn shown(command: &CommandSpec) -> String {
    let name = command.command.name;
    let subcommands: Vec<&str> = command.subcommands.iter().map(|sub| sub.command.name).collect();
    if subcommands.is_empty() { name.to_owned() } else { format!("{name} ({})", subcommands.join(", ")) }
}

/// Breaks a list item into lines of the README's width.
fn wrapped(item: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in item.split(' ') {
        if width > 0 && width + 1 + word.len() > 118 {
            text.push_str("\n ");
            width = 1;
        }
        if width > 0 {
            text.push(' ');
        }
        text.push_str(word);
        width += 1 + word.len();
    }
    text.push('\n');
    text
}

/// Reads a page beside the sources, which a published crate need not have.
fn page(name: &str) -> Option<String> {
    fs::read_to_string(root().join(name)).ok()
}

#[test]
fn every_link_of_the_pages_leads_to_a_file_and_a_heading() {
    for name in ["README.md", "BENCHMARKS.md"] {
        let Some(text) = page(name) else { continue };
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { name } else { path };
            assert!(root().join(path).is_file(), "{name}: {target}");
            let headings = page(path).unwrap_or_default();
            let headings =
                headings.lines().filter_map(|line| line.split_once("# ")).map(|(_, heading)| anchor_of(heading));
            assert!(anchor.is_empty() || headings.into_iter().any(|found| found == anchor), "{name}: {target}");
        }
    }
}

/// Returns the anchor under which a heading is shown.
fn anchor_of(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
}

#[test]
fn every_figure_says_how_it_was_measured_and_benchmarks_md_names_its_area() {
    let (Some(page), Some(figures)) = (page("BENCHMARKS.md"), page("benches/plots/figures.tsv")) else { return };
    assert!(page.lines().count() <= 200, "the page is there to be read; tables belong into figures.tsv");
    let mut rows = figures.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let column = |name: &str| head.iter().position(|&column| column == name).unwrap_or_else(|| panic!("no {name}"));
    let columns = ["area", "workload", "unit", "keylatch", "redis", "ratio", "command", "source"].map(column);
    let mut keys = Vec::new();
    for row in rows {
        assert_eq!(row.len(), head.len(), "{row:?}");
        let [area, workload, unit, keylatch, redis, ratio, command, source] = columns.map(|at| row[at]);
        assert!([area, workload, unit, command, source].iter().all(|cell| !cell.is_empty()), "{row:?}");
        assert!(page.contains(&format!("`{area}`")), "BENCHMARKS.md does not say what {area} is");
        if let (Ok(keylatch), Ok(redis), Ok(ratio)) =
            (keylatch.parse::<f64>(), redis.parse::<f64>(), ratio.parse::<f64>())
        {
            assert!((keylatch - ratio * redis).abs() <= 0.002 * keylatch.abs(), "{row:?}");
        }
        keys.push((area, workload, unit));
    }
    let rows = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), rows, "a figure stands twice");
}
