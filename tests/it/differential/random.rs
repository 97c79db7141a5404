//! Random commands: a seeded generator over few keys and unusual values, and a shrinker.
//!
//! Two connections alternate, one in RESP2 and one in RESP3, so that watched keys are changed by the other one. Every
//! reply can be compared: relative TTLs, which depend on the time, are read back only where a few seconds do not
//! matter, and no two of them are close to each other.

mod options;
mod streams;

use std::fmt::Write;

use streams::StreamPart;

use super::notifications::Listener;
use super::oracle::{Arena, Pair, Replies};
use super::script::spell;
use options::*;

const SEED: u64 = 0x6b65_796c_6174_6368;

/// How many commands are tested.
const COMMANDS: usize = 200_000;

/// After this many commands the servers are emptied: a failing script is at most this long before it is shrunk.
const EPOCH: usize = 2_000;

/// How many commands are sent at once.
const CHUNK: usize = 50;

/// How often a failing script is replayed to find a shorter one.
const REPLAYS_MAX: usize = 2_000;

/// How many commands are tested with a client subscribed to all events.
const COMMANDS_LISTENED_TO: usize = 40_000;

#[test]
fn two_hundred_thousand_random_commands_get_the_replies_of_redis() {
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

/// Plays a script on both servers; returns where they first differ, and how.
type Play = fn(&Arena, &[Step]) -> Option<(usize, Replies)>;

#[track_caller]
fn try_commands(count: usize, play: Play) {
    let Some(arena) = Arena::open() else { return };
    let seed = match std::env::var("KEYLATCH_SEED") {
        Ok(text) => text.parse().expect("KEYLATCH_SEED is a number"),
        Err(_) => SEED,
    };
    let mut random = Random::new(seed);
    for _ in 0..count / EPOCH {
        let script: Vec<Step> = (0..EPOCH).map(|at| Step { on: at / CHUNK % 2, args: random.command() }).collect();
        if let Some((at, replies)) = play(&arena, &script) {
            let (script, replies) = shrink(&arena, play, script[..=at].to_vec(), replies);
            let lines = script.iter().fold(String::new(), |mut text, step| {
                let _ = writeln!(text, "  RESP{}> {}", step.on + 2, spell(&step.args));
                text
            });
            panic!("a reply differs from that of Redis (KEYLATCH_SEED={seed}):\n{lines}{}", replies.shown());
        }
    }
}

/// One command and the connection that sends it.
#[derive(Clone)]
struct Step {
    on: usize,
    args: Vec<Vec<u8>>,
}

impl Step {
    /// Returns whether the replies are the same, apart from an order that is not specified, and from the encoding of
    /// small sets, which are listpacks since Redis 7.2.
    fn agrees(&self, replies: &Replies) -> bool {
        let is_one_of = |names: &[&str]| names.iter().any(|name| self.args[0].eq_ignore_ascii_case(name.as_bytes()));
        replies.agree()
            || is_one_of(&["OBJECT", "EXEC"]) && replies.with_large_sets().agree()
            || is_one_of(UNORDERED) && replies.with_large_sets().with_sorted_lines().agree()
            // Of doubles, the lines are in the order of their shortest form.
            || is_one_of(UNORDERED) && replies.with_large_sets().agree_in_any_order()
    }

    /// Returns whether it may set a key that has expired already.
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
    /// Returns the replies with the encoding of a set in 7.0 where it is a listpack here.
    fn with_large_sets(&self) -> Replies {
        let (listpack, hashtable) = ("$8\r\nlistpack", "$9\r\nhashtable");
        let is_set = |ours: &str, theirs: &str| {
            ours.matches(listpack).count() > theirs.matches(listpack).count() && theirs.contains(hashtable)
        };
        match (text(&self.keylatch), text(&self.redis)) {
            (Some(ours), Some(theirs)) if is_set(&ours, &theirs) => Replies {
                keylatch: Some(ours.replace(listpack, hashtable).into_bytes()),
                redis: Some(theirs.replace(listpack, hashtable).into_bytes()),
            },
            _ => Replies { keylatch: self.keylatch.clone(), redis: self.redis.clone() },
        }
    }

    /// Returns the replies with their lines in order.
    fn with_sorted_lines(&self) -> Replies {
        let sorted = |reply: &Option<Vec<u8>>| {
            let reply = reply.as_ref()?;
            let mut lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
            lines.sort_unstable();
            Some(lines.join(&b'\n'))
        };
        Replies { keylatch: sorted(&self.keylatch), redis: sorted(&self.redis) }
    }
}

fn text(reply: &Option<Vec<u8>>) -> Option<String> {
    reply.as_ref().map(|reply| String::from_utf8_lossy(reply).into_owned())
}

/// Plays a script on fresh connections to empty servers; returns where the replies first differ, and how.
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
            for _ in chunk {
                let replies = pair.replies();
                if !script[at].agrees(&replies) {
                    return Some((at, replies));
                }
                at += 1;
            }
        }
    }
    None
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

