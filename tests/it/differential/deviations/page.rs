//! `docs/COMPATIBILITY.md`: the deviations by command family, derived from the tables and the rows of the commands.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use keylatch::internals::config::{REDIS_VERSION, Setting};
use keylatch::internals::{CommandSpec, table};

use super::super::suite_table;
use super::behaviour::BEHAVIOUR;
use super::{DECLARED, REPLIES};
use crate::harness::TestServer;

/// Subject of a row.
pub(super) enum Of {
    /// Commands by name, with a subcommand after `|`; the first one decides the family.
    Commands(&'static [&'static str]),
    /// A setting.
    Setting(&'static str),
    /// A field or a section of INFO.
    Info(&'static str),
    /// No single command.
    General(Area),
}

/// Section of the page, in its order: first the families of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Area {
    String,
    Bitmap,
    HyperLogLog,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
    Geo,
    Json,
    Probabilistic,
    VectorSet,
    Lock,
    Generic,
    Transactions,
    PubSub,
    Connection,
    Scripting,
    Acl,
    Server,
    Cluster,
    DataTypes,
    Wire,
    Configuration,
    Info,
    Memory,
    Expiry,
    Clients,
    Process,
}

impl Area {
    const ALL: [Area; 29] = [
        Area::String,
        Area::Bitmap,
        Area::HyperLogLog,
        Area::List,
        Area::Set,
        Area::SortedSet,
        Area::Hash,
        Area::Stream,
        Area::Geo,
        Area::Json,
        Area::Probabilistic,
        Area::VectorSet,
        Area::Lock,
        Area::Generic,
        Area::Transactions,
        Area::PubSub,
        Area::Connection,
        Area::Scripting,
        Area::Acl,
        Area::Server,
        Area::Cluster,
        Area::DataTypes,
        Area::Wire,
        Area::Configuration,
        Area::Info,
        Area::Memory,
        Area::Expiry,
        Area::Clients,
        Area::Process,
    ];

    fn title(self) -> &'static str {
        match self {
            Area::String => "String",
            Area::Bitmap => "Bitmap",
            Area::HyperLogLog => "HyperLogLog",
            Area::List => "List",
            Area::Set => "Set",
            Area::SortedSet => "Sorted set",
            Area::Hash => "Hash",
            Area::Stream => "Stream",
            Area::Geo => "Geo",
            Area::Json => "JSON",
            Area::Probabilistic => "Probabilistic types",
            Area::VectorSet => "Vector set",
            Area::Lock => "Locks",
            Area::Generic => "Generic",
            Area::Transactions => "Transactions",
            Area::PubSub => "Pub/sub",
            Area::Connection => "Connection",
            Area::Scripting => "Scripting",
            Area::Acl => "ACL",
            Area::Server => "Server",
            Area::Cluster => "Cluster",
            Area::DataTypes => "Other data types",
            Area::Wire => "Wire protocol",
            Area::Configuration => "Configuration",
            Area::Info => "INFO",
            Area::Memory => "Memory",
            Area::Expiry => "Expiry",
            Area::Clients => "Clients",
            Area::Process => "Process",
        }
    }

    /// Returns the family of a command: its group, except that ACL has its own section.
    fn of_command(spec: &CommandSpec) -> Area {
        if spec.name.split('|').next() == Some("acl") {
            return Area::Acl;
        }
        match spec.command.group.name() {
            "string" => Area::String,
            "bitmap" => Area::Bitmap,
            "hyperloglog" => Area::HyperLogLog,
            "list" => Area::List,
            "set" => Area::Set,
            "sorted-set" => Area::SortedSet,
            "hash" => Area::Hash,
            "stream" => Area::Stream,
            "geo" => Area::Geo,
            "json" => Area::Json,
            "bf" | "cf" | "cms" | "topk" | "tdigest" => Area::Probabilistic,
            "vector_set" => Area::VectorSet,
            "lock" => Area::Lock,
            "generic" => Area::Generic,
            "transactions" => Area::Transactions,
            "pubsub" => Area::PubSub,
            "connection" => Area::Connection,
            "scripting" => Area::Scripting,
            "server" => Area::Server,
            "cluster" => Area::Cluster,
            group => panic!("the page has no section for the group {group}"),
        }
    }
}

impl Of {
    fn area(&self) -> Area {
        match self {
            Of::Commands(names) => Area::of_command(known(names[0])),
            // Readers look for memory limits there.
            Of::Setting(name) if name.starts_with("maxmemory") => Area::Memory,
            Of::Info(name) if name.starts_with("used_memory") => Area::Memory,
            Of::Setting(_) => Area::Configuration,
            Of::Info(_) => Area::Info,
            Of::General(area) => *area,
        }
    }

