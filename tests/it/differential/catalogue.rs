//! Compares COMMAND, COMMAND DOCS and CONFIG GET of both servers field by field.
//!
//! Differences must be listed in `deviations::DECLARED` with a reason, and listed ones must exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use bytes::BytesMut;
use keylatch::internals::config::Setting;
use keylatch::internals::resp::{Frame, FrameDecoder};
use tokio_util::codec::Decoder;

use super::deviations::DECLARED;
use super::oracle::Arena;
use crate::probabilistic;

/// Field values, by their item and the field's name.
type Facts = BTreeMap<(String, String), String>;

/// Settings whose values depend on this process or machine.
const LOCAL_SETTINGS: [&str; 6] = ["port", "bind", "unixsocket", "dir", "save", "enable-debug-command"];

#[test]
fn commands_and_settings_declare_what_redis_declares_but_for_the_table() {
    let Some(arena) = Arena::open() else { return };
    let (mut ours, mut theirs) = (Facts::new(), Facts::new());
    for (call, read) in [
        (&["COMMAND"][..], read_commands as fn(Frame, &mut Facts)),
        (&["COMMAND", "DOCS"], read_docs),
        (&["CONFIG", "GET", "*"], read_settings),
    ] {
        let mut pair = arena.pair();
        pair.speak(3);
        let replies = pair.call(call);
        read(frame(replies.keylatch), &mut ours);
        read(frame(replies.redis), &mut theirs);
    }
    try_settings(&arena, &mut ours, &mut theirs);
    let differing = differences(&ours, &theirs);
    let is_here = |of: &str| {
        let is_probabilistic = probabilistic::rows::PREFIXES.iter().any(|prefix| of.starts_with(prefix));
        (cfg!(feature = "lua") || of.split('|').next() != Some("script"))
            && (cfg!(feature = "probabilistic") || !is_probabilistic)
    };
    let declared = DECLARED.iter().filter(|(of, ..)| is_here(of));
    let declared: BTreeSet<(String, String)> = declared.map(|(of, field, _)| ((*of).into(), (*field).into())).collect();
    let mut complaints = String::new();
    for key in differing.difference(&declared) {
        let text = |facts: &Facts| facts.get(key).cloned().unwrap_or_else(|| "(not there)".into());
        let _ =
            writeln!(complaints, "{} {}:\n  redis:    {}\n  keylatch: {}", key.0, key.1, text(&theirs), text(&ours));
    }
    for (of, field) in declared.difference(&differing) {
        let _ = writeln!(complaints, "{of} {field}: the table says it differs, but it does not");
    }
    assert!(complaints.is_empty(), "the declarations are not those of Redis:\n{complaints}");
}

#[test]
fn every_container_has_a_help_that_begins_and_ends_as_that_of_redis() {
    let Some(arena) = Arena::open() else { return };
    for command in keylatch::internals::table().all().iter().filter(|command| !command.subcommands.is_empty()) {
        let replies = arena.pair().call(&[&command.name, "HELP"]);
        if command.name == "cluster" {
            assert_eq!(replies.keylatch, replies.redis, "where there is no cluster, its HELP is refused as well");
            continue;
        }
        let ours = lines(replies.keylatch);
        if !is_ours_alone(&command.name) {
            let theirs = lines(replies.redis);
            let frame = |lines: &[String]| (lines[0].clone(), lines[lines.len() - 2..].to_vec());
            assert_eq!(frame(&ours), frame(&theirs), "{}", command.name);
        }
        for sub in &command.subcommands {
            let is_called = |line: &String| line.split(' ').next() == Some(sub.command.name);
            assert!(ours.iter().any(is_called), "{} is not explained", sub.name);
        }
        assert!(ours[1..].chunks(2).all(|pair| !pair[0].starts_with(' ') && pair[1].starts_with("    ")), "{ours:?}");
    }
}

#[test]
fn command_list_names_commands_and_subcommands_that_redis_lists() {
    let Some(arena) = Arena::open() else { return };
    let replies = arena.pair().call(&["COMMAND", "LIST"]);
    let (ours, theirs) = (lines(replies.keylatch), lines(replies.redis));
    for name in &ours {
        assert!(theirs.contains(name) || is_ours_alone(&name.to_lowercase()), "{name}");
    }
    assert!(ours.iter().any(|name| name == "client|list") && ours.iter().any(|name| name == "command|help"));
}

/// Returns true if Redis 7.0.15 lacks a command.
fn is_ours_alone(name: &str) -> bool {
    DECLARED.iter().any(|(of, field, _)| (*of, *field) == (name, "existence"))
}

fn lines(reply: Option<Vec<u8>>) -> Vec<String> {
    items(frame(reply)).iter().map(text).collect()
}