/// Runs a script one command at a time; returns where the received messages first differ.
///
/// Keys set with a deadline in the past are deleted at once here and on access in Redis, so the script must have none.
fn play_beside(mut listener: Listener, arena: &Arena, script: &[Step]) -> Option<(usize, Replies)> {
    let mut pairs: [Pair; 2] = [arena.pair(), arena.pair()];
    let mut talker = arena.pair();
    for (at, step) in script.iter().enumerate().filter(|(_, step)| !step.sets_dead_key()) {
        let replies = pairs[step.on].call(&step.args);
        let heard = listener.heard(&mut talker);
        // A PFADD that finds damage half-way has changed the key, which Redis does not tell.
        let is_half =
            step.args[0].eq_ignore_ascii_case(b"PFADD") && replies.redis.is_some_and(|it| it.starts_with(b"-"));
        if !heard.agree() && !is_half {
            return Some((at, heard));
        }
    }
    None
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

const KEYS: &[&[u8]] =
    &[b"k", b"l", b"key:3", b"{tag}4", b"", b"a[b*", b"\x00\r\n\xff", b"a-key-that-is-rather-long-for-a-key"];

const VALUES: &[&[u8]] = &[
    b"",
    b"0",
    b"1",
    b"-1",
    b"10",
    b"007",
    b"-0",
    b"+1",
    b" 1",
    b"1 ",
    b"3.0",
    b"0.1",
    b"-2.5",
    b"1e3",
    b"1e-7",
    b"5e-324",
    b"1.7976931348623157e308",
    b"1e4900",
    b"inf",
    b"-inf",
    b"nan",
    b"0x1p3",
    b"9223372036854775807",
    b"9223372036854775806",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"18446744073709551615",
    b"4294967296",
    b"v",
    b"hello",
    b"ohmytext",
    b"mynewtext",
    b"\x00\x01\xfe\xff",
    b"\r\n",
    b"forty-four bytes are as many as embstr holds",
    b"forty-five bytes and Redis encodes a value raw",
    b"0.30000000000000004",
    b"-0.000000000000000001",
    b"1e17",
    b"123456789012345678",
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff",
    b"HYLL\x01\0\0\0\x02\0\0\0\0\0\0\0\x5f\xff\x84\x84\x5f\xfd",
    // Damaged so that PFADD never gets half-way, because Redis' WATCH misses such a change.
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff\0",
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80",
];

const FIELDS: &[&[u8]] = &[b"f", b"g", b"7", b"-1", b"field:1", b"", b"\x00\xff"];

const SCORES: &[&[u8]] = &[
    b"0", b"1", b"1", b"2", b"-1", b"3.25", b"0.1", b"-2.5", b"100", b"1e17", b"inf", b"-inf", b"x", b"nan", b"5e-324",
];

const INTEGERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"2",
    b"-2",
    b"3",
    b"5",
    b"-7",
    b"10",
    b"100",
    b"-100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"x",
    b"",
    b"1.5",
    b" 1",
];

const OFFSETS: &[&[u8]] = &[b"0", b"1", b"2", b"5", b"20", b"-1", b"536870912", b"9223372036854775807", b"x"];

