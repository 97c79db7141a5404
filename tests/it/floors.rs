//! The layers: the imports that each module of the library may have, and the files at the root of the sources.
//!
//! Imports go down only, so that a layer can be read, tested and changed without the layers above it.

use std::collections::BTreeSet;
use std::fs;

mod circles;
mod names;
mod store;

use crate::tidy::{File, root, rust_files, without_comments_and_strings};

/// Modules from the top to the bottom, each with its permitted imports.
#[rustfmt::skip] // a table
const FLOORS: &[(&str, &[&str])] = &[
    ("main", &[]),
    ("lib", &["acl", "app", "client", "command", "config", "dispatch", "explore", "instance", "namespace", "net", "persist", "push", "rdb", "resp", "runtime", "spec", "store", "test_mode", "text", "time", "types", "upkeep"]),
    ("app", &["command", "config", "dial", "memory", "net", "resp", "runtime", "text", "time"]),
    ("explore", &["command", "dispatch", "namespace", "net", "random", "spec", "test_mode", "time", "upkeep"]),
    ("net", &["acl", "client", "command", "config", "dial", "dispatch", "durability", "engine", "error", "instance", "memory", "metrics", "namespace", "persist", "replication", "resp", "runtime", "store", "test_mode", "text", "time", "upkeep", "topology", "glob", "push"]),
    ("engine", &["client", "command", "config", "dispatch", "error", "memory", "namespace", "observe", "persist", "push", "random", "rdb", "resp", "spec", "store", "time", "types", "topology"]),
    ("replication", &["client", "command", "config", "dial", "dispatch", "durability", "namespace", "persist", "random", "resp", "store", "text", "time"]),
    ("durability", &["client", "config", "dispatch", "memory", "namespace", "persist", "rdb", "resp", "runtime", "store", "text", "time"]),
    ("upkeep", &["client", "dispatch", "namespace", "runtime", "store", "time"]),
    ("metrics", &["acl", "client", "command", "dispatch", "namespace", "observe", "resp", "spec", "text"]),
    ("command", &["acl", "client", "config", "dispatch", "error", "glob", "json", "memory", "murmur", "namespace", "observe", "persist", "probabilistic", "push", "rdb", "resp", "runtime", "script", "spec", "store", "test_mode", "text", "time", "types", "vectors", "topology", "profile"]),
    ("dispatch", &["acl", "client", "config", "error", "memory", "namespace", "observe", "persist", "push", "rdb", "resp", "script", "spec", "store", "test_mode", "text", "time", "types", "topology", "profile"]),
    ("namespace", &["acl", "client", "config", "instance", "memory", "observe", "persist", "push", "resp", "script", "spec", "store", "test_mode", "time", "topology", "error", "profile"]),
    ("instance", &["acl", "client", "config", "memory", "runtime", "spec", "topology"]),
    ("script", &["error", "memory", "observe", "resp", "spec", "runtime", "store", "text", "time", "profile"]),
    ("push", &["acl", "client", "config", "glob", "memory", "observe", "resp", "store", "time"]),
    ("observe", &["client", "config", "memory", "random", "resp", "spec", "store", "text", "time"]),
    ("client", &["acl", "config", "error", "memory", "persist", "resp", "runtime", "spec", "store", "test_mode", "time", "topology"]),
    ("config", &["acl", "error", "glob", "spec", "store", "text", "profile"]),
    ("acl", &["error", "glob", "memory", "resp", "spec", "text", "profile"]),
    ("test_mode", &["error", "glob", "persist", "random", "resp", "spec", "store", "time"]),
    ("persist", &["memory", "random", "rdb", "resp", "runtime", "store", "text", "time", "types"]),
    ("types", &["json", "memory", "probabilistic", "rdb", "resp", "store", "text", "time", "vectors"]),
    ("spec", &["resp", "store", "profile"]),
    ("error", &["store", "text"]),
    ("store", &["memory", "random", "text", "time", "vectors"]),
    ("rdb", &["memory", "resp"]),
    ("resp", &["memory", "text"]),
    ("probabilistic", &["murmur"]),
    ("profile", &["text"]),
    ("text", &[]),
    ("time", &[]),
    ("memory", &[]),
    ("runtime", &[]),
    ("dial", &[]),
    ("glob", &[]),
    ("random", &[]),
    ("json", &[]),
    ("murmur", &[]),
    ("vectors", &[]),
    ("topology", &[]),
];

