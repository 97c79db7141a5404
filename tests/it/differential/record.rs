//! Recorded replies of `redis-server` to the stories: keylatch is compared with them also on machines without Redis.
//!
//! Each text of stories has a file, `records/<module>/<name>.txt`, with each line and its reply:
//!
//! ```text
//! HSET h a 1
//!   :1
//! HGETALL h
//!   2 ["a" "1"]              in RESP2
//!   3 {"a" => "1"}           in RESP3; one line where the two are the same
//! ```
//!
//! In the records of [`notifications`](super::notifications) the events follow the reply to each line; events of some
//! classes only have these classes in front.
//!
//! [`noted`] writes a reply, and [`bytes_of`] parses it. Where there is a `redis-server`, a record that differs from
//! its replies fails the test; `KEYLATCH_BLESS=1 cargo test --test it differential` writes all records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};

use super::oracle::{Arena, Heard, Replies};
use super::script::{Differences, moment, unquote};
use crate::tidy::root;

/// Directory of the records, below the root of the project.
pub(super) const FOLDER: &str = "tests/it/differential/records";

/// Mark in place of a reply: the server has closed the connection.
const CLOSED: &str = "(closed)";

/// Mark of an empty reply: no event.
const NOTHING: &str = "(nothing)";

/// Prefix of masked bytes that are not a reply any more: their lines follow.
const LINES: &str = "lines ";

/// Mark of a number that depends on the time.
const MOMENT: &str = "(time)";

/// Number of equal bytes or items from which on they are written as one with their count.
const RUN_LEN_MIN: usize = 50;

/// Runs stories on keylatch and, where it is available, on Redis, compares both with the record, and fails with all
/// differences. They run once for each take: a protocol, or classes of events.
#[track_caller]
pub(super) fn compare<T: Copy + ToString>(
    name: &str,
    takes: &[T],
    stories: &str,
    play: impl Fn(&Arena, T, &str, &mut Ledger),
) {
    let module = Path::new(Location::caller().file()).file_stem().expect("a file").to_owned();
    let file = root().join(FOLDER).join(module).join(format!("{name}.txt"));
    let mut ledger = Ledger { recorded: Entry::read(&file), heard: Entry::all(stories), ..Ledger::default() };
    let arena = Arena::open_for_record();
    let is_written = arena.has_redis() && std::env::var_os("KEYLATCH_BLESS").is_some();
    if !arena.has_redis() {
        let (recorded, told) = (ledger.recorded.iter(), ledger.heard.iter());
        let is_same = recorded.map(|entry| &entry.line).eq(told.map(|entry| &entry.line));
        assert!(is_same, "{} is stale: KEYLATCH_BLESS=1 regenerates it where redis-server is on PATH", file.display());
    }
    for &take in takes {
        (ledger.take, ledger.told) = (take.to_string(), 0);
        for story in stories.split("\n\n") {
            arena.flush();
            ledger.begin_story();
            play(&arena, take, story, &mut ledger);
        }
    }
    if is_written {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a writable repository");
        fs::write(&file, Entry::text(&ledger.heard)).expect("a writable repository");
        ledger.found = Differences::default();
    } else if arena.has_redis() {
        ledger.assert_is_true(&file);
    }
    ledger.found.report();
    ledger.unlike.report();
}

/// Returns the lines of a story.
pub(super) fn lines(story: &str) -> impl Iterator<Item = &str> {
    story.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Line of a story with its replies in order, by take; replies that are the same in all takes have an empty name.
#[derive(Default)]
struct Entry {
    line: String,
    begins_story: bool,
    replies: Vec<BTreeMap<String, String>>,
}

impl Entry {
    /// Returns the lines of stories, without replies.
    fn all(stories: &str) -> Vec<Self> {
        let entry = |(at, line): (usize, &str)| Entry { line: line.into(), begins_story: at == 0, ..Entry::default() };
        stories.split("\n\n").flat_map(|story| lines(story).enumerate().map(entry)).collect()
    }

    /// Reads a record, which must not be empty.
    fn read(file: &Path) -> Vec<Self> {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut entries: Vec<Self> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match (line.strip_prefix("  "), entries.last_mut()) {
                (Some(reply), Some(entry)) => {
                    let is_take = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric());
                    let named = reply.split_once(' ').filter(|(word, _)| is_take(word) && *word != LINES.trim_end());
                    let (take, reply) = named.unwrap_or(("", reply));
                    match entry.replies.last_mut() {
                        Some(last) if !take.is_empty() && !last.contains_key(take) && !last.contains_key("") => {
                            last.insert(take.to_owned(), reply.to_owned());
                        }
                        _ => entry.replies.push(BTreeMap::from([(take.to_owned(), reply.to_owned())])),
                    }
                }
                _ => entries.push(Entry { line: line.to_owned(), ..Entry::default() }),
            }
        }
        entries
    }

    fn text(entries: &[Self]) -> String {
        let mut text = String::new();
        for entry in entries {
            if entry.begins_story && !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "{}", entry.line);
            for replies in &entry.replies {
                let different: BTreeSet<&String> = replies.values().collect();
                if different.len() == 1 {
                    let _ = writeln!(text, "  {}", different.first().expect("one"));
                    continue;
                }
                for (take, reply) in replies {
                    let _ = writeln!(text, "  {take} {reply}");
                }
            }
        }
        text
    }

    fn reply(&self, nth: usize, take: &str) -> Option<&String> {
        let replies = self.replies.get(nth)?;
        replies.get(take).or_else(|| replies.get(""))
    }
}

