//! Keyspace notifications: stories with a client that is subscribed to all of them.
//!
//! After every line the subscribers of both servers must have received the same events in the same order. The language
//! is the one of [`script`](super::script), without its `~`.

use super::oracle::{Arena, Heard, Link, Peer};
use super::record::{self, Ledger};
use super::script::{Differences, words};

/// Channel whose message marks the end of a command's events.
const MARK: &str = "__keymark__:";

/// Subscriber to all events of the servers.
pub(super) struct Listener(Link);

impl Listener {
    /// Makes the servers publish classes of events, and subscribes.
    pub(super) fn of(arena: &Arena, classes: &str) -> Self {
        let mut link = arena.link();
        link.call(&["CONFIG", "SET", "notify-keyspace-events", classes]);
        link.call(&["PSUBSCRIBE", "__key*__:*"]);
        Listener(link)
    }

    /// Makes the servers report every changed key.
    pub(super) fn that_tracks(arena: &Arena) -> Self {
        let mut link = arena.link();
        link.speak(3);
        link.call(&["SUBSCRIBE", MARK]);
        link.call(&["CLIENT", "TRACKING", "ON", "BCAST"]);
        Listener(link)
    }

    /// Returns the messages received so far.
    pub(super) fn heard(&mut self, talker: &mut Link) -> Heard {
        talker.call(&["PUBLISH", MARK, "end"]);
        Heard {
            keylatch: Some(up_to_mark(&mut self.0.keylatch)),
            redis: self.0.redis.as_mut().map(|peer| Some(up_to_mark(peer))),
        }
    }
}

fn up_to_mark(peer: &mut Peer) -> Vec<u8> {
    let mut heard = Vec::new();
    loop {
        let message = peer.reply().expect("the listener is not closed");
        if message.windows(MARK.len()).any(|part| part == MARK.as_bytes()) {
            return heard;
        }
        heard.extend(message);
    }
}

/// Runs stories, each with all classes of events and again with the usual classes and one channel for each; compares
/// replies and events with Redis and with the record of that name.
#[track_caller]
pub(super) fn tell_beside_listener(name: &str, stories: &str) {
    record::compare(name, &["KEAmn", "EA"], stories, tell_one);
}

fn tell_one(arena: &Arena, classes: &str, story: &str, ledger: &mut Ledger) {
    let (mut a, mut b, mut talker) = (arena.link(), arena.link(), arena.link());
    talker.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let mut listener = Listener::of(arena, classes);
    for line in record::lines(story) {
        ledger.tell(line);
        let (link, command) = match line.strip_prefix("b: ") {
            Some(command) => (&mut b, command),
            None => (&mut a, line),
        };
        ledger.hear(link.call(&words(command)), false);
        ledger.hear(listener.heard(&mut talker), false);
    }
}

#[test]
fn commands_on_sets_tell_the_events_of_redis() {
    tell_beside_listener(
        "sets",
        "
        SADD s a
        SADD s a
        SADD s a b c
        SREM s x
        SREM s a x
        SREM missing a
        SREM s b c d
        SADD n 1
        SPOP n
        SPOP n
        SADD n 1
        SPOP n 0
        SPOP n 3
        SADD n 1
        SPOP n 100
        SPOP missing 5
        SRANDMEMBER missing
        SRANDMEMBER missing 3
        SCARD missing
        SISMEMBER missing x
        SMISMEMBER missing x y
        SMEMBERS missing
        SSCAN missing 0

        SADD a x y
        SMOVE a b x
        SMOVE a b missing
        SMOVE a a y
        SADD b y
        SMOVE a b y
        SMOVE a b y
        SMOVE missing b y

        SADD a x y
        SADD b y z
        SINTER a missing b nope
        SINTERCARD 2 a missing
        SUNION nope missing
        SDIFF missing a nope
        SINTERSTORE d a b
        SINTERSTORE d a b
        SINTERSTORE d a missing
        SINTERSTORE d a missing
        SUNIONSTORE d a b
        SUNIONSTORE d missing
        SUNIONSTORE d missing
        SDIFFSTORE d a b
        SDIFFSTORE d a a
        SDIFFSTORE d a a
        SET str v
        SUNIONSTORE str a
        SET str v PX 60000
        SINTERSTORE str a
        SET str v
        SINTERSTORE str nope
        SINTERSTORE a a b
        ",
    );
}

