//! Random commands: a seeded generator over few keys and unusual values, and a shrinker.
//!
//! Two connections alternate, one in RESP2 and one in RESP3, so that each changes keys that the other one watches.
//! Every reply can be compared: relative TTLs, which depend on the time, are read only where a few seconds do not
//! matter, and no two of them are close to each other.

mod data;
mod elements;
mod generator;
mod geo;
mod options;
mod shapes;
mod streams;
mod words;

use std::fmt::Write;

use super::notifications::Listener;
use super::oracle::{Arena, Pair, Replies, with_encodings};
use super::script::spell;

pub use generator::Random;

const SEED: u64 = 0x6b65_796c_6174_6368;

/// Number of tested commands, unless set by `KEYLATCH_COMMANDS`.
const COMMANDS: usize = 100_000;

/// Number of commands after which the servers are emptied: a failing script is at most this long before it is shrunk.
const EPOCH: usize = 2_000;

/// Number of commands sent at once.
const CHUNK: usize = 50;

/// Maximum number of replays of a failing script to find a shorter one.
const REPLAYS_MAX: usize = 2_000;

/// Number of commands tested with a client subscribed to all events.
const COMMANDS_LISTENED_TO: usize = 40_000;

#[test]
fn random_commands_get_the_replies_of_redis_and_leave_its_data() {
    try_commands(COMMANDS, play);
}

#[test]
fn random_commands_tell_the_events_of_redis() {
    try_commands(COMMANDS_LISTENED_TO, play_beside_listener);
}

#[test]
fn random_commands_change_the_keys_that_they_change_in_redis() {
    try_commands(COMMANDS_LISTENED_TO, play_beside_tracker);
}

/// Function that plays a script on both servers; it returns the index of the first difference, and the replies.
type Play = fn(&Arena, &[Step]) -> Option<(usize, Replies)>;

#[track_caller]
fn try_commands(count: usize, play: Play) {
    Arena::open().iter().for_each(|arena| try_commands_in(arena, count, play));
}

/// Tests random commands on a cluster, restricted to those that it supports.
#[cfg(feature = "etcd")]
#[track_caller]
pub(crate) fn try_commands_on(engine: &[(&str, &str)], count: usize, hears_events: bool) {
    let play = if hears_events { play_beside_listener } else { play };
    Arena::open_with(engine).iter().for_each(|arena| try_commands_in(arena, count, play));
}

#[track_caller]
fn try_commands_in(arena: &Arena, count: usize, play: Play) {
    let seed = match std::env::var("KEYLATCH_SEED") {
        Ok(text) => text.parse().expect("KEYLATCH_SEED is a number"),
        Err(_) => SEED,
    };
    let mut random = Random::new(seed);
    let count = std::env::var("KEYLATCH_COMMANDS").map_or(count, |text| text.parse().expect("a number of commands"));
    for _ in 0..count.div_ceil(EPOCH) {
        let steps = (0..EPOCH).map(|at| Step { on: at / CHUNK % 2, args: random.command() });
        let script: Vec<Step> = steps.filter(|step| !arena.is_on_engine || step.is_possible_on_engine()).collect();
        if let Some((at, replies)) = play(arena, &script) {
            let (script, replies) = shrink(arena, play, script[..=at].to_vec(), replies);
            let lines = script.iter().fold(String::new(), |mut text, step| {
                let _ = writeln!(text, "  RESP{}> {}", step.on + 2, spell(&step.args));
                text
            });
            panic!("a reply differs from that of Redis (KEYLATCH_SEED={seed}):\n{lines}{}", replies.shown());
        }
    }
}

/// One command, and the connection that sends it.
#[derive(Clone)]
struct Step {
    on: usize,
    args: Vec<Vec<u8>>,
}

