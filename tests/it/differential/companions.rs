//! Stories of several clients at once: CLIENT PAUSE, blocking, CLIENT KILL, CLIENT REPLY, channels.
//!
//! The language of [`script`](super::script), with the client and the time of each command:
//!
//! ```text
//! a: GET k            client a sends a command and reads a reply
//! a> GET k ; GET l    client a sends commands and reads nothing
//! a<                  client a reads a reply, a push message, or the end of its connection
//! a/                  client a leaves
//! ? blocked_clients:1 the servers are asked until INFO contains this
//! ~ a: KEYS *         the lines of the reply may come in any order
//! {a}                 the id of client a
//! ```

use std::collections::BTreeMap;

use super::oracle::{Arena, Link, Peer};
use super::record::{self, Ledger};
use super::script::words;
use crate::harness::{encode, wait_until};

/// Plays every story of a text in RESP2 and in RESP3, compares the replies with Redis and with the record of that name,
/// and fails with all differences.
#[track_caller]
pub(super) fn play(name: &str, stories: &str) {
    play_in(&[2, 3], name, stories);
}

/// Plays stories like [`play`], in some protocols.
#[track_caller]
pub(super) fn play_in(protocols: &[u8], name: &str, stories: &str) {
    record::compare(name, protocols, stories, |arena, protocol, story, ledger| {
        Cast { arena, protocol, clients: BTreeMap::new(), ledger }.play(story);
    });
}

/// Clients of a story so far.
struct Cast<'a> {
    arena: &'a Arena,
    protocol: u8,
    clients: BTreeMap<String, Member>,
    ledger: &'a mut Ledger,
}

/// Client: its connections, and its ids at keylatch and Redis.
struct Member {
    link: Link,
    ids: [String; 2],
}

impl Cast<'_> {
    fn play(&mut self, story: &str) {
        for line in record::lines(story) {
            self.ledger.tell(line);
            if let Some(field) = line.strip_prefix("? ") {
                self.wait_for(field);
                continue;
            }
            let (is_unordered, line) = line.strip_prefix("~ ").map_or((false, line), |line| (true, line));
            let at = line.find([':', '>', '<', '/']).expect("who does what");
            let (name, deed, text) = (&line[..at], line.as_bytes()[at], &line[at + 1..]);
            self.appear(name);
            if deed == b'/' {
                self.clients.remove(name);
                continue;
            }
            if deed != b'<' {
                self.send(name, text);
            }
            if deed != b'>' {
                let replies = self.clients.get_mut(name).expect("has appeared").link.replies();
                self.ledger.hear(replies, is_unordered);
            }
        }
    }

    fn appear(&mut self, name: &str) {
        if self.clients.contains_key(name) {
            return;
        }
        let mut link = self.arena.link();
        link.speak(self.protocol);
        let replies = link.call(&["CLIENT", "ID"]);
        let ids = [replies.keylatch, replies.redis.flatten()].map(|reply| {
            let reply = String::from_utf8(reply.unwrap_or_default()).expect("text");
            reply.trim_matches([':', '\r', '\n']).to_owned()
        });
        self.clients.insert(name.to_owned(), Member { link, ids });
    }

    /// Sends commands in one write, with each server's own client ids.
    fn send(&mut self, name: &str, text: &str) {
        let bytes = |server: usize| -> Vec<u8> {
            let mut text = text.to_owned();
            for (name, member) in &self.clients {
                text = text.replace(&format!("{{{name}}}"), &member.ids[server]);
            }
            text.split(" ; ").flat_map(|command| encode(&words(command))).collect()
        };
        let (keylatch, redis) = (bytes(0), bytes(1));
        let link = &mut self.clients.get_mut(name).expect("has appeared").link;
        link.keylatch.send(&keylatch);
        link.redis.iter_mut().for_each(|peer| peer.send(&redis));
    }

    /// Polls the servers until INFO contains a line.
    fn wait_for(&mut self, line: &str) {
        let mut observer = self.arena.link();
        let says_so = |peer: &mut Peer| {
            peer.send(&encode(&["INFO"]));
            let text = peer.reply().expect("INFO is served");
            String::from_utf8_lossy(&text).lines().any(|other| other == line)
        };
        wait_until(|| says_so(&mut observer.keylatch));
        observer.redis.iter_mut().for_each(|peer| wait_until(|| says_so(peer)));
    }
}

