//! Names of commands: only rows and handlers know them, and every other layer asks the row for a flag or a mark.

use std::collections::BTreeSet;

use crate::harness::TestServer;
use crate::tidy::{File, rust_files};

/// The layers that handle requests without knowing single commands.
const LAYERS: &[&str] = &[
    "client",
    "dispatch",
    "durability",
    "engine",
    "namespace",
    "net",
    "observe",
    "push",
    "replication",
    "script",
    "store",
    "test_mode",
    "upkeep",
];

/// Code before a text that something is compared with.
const BEFORE: &[&str] = &["==", "!=", "|", "starts_with(", "eq_ignore_ascii_case("];
/// Code after a text that something is matched with.
const AFTER: &[&str] = &["==", "!=", "=>", "|", "if "];

/// Returns the texts in a line that something is compared with.
fn compared(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut at = 0;
    while let Some((before, text)) = rest.split_once('"') {
        let Some((text, after)) = text.split_once('"') else { break };
        at += before.len();
        let before = line[..at].trim_end_matches('b').trim_end();
        let is_argument = before.ends_with(',') && (before.contains("is_word(") || before.contains("matches!("));
        let is_compared = is_argument || BEFORE.iter().any(|mark| before.ends_with(mark));
        if is_compared || AFTER.iter().any(|mark| after.trim_start().starts_with(mark)) {
            found.push(text);
        }
        at += text.len() + 2;
        rest = after;
    }
    found
}

/// Lists the comparisons with names of commands in the code of a file, without its unit tests.
fn comparisons(file: &File, names: &BTreeSet<String>) -> Vec<String> {
    let lines = file.code().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let named = lines.flat_map(|(number, line)| compared(line).into_iter().map(move |text| (number, text)));
    let named = named.filter(|(_, text)| names.contains(&text.to_ascii_lowercase()));
    named.map(|(number, text)| format!("{}:{number}: {text:?}", file.path)).collect()
}

#[test]
fn only_commands_and_their_rows_compare_the_name_of_a_command() {
    let listed = TestServer::start().client().call("COMMAND LIST");
    let names: BTreeSet<String> = listed.split(' ').map(str::to_ascii_lowercase).collect();
    assert!(names.len() > 300, "{listed}");
    let is_layer = |file: &&File| LAYERS.iter().any(|layer| file.path.starts_with(&format!("src/{layer}/")));
    let files: Vec<File> = rust_files("src");
    let files = files.iter().filter(is_layer).filter(|file| !file.path.ends_with("tests.rs"));
    let found: Vec<String> = files.flat_map(|file| comparisons(file, &names)).collect();
    assert!(found.is_empty(), "a mark of the row (src/spec/marks.rs) in place of\n{}", found.join("\n"));
}

#[test]
fn every_way_to_compare_a_name_is_seen() {
    for line in [
        r#"if command.name == "exec" {"#,
        r#"if "exec" == name {"#,
        r#"matches!(&command.name[..], "discard" | "exec")"#,
        r#"    "exec" if request.len() > 2 => {}"#,
        r#"is_word(name, "EXEC")"#,
        r#"name.eq_ignore_ascii_case(b"exec")"#,
        r#"name.starts_with("exec")"#,
    ] {
        assert!(compared(line).iter().any(|text| text.eq_ignore_ascii_case("exec")), "{line}");
    }
    assert_eq!(compared(r#"Error::other("exec"), fail("exec is late")"#), [""; 0]);
}
