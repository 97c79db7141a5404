//! Elements that have expired, and were not removed yet, when a transaction moves their value: the replay has no other value.

use keylatch::internals::resp::Frame;

use super::rows::call_all;
use super::{assert_replayed, start};

/// Values with an element that is expired and not removed yet: a set `s` without its `m5`, a hash `h` without its `f`.
const EXPIRED: &str = "SADD s m1 m2; SADDEX s PX 20 MEMBERS 1 m5; HSET h f 1 g 2; HPEXPIRE h 20 FIELDS 1 f";

#[test]
fn elements_that_expire_in_a_transaction_that_moves_their_value_are_absent_in_its_replay() {
    for requests in [
        "COPY s d; SADD d m5",
        "RENAME s d; SADD d m5",
        "RENAMENX s d; SADD d m5",
        "MOVE s 1; SELECT 1; SADD s m5; SELECT 0",
        "COPY s d; SADDEX d KEEPTTL MEMBERS 1 m5",
        "COPY s d; SORT d ALPHA STORE l",
        "RENAME s d; SORT d ALPHA STORE l",
        "COPY s d; ZUNIONSTORE e 1 d",
        "COPY s d; SMOVE d e m5",
        "COPY h d; HINCRBY d f 5",
        "RENAME h d; HSETNX d f 5",
        "COPY h d DB 1; SELECT 1; HINCRBY d f 5; SELECT 0",
        "SORT s BY nosort GET none*->f GET h->f STORE l",
        "SWAPDB 0 1; SELECT 1; SADD s m5; HSETNX h f 5; GET k; SELECT 0",
        "SWAPDB 0 1; SELECT 1; GET k; SCARD s; SELECT 0; SADD s m5",
    ] {
        let server = start();
        let mut client = server.client();
        client.call("DEBUG SET-ACTIVE-EXPIRE 0");
        call_all(&mut client, requests, EXPIRED);
        call_all(&mut client, requests, "SET k v PX 20; SELECT 1; SET k live; SADD s m1 m5; HSET h f 1; SELECT 0");
        server.advance_ms(50);
        client.call("MULTI");
        requests.split("; ").for_each(|request| assert_eq!(client.call(request), "+QUEUED"));
        let replies = client.call("EXEC");
        assert!(!replies.contains("-ERR") && !replies.contains("-WRONGTYPE"), "{requests}: {replies}");
        let log = server.take_log();
        assert_replayed(&server, log, 50);
    }
}

#[test]
fn elements_that_have_expired_are_not_restored() {
    let server = start();
    let mut client = server.client();
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    call_all(&mut client, "restore", EXPIRED);
    call_all(&mut client, "restore", "SADDEX all PX 20 MEMBERS 2 a b; HSET old f 1; HPEXPIRE old 20 FIELDS 1 f");
    let mut dump = |key: &str| match client.frame(&["DUMP", key]) {
        Frame::Bulk(payload) => payload.to_vec(),
        other => panic!("{other:?}"),
    };
    let dumps = ["s", "h", "all", "old"].map(|key| (key, dump(key)));
    client.call("FLUSHALL");
    server.advance_ms(50);
    client.call("MULTI");
    for (key, payload) in &dumps {
        client.call_args(&[&b"RESTORE"[..], key.as_bytes(), b"0", payload]);
    }
    for request in ["SADD s m5", "HSETNX h f 5", "SADD all a", "HSETNX old f 5"] {
        assert_eq!(client.call(request), "+QUEUED");
    }
    assert_eq!(client.call("EXEC"), "*8 +OK +OK +OK +OK :1 :1 :1 :1");
    client.expect(&[("SCARD s", ":3"), ("HLEN h", ":2"), ("SCARD all", ":1"), ("STTL s MEMBERS 1 m5", "*1 :-1")]);
    let log = server.take_log();
    assert_replayed(&server, log, 50);
}

#[test]
fn sort_does_not_store_fields_of_hashes_that_have_expired() {
    let server = start();
    let mut client = server.client();
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    const BEFORE: &str = "SADD k m1 m2; HSET hm1 f 1; HSET hm2 f 2 g 3; HPEXPIRE hm2 20 FIELDS 1 f";
    call_all(&mut client, "sort", BEFORE);
    server.advance_ms(50);
    client.expect(&[("SORT k BY nosort GET h*->f STORE l", ":2"), ("LRANGE l 0 -1", "*2 $1 1 $0 ")]);
    client.expect(&[("SORT k BY h*->f STORE by", ":2"), ("LRANGE by 0 -1", "*2 $2 m2 $2 m1")]);
    let log = server.take_log();
    assert_replayed(&server, log, 50);
}
