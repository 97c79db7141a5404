//! Import cycles: the modules of a folder have none, at any level.
//!
//! The nodes are the files and subfolders of a folder, and `mod` for the items that its own `mod.rs` (or `name.rs`)
//! defines. An import of a re-exported name counts as an import of the module that defines it, and a re-export is no
//! import.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{File, rust_files, without_comments_and_strings};

/// Permitted cycles, because their types contain each other: a folder, and members of cycles in it. A member that is in
/// no cycle any more must be removed from here too.
const RECURSIVE: &[(&str, &[&str])] = &[
    // An entry contains a value, and a large hash, set or sorted set is a table of entries.
    ("store", &["entry", "value"]),
];

/// Module, as the names on the path from the root of the library to it.
type Path = Vec<String>;

/// Modules of the library.
pub(super) struct Tree(BTreeMap<Path, Module>);

/// Content of one file, without comments and strings.
#[derive(Default)]
struct Module {
    /// Code without the imports.
    code: String,
    imports: Vec<Import>,
    /// Paths named in the code, each as seen from a module nested in this many inline modules.
    named: Vec<(usize, Path)>,
}

/// One name of a `use`.
struct Import {
    /// Number of inline modules around it.
    depth: usize,
    path: Path,
    /// Local name, or `*`.
    name: String,
    is_public: bool,
}

/// Import within a folder: the folder, the importing child, the imported child, and the text with its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrow {
    pub(super) folder: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) import: String,
}

/// Members of a cycle in a folder.
type Circle = (String, BTreeSet<String>);

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the module of a source file, unless it belongs to the binary.
fn path_of(file: &str) -> Option<Path> {
    let inside = file.strip_prefix("src/")?.strip_suffix(".rs")?;
    match inside {
        "main" => None,
        "lib" => Some(Vec::new()),
        _ => Some(inside.strip_suffix("/mod").unwrap_or(inside).split('/').map(str::to_owned).collect()),
    }
}

/// Returns every path of a `use` with its local name.
fn leaves(tree: &str) -> Vec<(Path, String)> {
    fn walk(tree: &str, before: &[String], found: &mut Vec<(Path, String)>) {
        let tree = tree.trim();
        if let Some((head, group)) = tree.split_once('{') {
            let before: Path = before.iter().cloned().chain(segments(head)).collect();
            let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
            let (mut depth, mut start) = (0, 0);
            for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        walk(&group[start..at], &before, found);
                        start = at + 1;
                    }
                    _ => {}
                }
            }
        } else if !tree.is_empty() {
            let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name.trim())));
            let mut path: Path = before.iter().cloned().chain(segments(path)).collect();
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = name.map_or_else(|| path.last().cloned().unwrap_or_default(), str::to_owned);
            found.push((path, name));
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

fn segments(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split("::").map(|segment| segment.trim().to_owned()).filter(|segment| !segment.is_empty())
}

/// Returns the tree of a line that begins a `use`, and whether it is a re-export.
fn use_of(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    rest.trim_start().strip_prefix("use ").map(|tree| (line.starts_with("pub"), tree))
}

/// Returns the paths of at least two names in a line of code.
fn paths_in(line: &str) -> Vec<Path> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut before = String::new();
    while let Some(start) = rest.find(is_word) {
        before.push_str(&rest[..start]);
        let mut path = Vec::new();
        let mut tail = &rest[start..];
        loop {
            let end = tail.find(|c| !is_word(c)).unwrap_or(tail.len());
            path.push(tail[..end].to_owned());
            tail = &tail[end..];
            match tail.strip_prefix("::") {
                Some(next) if next.starts_with(is_word) => tail = next,
                _ => break,
            }
        }
        let is_visibility = before.ends_with("pub(in ");
        let is_inside = before.ends_with("::") || before.ends_with('.');
        before.push_str(&rest[start..rest.len() - tail.len()]);
        rest = tail;
        if path.len() > 1 && !is_visibility && !is_inside {
            found.push(path);
        }
    }
    found
}