/// None is large enough for strings to fill the memory.
const BIT_OFFSETS: &[&[u8]] = &[
    b"0",
    b"1",
    b"7",
    b"8",
    b"13",
    b"100",
    b"129",
    b"1000",
    b"99999",
    b"#0",
    b"#3",
    b"#40",
    b"-1",
    b"x",
    b"4294967296",
    b"9223372036854775807",
    b"#9223372036854775807",
];

const FIELD_TYPES: &[&[u8]] = &[
    b"u1", b"u2", b"u7", b"u8", b"u13", b"u32", b"u63", b"i1", b"i2", b"i8", b"i9", b"i31", b"i63", b"i64", b"u64",
    b"i0",
];

const ODD_TIMES: &[&[u8]] = &[b"0", b"-1", b"x", b"", b"9223372036854775807", b"-9223372036854775808"];

/// The commands of the generator, each with its relative weight and what follows the name.
#[rustfmt::skip]
const SHAPES: &[(usize, &str, &[Part])] = {
    use Part::*;
    &[
        (8, "SET", &[Key, Value, SetOptions]), (4, "SET", &[Key, Value]), (4, "GET", &[Key]),
        (2, "SETNX", &[Key, Value]),
        (1, "SETEX", &[Key, RelativeS, Value]), (1, "PSETEX", &[Key, RelativeMs, Value]), (2, "GETSET", &[Key, Value]),
        (2, "GETDEL", &[Key]), (4, "GETEX", &[Key, GetexOptions]), (3, "APPEND", &[Key, Value]), (2, "STRLEN", &[Key]),
        (4, "SETRANGE", &[Key, Offset, Value]), (3, "GETRANGE", &[Key, Integer, RangeEnd]),
        (1, "SUBSTR", &[Key, Integer, RangeEnd]),
        (3, "INCR", &[Key]), (3, "DECR", &[Key]), (3, "INCRBY", &[Key, Integer]), (3, "DECRBY", &[Key, Integer]),
        (5, "INCRBYFLOAT", &[Key, Value]), (2, "MSET", &[Pairs]), (2, "MSETNX", &[Pairs]), (3, "MGET", &[Keys]),
        (3, "LCS", &[Key, Key, LcsOptions]),
        (4, "SETBIT", &[Key, BitOffset, Bit]), (3, "GETBIT", &[Key, BitOffset]), (4, "BITCOUNT", &[Key, BitRange]),
        (4, "BITPOS", &[Key, Bit, BitRange]), (4, "BITOP", &[Operator, Key, Keys]), (5, "BITFIELD", &[Key, Fields]),
        (2, "BITFIELD_RO", &[Key, Fields]),
        (3, "COPY", &[Key, Key, CopyOptions]), (2, "MOVE", &[Key, Database]), (1, "SWAPDB", &[Database, Database]),
        (1, "TOUCH", &[Keys]), (6, "OBJECT", &[Encoding, Key]),
        (3, "RESTORE", &[Key, RelativeMs, Dump, RestoreOptions]),
        (10, "SADD", &[Key, Members]), (6, "SREM", &[Key, Members]), (3, "SMOVE", &[Key, Key, Member]),
        (3, "SISMEMBER", &[Key, Member]), (2, "SMISMEMBER", &[Key, Members]), (2, "SCARD", &[Key]),
        (4, "SMEMBERS", &[Key]), (1, "SPOP", &[Key, All]), (2, "SRANDMEMBER", &[Key, All]),
        (3, "SINTER", &[Keys]), (3, "SUNION", &[Keys]), (3, "SDIFF", &[Keys]), (2, "SINTERCARD", &[CountedKeys]),
        (3, "SINTERSTORE", &[Key, Keys]), (3, "SUNIONSTORE", &[Key, Keys]), (3, "SDIFFSTORE", &[Key, Keys]),
        (2, "SSCAN", &[Key, ElementScan]),
        (8, "PFADD", &[Key, Elements]), (4, "PFCOUNT", &[Keys]), (3, "PFMERGE", &[Keys]), (1, "PFDEBUG", &[Inside, Key]),
        (8, "HSET", &[Key, FieldValues]), (2, "HMSET", &[Key, FieldValues]), (2, "HSETNX", &[Key, Field, Value]),
        (4, "HGET", &[Key, Field]), (2, "HMGET", &[Key, HashFields]), (3, "HGETALL", &[Key]), (1, "HKEYS", &[Key]),
        (1, "HVALS", &[Key]), (1, "HLEN", &[Key]), (1, "HSTRLEN", &[Key, Field]), (1, "HEXISTS", &[Key, Field]),
        (4, "HDEL", &[Key, HashFields]), (3, "HINCRBY", &[Key, Field, Integer]),
        (2, "HINCRBYFLOAT", &[Key, Field, Value]), (1, "HRANDFIELD", &[Key, AllFields]), (1, "HSCAN", &[Key, AllOfHash]),
        (10, "ZADD", &[Key, AddOptions, ScoreMembers]), (4, "ZINCRBY", &[Key, Score, Field]), (3, "ZREM", &[Key, HashFields]),
        (1, "ZCARD", &[Key]), (2, "ZSCORE", &[Key, Field]), (1, "ZMSCORE", &[Key, HashFields]),
        (2, "ZRANK", &[Key, Field]), (1, "ZREVRANK", &[Key, Field]), (2, "ZCOUNT", &[Key, Bound, Bound]),
        (4, "ZRANGE", &[Key, Integer, Integer, RankOptions]), (2, "ZREVRANGE", &[Key, Integer, Integer]),
        (3, "ZRANGE", &[Key, Bound, Bound, ScoreOptions]), (1, "ZRANGEBYSCORE", &[Key, Bound, Bound]),
        (1, "ZREVRANGEBYSCORE", &[Key, Bound, Bound]), (2, "ZRANGESTORE", &[Key, Key, Bound, Bound, ScoreOptions]),
        (1, "ZREMRANGEBYRANK", &[Key, Integer, Integer]), (1, "ZREMRANGEBYSCORE", &[Key, Bound, Bound]),
        (2, "ZPOPMIN", &[Key]), (1, "ZPOPMAX", &[Key, Integer]), (2, "ZMPOP", &[CountedKeys, End]),
        (2, "ZUNION", &[CountedKeys, CombineOptions]), (2, "ZINTER", &[CountedKeys, CombineOptions]),
        (2, "ZDIFF", &[CountedKeys, WithScores]), (1, "ZINTERCARD", &[CountedKeys]),
        (2, "ZUNIONSTORE", &[Key, CountedKeys, CombineOptions]), (2, "ZINTERSTORE", &[Key, CountedKeys]),
        (1, "ZDIFFSTORE", &[Key, CountedKeys]), (1, "ZRANDMEMBER", &[Key, AllMembers]), (2, "ZSCAN", &[Key, AllOfHash]),
        (3, "DEL", &[Keys]), (2, "UNLINK", &[Keys]), (2, "EXISTS", &[Keys]), (1, "TYPE", &[Key]),
        (3, "RENAME", &[Key, Key]), (3, "RENAMENX", &[Key, Key]), (1, "KEYS", &[Key]), (1, "SCAN", &[ScanOptions]),
        (3, "EXPIRE", &[Key, RelativeS, Conditions]), (3, "PEXPIRE", &[Key, RelativeMs, Conditions]),
        (3, "EXPIREAT", &[Key, AbsoluteS, Conditions]), (3, "PEXPIREAT", &[Key, AbsoluteMs, Conditions]),
        (2, "TTL", &[Key]), (2, "PTTL", &[Key]), (2, "EXPIRETIME", &[Key]), (2, "PEXPIRETIME", &[Key]),
        (3, "PERSIST", &[Key]),
        (4, "MULTI", &[]), (6, "EXEC", &[]), (1, "DISCARD", &[]), (4, "WATCH", &[Keys]), (1, "UNWATCH", &[]),
        (1, "SELECT", &[Database]), (1, "PING", &[]), (1, "ECHO", &[Value]), (1, "CLIENT", &[Name]),
        (1, "NOSUCH", &[Value, Key]),
    ]
};

