//! Payloads of lists, exchanged with Redis by DUMP and RESTORE.

use super::oracle::Arena;
use super::script::words;

/// Returns the payload of the reply to DUMP.
fn payload(reply: Option<Vec<u8>>) -> Vec<u8> {
    let reply = reply.expect("a reply");
    let start = reply.iter().position(|byte| *byte == b'\n').expect("the end of a line") + 1;
    reply[start..reply.len() - 2].to_vec()
}

#[test]
fn lists_with_packed_and_with_plain_nodes_are_restored_by_the_other_server() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    let long = |at: usize| "x".repeat(at * 37 % 5000);
    let lists: Vec<Vec<String>> = vec![
        vec!["a".into()],
        (0..100).map(|at: i64| (at * at * at - 500).to_string()).collect(),
        (0..3_000).map(|at: i64| (at << 40).to_string()).collect(),
        (0..50_000).map(|at| format!("element:{at}")).collect(),
        (0..300).map(long).collect(),
        (0..20).map(|at| "y".repeat(at * 3000)).collect(),
    ];
    for threshold in ["1073741824", "1000", "1"] {
        assert!(pair.call(&["DEBUG", "QUICKLIST-PACKED-THRESHOLD", threshold]).agree());
        for (at, list) in lists.iter().enumerate() {
            pair.call(&["FLUSHALL"]);
            for part in list.chunks(1000) {
                let request: Vec<&str> = ["RPUSH", "k"].into_iter().chain(part.iter().map(String::as_str)).collect();
                assert!(pair.call(&request).agree());
            }
            let [digest, dumps] = ["DEBUG DIGEST-VALUE k", "DUMP k"].map(|line| pair.call(&words(line)));
            assert!(digest.agree(), "list {at}");
            for (key, dump) in [("ours", payload(dumps.keylatch)), ("theirs", payload(dumps.redis))] {
                let restored = pair.call(&[&b"RESTORE"[..], key.as_bytes(), b"0", &dump]);
                assert!(restored.agree(), "list {at}: {}", restored.shown());
                let digests = pair.call(&["DEBUG", "DIGEST-VALUE", key]);
                assert!(digests.agree() && digests.keylatch == digest.keylatch, "list {at}: {}", digests.shown());
                for question in ["LLEN", "LRANGE", "LPOP", "RPOP"] {
                    let range: &[&str] = if question == "LRANGE" { &["-3", "-1"] } else { &[] };
                    assert!(pair.call(&[&[question, key], range].concat()).agree(), "list {at}: {question}");
                }
            }
        }
    }
}
