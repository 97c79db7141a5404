//! Style checks: sizes of files and functions, uses of time and `unsafe`, generated documentation.

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
const FUNCTION_LINES_P95: usize = 35;

/// File of the project: its path below the root, and its text.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// Returns the lines before the unit tests.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("\n#[cfg(test)]").unwrap_or(self.text.len());
        self.text[..tests].lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

/// Returns the root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads every Rust file below a folder of the project.
pub fn rust_files(folder: &str) -> Vec<File> {
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

/// Removes comments and the content of strings, so that only code is searched.
pub fn without_comments_and_strings(line: &str) -> String {
    let code = if line.trim_start().starts_with("//") { "" } else { line.split(" // ").next().unwrap_or_default() };
    code.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// Finds functions by their indentation, which rustfmt guarantees; returns the name and number of lines of each.
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

/// Asserts that no line of code contains `word`, except in the given files.
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
fn unsafe_code_lives_in_a_few_files_and_each_block_says_why_it_is_sound() {
    let may = [
        "src/memory/global.rs",
        "src/memory/slab.rs",
        "src/store/entry.rs",
        "src/store/table.rs",
        "src/store/table/overflow.rs",
        "src/store/value/member.rs",
        "src/store/value/big/sorted_set.rs",
    ];
    assert_nowhere("unsafe", &[&may[..], &["src/lib.rs"]].concat());
    for page in ["ARCHITECTURE.md", "src/lib.rs"] {
        let text = fs::read_to_string(root().join(page)).expect("the page is there");
        let invariant = text.split("`unsafe` lives in").nth(1).and_then(|rest| rest.split("\n\n").next());
        for file in may {
            let name = file.trim_start_matches("src/");
            assert!(invariant.is_some_and(|invariant| invariant.contains(name)), "{page} does not name {name}");
        }
    }
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
fn no_todo_and_no_unexplained_panic_is_left() {
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
fn every_call_is_made_in_one_place() {
    let is_literal = |line: &str| {
        let line = line.trim_start();
        line.starts_with("Call {") || ["= Call {", "(Call {", "&mut Call {"].iter().any(|made| line.contains(made))
    };
    let places = rust_files("src").into_iter().flat_map(|file| {
        let made = file.code().filter(|(_, line)| is_literal(line)).map(|(number, _)| number).collect::<Vec<_>>();
        made.into_iter().map(move |number| (file.path.clone(), number))
    });
    let places: Vec<(String, usize)> = places.collect();
    assert!(places.len() == 1 && places[0].0 == "src/dispatch/call.rs", "{places:?}");
}

#[test]
fn no_test_is_ignored_and_none_sleeps() {
    let (ignored, sleeping) = (["#[", "ignore"].concat(), ["::", "sleep("].concat());
    for file in rust_files("src").into_iter().chain(rust_files("tests")) {
        // Locks of real clients expire by the system's clock.
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
            // The codec's buffers are defined by the protocol and need no comment.
            assert!(line.contains(" # "), "{line}");
        }
    }
}
