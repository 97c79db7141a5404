//! The small language of the test stories, and the comparison of replies.
//!
//! A story is a paragraph of lines, one command each, on fresh connections to empty servers:
//!
//! ```text
//! SET k "a\r\n\xff"      words as redis-cli reads them
//! b: GET k               on a second connection
//! ~ KEYS *               the lines of the reply may come in any order
//! # a remark
//! ```
//!
//! Every story runs twice, in RESP2 and in RESP3.

use std::fmt::Write;
use std::ops::Range;

use keylatch::internals::resp::{format_general, write_double};

use super::oracle::{Arena, Heard, Link, Replies};
use super::record::{self, Ledger};
use crate::harness::show;

/// Number of differences after which they are only counted.
const SHOWN_MAX: usize = 30;

/// Maximum number of lines of a story that are repeated above a differing reply.
const TOLD_MAX: usize = 25;

/// Ranges of numbers that may be times, in seconds or milliseconds, which depend on the time of the call. The absolute
/// times of stories and random commands, and all their other numbers, are outside.
const MOMENTS: [Range<i64>; 4] = [
    50_000_000..4_102_444_000,
    5_000_000_002..4_102_444_000_000,
    // The remaining time of the longest TTL, in seconds and milliseconds; its deadline and the largest numbers are
    // greater.
    9_223_370_000_000_000..9_223_371_000_000_000,
    9_223_370_000_000_000_000..9_223_371_000_000_000_000,
];

/// Numbers in these ranges that do not depend on the time: the lengths of the longest strings, and the reference count
/// of a shared one.
const NO_MOMENTS: [i64; 3] = [536_870_912, 536_870_913, 2_147_483_647];

/// Stand-in for a reply that depends on the time, the connection or the version.
const MASKED: &[u8] = b"+(masked)\r";

/// Maximum difference between two readings of the same time, in either unit.
const TIME_SLACK: u64 = 5_000;

/// Runs every story of a text, compares the replies with Redis and with the record of that name, and fails with all
/// differences.
#[track_caller]
pub(super) fn tell(name: &str, stories: &str) {
    record::compare(name, &[2, 3], stories, tell_one);
}

fn tell_one(arena: &Arena, protocol: u8, story: &str, ledger: &mut Ledger) {
    let (mut a, mut b) = (arena.link(), arena.link());
    a.speak(protocol);
    b.speak(protocol);
    for line in record::lines(story) {
        ledger.tell(line);
        let (link, rest) = match line.strip_prefix("b: ") {
            Some(rest) => (&mut b, rest),
            None => (&mut a, line),
        };
        let (is_unordered, command) = match rest.strip_prefix("~ ") {
            Some(command) => (true, command),
            None => (false, rest),
        };
        ledger.hear(call(link, &words(command)), is_unordered);
    }
}

/// Calls a command. In the replies of a few commands, parts that differ from run to run or between versions are masked.
fn call(link: &mut Link, args: &[Vec<u8>]) -> Heard {
    let heard = link.call(args);
    let upper = |count: usize| args.iter().take(count).flatten().map(u8::to_ascii_uppercase).collect::<Vec<u8>>();
    let mask = match (&*upper(1), &*upper(2)) {
        (b"HELLO", _) => mask_hello,
        (_, b"ACLLOG") => mask_acl_log,
        (_, b"ACLLIST" | b"ACLGETUSER") => mask_users,
        (_, b"SLOWLOGGET") => mask_slow_log,
        (_, b"INFOCOMMANDSTATS" | b"INFOERRORSTATS" | b"INFOSTATS") => mask_counts,
        _ => return heard,
    };
    let masked = |reply: Option<Vec<u8>>| reply.map(|reply| mask(&reply));
    Heard { keylatch: masked(heard.keylatch), redis: heard.redis.map(masked) }
}

/// Masks differences of later versions in the descriptions of users: the rules about commands, which 7.0 derives from
/// the result, and sanitize-payload, which 7.0 shows only if it was given. The lengths are masked as well.
fn mask_users(reply: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(reply).replace(" sanitize-payload", "");
    let mut masked = Vec::new();
    for line in text.split("\r\n") {
        let is_count_of_flags = masked.last().is_some_and(|before| before == "flags");
        let is_length = line.strip_prefix('$').is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        if !is_count_of_flags && !is_length && line != "sanitize-payload" {
            masked.push(without_rules(line));
        } else if is_count_of_flags {
            masked.push("(masked)".to_owned());
        }
    }
    masked.join("\r\n").into_bytes()
}

/// Removes the rules about commands from a line, except the first one of each selector, which allows or forbids all.
fn without_rules(line: &str) -> String {
    let is_first = |word: &str| matches!(word.trim_end_matches(')'), "+@all" | "-@all");
    let mut kept: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match kept.last_mut() {
            Some(last) if word.starts_with(['+', '-']) && !is_first(word) => {
                last.push_str(if word.ends_with(')') { ")" } else { "" });
            }
            _ => kept.push(word.to_owned()),
        }
    }
    kept.join(" ")
}

