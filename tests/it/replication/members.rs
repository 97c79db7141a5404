//! Deadlines of members of sets at a replica: keylatch, and redis-server 7.0, which knows none.

use keylatch::internals::resp::Frame;

use super::nodes::{Kind, Node};
use crate::harness::wait_until;

/// Returns 200 members, of which half are integers.
fn many() -> String {
    (0..200).map(|n| if n % 2 == 0 { n.to_string() } else { format!("m{n}") }).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_replica_has_the_deadlines_and_waits_for_its_primary_to_remove_members() {
    let primary = Node::keylatch(&[]);
    let mut client = primary.client();
    client.expect(&[
        ("SADD few a 7 c", ":3"),
        ("SPEXPIREAT few 33000000000000 MEMBERS 2 a 7", "*2 :1 :1"),
        (&format!("SADDEX many EX 100000 MEMBERS 200 {}", many()), ":1"),
    ]);
    let replica = Node::replica_of(&primary, &[]);
    replica.assert_same(&primary);
    client.expect(&[
        ("SADDEX live PX 100000 MEMBERS 3 a 7 c", ":1"),
        ("SADDEX live MEMBERS 1 7", ":1"),
        ("SMOVE live few c", ":1"),
        ("SUNIONSTORE union live many", ":202"),
        ("SPERSIST many MEMBERS 1 m1", "*1 :1"),
    ]);
    replica.assert_same(&primary);
    let mut reader = replica.client();
    for (key, members) in [("few", "4 a 7 c x"), ("many", "3 0 m1 m3"), ("live", "2 a 7"), ("union", "3 a 7 m3")] {
        let request = format!("SPEXPIRETIME {key} MEMBERS {members}");
        assert_eq!(reader.call(&request), client.call(&request), "{key}");
    }
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SPEXPIRE few 1 MEMBERS 1 a", "*1 :1")]);
    replica.wait_for(&primary);
    wait_until(|| reader.call("SISMEMBER few a") == ":0");
    assert_eq!(reader.info("expired_subkeys"), "0");
    client.expect(&[("SISMEMBER few a", ":0"), ("SCARD few", ":2")]);
    replica.assert_same(&primary);
}

#[test]
fn redis_has_the_members_without_deadlines_and_loses_those_that_expire() {
    let primary = Node::keylatch(&[]);
    let mut client = primary.client();
    client.expect(&[
        ("SADD few a 7 c", ":3"),
        ("SPEXPIREAT few 33000000000000 MEMBERS 2 a 7", "*2 :1 :1"),
        (&format!("SADDEX many EX 100000 MEMBERS 200 {}", many()), ":1"),
    ]);
    let Some(replica) = Node::start(Kind::Redis, &[]) else { return };
    replica.follow(&primary);
    replica.wait_for(&primary);
    let mut reader = replica.client();
    reader.expect(&[("SCARD few", ":3"), ("SCARD many", ":200"), ("SMISMEMBER many 0 m199", "*2 :1 :1")]);
    client.expect(&[
        ("MULTI", "+OK"),
        ("SADDEX live PX 100000 MEMBERS 3 a 7 c", "+QUEUED"),
        ("SADDEX live MEMBERS 1 7", "+QUEUED"),
        ("SADDEX few PXAT 1 MEMBERS 1 c", "+QUEUED"),
        ("EXEC", "*3 :1 :1 :1"),
        ("SPEXPIRE live 1 MEMBERS 1 a", "*1 :1"),
    ]);
    wait_until(|| reader.call("SCARD live") == ":2");
    reader.expect(&[("SISMEMBER live a", ":0"), ("SMISMEMBER few a 7 c", "*3 :1 :1 :0")]);
    let Frame::Bulk(dump) = client.frame(&["DUMP", "many"]) else { panic!("no dump") };
    reader.expect(&[("REPLICAOF NO ONE", "+OK")]);
    assert_eq!(reader.call_args(&[b"RESTORE", &b"restored"[..], b"0", &dump]), "+OK");
    assert_eq!(reader.call("SDIFF restored many"), "*0");
    assert_eq!(reader.call("SCARD restored"), ":200");
}