/// Returns the differing fields of items of both servers, and the items of keylatch alone.
fn differences(ours: &Facts, theirs: &Facts) -> BTreeSet<(String, String)> {
    let known = |facts: &Facts| facts.keys().map(|(of, _)| of.clone()).collect::<BTreeSet<_>>();
    let (we_know, they_know) = (known(ours), known(theirs));
    let both: BTreeSet<_> = we_know.intersection(&they_know).cloned().collect();
    let ours_alone = we_know.difference(&they_know).map(|of| (of.clone(), "existence".to_owned()));
    let keys: BTreeSet<_> = ours.keys().chain(theirs.keys()).filter(|(of, _)| both.contains(of)).cloned().collect();
    keys.into_iter().filter(|key| ours.get(key) != theirs.get(key)).chain(ours_alone).collect()
}

fn frame(reply: Option<Vec<u8>>) -> Frame {
    let mut bytes = BytesMut::from(&reply.expect("a reply")[..]);
    FrameDecoder::new().decode(&mut bytes).expect("well formed").expect("complete")
}

fn read_commands(reply: Frame, facts: &mut Facts) {
    for command in items(reply) {
        read_command(command, facts);
    }
}

fn read_command(command: Frame, facts: &mut Facts) {
    const FIELDS: [&str; 8] =
        ["arity", "flags", "first key", "last key", "key step", "ACL categories", "tips", "key specs"];
    let mut parts = items(command).into_iter();
    let name = text(&parts.next().expect("a name")).to_lowercase();
    for (field, part) in FIELDS.into_iter().zip(parts.by_ref()) {
        facts.insert((name.clone(), field.into()), canonical(&part));
    }
    let subcommands = items(parts.next().expect("subcommands"));
    let names: BTreeSet<String> = subcommands.iter().map(|sub| text(&items(sub.clone())[0])).collect();
    facts.insert((name, "subcommands".into()), format!("{names:?}"));
    subcommands.into_iter().for_each(|sub| read_command(sub, facts));
}

fn read_docs(reply: Frame, facts: &mut Facts) {
    let Frame::Map(commands) = reply else { panic!("COMMAND DOCS is a map") };
    for (name, docs) in commands {
        let Frame::Map(fields) = docs else { panic!("docs are a map") };
        for (field, value) in fields {
            match text(&field).as_str() {
                "summary" | "history" => {}
                "subcommands" => read_docs(value, facts),
                field => drop(facts.insert((text(&name).to_lowercase(), format!("docs: {field}")), canonical(&value))),
            }
        }
    }
}

fn read_settings(reply: Frame, facts: &mut Facts) {
    let Frame::Map(settings) = reply else { panic!("CONFIG GET is a map") };
    for (name, value) in settings.iter().map(|(name, value)| (text(name), text(value))) {
        let came_later = Setting::find(name.as_bytes()).is_some_and(|(_, setting)| setting.since.is_some());
        // With dashes instead of underscores, names of 7.0 are those of 7.2.
        if !LOCAL_SETTINGS.contains(&name.as_str()) && !came_later && !name.ends_with("-cpulist") {
            facts.insert((format!("setting {name}"), "default".into()), value);
        }
    }
}

/// Sets every setting to its present value: this shows which settings can be changed, and that the value reads the
/// same.
fn try_settings(arena: &Arena, ours: &mut Facts, theirs: &mut Facts) {
    let mut pair = arena.pair();
    let both: Vec<_> = ours.keys().filter(|(_, field)| field == "default").cloned().collect();
    for (of, field) in both {
        let Some(value) = theirs.get(&(of.clone(), field)) else { continue };
        let replies = pair.call(&["CONFIG", "SET", of.trim_start_matches("setting "), value]);
        for (facts, reply) in [(&mut *ours, replies.keylatch), (&mut *theirs, replies.redis)] {
            facts.insert((of.clone(), "CONFIG SET".into()), crate::harness::show(&reply.expect("a reply")));
        }
    }
}

fn items(frame: Frame) -> Vec<Frame> {
    match frame {
        Frame::Array(items) | Frame::Set(items) => items,
        other => panic!("a list, not {other:?}"),
    }
}

fn text(frame: &Frame) -> String {
    String::from_utf8_lossy(frame.as_bytes().expect("text")).into_owned()
}

/// Formats a value independently of the order of the elements of sets and maps.
fn canonical(frame: &Frame) -> String {
    let sorted = |mut items: Vec<String>| {
        items.sort();
        items.join(", ")
    };
    match frame {
        Frame::Integer(value) => value.to_string(),
        Frame::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(", ")),
        Frame::Set(items) => format!("{{{}}}", sorted(items.iter().map(canonical).collect())),
        Frame::Map(pairs) => {
            format!(
                "{{{}}}",
                sorted(pairs.iter().map(|(k, v)| format!("{}: {}", canonical(k), canonical(v))).collect())
            )
        }
        other => text(other),
    }
}