/// Masks the parts of ACL LOG that depend on time and connection, and removes the fields that 7.0 lacks.
fn mask_acl_log(reply: &[u8]) -> Vec<u8> {
    let mut masked: Vec<&[u8]> = Vec::new();
    let mut lines = reply.split(|byte| *byte == b'\n');
    while let Some(line) = lines.next() {
        if matches!(line, b"entry-id\r" | b"timestamp-created\r" | b"timestamp-last-updated\r") {
            masked.pop();
            lines.next();
            continue;
        }
        masked.push(match line {
            b"*20\r" => b"*14\r",
            b"%10\r" => b"%7\r",
            line => line,
        });
        if matches!(line, b"age-seconds\r" | b"client-info\r") {
            if lines.next().is_some_and(|next| next[0] == b'$') {
                lines.next();
            }
            masked.push(MASKED);
        }
    }
    masked.join(&b'\n')
}

/// Removes from INFO all but the counts of commands, errors and lookups, which are sorted and have no times.
fn mask_counts(reply: &[u8]) -> Vec<u8> {
    const KEPT: [&str; 5] =
        ["cmdstat_", "errorstat_", "total_error_replies:", "total_commands_processed:", "keyspace_"];
    let text = String::from_utf8_lossy(reply);
    let kept = text.lines().filter(|line| KEPT.iter().any(|name| line.starts_with(name)));
    let untimed = |line: &str| {
        let parts: Vec<&str> = line.split(',').filter(|part| !part.contains("usec")).collect();
        parts.join(",").replacen(':', ": ", 1)
    };
    let mut counts: Vec<String> = kept.map(untimed).collect();
    counts.sort();
    counts.join("\r\n").into_bytes()
}

/// Masks the number, the time, the duration and the address of each entry of the slow log.
fn mask_slow_log(reply: &[u8]) -> Vec<u8> {
    let (mut masked, mut lines) = (Vec::new(), reply.split(|byte| *byte == b'\n'));
    while let Some(line) = lines.next() {
        masked.push(line);
        if line == b"*6\r" {
            masked.push(MASKED);
            let words = lines.by_ref().nth(3).expect("the arguments");
            let count = String::from_utf8_lossy(words).trim_matches(['*', '\r']).parse::<usize>().expect("a number");
            masked.push(words);
            masked.extend(lines.by_ref().take(2 * count));
            lines.nth(1).expect("an address");
        }
    }
    masked.join(&b'\n')
}

fn mask_hello(reply: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
    for (name, len) in [(&b"version\r"[..], 2), (b"id\r", 1)] {
        if let Some(at) = lines.iter().position(|line| *line == name) {
            lines.splice(at + 1..=at + len, [MASKED]);
        }
    }
    // The modules, which end the reply, are those of Redis 8.
    if let Some(at) = lines.iter().position(|line| *line == b"modules\r") {
        lines.splice(at + 1.., [MASKED, b""]);
    }
    lines.join(&b'\n')
}

impl Replies {
    /// Returns whether the replies are the same bytes, except for times that were read at different moments.
    pub(crate) fn agree(&self) -> bool {
        match (&self.keylatch, &self.redis) {
            (Some(ours), Some(theirs)) => {
                ours == theirs
                    || times_agree(ours, theirs)
                    || *ours == with_short_doubles(theirs)
                    || times_agree(ours, &with_short_doubles(theirs))
                    || with_decimals(ours) == *theirs
            }
            (ours, theirs) => ours == theirs,
        }
    }

    pub(super) fn agree_in_any_order(&self) -> bool {
        let sorted = |reply: &Option<Vec<u8>>| {
            let mut lines: Vec<Vec<u8>> =
                reply.iter().flat_map(|reply| reply.split(|byte| *byte == b'\n')).map(<[u8]>::to_vec).collect();
            lines.sort();
            lines
        };
        let with_short_doubles = self.redis.as_ref().map(|reply| with_short_doubles(reply));
        let ours = sorted(&self.keylatch);
        ours == sorted(&self.redis) || ours == sorted(&with_short_doubles)
    }

    /// Formats both replies, one below the other.
    pub(crate) fn shown(&self) -> String {
        let line = |reply: &Option<Vec<u8>>| reply.as_ref().map_or("(closed)".into(), |reply| show(reply));
        format!("  redis:    {}\n  keylatch: {}", line(&self.redis), line(&self.keylatch))
    }
}

/// Replaces the 17-digit doubles of 7.0 by the fewest digits that identify them, as in later versions.
fn with_short_doubles(reply: &[u8]) -> Vec<u8> {
    with_doubles(reply, |number, digits| (format_general(number, 17) == digits).then(|| short(number)))
}

/// Replaces doubles by their 17 decimals, as 7.0 prints coordinates; a distance has four decimals.
fn with_decimals(reply: &[u8]) -> Vec<u8> {
    with_doubles(reply, |number, digits| {
        let (decimals, is_distance) =
            (format!("{number:.17}"), digits.rfind('.').is_some_and(|at| at + 5 == digits.len()));
        (short(number) == digits && !is_distance)
            .then(|| decimals.trim_end_matches('0').trim_end_matches('.').to_owned())
    })
}