#[test]
fn commands_on_strings_tell_the_events_of_redis() {
    tell_beside_listener(
        "strings",
        "
        SET k v
        SET k w
        SET k v NX
        SET k v XX
        SET n v XX
        SET n v GET
        SET n v GET
        SET k v EX 100
        SET k v KEEPTTL
        SET k v PX 100000 NX
        SET p v PXAT 5000000000000
        SET p v EX 0

        SETNX k v
        SETNX k v
        SETEX k 100 v
        PSETEX k 100000 v
        SETEX k 0 v
        GETSET k w
        GETSET n w
        GETDEL k
        GETDEL k
        MSET a 1 b 2 a 3
        MSETNX a 1 c 2
        MSETNX c 1 d 2
        MGET a nope b nope

        APPEND k v
        APPEND k v
        APPEND k \"\"
        SETRANGE k 3 xyz
        SETRANGE n 3 xyz
        SETRANGE m 3 \"\"
        STRLEN k
        STRLEN nope
        GETRANGE nope 0 1
        SUBSTR nope 0 1
        LCS nope never

        INCR k
        INCR k
        INCRBY k 0
        DECR k
        DECRBY k 3
        INCRBYFLOAT k 1.5
        INCRBYFLOAT f 1.5
        INCR k
        SET t 1 EX 100
        INCR t

        GETEX nope
        SET k v
        GETEX k
        GETEX k EX 100
        GETEX k PERSIST
        GETEX k PERSIST
        GETEX k PXAT 5000000000000
        GETEX k EXAT 1
        GETEX k
        GET k

        # another type is not there to be tried
        SET k v
        INCR k
        APPEND k w
        SETRANGE k -1 x
        SET k v FOO
        ",
    );
}

#[test]
fn commands_on_bits_and_hyperloglogs_tell_the_events_of_redis() {
    tell_beside_listener(
        "bits-and-hyperloglogs",
        "
        SETBIT k 7 1
        SETBIT k 7 1
        SETBIT k 7 0
        SETBIT k 100 0
        SETBIT n 3 0
        GETBIT k 1
        GETBIT nope 1
        BITCOUNT nope
        BITPOS nope 1

        BITFIELD k GET u8 0
        BITFIELD k SET u8 0 1
        BITFIELD k SET u8 0 1
        BITFIELD k SET u8 0 1 SET u8 8 2 INCRBY u8 0 1
        BITFIELD k INCRBY u8 0 0
        BITFIELD k OVERFLOW FAIL INCRBY u1 0 1 INCRBY u1 0 1 INCRBY u1 0 1
        BITFIELD n SET u8 0 0
        BITFIELD_RO nope GET u8 0

        SET a abc
        SET b b
        BITOP AND d a b
        BITOP OR d a b
        BITOP NOT d nope
        BITOP NOT d nope
        BITOP XOR d nope never

        PFADD h
        PFADD h
        PFADD h a b c
        PFADD h a
        PFCOUNT h
        PFCOUNT h
        PFCOUNT nope
        PFCOUNT h nope
        PFADD g x
        PFMERGE h g
        PFMERGE n
        PFMERGE n g nope
        PFDEBUG TODENSE h
        PFADD h a
        PFADD h y z
        PFCOUNT h
        ",
    );
}

#[test]
fn commands_on_hashes_tell_the_events_of_redis() {
    tell_beside_listener(
        "hashes",
        "
        HSET h a 1
        HSET h a 1 b 2
        HSET h a
        HMSET h a 1 c 3
        HSETNX h a 1
        HSETNX h d 1
        HSETNX n d 1
        HINCRBY h a 5
        HINCRBY h a 0
        HINCRBY h a x
        HINCRBY new a 5
        HINCRBYFLOAT h a 1.5
        HINCRBYFLOAT other a 1.5
        HDEL h nothing
        HDEL h a b
        HDEL h a c d
        HDEL h a
        HDEL n d d
        HGET h a
        HGETALL h
        HRANDFIELD h
        HSCAN h 0
        HGET other a
        HLEN h
        COPY other copied
        RENAME copied h
        SET h v
        HSET h a 1
        HGET h a

        CONFIG SET hash-max-listpack-entries 1
        HSET h a 1 b 2
        HDEL h a
        HDEL h b
        CONFIG SET hash-max-listpack-entries 512
        ",
    );
}