/// Imports that go up, or that the table does not allow, and remain to be removed. An import that no longer exists must
/// be removed from here too.
const STILL_TO_BE_CUT: &[(&str, &str)] = &[];

/// Files at the root of the sources.
const ROOT_FILES: [&str; 7] = ["error.rs", "glob.rs", "instance.rs", "lib.rs", "main.rs", "murmur.rs", "random.rs"];

/// Import: the importing module, the imported module, and the file.
type Arrow = (String, String, String);

/// Returns the module at the root that a source file belongs to, and the file's depth in modules.
fn place_of(path: &str) -> (String, usize) {
    let inside = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs").trim_end_matches("/mod");
    let parts: Vec<&str> = inside.split('/').collect();
    (parts[0].to_owned(), parts.len())
}

/// Returns the imports from the root of the library, by `crate::name`, `crate::{name, ...}`, or enough `super::`; unit
/// tests are no exception.
fn imports(file: &File) -> BTreeSet<String> {
    let code: Vec<String> = file.text.lines().map(without_comments_and_strings).collect();
    let code = code.join("\n");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            found.extend(first_names(&code[at + "crate::".len()..]));
        }
    }
    let (_, depth) = place_of(&file.path);
    let mut inline = 0;
    for line in code.lines() {
        match line {
            "}" => inline = 0,
            line if line.starts_with("mod ") && line.ends_with('{') => inline = 1,
            _ => {}
        }
        let climb = "super::".repeat(depth + inline);
        found.extend(line.split(&climb).skip(1).flat_map(first_names));
    }
    found
}