impl Step {
    /// Returns whether the replies are the same, apart from an unspecified order, and from the encoding of small sets,
    /// which are listpacks since Redis 7.2.
    fn agrees(&self, replies: &Replies) -> bool {
        let is_one_of = |names: &[&str]| names.iter().any(|name| self.args[0].eq_ignore_ascii_case(name.as_bytes()));
        replies.agree()
            || is_one_of(&["OBJECT", "EXEC"]) && replies.with_large_encodings().agree()
            || is_one_of(UNORDERED) && replies.with_large_encodings().with_sorted_lines().agree()
            // The lines of doubles are compared in the order of their shortest form.
            || is_one_of(UNORDERED) && replies.with_large_encodings().agree_in_any_order()
            || is_one_of(&["SORT", "SORT_RO", "EXEC"]) && replies.refuse_numbers()
            || is_one_of(&["SORT", "SORT_RO"]) && self.leaves_order_open() && replies.agree_in_any_order()
    }

    /// Returns whether the sorted elements may come in several orders: without a comparison, by a pattern, or by the
    /// rules of the locale, which end at the first NUL.
    fn leaves_order_open(&self) -> bool {
        let has = |word: &str| self.args.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        has("BY") || has("ALPHA")
    }

    /// Returns whether the command is possible on a cluster.
    fn is_possible_on_engine(&self) -> bool {
        let is_one_of = |names: &[&str]| names.iter().any(|name| self.args[0].eq_ignore_ascii_case(name.as_bytes()));
        let has = |word: &str| self.args.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        let sorts_by_others = is_one_of(&["SORT", "SORT_RO"]) && (has("BY") || has("GET"));
        // An encoding there is that of the value, regardless of its history.
        let others = ["SWAPDB", "DBSIZE", "KEYS", "SCAN", "RANDOMKEY", "CLIENT", "OBJECT"];
        !sorts_by_others && !is_one_of(&others)
    }

    /// Returns whether the command may set an already expired key.
    fn sets_dead_key(&self) -> bool {
        let is_set = self.args[0].eq_ignore_ascii_case(b"SET");
        is_set && self.args.windows(2).any(|two| two[0].ends_with(b"XAT") && two[1] == b"1")
    }
}

/// Commands whose replies list the elements of hash tables, in no particular order; EXEC may contain such a reply.
const UNORDERED: &[&str] = &[
    "EXEC",
    "HGETALL",
    "HKEYS",
    "HRANDFIELD",
    "HSCAN",
    "HVALS",
    "SDIFF",
    "SINTER",
    "SMEMBERS",
    "SPOP",
    "SRANDMEMBER",
    "SSCAN",
    "SUNION",
    "ZRANDMEMBER",
    "ZSCAN",
];

impl Replies {
    /// Returns the replies with Redis' encoding where keylatch has a listpack: small sets are since 7.2, and sorted
    /// sets remain listpacks after being sorted.
    fn with_large_encodings(&self) -> Replies {
        let keylatch = match (&self.keylatch, &self.redis) {
            (Some(ours), Some(theirs)) => Some(with_encodings(ours, theirs, &["hashtable", "skiplist"])),
            (ours, _) => ours.clone(),
        };
        Replies { keylatch, redis: self.redis.clone() }
    }

    /// Returns whether one of the servers refuses to sort numbers: Redis 8 parses them by other rules than 7.0, which
    /// also fails when an earlier command has parsed a tiny one.
    fn refuse_numbers(&self) -> bool {
        let error = b"-ERR One or more scores can't be converted into double\r\n";
        let mut replies = [&self.keylatch, &self.redis].into_iter().flatten();
        replies.any(|reply| count(reply, error) > 0)
    }

    /// Returns the replies with sorted lines.
    pub(super) fn with_sorted_lines(&self) -> Replies {
        let sorted = |reply: &Option<Vec<u8>>| {
            let reply = reply.as_ref()?;
            let mut lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
            lines.sort_unstable();
            Some(lines.join(&b'\n'))
        };
        Replies { keylatch: sorted(&self.keylatch), redis: sorted(&self.redis) }
    }
}