/// The kinds of arguments of the generator's commands.
#[derive(Clone, Copy)]
enum Part {
    Key,
    Keys,
    Pairs,
    Value,
    Integer,
    Offset,
    RelativeS,
    RelativeMs,
    AbsoluteS,
    AbsoluteMs,
    SetOptions,
    GetexOptions,
    LcsOptions,
    ScanOptions,
    Conditions,
    BitOffset,
    Bit,
    BitRange,
    RangeEnd,
    Operator,
    Fields,
    Elements,
    Member,
    Members,
    All,
    CountedKeys,
    ElementScan,
    Inside,
    CopyOptions,
    Dump,
    RestoreOptions,
    Encoding,
    Database,
    Name,
    Field,
    HashFields,
    FieldValues,
    AllFields,
    AllOfHash,
    Score,
    ScoreMembers,
    AddOptions,
    Bound,
    RankOptions,
    ScoreOptions,
    End,
    CombineOptions,
    WithScores,
    AllMembers,
    Of(StreamPart),
}

/// The commands that get no other arguments than valid ones. An argument of EXEC is a condition here, and an error in
/// Redis 7; invalid arguments of BITCOUNT and BITPOS are rejected before the key is looked up, and ZRANK has an option,
/// as since Redis 7.2; XREAD words an odd number of streams and identifiers as Redis 8. A number of random fields or members below all of them has no reply that can be compared.
const STRICT: &[&str] = &[
    "EXEC",
    "BITCOUNT",
    "BITPOS",
    "HRANDFIELD",
    "SPOP",
    "SRANDMEMBER",
    "ZRANDMEMBER",
    "ZRANK",
    "ZREVRANK",
    "XREAD",
    "XREADGROUP",
];