#[test]
fn pauses_hold_back_what_those_of_redis_hold_back() {
    play("pauses", PAUSES);
}

#[test]
fn waits_end_by_time_or_by_the_word_of_another_as_those_of_redis_do() {
    play("waits", WAITS);
}

#[test]
fn clients_are_closed_by_the_filters_of_redis() {
    play("kills", KILLS);
}

#[test]
fn silence_covers_the_replies_that_redis_leaves_out() {
    play("silence", SILENCE);
}

#[test]
fn channels_patterns_and_shard_channels_are_those_of_redis() {
    play("channels", CHANNELS);
}

#[test]
fn what_a_client_asks_of_tracking_and_eviction_is_answered_as_by_redis() {
    play("manners", MANNERS);
}

const PAUSES: &str = r#"
    a: CLIENT PAUSE x
    a: CLIENT PAUSE -1
    a: CLIENT PAUSE 10 foo
    a: CLIENT PAUSE x foo
    a: CLIENT PAUSE 10 ALL x
    a: CLIENT PAUSE 9223372036854775808
    a: CLIENT PAUSE 0 write
    a: SET k v
    a: CLIENT UNPAUSE
    a: CLIENT UNPAUSE x
    a: CLIENT PAUSE

    # writes wait, reads do not; the last word counts
    a: SET k v
    b: CLIENT PAUSE 1000000 WRITE
    a: GET k
    a: SET k
    a: nosuch
    a> SET k w ; GET k
    ? blocked_clients:1
    b: GET k
    b: CLIENT UNPAUSE
    a<
    a<
    ? blocked_clients:0

    # what may reach replicas waits with the writes
    b: CLIENT PAUSE 1000000 WRITE
    a> PFCOUNT k
    c> DEL k
    d> FLUSHALL
    e: PING
    ? blocked_clients:3
    b: CLIENT UNPAUSE
    a<
    c<
    d<

    # so does a transaction with writes, its queueing included, and no other
    c: MULTI
    c: SET k queued
    b: CLIENT PAUSE 1000000 WRITE
    a: MULTI
    a: GET k
    a: EXEC
    d: MULTI
    d> SET k d
    c> EXEC
    ? blocked_clients:2
    a: GET k
    b: CLIENT UNPAUSE
    c<
    d<
    d: EXEC

    # a pause inside a transaction begins after it
    a: MULTI
    a: SET k 1
    a: CLIENT PAUSE 1000000 WRITE
    a: SET k 2
    a: EXEC
    b> SET k 3
    ? blocked_clients:1
    a: GET k
    a: CLIENT UNPAUSE
    b<

    # everything waits, in order, until the time is over; errors do not
    a: CLIENT PAUSE 200 ALL
    b: nosuch
    b: GET
    b> PING ; SET k 1 ; GET k ; MULTI ; SET l 1 ; EXEC ; QUIT ; PING
    c> CLIENT UNPAUSE
    b<
    b<
    b<
    b<
    b<
    b<
    b<
    b<
    c<

    # in one pipeline too
    a> CLIENT PAUSE 50 ALL ; PING ; ECHO x
    a<
    a<
    a<

    # a stricter pause and a longer one win
    a: CLIENT PAUSE 1000000 WRITE
    a: CLIENT PAUSE 1 WRITE
    b> SET k v
    ? blocked_clients:1
    a: CLIENT UNPAUSE
    b<

    # who leaves is not waited for
    a: CLIENT PAUSE 1000000 WRITE
    b> SET gone 1
    ? blocked_clients:1
    b/
    ? blocked_clients:0
    c> SET k 2
    ? blocked_clients:1
    a: CLIENT KILL ID {c}
    c<
    ? blocked_clients:0
    a: CLIENT UNPAUSE
    a: EXISTS gone
    a: EXISTS k

    # keys that end stay, unseen
    a: MULTI
    a: CLIENT PAUSE 1000000 WRITE
    a: SET k v PXAT 1
    a: EXEC
    a: GET k
    a: EXISTS k
    a: TTL k
    a: CLIENT UNPAUSE
    a: GET k
    a: DBSIZE