/// Plays a script on new connections to empty servers; returns the index of the first difference, and the replies. The
/// data is compared at the end.
fn play(arena: &Arena, script: &[Step]) -> Option<(usize, Replies)> {
    arena.flush();
    let mut pairs: [Pair; 2] = [arena.pair(), arena.pair()];
    pairs[1].speak(3);
    let mut at = 0;
    for turn in script.chunk_by(|a, b| a.on == b.on) {
        let pair = &mut pairs[turn[0].on];
        for chunk in turn.chunks(CHUNK) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|step| crate::harness::encode(&step.args)).collect();
            pair.send(&bytes);
            let mut difference = None;
            // Up to the last reply, so that no command is still executed when the next script begins.
            for _ in chunk {
                let replies = pair.replies();
                if difference.is_none() && !script[at].agrees(&replies) {
                    difference = Some((at, replies));
                }
                at += 1;
            }
            if difference.is_some() {
                return difference;
            }
        }
    }
    data::difference(arena).map(|replies| (script.len().saturating_sub(1), replies))
}

/// Runs a script with a subscriber to events.
fn play_beside_listener(arena: &Arena, script: &[Step]) -> Option<(usize, Replies)> {
    arena.flush();
    play_beside(Listener::of(arena, "KEAmn"), arena, script)
}

/// Runs a script with a client that is notified of every change.
fn play_beside_tracker(arena: &Arena, script: &[Step]) -> Option<(usize, Replies)> {
    arena.flush();
    play_beside(Listener::that_tracks(arena), arena, script)
}

/// Runs a script one command at a time; returns the index of the first difference of received messages.
///
/// Keys set with a deadline in the past are deleted at once here and on access in Redis, so the script must have none.
fn play_beside(mut listener: Listener, arena: &Arena, script: &[Step]) -> Option<(usize, Replies)> {
    let mut pairs: [Pair; 2] = [arena.pair(), arena.pair()];
    let mut talker = arena.link();
    for (at, step) in script.iter().enumerate().filter(|(_, step)| !step.sets_dead_key()) {
        let replies = pairs[step.on].call(&step.args);
        let refuses = replies.refuse_numbers();
        let heard = listener.heard(&mut talker).both();
        // A PFADD that finds damage half-way has changed the key, which Redis does not announce.
        let is_half =
            step.args[0].eq_ignore_ascii_case(b"PFADD") && replies.redis.is_some_and(|it| it.starts_with(b"-"));
        // Keys that SORT looks up for the members of a set come in the order of the members.
        let is_open = ["SORT", "SORT_RO", "EXEC"].iter().any(|name| step.args[0].eq_ignore_ascii_case(name.as_bytes()));
        // A consumer without entries is created since Redis 7.2.
        let consumers = [&heard.keylatch, &heard.redis].map(|it| it.as_ref().map(|it| count(it, b"createconsumer")));
        let is_created_once = consumers[0] != consumers[1];
        let agrees = heard.agree() || is_half || is_created_once || is_open && (refuses || heard.agree_in_any_order());
        if !agrees {
            return Some((at, heard));
        }
    }
    None
}

/// Returns the number of occurrences of a word.
fn count(text: &[u8], word: &[u8]) -> usize {
    text.windows(word.len()).filter(|part| *part == word).count()
}

/// Removes commands, in ever smaller pieces, as long as some reply still differs.
fn shrink(arena: &Arena, play: Play, mut script: Vec<Step>, mut replies: Replies) -> (Vec<Step>, Replies) {
    let mut piece = script.len().div_ceil(2);
    let mut replays = 0;
    loop {
        let (mut at, len_before) = (0, script.len());
        while at < script.len() && replays < REPLAYS_MAX {
            let mut shorter = script.clone();
            shorter.drain(at..(at + piece).min(script.len()));
            replays += 1;
            match play(arena, &shorter) {
                Some((end, found)) => {
                    shorter.truncate(end + 1);
                    (script, replies) = (shorter, found);
                }
                None => at += piece,
            }
        }
        if piece == 1 && script.len() == len_before || replays == REPLAYS_MAX {
            return (script, replies);
        }
        piece = piece.div_ceil(2);
    }
}
