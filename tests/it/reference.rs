//! The reference page of keylatch's own commands: its arguments equal those of COMMAND DOCS, and its examples run.

use std::fs;
use std::path::PathBuf;

use keylatch::internals::resp::Frame;

use crate::transcripts::{self, start, text};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/REFERENCE.md")
}

#[test]
fn the_page_says_of_every_command_of_keylatch_what_command_docs_says() {
    let Ok(mut page) = fs::read_to_string(path()) else { return };
    let before = page.clone();
    let server = start();
    let mut client = server.client3();
    let Frame::Array(names) = client.frame(&["COMMAND", "LIST"]) else { panic!("a list") };
    let is_own = |name: &String| (name.starts_with("lock.") || name.starts_with("test.")) && !name.contains('|');
    for name in names.iter().map(text).filter(is_own) {
        let Frame::Map(docs) = client.frame(&["COMMAND", "DOCS", &name]) else { panic!("a map") };
        let docs = &docs[0].1;
        let Some(Frame::Map(subcommands)) = find(docs, "subcommands") else {
            insert(&mut page, &name.to_uppercase(), docs);
            continue;
        };
        for (full, docs) in subcommands.iter().filter(|(full, _)| !text(full).ends_with("|help")) {
            insert(&mut page, &text(full).replace('|', " ").to_uppercase(), docs);
        }
    }
    if std::env::var_os("KEYLATCH_BLESS").is_some() {
        fs::write(path(), page).expect("a writable repository");
    } else {
        assert_eq!(before, page, "stale; KEYLATCH_BLESS=1 regenerates it");
    }
}

/// Inserts the documentation of a command between its marks on the page.
fn insert(page: &mut String, name: &str, docs: &Frame) {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (head, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the page lacks {name}"));
    let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("no end of {name}"));
    let since = find(docs, "since").map(text);
    assert!(matches!(since.as_deref(), Some("0.1.0" | "0.2.0")), "{name}: {since:?}");
    let args = match find(docs, "arguments") {
        Some(Frame::Array(args)) => args.as_slice(),
        _ => &[],
    };
    let words: Vec<String> = std::iter::once(name.to_owned()).chain(args.iter().map(spelt)).collect();
    let mut block = format!("`{}`\n\n{}\n\n", words.join(" "), find(docs, "summary").map(plain).expect("a summary"));
    if !args.is_empty() {
        block.push_str("| argument | |\n|---|---|\n");
        args.iter().for_each(|arg| describe(&mut block, name, arg));
        block.push('\n');
    }
    *page = [head, &begin, &block, &end, tail].concat();
}

/// Adds a row for an argument, or for each of its parts.
fn describe(block: &mut String, name: &str, arg: &Frame) {
    let summary = find(arg, "summary").map(plain).unwrap_or_else(|| panic!("{name} lacks a summary: {arg:?}"));
    if let Some(Frame::Array(parts)) = find(arg, "arguments") {
        return parts.iter().for_each(|part| describe(block, name, part));
    }
    block.push_str(&format!("| `{}` | {summary} |\n", with_token(arg)));
}

fn with_token(arg: &Frame) -> String {
    let name = find(arg, "name").map(text).expect("a name");
    match (find(arg, "token").map(text), find(arg, "type").map(text).as_deref()) {
        (Some(token), Some("pure-token")) => token,
        (Some(token), _) => format!("{token} {name}"),
        (None, _) => name,
    }
}

fn spelt(arg: &Frame) -> String {
    let parts = match find(arg, "arguments") {
        Some(Frame::Array(parts)) => parts.iter().map(spelt).collect(),
        _ => vec![with_token(arg)],
    };
    let is_choice = find(arg, "type").map(text).as_deref() == Some("oneof");
    let word = if is_choice { format!("({})", parts.join(" / ")) } else { parts.join(" ") };
    match find(arg, "flags") {
        Some(Frame::Set(flags) | Frame::Array(flags)) if flags.iter().any(|flag| text(flag) == "optional") => {
            format!("[{word}]")
        }
        _ => word,
    }
}

/// Returns the value of a field of a map.
fn find<'a>(map: &'a Frame, name: &str) -> Option<&'a Frame> {
    let Frame::Map(pairs) = map else { panic!("{map:?}") };
    pairs.iter().find(|(key, _)| text(key) == name).map(|(_, value)| value)
}

/// Returns a text with its asterisks escaped for Markdown.
fn plain(frame: &Frame) -> String {
    text(frame).replace('*', "\\*")
}

#[test]
fn the_examples_of_the_page_run() {
    let Ok(page) = fs::read_to_string(path()) else { return };
    let examples: Vec<&str> = page.split("\n```redis\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 5, "{} examples", examples.len());
    examples.into_iter().for_each(transcripts::run);
}
