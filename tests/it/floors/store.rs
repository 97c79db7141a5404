//! Layers inside the store: the permitted imports of its modules, and the modules that can change a table of keys.

use std::collections::BTreeSet;

use crate::floors::circles::{Arrow, Tree};
use crate::tidy::{rust_files, without_comments_and_strings};

/// Modules of the store from the top to the bottom. Each may import those below its own layer.
#[rustfmt::skip] // a table
const FLOORS: &[&[&str]] = &[
    &["walking"],
    &["keyspace"],
    &["compact", "evict", "prefetch"],
    &["hold"],
    &["view"],
    &["databases", "sweep"],
    &["shard"],
    &["services"],
    &["reclaim"],
    &["changes", "interest"],
    &["event", "image", "queues", "relocation"],
    &["walk"],
    &["entry", "value"],
    &["mod", "resident"],
    &["gate", "lock"],
    &["change_records", "expire", "fences", "generation", "memory_account", "table", "tail_work"],
    &["cx", "key", "limits", "side_record", "sync", "usage"],
];

/// Modules of one layer that import each other: an entry contains a value, and a large value is a table of entries.
const MUTUAL: &[&[&str]] = &[&["entry", "value"]];

/// Returns the imports that do not go down, and the modules that have no layer.
fn complaints(arrows: &BTreeSet<Arrow>) -> Vec<String> {
    let floor_of = |name: &str| FLOORS.iter().position(|floor| floor.contains(&name));
    let is_mutual = |arrow: &Arrow| {
        MUTUAL.iter().any(|pair| pair.contains(&arrow.from.as_str()) && pair.contains(&arrow.to.as_str()))
    };
    let mut complaints = Vec::new();
    for arrow in arrows {
        match (floor_of(&arrow.from), floor_of(&arrow.to)) {
            (Some(from), Some(to)) if from < to || is_mutual(arrow) => {}
            _ => complaints.push(format!("{} may not import {}: {}", arrow.from, arrow.to, arrow.import)),
        }
    }
    complaints
}

#[test]
fn imports_inside_the_store_go_down_only() {
    let arrows = Tree::new(&rust_files("src")).arrows();
    let inside: BTreeSet<Arrow> = arrows.into_iter().filter(|arrow| arrow.folder == "store").collect();
    let (found, listed) = (complaints(&inside), FLOORS.concat());
    assert!(found.is_empty(), "{}", found.join("\n"));
    let known: BTreeSet<&str> = inside.iter().flat_map(|arrow| [arrow.from.as_str(), arrow.to.as_str()]).collect();
    assert_eq!(BTreeSet::from_iter(listed), known, "the floors and the modules that there are");
}

#[test]
fn an_import_inside_the_store_that_goes_up_is_rejected() {
    let arrow = |from: &str, to: &str| {
        let [folder, from, to] = ["store", from, to].map(str::to_owned);
        BTreeSet::from([Arrow { folder, import: format!("{from} imports {to}"), from, to }])
    };
    assert_eq!(complaints(&arrow("view", "shard")), [""; 0]);
    assert_eq!(complaints(&arrow("value", "entry")), [""; 0]);
    assert_eq!(complaints(&arrow("shard", "view")), ["shard may not import view: shard imports view"]);
    assert_eq!(complaints(&arrow("new", "key")), ["new may not import key: new imports key"]);
}

#[test]
fn the_table_of_a_shard_can_be_changed_in_one_file_only() {
    let mut owners = BTreeSet::new();
    for file in rust_files("src") {
        let is_of_the_store = file.path.starts_with("src/store/") && !file.path.starts_with("src/store/value/");
        let code: Vec<String> = file.text.lines().map(without_comments_and_strings).collect();
        if is_of_the_store && code.iter().any(|line| line.ends_with("table: Table<Entry>,")) {
            owners.insert(file.path.clone());
        }
        assert!(
            !code.iter().any(|line| line.contains("&mut Table<Entry>")),
            "{} lends a table to be changed",
            file.path
        );
    }
    // Values to be freed do not belong to a shard any more.
    assert_eq!(owners, ["src/store/reclaim.rs", "src/store/shard/keys.rs"].map(str::to_owned).into());
}