    /// Returns the text of the first column that precedes the case.
    fn shown(&self) -> String {
        match self {
            Of::Commands(names) => names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", "),
            Of::Setting(name) | Of::Info(name) => format!("`{name}`"),
            Of::General(_) => String::new(),
        }
    }
}

/// Finds a command by its name, with a subcommand after `|`.
fn find(name: &str) -> Option<&'static CommandSpec> {
    table().every().find(|spec| spec.name == name)
}

fn known(name: &str) -> &'static CommandSpec {
    find(name).unwrap_or_else(|| panic!("a row is of {name}, which is no command"))
}

fn shown(command: &str) -> String {
    format!("`{}`", command.replace('|', " ").to_uppercase())
}

/// Returns the name of the command of a line, with its subcommand; `None` if keylatch does not have it.
fn called(line: &str) -> Option<String> {
    let mut words = line.split(' ').map(str::to_lowercase);
    let name = words.next().expect("a line has a word");
    let subcommand = words.next().map(|word| format!("{name}|{word}"));
    subcommand.filter(|name| find(name).is_some()).or_else(|| find(&name).map(|_| name.clone()))
}

/// Returns the section of a line of [`REPLIES`].
fn area_of_line(line: &str) -> Area {
    match called(line).as_deref() {
        None => Area::DataTypes,
        Some("config|set") => Area::Configuration,
        Some(name) => Area::of_command(known(name)),
    }
}

/// Shortens a reply to the part that matters to a reader.
fn reply(text: &str) -> String {
    let is_unknown = text.starts_with("-ERR unknown command") || text.starts_with("-ERR unknown subcommand");
    if is_unknown { "unknown command".to_owned() } else { format!("`{text}`") }
}

fn row(cells: [&str; 4]) -> String {
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// Returns the rows of every section, by command, setting or field; general ones come last.
fn rows() -> BTreeMap<Area, String> {
    let mut rows: BTreeMap<Area, Vec<(String, String)>> = BTreeMap::new();
    for (of, case, redis, keylatch, why) in BEHAVIOUR {
        let subject = of.shown();
        let parts: Vec<&str> = [subject.as_str(), case].into_iter().filter(|part| !part.is_empty()).collect();
        let key = subject.split(',').next().filter(|name| !name.is_empty()).unwrap_or("~").to_owned();
        rows.entry(of.area()).or_default().push((key, row([&parts.join(": "), redis, keylatch, why])));
    }
    for (line, redis, keylatch, why) in REPLIES {
        let key = called(line).map_or_else(String::new, |name| shown(&name));
        let cells = [&format!("`{line}`"), &reply(redis), &reply(keylatch), *why];
        rows.entry(area_of_line(line)).or_default().push((key, row(cells)));
    }
    let sorted = |mut rows: Vec<(String, String)>| {
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows.into_iter().map(|(_, row)| row).collect()
    };
    rows.into_iter().map(|(area, rows)| (area, sorted(rows))).collect()
}

/// Returns, for every section, the differences declared by COMMAND and COMMAND DOCS, without the existence of commands
/// in [`REPLIES`].
fn declared() -> BTreeMap<Area, Vec<String>> {
    let mut items: BTreeMap<Area, Vec<String>> = BTreeMap::new();
    for (of, field, why) in DECLARED {
        if *field == "existence" {
            if !REPLIES.iter().any(|(line, ..)| called(line).as_deref() == Some(of)) {
                items.entry(Area::of_command(known(of))).or_default().push(format!("{} is there ({why})", shown(of)));
            }
        } else {
            let field = field.trim_start_matches("docs: ");
            items.entry(Area::of_command(known(of))).or_default().push(format!("{field} of {} ({why})", shown(of)));
        }
    }
    items
}

/// Returns the page, from its title to the end.
fn page() -> String {
    let (rows, declared) = (rows(), declared());
    let areas: Vec<Area> =
        Area::ALL.into_iter().filter(|area| rows.contains_key(area) || declared.contains_key(area)).collect();
    let anchor = |title: &str| {
        let kept = title.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>()
    };
    let mut titles: Vec<&str> = areas.iter().map(|area| area.title()).collect();
    titles.extend([CLIENTS_TITLE, suite_table::TITLE]);
    let contents: Vec<String> = titles.iter().map(|title| format!("[{title}](#{})", anchor(title))).collect();
    let mut page = format!(
        "# Compatibility\n\n\
         keylatch reports version {REDIS_VERSION} and replies byte for byte as Redis 7.0.15, in RESP2 and RESP3, to every command that\n\
         it has; this page lists every intended difference. Differential tests send the same bytes to both servers and compare\n\
         (`tests/it/differential.rs`). Where Redis has changed between 7.0 and {REDIS_VERSION}, keylatch behaves as {REDIS_VERSION}; the\n\
         reason then names the version. Replies and declarations are checked: an entry that is no longer true fails a test.\n\
         The page is generated: `KEYLATCH_BLESS=1 cargo test --test it deviations`.\n\n\
         Contents: {}.\n",
        contents.join(" · ")
    );
    // Writing to a string cannot fail.
    for area in areas {
        let _ = writeln!(page, "\n## {}", area.title());
        if let Some(rows) = rows.get(&area) {
            let _ = write!(page, "\n| {} | Redis 7.0.15 | keylatch | Why |\n|---|---|---|---|\n{rows}", column(area));
        }
        if let Some(items) = declared.get(&area) {
            let _ = writeln!(page, "\nDeclared differently by `COMMAND` and `COMMAND DOCS`: {}.", items.join("; "));
        }
    }
    let _ = write!(
        page,
        "\n## {CLIENTS_TITLE}\n\nAgainst the release binary. What CI repeats is in `tests/clients`, where the three claims about\n\
         locks are explained in `locks.py`.\n\n| Name | Version | Seen doing | In CI |\n|---|---|---|---|\n"
    );
    for line in SEEN.lines() {
        let _ = writeln!(page, "| {line} |");
    }
    page.push_str(&suite_table::section());
    page
}

/// Names the first column of a section.
fn column(area: Area) -> &'static str {
    match area {
        Area::Configuration => "Setting",
        Area::Info => "Field or section",
        Area::Memory => "Setting or field",
        area if area < Area::Wire => "Command",
        _ => "Case",
    }
}

