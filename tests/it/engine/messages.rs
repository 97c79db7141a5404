//! Messages, keyspace events and invalidations of client-side caches reach the clients of all servers.

use std::thread;

use crate::engine::Fleet;

#[test]
fn a_message_reaches_the_subscribers_of_all_servers() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let mut by_pattern = fleet.servers[0].client();
    one.expect(&[("SUBSCRIBE news", "*3 $9 subscribe $4 news :1")]);
    by_pattern.expect(&[("PSUBSCRIBE n*", "*3 $10 psubscribe $2 n* :1")]);
    // The reply counts the subscribers of the server that was asked.
    other.expect(&[("PUBLISH news hello", ":0")]);
    assert_eq!(one.reply(), "*3 $7 message $4 news $5 hello");
    assert_eq!(by_pattern.reply(), "*4 $8 pmessage $2 n* $4 news $5 hello");
    let mut sender = fleet.servers[0].client();
    sender.expect(&[("PUBLISH news again", ":2")]);
    assert_eq!(one.reply(), "*3 $7 message $4 news $5 again");
    let mut sharded = fleet.servers[0].client();
    sharded.expect(&[("SSUBSCRIBE shard", "*3 $10 ssubscribe $5 shard :1")]);
    other.expect(&[("SPUBLISH shard hello", ":0")]);
    assert_eq!(sharded.reply(), "*3 $8 smessage $5 shard $5 hello");
}

#[test]
fn a_message_of_a_transaction_comes_after_what_was_written_before_it() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("SUBSCRIBE done", "*3 $9 subscribe $4 done :1")]);
    other.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED"), ("PUBLISH done k", "+QUEUED"), ("EXEC", "*2 +OK :0")]);
    assert_eq!(one.reply(), "*3 $7 message $4 done $1 k");
    fleet.servers[0].client().expect(&[("GET k", "$1 v")]);
}

#[test]
fn keyspace_events_reach_the_subscribers_of_all_servers() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    fleet.add(keylatch::Clock::system(), &[("notify-keyspace-events", "KEA")]);
    fleet.add(keylatch::Clock::system(), &[]);
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("PSUBSCRIBE __keyevent@0__:*", "*3 $10 psubscribe $16 __keyevent@0__:* :1")]);
    other.expect(&[
        ("SET k v", "+OK"),
        ("EXPIRE k 100", ":1"),
        ("RENAME k l", "+OK"),
        ("LPUSH list a", ":1"),
        ("DEL l", ":1"),
    ]);
    for (event, key) in
        [("set", "k"), ("expire", "k"), ("rename_from", "k"), ("rename_to", "l"), ("lpush", "list"), ("del", "l")]
    {
        let channel = format!("__keyevent@0__:{event}");
        let message = format!("*4 $8 pmessage $16 __keyevent@0__:* ${} {channel} ${} {key}", channel.len(), key.len());
        assert_eq!(one.reply(), message);
    }
}

#[test]
fn a_client_that_caches_is_told_of_changes_at_all_servers() {
    let Some(fleet) = Fleet::start(2) else { return };
    let (mut caching, mut other) = (fleet.servers[0].client3(), fleet.servers[1].client());
    other.expect(&[("MSET k 1 l 2", "+OK")]);
    caching.expect(&[("CLIENT TRACKING ON", "+OK"), ("GET k", "$1 1"), ("GET l", "$1 2")]);
    other.expect(&[("SET k 3", "+OK")]);
    assert_eq!(caching.reply(), ">2 $10 invalidate *1 $1 k");
    other.expect(&[("FLUSHALL", "+OK")]);
    assert_eq!(caching.reply(), ">2 $10 invalidate _");
}

#[test]
fn what_a_transaction_reads_after_its_own_write_is_told_of_when_another_changes_it() {
    let Some(fleet) = Fleet::start(2) else { return };
    let (mut caching, mut other) = (fleet.servers[0].client3(), fleet.servers[1].client());
    caching.expect(&[("CLIENT TRACKING ON NOLOOP", "+OK")]);
    for number in 0..20 {
        caching.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED"), ("GET k", "+QUEUED"), ("EXEC", "*2 +OK $1 v")]);
        other.expect(&[(&format!("SET k {number}"), "+OK")]);
        assert_eq!(caching.reply(), ">2 $10 invalidate *1 $1 k");
    }
}

#[test]
fn no_message_is_lost_while_transactions_are_executed_again() {
    const MESSAGES: usize = 100;
    let Some(fleet) = Fleet::start(2) else { return };
    let (mut one, mut other) = (fleet.servers[0].client3(), fleet.servers[1].client());
    one.expect(&[("SUBSCRIBE news", ">3 $9 subscribe $4 news :1")]);
    let heard = thread::scope(|scope| {
        let sending = scope.spawn(move || {
            for _ in 0..MESSAGES {
                assert!(other.int("INCR k") > 0);
                other.expect(&[("PUBLISH news m", ":0")]);
            }
        });
        let mut heard = 0;
        while !sending.is_finished() || heard < MESSAGES {
            one.send(b"MULTI\r\nINCR k\r\nEXEC\r\n");
            let mut replies = 0;
            while replies < 3 {
                let reply = one.reply();
                let is_message = reply.starts_with('>');
                assert!(is_message || reply == "+OK" || reply == "+QUEUED" || reply.starts_with("*1 :"), "{reply}");
                *(if is_message { &mut heard } else { &mut replies }) += 1;
            }
        }
        heard
    });
    assert_eq!(heard, MESSAGES);
}
