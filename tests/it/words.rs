//! Words: doc comments name things in the field's terms, and a type's name means one thing.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{File, rust_files};

/// Words that begin a riddle instead of naming the thing: "What waits for ..", "Whether ..".
const OPENINGS: &[&str] = &[
    "As", "Does", "How", "Keeps", "Lets", "That", "Those", "What", "When", "Where", "Whether", "Which", "Who", "Whom",
    "Whose", "Why",
];

/// The folders with Rust code.
const FOLDERS: [&str; 6] = ["src", "tests", "benches", "lua/src", "fuzz", "examples"];

/// Returns true if a line of a doc comment begins with one of the words.
fn is_riddle(line: &str) -> bool {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or_default();
    OPENINGS.iter().any(|word| text.strip_prefix(' ').and_then(|text| text.strip_prefix(word)).is_some_and(is_end))
}

/// Returns true if a word has ended where this text begins.
fn is_end(text: &str) -> bool {
    !text.starts_with(|next: char| next.is_alphanumeric() || next == '_')
}

#[test]
fn doc_comments_begin_with_the_name_of_the_thing() {
    let files: Vec<File> = FOLDERS.iter().flat_map(|folder| rust_files(folder)).collect();
    let lines = files.iter().flat_map(|file| file.text.lines().enumerate().map(move |(at, line)| (file, at + 1, line)));
    let riddles: Vec<String> = lines
        .filter(|(.., line)| is_riddle(line))
        .map(|(file, number, line)| format!("{}:{number}: {}", file.path, line.trim()))
        .collect();
    assert!(riddles.is_empty(), "a noun phrase, or a verb in the third person, in place of\n{}", riddles.join("\n"));
}

#[test]
fn an_opening_is_a_whole_word() {
    assert!(is_riddle("    /// What waits.") && is_riddle("//! Whether: so") && is_riddle("/// Who"));
    assert!(!is_riddle("/// Whenever") && !is_riddle("// What waits") && !is_riddle("let x = 1; /// What"));
}

/// Returns the name of a type that a line defines for other files.
fn defined_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").or_else(|| Some(line.strip_prefix("pub(")?.split_once(") ")?.1))?;
    let mut words = line.split([' ', '<', '(', ';', '{', ':']);
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&words.next()?);
    words.next().filter(|_| is_type)
}

#[test]
fn no_two_types_share_a_name() {
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The stand-in for a feature that is not built has the names of the feature's types.
    for file in rust_files("src").iter().filter(|file| !file.path.ends_with("_disabled.rs")) {
        for name in file.text.lines().filter_map(defined_type) {
            homes.entry(name.to_owned()).or_default().insert(file.path.clone());
        }
    }
    // `pub type Result` is the idiom of std for a module's error.
    homes.remove("Result");
    let shared: Vec<_> = homes.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(shared.is_empty(), "{shared:#?}");
}

#[test]
fn every_definition_of_a_type_is_seen() {
    assert_eq!(defined_type("    pub(crate) struct Key<'k> {"), Some("Key"));
    assert_eq!(defined_type("pub enum Kind {"), Some("Kind"));
    assert_eq!(defined_type("pub(super) type Row = (u8, u8);"), Some("Row"));
    assert_eq!(defined_type("struct Own;"), None);
    assert_eq!(defined_type("pub fn structure() {}"), None);
}