const CLIENTS_TITLE: &str = "Clients and tools seen working";

/// Tested clients and tools: name, version, the tested features, and whether CI repeats the test.
const SEEN: &str = include_str!("../../../clients/seen.txt");

#[test]
fn the_page_of_deviations_says_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/COMPATIBILITY.md");
    if std::env::var_os("KEYLATCH_BLESS").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page(), "COMPATIBILITY.md is stale; run with KEYLATCH_BLESS=1");
}

#[test]
fn every_row_is_of_a_known_command_setting_or_field() {
    let server = TestServer::start();
    let info = server.client().call("INFO everything");
    for (of, case, redis, keylatch, why) in BEHAVIOUR {
        let subject = of.shown();
        match of {
            Of::Commands(names) => assert!(names.iter().all(|name| find(name).is_some()), "{subject} is no command"),
            Of::Setting(name) => {
                assert!(Setting::find(name.as_bytes()).is_some(), "{subject} is no setting");
            }
            Of::Info(name) => {
                let is_field = info.contains(&format!(" {name}:"));
                let is_section = info.to_lowercase().contains(&format!("# {name} "));
                assert!(is_field || is_section, "INFO has no {subject}");
            }
            Of::General(_) => assert!(!case.is_empty(), "a row without a subject needs a case: {redis}"),
        }
        assert!([redis, keylatch, why].iter().all(|cell| !cell.is_empty()), "{subject}: {case}: an empty cell");
    }
    for (of, field, _) in DECLARED {
        assert!(find(of).is_some(), "{of} {field}: no command");
    }
    for (line, _, keylatch, _) in REPLIES {
        assert!(called(line).is_some() || keylatch.starts_with("-ERR unknown command"), "{line}: no command");
    }
}

#[test]
fn every_section_of_the_page_is_in_its_list_once_and_in_order() {
    assert!(Area::ALL.windows(2).all(|pair| pair[0] < pair[1]));
    for spec in table().every() {
        assert!(Area::ALL.contains(&Area::of_command(spec)), "{}", spec.name);
    }
}

#[test]
fn the_versions_that_were_seen_are_those_that_ci_installs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("text");
    let pinned = [read("requirements.txt"), read("package.json"), read("rust/Cargo.toml")].concat();
    // `name==1`, `"name": "1"`, `name = "=1"` and `name = { version = "=1", ...`
    for line in pinned.lines().map(|line| line.replace("{ version =", "").replace(['"', ',', ':', '='], " ")) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let is_pin = version.starts_with(|c: char| c.is_ascii_digit()) && version != "0.0.0";
        if is_pin && !["edition", "tokio"].contains(&name) {
            assert!(
                SEEN.lines().any(|seen| seen.split(" | ").nth(1) == Some(version)),
                "{name} {version} is not in seen.txt"
            );
        }
    }
}