"#;

const WAITS: &str = r#"
    a: WAIT 0 0
    a: WAIT 1 1
    a: WAIT 5 20
    a: WAIT -1 1
    a> WAIT 1 30 ; PING ; WAIT 1 30 ; ECHO x
    a<
    a<
    a<
    a<

    a> WAIT 1 0 ; PING
    ? blocked_clients:1
    b: CLIENT UNBLOCK {a}
    a<
    a<
    b: CLIENT UNBLOCK {a}

    a> WAIT 1 0 ; PING
    ? blocked_clients:1
    b: CLIENT UNBLOCK {a} TIMEOUT
    a<
    a<

    a> WAIT 1 100000 ; PING
    ? clients_in_timeout_table:1
    b: CLIENT UNBLOCK {a} error
    a<
    a<
    ? clients_in_timeout_table:0
    b: CLIENT UNBLOCK {b}
    b: CLIENT UNBLOCK 0
    b: CLIENT UNBLOCK -1
    b: CLIENT UNBLOCK x
    b: CLIENT UNBLOCK {a} never
    b: CLIENT UNBLOCK x never
    b: CLIENT UNBLOCK {a} ERROR x
    b: CLIENT UNBLOCK

    # not inside a transaction
    a: MULTI
    a: WAIT 1 0
    a: WAIT 0 0
    a: EXEC

    a> WAIT 1 0
    ? blocked_clients:1
    a/
    ? blocked_clients:0

    a> WAIT 1 0
    ? blocked_clients:1
    b: CLIENT KILL ID {a}
    a<
    ? blocked_clients:0
"#;

const KILLS: &str = r#"
    a: CLIENT KILL
    a: CLIENT KILL nobody
    a: CLIENT KILL 1.2.3.4:5
    a: CLIENT KILL ID
    a: CLIENT KILL ID 0
    a: CLIENT KILL ID -1
    a: CLIENT KILL ID x
    a: CLIENT KILL ID 9223372036854775808
    a: CLIENT KILL ID 99999999
    a: CLIENT KILL TYPE
    a: CLIENT KILL TYPE nosuch
    a: CLIENT KILL TYPE master
    a: CLIENT KILL TYPE slave
    a: CLIENT KILL TYPE replica
    a: CLIENT KILL TYPE pubsub
    a: CLIENT KILL USER nobody
    a: CLIENT KILL USER ""
    a: CLIENT KILL ADDR nowhere
    a: CLIENT KILL LADDR nowhere
    a: CLIENT KILL SKIPME maybe
    a: CLIENT KILL SKIPME yes ID
    a: CLIENT KILL foo bar
    a: CLIENT KILL ID 1 foo bar
    a: CLIENT KILL ID x foo bar

    b: PING
    c: PING
    a: CLIENT KILL ID {b}
    b<
    a: CLIENT KILL ID {b}
    a: CLIENT KILL ID {a}
    a: CLIENT KILL ID {c} TYPE pubsub
    a: CLIENT KILL ID {c} TYPE normal USER default SKIPME no
    c<
    a: CLIENT KILL ID {a} SKIPME no
    a<

    # the reply comes first, and nothing after it
    a> CLIENT KILL ID {a} SKIPME no ; SET k v
    a<
    a<
    b: EXISTS k

    # everybody but me
    b: PING
    c: PING
    a> CLIENT KILL TYPE normal
    b<
    c<
    a: CLIENT LIST TYPE pubsub
    a: CLIENT LIST TYPE master
    a: CLIENT LIST TYPE nosuch
    a: CLIENT LIST ID
    a: CLIENT LIST ID x
    a: CLIENT LIST ID 99999999
    a: CLIENT LIST ID {a} x
    a: CLIENT LIST nosuch
    a: CLIENT LIST TYPE normal x