fn short(number: f64) -> String {
    String::from_utf8_lossy(&write_double(number)).into_owned()
}

/// Replaces numbers in a reply, given with their digits, and corrects the lengths of the strings that contain them.
fn with_doubles(reply: &[u8], replace: impl Fn(f64, &str) -> Option<String>) -> Vec<u8> {
    // A character for each byte, because members may be any bytes.
    let text: String = reply.iter().map(|byte| char::from(*byte)).collect();
    let mut lines: Vec<String> = Vec::new();
    for line in text.split("\r\n") {
        let (comma, digits) = match line.strip_prefix(',') {
            Some(digits) => (",", digits),
            None => ("", line),
        };
        match digits.parse().ok().and_then(|number| replace(number, digits)) {
            None => lines.push(line.to_owned()),
            Some(other) => {
                if comma.is_empty()
                    && let Some(header) = lines.last_mut().filter(|header| **header == format!("${}", digits.len()))
                {
                    *header = format!("${}", other.len());
                }
                lines.push(format!("{comma}{other}"));
            }
        }
    }
    lines.join("\r\n").chars().map(|char| char as u8).collect()
}

/// Compares line by line, with a tolerance for times.
fn times_agree(ours: &[u8], theirs: &[u8]) -> bool {
    let lines = |reply: &[u8]| reply.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (ours, theirs) = (lines(ours), lines(theirs));
    let close = |(a, b): (&Vec<u8>, &Vec<u8>)| {
        a == b || matches!((moment(a), moment(b)), (Some(a), Some(b)) if a.abs_diff(b) <= TIME_SLACK)
    };
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(close)
}

/// Parses an integer reply that may depend on the time.
pub(super) fn moment(line: &[u8]) -> Option<i64> {
    let digits = line.strip_prefix(b":")?.strip_suffix(b"\r")?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (MOMENTS.iter().any(|range| range.contains(&number)) && !NO_MOMENTS.contains(&number)).then_some(number)
}

/// Collected differences, so that one run reports all of them.
#[derive(Default)]
pub(crate) struct Differences {
    count: usize,
    text: String,
}

impl Differences {
    /// Records a difference and the commands before it.
    pub(crate) fn add(&mut self, told: &str, replies: &Replies) {
        self.count += 1;
        if self.count <= SHOWN_MAX {
            let lines: Vec<&str> = told.lines().collect();
            let last = lines[lines.len().saturating_sub(TOLD_MAX)..].join("\n");
            let _ = writeln!(self.text, "\n{last}\n{}", replies.shown());
        }
    }

    /// Fails if there are any.
    #[track_caller]
    pub(crate) fn report(self) {
        assert!(self.count == 0, "{} replies differ from those of Redis:\n{}", self.count, self.text);
    }
}

/// Splits a line into words; `"..."` is a word with escapes, in which `x\{100}` stands for a hundred times `x`.
pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, len) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (word, len) = unquote(quoted.as_bytes());
                (word, len + 1)
            }
            None => {
                let len = rest.find(' ').unwrap_or(rest.len());
                (rest.as_bytes()[..len].to_vec(), len)
            }
        };
        words.push(word);
        rest = rest[len..].trim_start();
    }
    words
}

/// Parses up to the closing quote; returns the word and the length consumed, quote included.
pub(super) fn unquote(text: &[u8]) -> (Vec<u8>, usize) {
    let (mut word, mut at) = (Vec::new(), 0);
    while text[at] != b'"' {
        let (byte, len) = match text[at..] {
            [b'\\', b'x', high, low, ..] => {
                let digit = |digit: u8| char::from(digit).to_digit(16).expect("a hexadecimal digit") as u8;
                (digit(high) << 4 | digit(low), 4)
            }
            [b'\\', b'{', ..] => {
                let digits = text[at + 2..].split(|byte| *byte == b'}').next().unwrap_or_default();
                let count: usize = String::from_utf8_lossy(digits).parse().expect("a number in braces");
                let byte = *word.last().expect("a byte that is repeated");
                word.resize(word.len() + count - 2, byte);
                (byte, digits.len() + 3)
            }
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', byte, ..] => (byte, 2),
            [byte, ..] => (byte, 1),
            [] => panic!("a quote is not closed: {}", text.escape_ascii()),
        };
        word.push(byte);
        at += len;
    }
    (word, at + 1)
}

/// Formats a command in the syntax of redis-cli.
pub(crate) fn spell(args: &[Vec<u8>]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    let word = |word: &Vec<u8>| {
        if word.iter().all(plain) && !word.is_empty() {
            String::from_utf8_lossy(word).into_owned()
        } else {
            format!("\"{}\"", word.escape_ascii().to_string().replace("\\'", "'"))
        }
    };
    args.iter().map(word).collect::<Vec<_>>().join(" ")
}