/// Comparison of stories while they run.
#[derive(Default)]
pub(super) struct Ledger {
    recorded: Vec<Entry>,
    /// Present replies of Redis.
    heard: Vec<Entry>,
    take: String,
    /// Number of lines of this take so far.
    told: usize,
    /// Number of replies to the present line so far.
    nth: usize,
    /// Lines of this story.
    story: String,
    /// Differences between keylatch and Redis.
    unlike: Differences,
    /// Differences between keylatch and the record.
    found: Differences,
}

impl Ledger {
    fn begin_story(&mut self) {
        self.story.clear();
    }

    /// Begins a line.
    pub(super) fn tell(&mut self, line: &str) {
        let _ = writeln!(self.story, "  {line}");
        self.told += 1;
        self.nth = 0;
    }

    /// Compares the next replies to the present line.
    pub(super) fn hear(&mut self, heard: Heard, is_unordered: bool) {
        let agree = if is_unordered { Replies::agree_in_any_order } else { Replies::agree };
        let take = if self.take.parse::<u8>().is_ok() { format!("RESP{}", self.take) } else { self.take.clone() };
        let about = format!("{take}\n{}", self.story);
        let (at, nth, has_redis) = (self.told - 1, self.nth, heard.redis.is_some());
        self.nth += 1;
        if let Some(redis) = heard.redis {
            let replies = &mut self.heard[at].replies;
            replies.resize(replies.len().max(nth + 1), BTreeMap::new());
            replies[nth].insert(self.take.clone(), noted(redis.as_deref(), is_unordered));
            let replies = Replies::of(heard.keylatch.clone(), redis);
            if !agree(&replies) {
                self.unlike.add(&about, &replies);
            }
        }
        if let Some(reply) = self.recorded.get(at).and_then(|entry| entry.reply(nth, &self.take)) {
            let ours = heard.keylatch.map(|reply| without_moments(&reply));
            let replies = Replies::of(ours, bytes_of(reply));
            if !agree(&replies) {
                self.found.add(&format!("{about}on record:"), &replies);
            }
        } else if !has_redis {
            panic!("no reply is on record:\n{about}");
        }
    }

    /// Fails if the record differs from Redis' present replies.
    #[track_caller]
    fn assert_is_true(&self, file: &Path) {
        let (recorded, expected) = (fs::read_to_string(file).unwrap_or_default(), Entry::text(&self.heard));
        let differs = |(at, (a, b)): (usize, (&str, &str))| (a != b).then(|| format!("{}: {a}\n  now: {b}", at + 1));
        let end = std::iter::repeat("(the end)");
        let pairs = recorded.lines().chain(end.clone()).zip(expected.lines().chain(end.clone()));
        let len = recorded.lines().count().max(expected.lines().count());
        let first = pairs.take(len).enumerate().find_map(differs);
        let shown = first.unwrap_or_default();
        assert!(recorded == expected, "stale; KEYLATCH_BLESS=1 regenerates it\n  {}:{shown}", file.display());
    }
}

/// First bytes of one-line replies.
const FLAT: &[u8] = b"+-:,_#(";

/// Writes a reply on one line in a form from which its bytes can be parsed. If its order does not matter, its items are
/// sorted. Numbers that depend on the time are masked.
///
/// ```text
/// "a\r\n"    [:1 "a"]   ~[..]   >[..]   {"k" => "v"}   ="txt:verbatim"
/// +OK   -ERR what   :1   $-1   *-1   _   #t   ,1.5     as they are sent, and -"ERR what" inside of another
/// "x\{100}"  [:0*16]                                   equal bytes, equal items
/// ```
pub(super) fn noted(reply: Option<&[u8]>, is_unordered: bool) -> String {
    let Some(reply) = reply else { return CLOSED.into() };
    if reply.is_empty() {
        return NOTHING.into();
    }
    let reply = &without_moments(reply)[..];
    if let Some(text) = whole(reply, is_unordered)
        && (is_unordered || bytes_of(&text).as_deref() == Some(reply))
    {
        return text;
    }
    let text = escaped(reply).replace('|', "\\x7c");
    let mut lines: Vec<&str> = text.split("\\r\\n").collect();
    if is_unordered {
        // The part after the last line end stays there.
        let end = lines.len() - 1;
        lines[..end].sort_unstable();
    }
    format!("{LINES}{}", lines.join("|"))
}

