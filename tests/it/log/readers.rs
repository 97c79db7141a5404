//! Readers of the log: several at their own speeds, one that starts in the middle, and one that confirms late.

use std::io::ErrorKind;

use bytes::BytesMut;
use keylatch::internals::{LogReader, ReaderPurpose, replay};

use crate::harness::{Client, TestServer, wait_until};

fn reader(server: &TestServer, purpose: ReaderPurpose) -> LogReader {
    server.server().namespace().read_log(purpose)
}

/// Returns a server that has executed a log.
fn twin(log: &[u8]) -> TestServer {
    let twin = TestServer::start_with(&[("enable-debug-command", "yes")]);
    replay(twin.server().namespace(), BytesMut::from(log)).expect("a whole log");
    twin
}

fn digest(server: &TestServer) -> String {
    server.client().call("DEBUG DIGEST")
}

/// Sends many writes of several types.
fn write(client: &mut Client, from: usize, to: usize) {
    let commands = (from..to).flat_map(|number| {
        let key = number % 97;
        [format!("SET s:{key} {number}"), format!("RPUSH l:{key} {number}"), format!("ZADD z:{key} {number} {number}")]
    });
    client.pipeline(&commands.collect::<Vec<_>>());
}

#[test]
fn three_readers_at_different_speeds_copy_the_data_one_of_them_from_a_cut_in_the_middle_on() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    let (often, once) = (reader(&server, ReaderPurpose::Copy), reader(&server, ReaderPurpose::Copy));
    let mut copied = Vec::new();
    for step in 0..20 {
        write(&mut client, step * 100, (step + 1) * 100);
        copied.extend(often.read_all().expect("its place"));
    }
    let (late, at_the_cut) = (reader(&server, ReaderPurpose::Copy), twin(&copied));
    assert_eq!(digest(&at_the_cut), digest(&server));
    for step in 20..40 {
        write(&mut client, step * 100, (step + 1) * 100);
        copied.extend(often.read_all().expect("its place"));
    }
    let rest = BytesMut::from(&late.read_all().expect("its place")[..]);
    replay(at_the_cut.server().namespace(), rest).expect("a whole log");
    assert_eq!(digest(&at_the_cut), digest(&server));
    assert_eq!(digest(&twin(&copied)), digest(&server));
    assert_eq!(digest(&twin(&once.read_all().expect("its place"))), digest(&server));
    assert_eq!((often.position(), late.position()), (once.position(), once.position()));
}