impl Module {
    fn parse(text: &str) -> Module {
        let mut module = Module::default();
        let mut inline: Vec<usize> = Vec::new(); // the indentations of the inline modules being read
        let mut lines = text.lines().map(without_comments_and_strings);
        while let Some(mut line) = lines.next() {
            let indent = line.len() - line.trim_start().len();
            if inline.last() == Some(&indent) && line.trim() == "}" {
                inline.pop();
            }
            if let Some((is_public, tree)) = use_of(&line).map(|(is_public, tree)| (is_public, tree.to_owned())) {
                let mut tree = tree;
                while !tree.contains(';') {
                    let Some(more) = lines.next() else { break };
                    tree.push(' ');
                    tree.push_str(more.trim());
                }
                let tree = tree.split(';').next().unwrap_or_default();
                let depth = inline.len();
                let import = |(path, name)| Import { depth, path, name, is_public };
                module.imports.extend(leaves(tree).into_iter().map(import));
                continue;
            }
            let is_declaration = line.ends_with(';') && line.split_whitespace().rev().nth(1) == Some("mod");
            if is_declaration {
                continue;
            }
            module.named.extend(paths_in(&line).into_iter().map(|path| (inline.len(), path)));
            if line.ends_with('{') && line.split_whitespace().rev().nth(2) == Some("mod") {
                inline.push(indent);
            }
            line.push('\n');
            module.code.push_str(&line);
        }
        module
    }

    /// Returns whether the code contains this word.
    fn says(&self, word: &str) -> bool {
        self.code.split(|c| !is_word(c)).any(|found| found == word)
    }

    /// Returns whether the module defines an item with this name.
    fn defines(&self, name: &str) -> bool {
        let kinds = ["struct", "enum", "trait", "type", "fn", "const", "static", "union", "macro_rules!"];
        self.code.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_item =
                |pair: &[&str]| kinds.contains(&pair[0]) && pair[1].split(|c| !is_word(c)).next() == Some(name);
            words.windows(2).any(is_item)
        })
    }
}

impl Tree {
    pub(super) fn new(files: &[File]) -> Tree {
        let modules = files.iter().filter_map(|file| Some((path_of(&file.path)?, Module::parse(&file.text))));
        Tree(modules.collect())
    }

    /// Returns the module that a path names, or that defines the item that it names; `None` if it is not in the
    /// library.
    fn resolve(&self, from: &[String], path: &[String], hops: usize) -> Option<Path> {
        let mut at = from.to_vec();
        let mut rest = path;
        let mut is_rooted = false;
        while let Some((first, more)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            (is_rooted, rest) = (true, more);
        }
        while let Some((name, more)) = rest.split_first() {
            if name == "*" {
                break;
            }
            let child: Path = at.iter().chain([name]).cloned().collect();
            if self.0.contains_key(&child) {
                (at, rest, is_rooted) = (child, more, true);
                continue;
            }
            let passed_on = if hops > 0 { self.passed_on(&at, name, hops - 1) } else { None };
            return match passed_on {
                Some((module, true)) => self.resolve(&module, more, hops - 1),
                Some((module, false)) => Some(module),
                None => is_rooted.then_some(at),
            };
        }
        is_rooted.then_some(at)
    }

    /// Returns the origin of a name that a module has imported, and whether the name is a module itself.
    fn passed_on(&self, module: &[String], name: &str, hops: usize) -> Option<(Path, bool)> {
        let imports = || self.0.get(module).into_iter().flat_map(|module| &module.imports).filter(|i| i.depth == 0);
        if let Some(import) = imports().find(|import| import.name == name && import.path != [name]) {
            let found = self.resolve(module, &import.path, hops)?;
            let is_module = found.last() == import.path.last();
            return Some((found, is_module));
        }
        let globs = imports().filter(|import| import.name == "*");
        let mut targets = globs.filter_map(|import| self.resolve(module, &import.path, hops));
        let target = targets.find(|target| self.0.get(target).is_some_and(|module| module.defines(name)))?;
        Some((target, false))
    }