#[test]
fn commands_on_any_key_tell_the_events_of_redis() {
    tell_beside_listener(
        "any-key",
        "
        SET k v
        SET l w
        DEL k l nope
        UNLINK k
        SET k v
        UNLINK k k
        EXISTS k nope
        TOUCH k nope
        TYPE k
        TTL k
        PTTL k
        EXPIRETIME k
        PEXPIRETIME k
        OBJECT ENCODING k
        OBJECT FREQ k
        OBJECT IDLETIME k
        OBJECT REFCOUNT k
        DUMP k
        DEL nope

        SET k v
        EXPIRE k 100
        EXPIRE k 200
        EXPIRE k 100 NX
        EXPIRE k 100 LT
        PEXPIRE k 100000
        EXPIREAT k 5000000000
        PEXPIREAT k 5000000000000
        PERSIST k
        PERSIST k
        EXPIRE k -1
        EXPIRE k 100
        PERSIST k
        SET k v
        EXPIREAT k 1
        SET k v EX 100
        PEXPIREAT k 1

        SET a 1
        SET b 2 EX 100
        RENAME a b
        RENAME b c
        RENAME nope c
        RENAME c c
        RENAMENX c c
        SET d 4 EX 100
        RENAMENX c d
        RENAMENX d e
        RENAMENX nope x
        TTL e

        SET a 1 EX 100
        COPY a b
        COPY a b
        COPY a b REPLACE
        COPY nope b
        COPY a a DB 3
        COPY a a DB 3 REPLACE
        COPY nope b DB 3
        MOVE a 3
        MOVE a 2
        MOVE nope 2
        SELECT 2
        GET a
        DEL a
        GET a
        SELECT 0
        SWAPDB 0 3
        GET a
        SWAPDB 0 3

        SET a bar
        DUMP a
        RESTORE b 0 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\"
        RESTORE b 0 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\"
        RESTORE b 0 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\" REPLACE
        RESTORE c 100000 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\"
        RESTORE c 1 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\" REPLACE ABSTTL
        RESTORE d 1 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\" REPLACE ABSTTL
        RESTORE d 0 nonsense

        SET d v
        SORT nope
        SORT nope STORE d
        SORT nope STORE d
        SORT_RO nope

        DEBUG POPULATE 3
        DEBUG POPULATE 4
        DBSIZE
        FLUSHDB
        SET k v
        FLUSHALL
        ",
    );
}