/// Notes a complete reply or several complete messages; `None` if they are incomplete.
fn whole(reply: &[u8], is_unordered: bool) -> Option<String> {
    let mut at = 0;
    let is_flat = FLAT.contains(reply.first()?);
    if is_flat && reply.windows(2).position(|two| two == b"\r\n")? + 2 == reply.len() {
        let text = escaped(&reply[..reply.len() - 2]);
        // A blank at the end of a line would be invisible.
        return Some(text.strip_suffix(' ').map_or(text.clone(), |text| format!("{text}\\x20")));
    }
    let mut frames = Vec::new();
    while at < reply.len() {
        frames.push(note(reply, &mut at, is_unordered)?);
    }
    Some(frames.join(" "))
}

/// Notes the reply at a position, and moves past it.
fn note(bytes: &[u8], at: &mut usize, is_unordered: bool) -> Option<String> {
    let line_end = *at + bytes.get(*at..)?.windows(2).position(|two| two == b"\r\n")?;
    let (sigil, line) = (char::from(*bytes.get(*at)?), bytes.get(*at + 1..line_end)?);
    let number: Option<usize> = std::str::from_utf8(line).ok().and_then(|digits| digits.parse().ok());
    *at = line_end + 2;
    let (open, close) = match (sigil, number) {
        ('$' | '=' | '!', Some(len)) => {
            let text = escaped(bytes.get(*at..*at + len)?);
            *at += len + 2;
            let sigil = if sigil == '$' { String::new() } else { sigil.into() };
            return (*at <= bytes.len()).then(|| format!("{sigil}\"{text}\""));
        }
        ('*', Some(_)) => ("[", "]"),
        ('~', Some(_)) => ("~[", "]"),
        ('>', Some(_)) => (">[", "]"),
        ('%', Some(_)) => ("{", "}"),
        _ if FLAT.contains(&(sigil as u8)) || matches!((sigil, line), ('$' | '*', b"-1")) => {
            let is_plain = line.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\[]{}*".contains(byte));
            let text = String::from_utf8_lossy(line);
            return Some(if is_plain { format!("{sigil}{text}") } else { format!("{sigil}\"{}\"", escaped(line)) });
        }
        _ => return None,
    };
    let mut items = Vec::new();
    for _ in 0..number? {
        let mut item = note(bytes, at, is_unordered)?;
        if sigil == '%' {
            item = format!("{item} => {}", note(bytes, at, is_unordered)?);
        }
        items.push(item);
    }
    if is_unordered {
        items.sort();
    }
    let run = |items: &[String]| match items.len() {
        RUN_LEN_MIN.. => format!("{}*{}", items[0], items.len()),
        _ => items.join(" "),
    };
    let runs: Vec<String> = items.chunk_by(|a, b| a == b).map(run).collect();
    Some(format!("{open}{}{close}", runs.join(" ")))
}

/// Writes bytes with escapes, as they are read between quotes.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let run = |bytes: &[u8]| match (bytes[0].escape_ascii(), bytes.len()) {
        (_, len) if bytes[0] == b'\'' => "'".repeat(len),
        (byte, len @ RUN_LEN_MIN..) => format!("{byte}\\{{{len}}}"),
        (byte, len) => byte.to_string().repeat(len),
    };
    bytes.chunk_by(|a, b| a == b).map(run).collect()
}

fn unescaped(text: &str) -> Vec<u8> {
    unquote(format!("{text}\"").as_bytes()).0
}

/// Parses the output of [`noted`].
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if text == CLOSED {
        return None;
    }
    if text == NOTHING {
        return Some(Vec::new());
    }
    if let Some(lines) = text.strip_prefix(LINES) {
        return Some(unescaped(&lines.replace('|', "\\r\\n")));
    }
    let mut bytes = Vec::new();
    if FLAT.contains(&text.as_bytes()[0]) {
        bytes.extend_from_slice(&unescaped(text));
        bytes.extend_from_slice(b"\r\n");
    } else {
        let mut rest = text;
        while !rest.is_empty() {
            rest = read(rest, &mut bytes).trim_start();
        }
    }
    Some(bytes)
}