/// SplitMix64: small, and good enough to choose commands.
pub struct Random(u64);

impl Random {
    /// Starts a sequence that depends on nothing but its seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Generates a command.
    pub fn command(&mut self) -> Vec<Vec<u8>> {
        if self.one_in(500) {
            return vec![self.pick(&[&b"FLUSHDB"[..], b"FLUSHALL"]).to_vec()];
        }
        let mut choice = self.below(SHAPES.iter().chain(streams::SHAPES).map(|(weight, ..)| weight).sum());
        let mut shapes = SHAPES.iter().chain(streams::SHAPES);
        let (_, name, parts) = shapes
            .find(|(weight, ..)| {
                let found = choice < *weight;
                choice = choice.wrapping_sub(*weight);
                found
            })
            .expect("the choice is below the sum of the weights");
        let mut args = vec![name.as_bytes().to_vec()];
        parts.iter().for_each(|part| self.add(*part, &mut args));
        let is_strict = STRICT.contains(name);
        match self.below(150) {
            0 if !is_strict => args.push(self.pick(VALUES).to_vec()),
            1 if args.len() > 1 && !is_strict => drop(args.pop()),
            2 => args[0].make_ascii_lowercase(),
            _ => {}
        }
        args
    }

    fn add(&mut self, part: Part, args: &mut Vec<Vec<u8>>) {
        let word = match part {
            Part::Key => self.pick(KEYS).to_vec(),
            Part::Value => self.value(),
            Part::Integer => self.pick(INTEGERS).to_vec(),
            Part::Offset => self.pick(OFFSETS).to_vec(),
            Part::RelativeS => self.relative(""),
            Part::RelativeMs => self.relative("000"),
            Part::AbsoluteS => self.absolute(""),
            Part::AbsoluteMs => self.absolute("000"),
            Part::Database => self.pick(&[&b"0"[..], b"0", b"1", b"2", b"16", b"-1", b"x"]).to_vec(),
            Part::BitOffset => self.pick(BIT_OFFSETS).to_vec(),
            Part::Bit => self.pick(&[&b"0"[..], b"0", b"0", b"1", b"1", b"1", b"2", b"x"]).to_vec(),
            Part::BitRange => return self.bit_range(args),
            // An end before the first byte selects nothing, as since Redis 8; in 7.0 it selects the first byte.
            Part::RangeEnd => self.pick(&[&b"0"[..], b"1", b"-1", b"2", b"100", b"9223372036854775807", b"x"]).to_vec(),
            Part::Of(part) => return self.add_stream_part(part, args),
            Part::Operator => self.pick(&[&b"AND"[..], b"OR", b"XOR", b"NOT", b"and", b"NAND"]).to_vec(),
            Part::Fields => return self.fields(args),
            Part::Elements => return args.extend((0..self.below(40)).map(|_| self.value())),
            Part::Member => match self.one_in(2) {
                true => self.pick(INTEGERS).to_vec(),
                false => self.pick(VALUES).to_vec(),
            },
            Part::Members => return self.repeat(&[Part::Member], args),
            Part::All => self.pick(&[&b"1000000"[..], b"9223372036854775807", b"0", b"x"]).to_vec(),
            Part::CountedKeys => {
                let count = 1 + self.below(3);
                args.push(self.pick(&[count, count, count, 0, 4]).to_string().into_bytes());
                (0..count).for_each(|_| self.add(Part::Key, args));
                return if self.one_in(2) {
                    self.options(&[("LIMIT", Some(Part::Integer))], args)
                };
            }
            Part::ElementScan => {
                args.extend(["0", "COUNT", "1000000"].map(|word| word.as_bytes().to_vec()));
                return if self.one_in(2) {
                    self.options(&[("MATCH", Some(Part::Member))], args)
                };
            }
            // The others change the key in a way that Redis' WATCH misses.
            Part::Inside => self.pick(&[&b"ENCODING"[..], b"DECODE", b"decode", b"NOSUCH"]).to_vec(),
            Part::CopyOptions => return self.options(COPY_OPTIONS, args),
            Part::Dump => self.pick(DUMPS).to_vec(),
            Part::RestoreOptions => return self.options(RESTORE_OPTIONS, args),
            // A small number that was copied has a different reference count.
            Part::Encoding => self.pick(&[&b"ENCODING"[..], b"encoding", b"FREQ"]).to_vec(),
            Part::Keys => return self.repeat(&[Part::Key], args),
            Part::Field => match self.one_in(4) {
                true => self.value(),
                false => self.pick(FIELDS).to_vec(),
            },
            Part::HashFields => return self.repeat(&[Part::Field], args),
            Part::FieldValues => return self.repeat(&[Part::Field, Part::Value], args),
            Part::AllFields => {
                args.push(b"1000".to_vec());
                if self.one_in(2) {
                    return;
                }
                b"WITHVALUES".to_vec()
            }
            Part::AllMembers => {
                args.push(b"1000".to_vec());
                if self.one_in(2) {
                    return;
                }
                b"WITHSCORES".to_vec()
            }
            Part::Score => self.pick(SCORES).to_vec(),
            Part::ScoreMembers => return self.repeat(&[Part::Score, Part::Field], args),
            Part::AddOptions => return self.options(ADD_OPTIONS, args),
            Part::Bound => {
                let exclusion = self.pick(&["", "", "("]);
                [exclusion.as_bytes(), self.pick(SCORES)].concat()
            }
            Part::RankOptions => return self.options(RANK_OPTIONS, args),
            Part::ScoreOptions => {
                args.push(b"BYSCORE".to_vec());
                return self.options(SCORE_OPTIONS, args);
            }
            Part::End => self.pick(&[&b"MIN"[..], b"MAX", b"max", b"MID"]).to_vec(),
            Part::CombineOptions => return self.options(COMBINE_OPTIONS, args),
            Part::WithScores => return self.options(WITH_SCORES, args),
            Part::AllOfHash => return args.extend(["0", "COUNT", "10000"].map(|word| word.as_bytes().to_vec())),
            Part::Pairs => return self.repeat(&[Part::Key, Part::Value], args),
            Part::SetOptions => return self.options(SET_OPTIONS, args),
            Part::GetexOptions => return self.options(&SET_OPTIONS[4..], args),
            Part::LcsOptions => return self.options(LCS_OPTIONS, args),
            Part::Conditions => return self.options(CONDITIONS, args),
            Part::ScanOptions => {
                args.extend(["0", "COUNT", "1000", "MATCH"].map(|word| word.as_bytes().to_vec()));
                self.pick(KEYS).to_vec()
            }
            Part::Name => {
                args.push(self.pick(&[&b"SETNAME"[..], b"GETNAME", b"getname", b"NOSUCH"]).to_vec());
                if args[1] != b"SETNAME" {
                    return;
                }
                self.pick(&[&b"me"[..], b"", b"a b"]).to_vec()
            }
        };
        args.push(word);
    }