    /// Returns the imports within each folder.
    pub(super) fn arrows(&self) -> BTreeSet<Arrow> {
        let mut found = BTreeSet::new();
        for (from, module) in &self.0 {
            // An inline module's own names do not matter: only the number of `super` from it counts.
            let seen_from = |depth: usize| from.iter().cloned().chain(vec!["{inline}".into(); depth]).collect::<Path>();
            let is_imported = |import: &&Import| !import.is_public || import.name != "*" && module.says(&import.name);
            let is_outside = |to: &Path| !to.starts_with(from);
            for import in &module.imports {
                let to = self.resolve(&seen_from(import.depth), &import.path, 8);
                found.extend(
                    to.filter(|to| is_outside(to) || is_imported(&import))
                        .and_then(|to| arrow(from, &to, &import.path)),
                );
            }
            for (depth, path) in &module.named {
                let to = self.resolve(&seen_from(*depth), path, 8);
                found.extend(to.and_then(|to| arrow(from, &to, path)));
            }
        }
        found
    }
}

/// Converts an import of one module by another into an import within the innermost folder that contains both.
fn arrow(from: &[String], to: &[String], path: &[String]) -> Option<Arrow> {
    let to: Path = to.iter().take_while(|name| *name != "{inline}").cloned().collect();
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let child = |path: &[String]| path.get(shared).map_or("mod", String::as_str).to_owned();
    (shared > 0 && from != to).then(|| Arrow {
        folder: from[..shared].join("/"),
        from: child(from),
        to: child(&to),
        import: format!("{} imports {} as {}", from.join("::"), to.join("::"), path.join("::")),
    })
}

/// Returns the cycles: the largest sets of children of a folder that all import each other, directly or not.
fn circles(arrows: &BTreeSet<Arrow>) -> BTreeSet<Circle> {
    let mut next: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows {
        next.entry((&arrow.folder, &arrow.from)).or_default().insert(&arrow.to);
    }
    let reached = |folder: &str, from: &str| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(from) = open.pop() {
            for to in next.get(&(folder, from.as_str())).into_iter().flatten() {
                if reached.insert((*to).to_owned()) {
                    open.push((*to).to_owned());
                }
            }
        }
        reached
    };
    let mut found = BTreeSet::new();
    for (folder, from) in next.keys() {
        let all = reached(folder, from);
        let circle: BTreeSet<String> = all.into_iter().filter(|to| reached(folder, to).contains(*from)).collect();
        if !circle.is_empty() {
            found.insert(((*folder).to_owned(), circle));
        }
    }
    found
}

/// Returns the cycles that are not permitted, with their imports, and the exceptions that are not needed any more.
fn complaints(arrows: &BTreeSet<Arrow>, excepted: &[(&str, &[&str])]) -> Vec<String> {
    let circles = circles(arrows);
    let mut complaints = Vec::new();
    for (folder, circle) in &circles {
        let is_excepted = |(place, members): &(&str, &[&str])| {
            place == folder && circle.iter().all(|member| members.contains(&member.as_str()))
        };
        if !excepted.iter().any(is_excepted) {
            let members: Vec<&str> = circle.iter().map(String::as_str).collect();
            let is_in_it =
                |arrow: &&Arrow| arrow.folder == *folder && circle.contains(&arrow.from) && circle.contains(&arrow.to);
            let imports = arrows.iter().filter(is_in_it).map(|arrow| format!("\n    {}", arrow.import));
            complaints.push(format!("{folder}/{{{}}}{}", members.join(", "), imports.collect::<String>()));
        }
    }
    for (folder, members) in excepted {
        for member in *members {
            if !circles.iter().any(|(place, circle)| place == folder && circle.contains(*member)) {
                complaints.push(format!("{folder}/{member} is in no circle any more: remove the exception"));
            }
        }
    }
    complaints
}

