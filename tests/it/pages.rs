//! The pages: the generated table of commands, links, lengths, and the names in recipes. Their figures are tested in
//! `figures.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use keylatch::internals::{CommandSpec, FAMILIES, table};

use crate::tidy::{root, rust_files};

/// Folders with pages of other projects, or with generated ones.
const FOREIGN: [&str; 3] = ["target", "node_modules", ".git"];

/// The list of the decisions, which lies beside them.
const DECISIONS: &str = "docs/decisions/README.md";

/// Number of the decisions that a newcomer is to read.
const READ_FIRST: usize = 15;

/// Page: its path below the root, and its text.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

impl Page {
    pub fn read(path: &Path) -> Page {
        let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { path: path.to_owned(), text }
    }

    /// Returns the lines outside blocks of code.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_code = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
    }

    /// Returns the anchors of the headings, in GitHub's form.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor = |heading: &str| heading.to_lowercase().chars().filter(is_kept).collect::<String>();
        headings.map(|line| anchor(line.trim_start_matches('#').trim()).replace(' ', "-")).collect()
    }

    /// Returns the targets of the links within the project.
    fn links(&self) -> Vec<&str> {
        let parts = self.prose().flat_map(|line| line.split("](").skip(1));
        let targets = parts.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
        targets.filter(|target| !target.contains("://")).collect()
    }
}

/// Reads every page of the project.
pub fn pages() -> Vec<Page> {
    let (mut pages, mut folders) = (Vec::new(), vec![root().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !FOREIGN.contains(&name.as_str()) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(Page::read(path.strip_prefix(root()).expect("below the root")));
            }
        }
    }
    assert!(pages.len() > 50, "only {} pages", pages.len());
    pages
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    for page in pages() {
        for link in page.links() {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = page.path.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            assert!(root().join(&target).exists(), "{} links to {link}, which is not there", page.path.display());
            let is_there = anchor.is_empty() || Page::read(&target).anchors().contains(anchor);
            assert!(is_there, "{} links to {link}, which has no such heading", page.path.display());
        }
    }
}

#[test]
fn the_pages_that_everybody_reads_stay_short() {
    for (name, lines_max) in
        [("README.md", 220), ("ARCHITECTURE.md", 250), ("BENCHMARKS.md", 150), ("CONTRIBUTING.md", 170)]
    {
        let lines = Page::read(Path::new(name)).text.lines().count();
        assert!(lines <= lines_max, "{name} has {lines} lines");
    }
}

#[test]
fn the_site_lists_every_page_for_users_and_every_decision_once() {
    let summary = Page::read(Path::new("docs/SUMMARY.md"));
    let mut listed = summary.links();
    listed.retain(|link| !link.is_empty()); // a group has no page
    let is_of_site = |page: &Page| page.path.starts_with("docs") && page.path != summary.path;
    let mut pages: Vec<String> = pages()
        .iter()
        .filter(|page| is_of_site(page))
        .map(|page| page.path.strip_prefix("docs").expect("it is").display().to_string())
        .collect();
    listed.sort_unstable();
    pages.sort_unstable();
    assert_eq!(listed, pages);
}

#[test]
fn the_debian_package_has_every_page_for_users() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let names = fs::read_dir(root().join("docs")).expect("the pages").map(|entry| entry.expect("an entry").file_name());
    let names = names
        .map(|name| name.into_string().expect("text"))
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md");
    let lacking: Vec<String> = names.filter(|name| !manifest.contains(&format!("[\"docs/{name}\","))).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

/// Returns the titles and the files of the decisions in a list whose targets begin with `folder`, in its order.
fn listed_decisions<'p>(list: &'p Page, folder: &str) -> Vec<(&'p str, &'p str)> {
    let entry = |line: &'p str| {
        let (title, rest) = line.trim_start().strip_prefix("- [")?.split_once("](")?;
        let (target, _) = rest.split_once(')')?;
        Some((title, target.strip_prefix(folder)?))
    };
    let is_decision = |entry: &(&str, &str)| entry.1.starts_with(|c: char| c.is_ascii_digit());
    list.prose().filter_map(entry).filter(is_decision).collect()
}

#[test]
fn every_decision_is_listed_once_with_its_title_and_says_what_would_change_it() {
    let list = Page::read(Path::new(DECISIONS));
    let is_decision = |page: &Page| page.path.starts_with("docs/decisions") && page.path != list.path;
    let decisions: Vec<Page> = pages().into_iter().filter(is_decision).collect();
    let listed = listed_decisions(&list, "");
    for page in &decisions {
        let title = page.text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title");
        let file = page.path.file_name().expect("a name").to_string_lossy();
        let count = listed.iter().filter(|entry| **entry == (title, &*file)).count();
        assert_eq!(count, 1, "{DECISIONS} does not list [{title}]({file}) once");
        let is_open = page.prose().any(|line| line == "## What would change it");
        assert!(is_open, "{} does not say what would change it", page.path.display());
    }
    assert_eq!(listed.len(), decisions.len(), "{DECISIONS} lists some that are not there");
}