/// Parses the first reply of a text, and returns the rest.
fn read<'a>(text: &'a str, bytes: &mut Vec<u8>) -> &'a str {
    let (sigil, rest) = match text.as_bytes() {
        [b'"', ..] => ('$', text),
        [b'[', ..] => ('*', text),
        [b'{', ..] => ('%', text),
        _ => (char::from(text.as_bytes()[0]), &text[1..]),
    };
    match rest.as_bytes().first() {
        Some(b'"') => {
            let (content, len) = unquote(&rest.as_bytes()[1..]);
            if matches!(sigil, '$' | '=' | '!') {
                bytes.extend_from_slice(format!("{sigil}{}\r\n", content.len()).as_bytes());
            } else {
                bytes.push(sigil as u8);
            }
            bytes.extend_from_slice(&content);
            bytes.extend_from_slice(b"\r\n");
            &rest[len + 1..]
        }
        Some(b'[' | b'{') => {
            let (mut rest, mut items, mut count) = (&rest[1..], Vec::new(), 0);
            while !rest.starts_with([']', '}']) {
                let mut item = Vec::new();
                rest = read(rest, &mut item);
                let digits = rest.strip_prefix('*').and_then(|rest| rest.split([' ', ']']).next());
                let times = digits.map_or(1, |digits| digits.parse().expect("how many there are"));
                rest = &rest[digits.map_or(0, |digits| digits.len() + 1)..];
                rest = rest.trim_start_matches(" =>").trim_start();
                items.extend(item.repeat(times));
                count += times;
            }
            let count = if sigil == '%' { count / 2 } else { count };
            bytes.extend_from_slice(format!("{sigil}{count}\r\n").as_bytes());
            bytes.extend_from_slice(&items);
            &rest[1..]
        }
        _ => {
            let len = text[1..].find([' ', ']', '}', '*']).map_or(text.len(), |len| len + 1);
            bytes.extend_from_slice(&text.as_bytes()[..len]);
            bytes.extend_from_slice(b"\r\n");
            &text[len..]
        }
    }
}

/// Masks numbers that depend on the time.
fn without_moments(reply: &[u8]) -> Vec<u8> {
    let masked = format!(":{MOMENT}\r");
    let line = |line| if moment(line).is_some() { masked.as_bytes() } else { line };
    reply.split(|byte| *byte == b'\n').map(line).collect::<Vec<_>>().join(&b'\n')
}

#[test]
fn replies_are_read_from_a_record_as_they_were_noted() {
    for reply in [
        "+OK\r\n",
        "-ERR what's \"this\" \\ \x7f\r\n",
        ":-1\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$7\r\n[ } \r\n\"\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*3\r\n*1\r\n-ERR [ no ]\r\n%2\r\n+a\r\n_\r\n,1.5\r\n*0\r\n$1\r\n \r\n",
        "~1\r\n#t\r\n",
        ">2\r\n=9\r\ntxt:a => \r\n(123456789012345678901234567890\r\n",
        "%0\r\n",
        "*1\r\n+[\r\n",
        "+[ok] \r\n",
        "-\"quoted\"\r\n",
        "+\r\n",
        "",
        "*1\r\n:1\r\n>2\r\n$1\r\na\r\n_\r\n",
        "flags\r\n(masked)\r\na|b | c\r\n",
        "*7\r\n:1\r\n",
        &format!("*198\r\n{}{}", ":1\r\n".repeat(99), "$4\r\n\\{9}\r\n".repeat(99)),
        &format!("+{}'{}\r\n", "\"".repeat(99), "\\".repeat(99)),
    ] {
        let text = noted(Some(reply.as_bytes()), false);
        let read = bytes_of(&text).expect("bytes");
        assert_eq!(
            String::from_utf8_lossy(&read).escape_debug().to_string(),
            reply.escape_debug().to_string(),
            "{text}"
        );
        let is_reply = !reply.starts_with("flags") && !reply.starts_with("*7");
        assert_eq!(!text.starts_with(LINES), is_reply, "{text}");
    }
    assert_eq!(noted(Some(b"*2\r\n$1\r\na\r\n:1700000000\r\n"), false), "[\"a\" :(time)]");
    assert_eq!(noted(Some(b"*2\r\n$1\r\nb\r\n$1\r\na\r\n"), true), "[\"a\" \"b\"]");
    assert_eq!(noted(Some(b"b\r\na\r\n"), true), "lines a|b|");
    assert_eq!(bytes_of(&noted(None, false)), None);
}

#[test]
fn every_record_belongs_to_a_text_of_stories() {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    for folder in entries(&root().join(FOLDER)) {
        let module = folder.with_extension("rs");
        let module = module.file_name().expect("a name");
        let source = fs::read_to_string(root().join("tests/it/differential").join(module)).unwrap_or_default();
        for file in entries(&folder) {
            let name = format!("\"{}\"", file.file_stem().expect("a name").display());
            assert!(source.contains(&name), "{} belongs to nothing", file.display());
        }
    }
}