#[test]
fn no_circle_stands_inside_any_folder() {
    let found = complaints(&Tree::new(&rust_files("src")).arrows(), RECURSIVE);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the cycles among files that are given by path and text.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
    let files: Vec<File> = files.iter().map(file).collect();
    let shown = |(folder, members): Circle| format!("{folder}: {}", members.into_iter().collect::<Vec<_>>().join(" "));
    circles(&Tree::new(&files).arrows()).into_iter().map(shown).collect()
}

#[test]
fn a_circle_is_seen_however_its_imports_are_written() {
    let there = "use crate::room::b::B;";
    let ways = [
        "use super::a::A;",
        "use super::{\n    a::{self, A},\n};",
        "use crate::room::{c, a as other};",
        "fn f() {\n    crate::room::a::f();\n}",
        "mod tests {\n    use super::super::a::A;\n}",
        "use crate::room;\nfn f(a: room::a::A) {}",
    ];
    for back in ways {
        let files = [("src/room/mod.rs", ""), ("src/room/a.rs", there), ("src/room/b.rs", back), ("src/room/c.rs", "")];
        assert_eq!(circles_of(&files), ["room: a b"], "{back}");
    }
    for other in
        ["// use super::a::A;", "use other::a::A;", "\"super::a::A\"", "use super::c::A;", "pub(in crate::room::a)"]
    {
        let files =
            [("src/room/mod.rs", ""), ("src/room/a.rs", there), ("src/room/b.rs", other), ("src/room/c.rs", "")];
        assert_eq!(circles_of(&files), [""; 0], "{other}");
    }
}

#[test]
fn a_name_that_is_passed_on_belongs_to_the_module_that_defines_it() {
    let passes_on = "mod a;\nmod b;\npub(crate) use a::A;\npub use b::*;\nstruct Own;";
    let files = |a, b| [("src/room/mod.rs", passes_on), ("src/room/a.rs", a), ("src/room/b.rs", b)];
    let (a, b) = ("struct A;\nuse crate::room::B;", "pub struct B;");
    assert_eq!(circles_of(&files(a, b)), [""; 0]);
    assert_eq!(circles_of(&files(a, "pub struct B;\nuse crate::room::A;")), ["room: a b"]);
    assert_eq!(circles_of(&files("struct A;\nuse super::Own;", b)), [""; 0]);
    // The parent needs the child for the items that it defines itself.
    let needs = "mod a;\npub(crate) use a::A;\nstruct Own(A);";
    assert_eq!(
        circles_of(&[("src/room/mod.rs", needs), ("src/room/a.rs", "struct A;\nuse super::Own;")]),
        ["room: a mod"]
    );
}

#[test]
fn circles_are_seen_at_every_level_and_between_folders_as_wholes() {
    let files = [
        ("src/room/mod.rs", ""),
        ("src/room/one/mod.rs", ""),
        ("src/room/one/a.rs", "use crate::room::two::c::C;"),
        ("src/room/one/b.rs", "use super::d::D;"),
        ("src/room/one/d.rs", "use super::b::B;"),
        ("src/room/two.rs", ""),
        ("src/room/two/c.rs", ""),
        ("src/room/two/e.rs", "use crate::room::one::b::B;"),
    ];
    assert_eq!(circles_of(&files), ["room: one two", "room/one: b d"]);
}

#[test]
fn an_exception_permits_a_circle_and_is_rejected_when_it_is_stale() {
    let arrow = |from: &str, to: &str| Arrow {
        folder: "room".to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        import: format!("{from} imports {to}"),
    };
    let circle = BTreeSet::from([arrow("a", "b"), arrow("b", "a")]);
    assert_eq!(complaints(&circle, &[]), ["room/{a, b}\n    a imports b\n    b imports a"]);
    assert_eq!(complaints(&circle, &[("room", &["a", "b"])]), [""; 0]);
    assert_eq!(complaints(&circle, &[("other", &["a", "b"])]).len(), 3);
    let stale = "room/c is in no circle any more: remove the exception";
    assert_eq!(complaints(&circle, &[("room", &["a", "b", "c"])]), [stale]);
    assert_eq!(complaints(&BTreeSet::from([arrow("a", "b")]), &[("room", &["c"])]), [stale]);
}