#[test]
fn a_superseded_decision_begins_with_that_and_the_list_says_it() {
    let list = Page::read(Path::new(DECISIONS));
    for (title, file) in listed_decisions(&list, "") {
        let page = Page::read(&list.path.with_file_name(file));
        let notice = page.prose().position(|line| line.starts_with("Superseded "));
        assert!(matches!(notice, None | Some(2)), "{file} says late that it is superseded");
        let entry = list.prose().find(|line| line.contains(&format!("]({file})"))).unwrap_or_default();
        assert_eq!(entry.contains(", superseded"), notice.is_some(), "{DECISIONS}, {title}");
        let by = page.prose().nth(2).filter(|_| notice.is_some());
        assert!(by.is_none_or(|line| line.contains(" by [")), "{file} does not say by what it is superseded");
    }
}

#[test]
fn the_decisions_to_read_first_come_first_and_say_what_a_reader_learns() {
    let list = Page::read(Path::new(DECISIONS));
    let sections: Vec<&str> = list.text.split("\n## ").collect();
    assert!(sections[1].starts_with("Read these first\n"), "{DECISIONS} begins with another section");
    assert!(!sections[0].contains("\n- ["), "{DECISIONS} lists some before the first section");
    let entries: Vec<&str> = sections[1].split("\n- [").skip(1).collect();
    assert_eq!(entries.len(), READ_FIRST, "of {DECISIONS} to be read first");
    for entry in entries {
        let said = entry.split_once("):").map(|(_, said)| said.split_whitespace().count()).unwrap_or_default();
        assert!(said >= 5, "{DECISIONS} does not say what this explains: {entry}");
    }
}

#[test]
fn the_site_has_the_decisions_in_the_order_of_their_list() {
    let (list, summary) = (Page::read(Path::new(DECISIONS)), Page::read(Path::new("docs/SUMMARY.md")));
    assert_eq!(listed_decisions(&summary, "decisions/"), listed_decisions(&list, ""));
}

#[test]
fn the_walks_and_recipes_name_only_what_is_there() {
    let page = Page::read(Path::new("CONTRIBUTING.md"));
    let prose = page.prose().collect::<Vec<_>>().join("\n");
    let (before, walks) = prose.split_once("\n## Walks").expect("the section");
    let switches: String = before.lines().filter(|line| line.starts_with('|')).collect();
    let sources = ["src", "tests"].into_iter().flat_map(rust_files).filter(|file| file.path != "tests/it/pages.rs");
    let sources: String = sources.map(|file| file.text).collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = sources.split(|c| !is_word(c)).collect();
    let mut checked = 0;
    for name in [walks, &switches].into_iter().flat_map(|text| text.split('`').skip(1).step_by(2)) {
        if name.contains('/') {
            let is_there = root().join(name).exists() || root().join("src").join(name).exists();
            assert!(is_there, "the page names {name}, which is not there");
        } else {
            let unknown = name.split(|c| !is_word(c)).find(|word| !word.is_empty() && !words.contains(word));
            assert_eq!(unknown, None, "of `{name}`");
        }
        checked += 1;
    }
    assert!(checked > 100, "only {checked} names were found");
}

#[test]
fn every_file_that_the_page_for_contributors_names_is_there() {
    let page = Page::read(Path::new("CONTRIBUTING.md"));
    let prose = page.prose().collect::<Vec<_>>().join("\n");
    let (before, _) = prose.split_once("\n## Walks").expect("the section");
    for name in before.split('`').skip(1).step_by(2) {
        let file = name.split(' ').next().unwrap_or_default();
        let is_built = file.starts_with("target/") || !file.contains('/');
        assert!(is_built || root().join(file).exists(), "the page names {file}, which is not there");
    }
}

#[test]
fn the_table_of_commands_is_the_one_the_declarations_give() {
    let path = root().join("docs/COMMANDS.md");
    let page = fs::read_to_string(&path).expect("docs/COMMANDS.md");
    let (begin, end) = ("<!-- commands -->\n", "<!-- /commands -->");
    let (head, rest) = page.split_once(begin).expect("a marker where the table begins");
    let (found, tail) = rest.split_once(end).expect("a marker where the table ends");
    let expected = command_table();
    if std::env::var_os("KEYLATCH_BLESS").is_some() {
        fs::write(&path, [head, begin, &expected, end, tail].concat()).expect("a writable repository");
    } else {
        assert_eq!(found, expected, "stale; KEYLATCH_BLESS=1 regenerates it");
    }
}

/// Lists the commands by group, in the order of the families' rows.
fn command_table() -> String {
    let mut groups: Vec<&str> = Vec::new();
    for command in FAMILIES.iter().copied().flatten() {
        if !groups.contains(&command.declaration.group.name()) {
            groups.push(command.declaration.group.name());
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

/// Returns the name of a command, with its subcommands in parentheses.
fn shown(command: &CommandSpec) -> String {
    let name = command.command.name;
    let subcommands: Vec<&str> = command.subcommands.iter().map(|sub| sub.command.name).collect();
    if subcommands.is_empty() { name.to_owned() } else { format!("{name} ({})", subcommands.join(", ")) }
}

/// Wraps a list item to the width of the pages.
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