/// Returns whether no reply for a client has arrived.
fn hears_nothing(client: &Client) -> bool {
    let stream = client.writer();
    stream.set_nonblocking(true).expect("a socket");
    let outcome = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("a socket");
    outcome.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_reply_waits_until_a_reader_has_confirmed_the_write_and_so_does_who_has_read_it() {
    let server = TestServer::start();
    let file = reader(&server, ReaderPurpose::Confirm);
    let (mut writer, mut other) = (server.client(), server.client());
    assert_eq!(other.call("GET k"), "$-1", "nothing is waited for");
    writer.send(b"SET k v\r\n");
    wait_until(|| file.waiting() == 1);
    other.send(b"GET k\r\n");
    wait_until(|| file.waiting() == 2);
    assert!(!file.read_all().expect("its place").is_empty());
    assert!(hears_nothing(&writer) && hears_nothing(&other));
    file.confirm(file.position() - 1);
    assert!(hears_nothing(&writer) && file.waiting() == 2, "less than the write is not enough");
    file.confirm(file.position());
    assert_eq!((writer.reply(), other.reply()), ("+OK".to_owned(), "$1 v".to_owned()));
    assert_eq!(file.waiting(), 0);
}

#[test]
fn who_reads_other_keys_or_asks_about_the_server_does_not_wait_and_who_may_read_any_does() {
    let server = TestServer::start();
    server.client().call("SET before v");
    let file = reader(&server, ReaderPurpose::Confirm);
    let mut writer = server.client();
    writer.send(b"SET k v\r\n");
    wait_until(|| file.waiting() == 1);
    server.client().expect(&[
        ("PING", "+PONG"),
        ("SET k", "-ERR wrong number of arguments for 'set' command"),
        ("OBJECT HELP x", "-ERR wrong number of arguments for 'object|help' command"),
        ("CONFIG GET port", "*2 $4 port $1 0"),
    ]);
    assert!(server.client().call("INFO").contains("keyspace_hits"));
    // Some of the keys may be in the shard of `k`.
    let mut others: Vec<Client> = (0..8).map(|_| server.client()).collect();
    others.iter_mut().enumerate().for_each(|(n, other)| other.send(format!("GET other:{n}\r\n").as_bytes()));
    let answered = |others: &[Client]| others.iter().filter(|other| !hears_nothing(other)).count();
    wait_until(|| answered(&others) + file.waiting() == 9 && answered(&others) > 0);
    let mut requests = vec!["GET k", "MGET before k", "DBSIZE", "KEYS before", "SCAN 0", "RANDOMKEY"];
    if cfg!(feature = "lua") {
        requests.push("FUNCTION LIST");
    }
    for (request, waiting) in requests.iter().zip(file.waiting() + 1..) {
        let mut client = server.client();
        client.send(format!("{request}\r\n").as_bytes());
        wait_until(|| file.waiting() == waiting);
        assert!(hears_nothing(&client), "{request}");
        others.push(client);
    }
    file.read_all().expect("its place");
    file.confirm(file.position());
    assert_eq!(writer.reply(), "+OK");
    // A transaction that has locked only its key has changed no other one.
    let mut transaction = server.client();
    transaction.expect(&[("MULTI", "+OK"), ("SET other v", "+QUEUED")]);
    transaction.send(b"EXEC\r\n");
    wait_until(|| file.waiting() == 1);
    let mut others: Vec<Client> = (0..8).map(|_| server.client()).collect();
    others.iter_mut().enumerate().for_each(|(n, other)| other.send(format!("GET other:{n}\r\n").as_bytes()));
    wait_until(|| answered(&others) + file.waiting() == 9 && answered(&others) > 0);
    file.read_all().expect("its place");
    file.confirm(file.position());
    assert_eq!(transaction.reply(), "*1 +OK");
    // A transaction that has locked the whole store may have changed any key.
    let mut transaction = server.client();
    transaction.expect(&[("MULTI", "+OK"), ("SET other v", "+QUEUED"), ("DBSIZE", "+QUEUED")]);
    transaction.send(b"EXEC\r\n");
    wait_until(|| file.waiting() == 1);
    let mut reading = server.client();
    reading.send(b"GET before\r\n");
    wait_until(|| file.waiting() == 2);
    file.read_all().expect("its place");
    file.confirm(file.position());
    assert_eq!((transaction.reply(), reading.reply()), ("*2 +OK :3".to_owned(), "$1 v".to_owned()));
}

#[test]
fn requests_are_executed_while_earlier_replies_wait_and_the_replies_come_as_far_as_is_confirmed() {
    let server = TestServer::start();
    let file = reader(&server, ReaderPurpose::Confirm);
    let mut client = server.client();
    let mut log = Vec::new();
    let mut logged = |request: &[u8], end: &[u8]| {
        client.send(request);
        wait_until(|| {
            log.extend(file.read_all().expect("its place"));
            log.ends_with(end)
        });
        wait_until(|| file.waiting() == 1);
        file.position()
    };
    let first = logged(b"INCR n\r\n", b"incr\r\n$1\r\nn\r\n");
    let second = logged(b"APPEND t large\r\n", b"large\r\n");
    file.confirm(first);
    assert_eq!(client.reply(), ":1");
    assert!(hears_nothing(&client) && file.waiting() == 1);
    file.confirm(second);
    assert_eq!(client.reply(), ":5");
}

#[test]
fn a_client_that_a_write_has_served_waits_for_it_and_all_are_released_when_the_reader_leaves() {
    let server = TestServer::start();
    let mut popping = server.block("BLPOP l 0");
    let file = reader(&server, ReaderPurpose::Confirm);
    let mut pushing = server.client();
    pushing.send(b"RPUSH l v\r\n");
    wait_until(|| file.waiting() == 2);
    assert!(hears_nothing(&popping) && hears_nothing(&pushing));
    drop(file);
    assert_eq!((popping.reply(), pushing.reply()), ("*2 $1 l $1 v".to_owned(), ":1".to_owned()));
}

#[test]
fn what_test_mode_sets_back_is_in_the_log_of_whoever_copies_it() {
    let server = TestServer::start_with(&[("test-mode", "yes"), ("enable-debug-command", "yes")]);
    let (mut client, copy) = (server.client(), reader(&server, ReaderPurpose::Copy));
    client.expect(&[("SET k v", "+OK"), ("RPUSH l a b", ":2"), ("TEST.SNAPSHOT s", "+OK"), ("SET k w", "+OK")]);
    client.expect(&[("DEL l", ":1"), ("SET new v", "+OK"), ("TEST.RESTORE s", "+OK"), ("GET k", "$1 v")]);
    let mut log = copy.read_all().expect("its place");
    assert_eq!(digest(&twin(&log)), digest(&server));
    client.expect(&[("SET k x", "+OK"), ("SET k y", "+OK"), ("TEST.FAILOVER LOSE 1", "+OK")]);
    assert_eq!(server.client().call("GET k"), "$1 x");
    log.extend(copy.read_all().expect("its place"));
    assert_eq!(digest(&twin(&log)), digest(&server));
}

#[test]
fn a_write_after_a_restore_is_repeated_in_its_own_database() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let (mut client, _copy) = (server.client(), reader(&server, ReaderPurpose::Copy));
    client.expect(&[("SELECT 3", "+OK"), ("SET k v", "+OK"), ("TEST.SNAPSHOT s", "+OK"), ("TEST.RESTORE s", "+OK")]);
    client.expect(&[("SELECT 0", "+OK"), ("SET k x", "+OK"), ("SET k y", "+OK"), ("TEST.FAILOVER LOSE 1", "+OK")]);
    let mut client = server.client();
    client.expect(&[("GET k", "$1 x"), ("SELECT 3", "+OK"), ("GET k", "$1 v")]);
}