#[test]
fn expired_events_precede_those_of_the_command_that_finds_the_keys() {
    tell_beside_listener(
        "expired",
        "
        SET k v PX 1
        DEBUG SLEEP 0.01
        GET k
        GET k

        SET k v PX 1
        DEBUG SLEEP 0.01
        SET k w

        SET k v PX 1
        DEBUG SLEEP 0.01
        SET k w NX

        SET k v PX 1
        DEBUG SLEEP 0.01
        SET k w XX

        SET k v PX 1
        DEBUG SLEEP 0.01
        SET k w GET EX 100

        SET k v PX 1
        DEBUG SLEEP 0.01
        INCR k

        SET k v PX 1
        DEBUG SLEEP 0.01
        APPEND k w

        SET k v PX 1
        DEBUG SLEEP 0.01
        SETRANGE k 1 w

        SET k v PX 1
        DEBUG SLEEP 0.01
        SETBIT k 1 1

        SET k v PX 1
        DEBUG SLEEP 0.01
        PFADD k w

        SET k v PX 1
        DEBUG SLEEP 0.01
        DEL k

        SET k v PX 1
        DEBUG SLEEP 0.01
        GETDEL k

        SET k v PX 1
        DEBUG SLEEP 0.01
        EXPIRE k 100

        SET k v PX 1
        DEBUG SLEEP 0.01
        PERSIST k

        SET k v PX 1
        DEBUG SLEEP 0.01
        TTL k

        SET k v PX 1
        DEBUG SLEEP 0.01
        EXISTS k k

        SET k v PX 1
        SET l v
        DEBUG SLEEP 0.01
        RENAME l k

        SET k v PX 1
        SET l v
        DEBUG SLEEP 0.01
        RENAMENX l k

        SET k v PX 1
        DEBUG SLEEP 0.01
        RENAME k l

        SET k v PX 1
        SET l v
        DEBUG SLEEP 0.01
        COPY l k

        SET k v PX 1
        DEBUG SLEEP 0.01
        COPY k l

        SET k v PX 1
        DEBUG SLEEP 0.01
        MOVE k 1

        SET k v PX 1
        SET l v PX 1
        DEBUG SLEEP 0.01
        BITOP OR m k l nope

        SET k v PX 1
        SET l w
        DEBUG SLEEP 0.01
        BITOP OR k l

        SET k v PX 1
        DEBUG SLEEP 0.01
        MSET k v l w

        SET k v PX 1
        DEBUG SLEEP 0.01
        MSETNX k v l w

        SET k v PX 1
        DEBUG SLEEP 0.01
        MGET k l

        SET k v PX 1
        DEBUG SLEEP 0.01
        RESTORE k 0 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\"

        SET k v PX 1
        DEBUG SLEEP 0.01
        RESTORE k 0 \"\\x00\\x03bar\\n\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17\" REPLACE

        SET k v PX 1
        DEBUG SLEEP 0.01
        OBJECT ENCODING k

        SET k v PX 1
        DEBUG SLEEP 0.01
        SORT nope STORE k

        SET k v PX 1
        DEBUG SLEEP 0.01
        DUMP k

        SET k v PX 1
        DEBUG SLEEP 0.01
        KEYS *

        SET k v PX 1
        SET l v PX 1
        DEBUG SLEEP 0.01
        BITOP OR k nope never
        ",
    );
}

#[test]
fn transactions_tell_the_events_of_their_commands() {
    tell_beside_listener(
        "transactions",
        "
        MULTI
        SET k v EX 100
        GET nope
        DEL k
        SELECT 2
        SET k v
        EXEC
        SET k w

        WATCH k
        b: SET k v
        MULTI
        SET k w
        EXEC

        MULTI
        SET k v
        DISCARD
        ",
    );
}

#[cfg(feature = "lua")]
#[test]
fn scripts_tell_the_events_of_their_commands() {
    tell_beside_listener(
        "scripts",
        "
        EVAL \"redis.call('set', 'k', 'v', 'EX', 100) redis.call('select', 3) redis.call('incr', 'n') return 1\" 0
        EVAL \"redis.call('rename', KEYS[1], 'l') redis.call('get', 'k') redis.pcall('incr', 'l')\" 1 k
        SELECT 3
        EVAL_RO \"return redis.call('get', 'nope')\" 0
        ",
    );
}

#[test]
fn classes_are_switched_while_clients_work_as_in_redis() {
    tell_beside_listener(
        "switched",
        "
        CONFIG SET notify-keyspace-events \"\"
        SET k v
        CONFIG SET notify-keyspace-events E$
        SET k v
        DEL k
        CONFIG SET notify-keyspace-events gE
        SET k v
        DEL k
        CONFIG GET notify-keyspace-events
        CONFIG SET notify-keyspace-events KA
        SET k v
        ",
    );
}

#[test]
fn classes_are_chosen_one_by_one() {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    let mut switch = arena.pair();
    switch.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    for classes in ["", "K", "A", "KA", "Kg", "E$", "Kx", "Ee", "KEn", "Em", "gm", "KEg$x", "KEls", "EAn", "AKEnm"] {
        arena.flush();
        let (mut pair, mut talker) = (arena.pair(), arena.link());
        let mut listener = Listener::of(&arena, classes);
        for command in
            ["SET k v PX 1", "DEBUG SLEEP 0.01", "GET k", "SET k v", "EXPIRE k 100", "COPY k l", "DEL k", "GET k"]
        {
            pair.call(&words(command));
        }
        for replies in [pair.call(&["CONFIG", "GET", "notify-keyspace-events"]), listener.heard(&mut talker).both()] {
            if !replies.agree() {
                found.add(classes, &replies);
            }
        }
    }
    found.report();
}
