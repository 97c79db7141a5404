//! Every setting with valid and invalid values: the replies of CONFIG SET and CONFIG GET.

use std::collections::BTreeSet;

use bytes::BytesMut;
use keylatch::internals::config::{ChangeTime, Setting};
use keylatch::internals::resp::{Frame, FrameDecoder};
use tokio_util::codec::Decoder;

use super::oracle::{Arena, Pair};
use super::script::Differences;

/// Values given to every setting: valid and invalid ones of each kind, and the bounds.
#[rustfmt::skip] // a table
const VALUES: &[&str] = &[
    "", " ", "yes", "NO", "on", "abc", "a b", "a  b", "a b c", "a/b", "host.name-1", "host_name",
    "0", "1", "-1", "2", "7", "10", "99", "100", "101", "-100", "-101", "007", "+1", " 1", "1 ", "1.5", "1e3", "-0",
    "500", "501", "1000", "1024", "1048575", "1048576", "65535", "65536", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "4294967294", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
    "18446744073709551616", "1b", "1k", "1KB", "3mb", "5gb", "1tb", "99999999999gb", "%", "10%", "100%", "101%", "-1%",
    "default", "save", "nosave now", "FORCE default", "save  now", "save nosave", "force now save",
    "60 1", "60 1 ", "60 -1", "0 1", " 60 1", "60 +7 5 5", "60 4294967297", "60 1x",
    "0 200 800", "-2000 2000 0", "0 200 2001", "1 2 x", "1 2 3 4",
    "50 99.9", "50", "0.001 100", "100.1", "-0.1", "99.99999999", "1e1 2", "nan",
    "slave 1mb 1k 5", "replica 0 0 0 pubsub 1 2 3", "REPLICA 1 1 1 slave 2 2 2", "slave 1 1", "slave 1q 1 1", "slave 1 1 -1",
    "slave 1 1 +7", "master 1 1 1", "nobody 1 1 1",
    "A", "KEA", "An", "g$lshzxetd", "nmKE", "gxE$", "AB", "Kn",
    "{title}", "{title} x", "x{port}", "{nope}", "{", "{{", "{title", " {server-mode} ", "}{config-file}",
    "debug", "VERBOSE", "notice", "warning", "nothing", "always", "everysec", "no", "relative", "absolute",
    "allkeys-lru", "volatile-TTL", "swapdb", "on-empty-db", "allchannels", "resetchannels", "clients", "hostname", "ip",
    "panic", "panic-on-replicas", "ignore", "optional", "dump.rdb", "no one", "localhost 7000", "localhost x",
];

/// Excluded settings: those that would make the real server unusable for the test (addresses, files, clients), those
/// that it was started with, and those that only Redis can follow (save points).
#[rustfmt::skip] // a table
const LEFT_OUT: &[&str] = &[
    "port", "bind", "tls-port", "tls-cluster", "tls-replication", "appendonly", "watchdog-period", "maxclients", "timeout",
    "oom-score-adj", "oom-score-adj-values", "dir", "save", "unixsocket", "enable-debug-command",
    // Later versions accept other values than 7.0.15: `tests/it/config.rs` and `tests/it/eviction.rs` test them.
    "loglevel", "maxmemory-samples", "maxmemory-policy",
];

#[test]
fn settings_have_the_names_of_redis() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    pair.speak(3);
    let replies = pair.call(&["CONFIG", "GET", "*"]);
    let (ours, theirs) = (names(replies.keylatch), names(replies.redis));
    let differing: BTreeSet<&str> = ours.symmetric_difference(&theirs).map(String::as_str).collect();
    let newer = Setting::all().filter(|setting| setting.since.is_some()).map(|new| new.name);
    // Since 7.2 the names of these have dashes, and the ones with underscores are aliases.
    let renamed = ["server-cpulist", "bio-cpulist", "aof-rewrite-cpulist", "bgsave-cpulist"];
    assert_eq!(differing, newer.chain(renamed).collect(), "names that only one has, and those that came later");
}

fn names(reply: Option<Vec<u8>>) -> BTreeSet<String> {
    let mut bytes = BytesMut::from(&reply.expect("a reply")[..]);
    let Ok(Some(Frame::Map(pairs))) = FrameDecoder::new().decode(&mut bytes) else { panic!("a map") };
    pairs.iter().map(|(name, _)| String::from_utf8_lossy(name.as_bytes().expect("a name")).into_owned()).collect()
}

#[test]
fn settings_take_and_refuse_the_values_that_redis_takes_and_refuses() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    let mut found = Differences::default();
    for (name, setting) in Setting::names() {
        // Settings newer than Redis 7.0 cannot be compared.
        let known = pair.call(&["CONFIG", "GET", name]);
        if known.redis.is_some_and(|reply| reply.starts_with(b"*0")) || LEFT_OUT.contains(&name) {
            continue;
        }
        // One value is enough to show that a setting cannot change.
        let values = if setting.change == ChangeTime::Runtime { VALUES } else { &VALUES[..1] };
        for value in values {
            // The longest string that keylatch can hold is shorter; the table of deviations has it. Since 8.2 there are
            // the classes `o` and `c`, and the error for other letters names them.
            let is_newer =
                name == "notify-keyspace-events" && !value.bytes().all(|letter| b"AKEg$lshzxetdnm".contains(&letter));
            if setting.name != "proto-max-bulk-len" && !is_newer {
                compare(&mut pair, name, value, &mut found);
            }
        }
        compare(&mut pair, name, setting.default, &mut found);
    }
    found.report();
}

fn compare(pair: &mut Pair, name: &str, value: &str, found: &mut Differences) {
    for call in [&["CONFIG", "SET", name, value][..], &["CONFIG", "GET", name]] {
        let replies = pair.call(call);
        if !replies.agree() {
            found.add(&format!("CONFIG SET {name} {value:?}, {}", call[1]), &replies);
        }
    }
}
