//! The types of Redis 8 on a cluster: JSON documents, filters, sketches and vector sets that one server writes.

use keylatch::Clock;

use crate::engine::Fleet;

const OK: &str = "+OK";
const TOO_LARGE: &str = "-ERR what is written is larger than engine etcd takes, see etcd-value-max";

/// Requests of one server that create a value of each type.
const CREATED: &[(&str, &str)] = &[
    (r#"JSON.SET doc $ {"a":1,"b":[1,2]}"#, OK),
    ("BF.ADD bloom x", ":1"),
    ("CF.ADD cuckoo x", ":1"),
    ("CMS.INITBYDIM counts 100 3", OK),
    ("CMS.INCRBY counts a 2", "*1 :2"),
    ("TOPK.RESERVE top 3", OK),
    ("TOPK.ADD top a b", "*2 $-1 $-1"),
    ("TDIGEST.CREATE digest", OK),
    ("TDIGEST.ADD digest 1 2 3", OK),
    ("VADD vectors VALUES 2 1 0 a", ":1"),
];

/// Requests of another server that read and change these values.
const CHANGED: &[(&str, &str)] = &[
    ("TYPE doc", "+ReJSON-RL"),
    ("JSON.GET doc", r#"$17 {"a":1,"b":[1,2]}"#),
    ("JSON.NUMINCRBY doc $.a 2", "$3 [3]"),
    ("JSON.ARRAPPEND doc $.b 3", "*1 :3"),
    ("BF.MEXISTS bloom x y", "*2 :1 :0"),
    ("BF.ADD bloom y", ":1"),
    ("CF.EXISTS cuckoo x", ":1"),
    ("CF.DEL cuckoo x", ":1"),
    ("CF.ADD cuckoo y", ":1"),
    ("CMS.INCRBY counts a 3 b 1", "*2 :5 :1"),
    ("TOPK.LIST top", "*2 $1 a $1 b"),
    ("TOPK.INCRBY top b 5", "*1 $-1"),
    ("TDIGEST.MAX digest", "$1 3"),
    ("TDIGEST.ADD digest 9", OK),
    ("VSIM vectors VALUES 2 1 0", "*1 $1 a"),
    ("VADD vectors VALUES 2 0 1 b", ":1"),
    (r#"VSETATTR vectors a {"year":1999}"#, ":1"),
];

/// Requests of any server that read the changed values.
const READ: &[(&str, &str)] = &[
    ("JSON.GET doc", r#"$19 {"a":3,"b":[1,2,3]}"#),
    ("BF.MEXISTS bloom x y z", "*3 :1 :1 :0"),
    ("CF.MEXISTS cuckoo x y", "*2 :0 :1"),
    ("CMS.QUERY counts a b", "*2 :5 :1"),
    ("TOPK.LIST top WITHCOUNT", "*4 $1 b :6 $1 a :1"),
    ("TDIGEST.MAX digest", "$1 9"),
    ("VCARD vectors", ":2"),
    ("VSIM vectors VALUES 2 0 1 COUNT 1", "*1 $1 b"),
    ("VGETATTR vectors a", r#"$13 {"year":1999}"#),
    ("DBSIZE", ":7"),
];

#[test]
fn values_of_redis_8_that_one_server_writes_the_other_reads_and_changes() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(CREATED);
    other.expect(CHANGED);
    one.expect(READ);
    other.expect(&[("DEL doc bloom cuckoo counts top digest vectors", ":7")]);
    one.expect(&[("DBSIZE", ":0")]);
}

#[test]
fn values_of_redis_8_survive_the_stop_of_all_servers() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(CREATED);
    other.expect(CHANGED);
    fleet.servers.clear();
    fleet.add(Clock::system(), &[]);
    fleet.servers[0].client().expect(READ);
}

#[test]
fn a_value_of_redis_8_above_the_limit_gets_an_error_and_stays_as_it_was() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let long = "x".repeat(20_000);
    for client in [&mut one, &mut other] {
        client.expect(&[("CONFIG SET etcd-value-max 10kb", OK)]);
    }
    one.expect(&[
        ("JSON.SET doc $ [1]", OK),
        (&format!(r#"JSON.ARRAPPEND doc $ "{long}""#), TOO_LARGE),
        (&format!(r#"JSON.SET doc $ "{long}""#), TOO_LARGE),
        ("JSON.GET doc", "$3 [1]"),
        ("BF.RESERVE bloom 0.001 100000", TOO_LARGE),
        ("CF.RESERVE cuckoo 100000", TOO_LARGE),
        ("CMS.INITBYDIM counts 10000 5", TOO_LARGE),
        ("VADD vectors VALUES 2 1 0 a", ":1"),
        (&format!("VADD vectors VALUES 2 0 1 {long}"), TOO_LARGE),
        ("EXISTS bloom cuckoo counts", ":0"),
    ]);
    other.expect(&[("JSON.GET doc", "$3 [1]"), ("VCARD vectors", ":1"), ("DBSIZE", ":2")]);
}