"#;

const SILENCE: &str = r#"
    a: CLIENT REPLY nosuch
    a: CLIENT REPLY
    a: CLIENT REPLY ON x
    a: CLIENT REPLY on
    a> CLIENT REPLY OFF ; PING ; SET a b ; nosuch ; GET ; CLIENT REPLY ON ; GET a
    a<
    a<
    a> CLIENT REPLY SKIP ; PING ; ECHO 1
    a<
    a> CLIENT REPLY SKIP ; CLIENT REPLY SKIP ; PING ; ECHO 2
    a<
    a> CLIENT REPLY SKIP ; CLIENT REPLY ON ; ECHO 3
    a<
    a<
    a> CLIENT REPLY SKIP ; nosuch ; ECHO 4
    a<
    a> CLIENT REPLY SKIP ; MULTI ; PING ; EXEC
    a<
    a<
    a> CLIENT REPLY OFF ; CLIENT REPLY SKIP ; ECHO 5 ; CLIENT REPLY nosuch ; CLIENT REPLY ON ; ECHO 6
    a<
    a<
    a> CLIENT REPLY OFF ; MULTI ; SET a c ; EXEC ; CLIENT REPLY ON ; GET a
    a<
    a<
    a> CLIENT REPLY OFF ; KEYS * ; CLIENT REPLY ON
    a<
    a> CLIENT REPLY SKIP ; WAIT 1 1 ; ECHO 7
    a<
    a> CLIENT REPLY OFF ; RESET ; ECHO 8 ; CLIENT REPLY ON
    a<
    a<
    a<
"#;

const MANNERS: &str = r#"
    a: CLIENT NO-EVICT on
    a: CLIENT NO-EVICT OFF
    a: CLIENT NO-EVICT maybe
    a: CLIENT NO-EVICT
    a: CLIENT NO-EVICT on off
    a: CLIENT TRACKINGINFO
    a: CLIENT TRACKINGINFO x
    a: CLIENT GETREDIR
    a: CLIENT GETREDIR x
    a: CLIENT CACHING YES
    a: CLIENT CACHING NO
    a: CLIENT CACHING maybe
    a: CLIENT CACHING
"#;