/// Returns the first name of a path, or of every path of a group in braces.
fn first_names(path: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn arrows_of(files: &[File]) -> BTreeSet<Arrow> {
    let of_file = |file: &File| {
        let (top, _) = place_of(&file.path);
        let others = imports(file).into_iter().filter(|name| *name != top).collect::<Vec<_>>();
        others.into_iter().map(|name| (top.clone(), name, file.path.clone())).collect::<Vec<_>>()
    };
    files.iter().flat_map(of_file).collect()
}

/// Returns the forbidden imports, and errors in the lists themselves.
fn complaints(arrows: &BTreeSet<Arrow>, floors: &[(&str, &[&str])], to_be_cut: &[(&str, &str)]) -> Vec<String> {
    let floor_of = |name: &str| floors.iter().position(|(module, _)| *module == name);
    let mut complaints = Vec::new();
    for (at, (module, below)) in floors.iter().enumerate() {
        for name in *below {
            if floor_of(name).is_none_or(|floor| floor <= at) {
                complaints.push(format!("the table lets {module} import {name}, which does not lie below it"));
            }
        }
    }
    for (from, to, file) in arrows {
        let allowed = floors.iter().find(|(module, _)| module == from).map(|(_, below)| below.contains(&to.as_str()));
        match (allowed, floor_of(to)) {
            (None, _) => complaints.push(format!("{file}: the table does not know the module {from}")),
            (_, None) => complaints.push(format!("{file}: the table does not know the module {to}")),
            (Some(true), _) => {}
            (Some(false), _) if to_be_cut.contains(&(from, to)) => {}
            (Some(false), _) => complaints.push(format!("{file}: {from} may not import {to}")),
        }
    }
    for (from, to) in to_be_cut {
        if !arrows.iter().any(|(a, b, _)| a == from && b == to) {
            complaints.push(format!("{from} does not import {to} any more: remove the exception"));
        }
    }
    complaints
}

#[test]
fn imports_go_down_only() {
    let files = rust_files("src");
    let known: BTreeSet<String> = files.iter().map(|file| place_of(&file.path).0).collect();
    let listed: BTreeSet<String> = FLOORS.iter().map(|(module, _)| (*module).to_owned()).collect();
    assert_eq!(listed, known, "the table and the modules that there are");
    let found = complaints(&arrows_of(&files), FLOORS, STILL_TO_BE_CUT);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Modules that few files may import, because each is a feature of its own: at most [`KNOWING_FILES_MAX`] files besides
/// its own, those of its commands, and the list of modules.
const LITTLE_KNOWN: [&str; 1] = ["test_mode"];
const KNOWING_FILES_MAX: usize = 5;

#[test]
fn few_files_know_test_mode() {
    let arrows = arrows_of(&rust_files("src"));
    for room in LITTLE_KNOWN {
        let own = ["src/lib.rs", "src/explore/", &format!("src/command/{room}/")];
        let is_own = |file: &str| own.iter().any(|path| file.starts_with(path));
        let knowing = arrows.iter().filter(|(_, to, file)| to == room && !is_own(file));
        let knowing: Vec<&str> = knowing.map(|(.., file)| file.as_str()).collect();
        assert!(knowing.len() <= KNOWING_FILES_MAX, "{room} is known to {knowing:?}");
    }
}

/// Files with a thread-local: the executor and what it does between two polls, memory that is used again, and the host
/// of the running script. The store, dispatch and whatever is between them pass on what they know.
const WITH_THREAD_LOCALS: &[&str] = &[
    "src/memory/slab.rs",
    "src/rdb/lzf.rs",
    "src/runtime/batched_notify.rs",
    "src/runtime/executor.rs",
    "src/script/host.rs",
];

#[test]
fn no_thread_local_carries_anything_from_one_layer_to_another() {
    let has_any = |file: &File| {
        let is_one = |line: &str| line.contains("thread_local!") || line.contains("#[thread_local]");
        file.text.lines().map(without_comments_and_strings).any(|line| is_one(&line))
    };
    let found: BTreeSet<String> = rust_files("src").into_iter().filter(has_any).map(|file| file.path).collect();
    assert_eq!(found, WITH_THREAD_LOCALS.iter().map(|path| (*path).to_owned()).collect());
}

#[test]
fn only_the_library_the_binary_and_a_few_leaves_lie_at_the_root_of_the_sources() {
    let entries = fs::read_dir(root().join("src")).expect("the sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files: BTreeSet<String> = paths
        .filter(|path| !path.is_dir())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, ROOT_FILES.map(str::to_owned).into());
}

#[test]
fn every_way_to_import_is_seen() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let seen = |path: &str, text: &str| imports(&file(path, text)).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(seen("src/a/b.rs", "use crate::one::X;\nlet y = crate::two::f(&crate::three);"), "one three two");
    assert_eq!(seen("src/a/b.rs", "use crate::{\n    one::{X, Y},\n    two, three as four,\n};"), "one three two");
    assert_eq!(seen("src/a/b.rs", "// use crate::one;\n/// [`crate::two`]\n\"crate::three\"; my_crate::four();"), "");
    assert_eq!(
        seen("src/a/mod.rs", "use super::one::X;\nmod tests {\n    use super::*;\n    use super::super::two;\n}"),
        "one two"
    );
    assert_eq!(seen("src/a/b.rs", "use super::c;\nuse super::super::one;"), "one");
    assert_eq!(seen("src/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::one;\n}"), "one");
}

#[test]
fn an_import_up_an_unknown_module_a_cycle_and_a_stale_exception_are_rejected() {
    let arrow = |from: &str, to: &str| BTreeSet::from([(from.to_owned(), to.to_owned(), "f.rs".to_owned())]);
    let floors: &[(&str, &[&str])] = &[("top", &["low"]), ("low", &[])];
    assert_eq!(complaints(&arrow("top", "low"), floors, &[]), [""; 0]);
    assert_eq!(complaints(&arrow("low", "top"), floors, &[]), ["f.rs: low may not import top"]);
    assert_eq!(complaints(&arrow("low", "top"), floors, &[("low", "top")]), [""; 0]);
    assert_eq!(complaints(&arrow("new", "low"), floors, &[]), ["f.rs: the table does not know the module new"]);
    assert_eq!(complaints(&arrow("top", "new"), floors, &[]), ["f.rs: the table does not know the module new"]);
    let stale = "low does not import top any more: remove the exception";
    assert_eq!(complaints(&arrow("top", "low"), floors, &[("low", "top")]), [stale]);
    let circle: &[(&str, &[&str])] = &[("top", &["low"]), ("low", &["top"])];
    let refused = "the table lets low import top, which does not lie below it";
    assert_eq!(complaints(&arrow("top", "low"), circle, &[]), [refused]);
}
