//! HyperLogLogs, through the socket: cases that the differential tests do not cover.

use crate::harness::{Client, Dice, TestServer};

#[test]
fn a_sketch_that_has_expired_is_empty() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("PFADD k a b", ":1"), ("PEXPIRE k 100", ":1")]);
    server.advance_ms(100);
    client.expect(&[("PFCOUNT k", ":0"), ("PFCOUNT k k", ":0"), ("PFADD k a", ":1"), ("PFCOUNT k", ":1")]);
}

/// Adding an element to a sparse sketch takes time proportional to its runs, so with a high limit a hundred thousand
/// elements took a thousand million steps. Now the sketch becomes dense where that is shorter, and many changes rewrite
/// the runs once; the estimates must stay the same.
#[test]
fn many_elements_make_the_same_sketch_however_they_are_added_and_whatever_the_limit() {
    let server = TestServer::start();
    let mut client = server.client();
    let elements: Vec<String> = (0..40_000).map(|number| format!("element-{number}")).collect();
    let mut counts = Vec::new();
    for limit in ["3000", "16000", "1000000000"] {
        client.expect(&[(&format!("CONFIG SET hll-sparse-max-bytes {limit}"), "+OK"), ("PFSELFTEST", "+OK")]);
        client.call("DEL one many again");
        for some in [&elements[..50], &elements[..900], &elements[..5_000], &elements] {
            let add = |client: &mut Client, key: &str| client.call(&format!("PFADD {key} {}", some.join(" ")));
            assert_eq!(add(&mut client, "many"), ":1");
            assert_eq!(add(&mut client, "many"), ":0", "nothing is new");
            some.chunks(60).for_each(|few| drop(client.call(&format!("PFADD one {}", few.join(" ")))));
            client.expect(&[("PFMERGE again many one", "+OK")]);
            let count = client.int("PFCOUNT many");
            assert_eq!((client.int("PFCOUNT one"), client.int("PFCOUNT again")), (count, count));
            client.expect(&[("COPY one a REPLACE", ":1"), ("COPY many b REPLACE", ":1")]); // GETREG makes them dense
            assert_eq!(client.call("PFDEBUG GETREG a"), client.call("PFDEBUG GETREG b"), "{limit}");
            assert!(client.int("STRLEN many") <= 12_304 && client.int("STRLEN one") <= 12_304);
            counts.push(count);
        }
    }
    assert!(counts.chunks(4).all(|of_limit| of_limit == &counts[..4]), "{counts:?}");
    client.call(&format!("PFADD low {}", elements[..4_000].join(" ")));
    client.expect(&[("PFDEBUG ENCODING low", "+sparse")]);
    assert!(client.int("STRLEN low") < 12_304);
}

#[test]
fn bytes_that_only_look_like_a_sketch_are_harmless() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut dice = Dice::new(4_711);
    for _ in 0..3_000 {
        let mut bytes = b"HYLL\x01\0\0\0".to_vec();
        bytes.extend((0..dice.roll(80)).map(|_| dice.roll(256) as u8));
        assert_eq!(client.call_args(&[&b"SET"[..], b"k", &bytes]), "+OK");
        for call in [
            "PFCOUNT k",
            "PFCOUNT k k",
            "PFADD k a b c d e f g",
            "PFMERGE l k",
            "PFDEBUG DECODE k",
            "PFDEBUG GETREG k",
            "PFADD k 1 2 3 4",
        ] {
            let reply = client.call(call);
            let is_known = reply.starts_with([':', '+', '$', '*'])
                || reply == "-INVALIDOBJ Corrupted HLL object detected"
                || reply == "-WRONGTYPE Key is not a valid HyperLogLog string value.";
            assert!(is_known, "{call}: {reply}");
        }
    }
}