const CHANNELS: &str = r#"
    a: SUBSCRIBE a b a
    a<
    a<
    a: PING
    a: PING x
    a: PING x y
    a: GET k
    a: nosuch
    a: GET
    a: MULTI
    a: DISCARD
    a: CLIENT REPLY ON
    a: UNSUBSCRIBE b a
    a<

    # messages and who gets them
    a: SUBSCRIBE a b
    a<
    b: PUBLISH a hello
    b: PUBLISH b ""
    b: PUBLISH c "x\r\n\x00"
    b: PUBLISH "" x
    a<
    a<
    c: SUBSCRIBE a
    b: PUBLISH a both
    a<
    c<
    ? pubsub_channels:2
    ~ b: PUBSUB CHANNELS
    b: PUBSUB CHANNELS zz*
    b: PUBSUB CHANNELS [b]
    b: PUBSUB NUMSUB a b c a
    b: PUBSUB NUMSUB
    b: PUBSUB NUMPAT
    a: UNSUBSCRIBE a
    a: UNSUBSCRIBE zz
    b: PUBLISH a again
    c<
    c/
    ? pubsub_channels:1
    b: PUBLISH a nobody
    a: UNSUBSCRIBE
    a: UNSUBSCRIBE
    a: GET k
    a: PING
    ? pubsub_channels:0

    # patterns
    a: PSUBSCRIBE h* h?llo h*
    a<
    a<
    b: PUBLISH hxllo v
    b: PUBLISH other v
    b: PUBLISH h[x] v
    b: PUBSUB NUMPAT
    ? pubsub_patterns:2
    a/
    ? pubsub_patterns:0

    a: PSUBSCRIBE h?llo
    a: SUBSCRIBE hello
    b: PUBLISH hello w
    a<
    a<
    a: PUNSUBSCRIBE
    a: PUNSUBSCRIBE zz
    a: UNSUBSCRIBE
    a: PUNSUBSCRIBE

    # the newest patterns go last, and the count is that of channels too
    a: PSUBSCRIBE c a b
    a<
    a<
    a: SUBSCRIBE x
    a: PUNSUBSCRIBE
    a<
    a<
    a: RESET
    a: PING

    # shard channels
    a: SSUBSCRIBE a b
    a<
    a: SUBSCRIBE a
    b: SPUBLISH a x
    b: PUBLISH a y
    a<
    a<
    ~ b: PUBSUB SHARDCHANNELS
    b: PUBSUB SHARDCHANNELS b
    b: PUBSUB SHARDNUMSUB a b c
    b: PUBSUB SHARDNUMSUB
    b: PUBSUB CHANNELS
    a: SUNSUBSCRIBE a
    a: UNSUBSCRIBE
    a: GET k
    a: SUNSUBSCRIBE
    a: SUNSUBSCRIBE
    a: SUNSUBSCRIBE x
    a: GET k

    # RESET, QUIT, and being closed
    a: SUBSCRIBE a
    a: RESET
    a: GET k
    b: PUBSUB NUMSUB a
    a: SUBSCRIBE a
    a: QUIT
    a<
    c: SUBSCRIBE a
    b: CLIENT KILL TYPE pubsub
    c<
    ? pubsub_channels:0
    b: PUBLISH a x

    # inside a transaction
    a: MULTI
    a: SUBSCRIBE a
    a: UNSUBSCRIBE b
    a: SSUBSCRIBE x
    a: PING
    a: EXEC
    b: PUBLISH a x
    a<
    a: UNSUBSCRIBE

    # in one pipeline
    a> SUBSCRIBE a ; UNSUBSCRIBE ; GET x ; SUBSCRIBE b ; GET x ; UNSUBSCRIBE ; GET x
    a<
    a<
    a<
    a<
    a<
    a<
    a<

    # what is pushed is not silenced
    a> CLIENT REPLY OFF ; SUBSCRIBE a ; PING ; UNSUBSCRIBE a ; CLIENT REPLY ON ; ECHO end
    a<
    a<
    a<
    a<

    a: PUBSUB
    a: PUBSUB nosuch
    a: PUBSUB CHANNELS a b
    a: PUBSUB NUMPAT x
    a: PUBSUB SHARDCHANNELS a b
    a: PUBLISH a
    a: PUBLISH a b c
    a: SPUBLISH a
    a: SUBSCRIBE
    a: PSUBSCRIBE
    a: SSUBSCRIBE

    # a message reaches all who listen to its channel, and nobody else
    a: SUBSCRIBE news
    b: SUBSCRIBE news
    c: SUBSCRIBE news
    d: SUBSCRIBE olds
    e: PUBLISH news hello
    e: PUBLISH nothing hello
    e: PUBLISH olds bye
    a<
    b<
    c<
    d<
"#;

/// Covers other commands of a subscribed client, which only RESP3 allows.
#[test]
fn clients_that_listen_are_reset_as_redis_does() {
    play_in(&[3], "listens", LISTENS);
}

const LISTENS: &str = r#"
    a: SUBSCRIBE a
    a: SSUBSCRIBE a
    a: PSUBSCRIBE a*
    b: PUBLISH a x
    a<
    a<
    a: RESET
    a: GET k
"#;