    fn repeat(&mut self, parts: &[Part], args: &mut Vec<Vec<u8>>) {
        for _ in 0..=self.below(3) {
            parts.iter().for_each(|part| self.add(*part, args));
        }
    }

    fn options(&mut self, options: &[(&str, Option<Part>)], args: &mut Vec<Vec<u8>>) {
        let count = self.pick(&[0, 1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let (words, part) = self.pick(options);
            args.extend(words.split(' ').map(|word| word.as_bytes().to_vec()));
            part.into_iter().for_each(|part| self.add(part, args));
        }
    }

    fn bit_range(&mut self, args: &mut Vec<Vec<u8>>) {
        // Only valid ranges: an invalid one is rejected before the key is looked up, as since Redis 7.2.
        if self.one_in(3) {
            return;
        }
        let ends = [&b"0"[..], b"1", b"-1", b"2", b"-100", b"100", b"9223372036854775807", b"-9223372036854775808"];
        (0..2).for_each(|_| args.push(self.pick(&ends).to_vec()));
        if self.one_in(2) {
            args.push(self.pick(&[&b"BIT"[..], b"BIT", b"BYTE", b"bit"]).to_vec());
        }
    }

    fn fields(&mut self, args: &mut Vec<Vec<u8>>) {
        let mut push = |words: &[&[u8]]| args.extend(words.iter().map(|word| word.to_vec()));
        for _ in 0..self.below(4) {
            let (kind, offset) = (self.pick(FIELD_TYPES), self.pick(BIT_OFFSETS));
            match self.below(7) {
                0 | 1 => push(&[b"GET", kind, offset]),
                2 | 3 => push(&[b"SET", kind, offset, self.pick(INTEGERS)]),
                4 | 5 => push(&[b"INCRBY", kind, offset, self.pick(INTEGERS)]),
                _ => match self.pick(&[&b"WRAP"[..], b"SAT", b"FAIL", b"NOSUCH"]) {
                    // Without another change, Redis' WATCH would miss that the string has grown.
                    b"FAIL" => push(&[b"OVERFLOW", b"WRAP", b"INCRBY", b"u1", b"0", b"0", b"OVERFLOW", b"FAIL"]),
                    word => push(&[b"OVERFLOW", word]),
                },
            }
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.below(200) {
            0 => vec![b'x'; 20_000],
            41 => [&b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80"[..], &[self.pick(&[0, 0x41, 0x07]); 12_288]].concat(),
            1..=40 => self.below(1000).to_string().into_bytes(),
            _ => self.pick(VALUES).to_vec(),
        }
    }

    /// A time far from all others, so that GT and LT never depend on the moment.
    fn relative(&mut self, unit: &str) -> Vec<u8> {
        match self.one_in(6) {
            true => self.pick(ODD_TIMES).to_vec(),
            false => format!("{}{unit}", 100_000_000 + self.below(1_000_000_000)).into_bytes(),
        }
    }

    fn absolute(&mut self, unit: &str) -> Vec<u8> {
        match self.below(6) {
            0 => self.pick(ODD_TIMES).to_vec(),
            1 => b"1".to_vec(),
            _ => format!("{}{unit}", self.pick(&[4_102_444_800_u64, 4_102_444_801, 5_000_000_000])).into_bytes(),
        }
    }
}
