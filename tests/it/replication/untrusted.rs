//! Data from a primary that no server sends.

use std::io::Write;
use std::net::TcpListener;

use keylatch::Clock;

use super::nodes::Node;
use super::parties::{answer_replica, hear_replica, no_time};
use crate::harness::{encode, wait_until};

/// Returns the answer of a primary without keys to a request for all data.
fn full() -> Vec<u8> {
    let dump = [b"REDIS0010\xff".as_slice(), &[0; 8]].concat(); // no checksum
    [format!("+FULLRESYNC {} 1000\r\n${}\r\n", "f".repeat(40), dump.len()).as_bytes(), &dump].concat()
}

#[test]
fn a_primary_that_sends_what_cannot_be_executed_is_asked_for_all_data_again_and_not_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let replica = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    let clock = Clock::system();
    let begun_ms = clock.now().mono_ms();
    for bytes in [
        &b"SET k v\r\n"[..],
        b"*3\r\n$03\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
        b"*1\r\n$4\r\nEXEC\r\n",
        b"\r\n",
        b"*x\r\n",
    ] {
        let mut link = answer_replica(&listener, &full());
        let before = encode(&["SET", "before", "v"]);
        let _ = link.write_all(&[&before, bytes].concat()); // it may have disconnected
        let (mut link, asked) = hear_replica(&listener, no_time);
        assert!(asked.contains("PSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"), "{asked} after {}", bytes.escape_ascii());
        let _ = link.write_all(&full());
        drop(link);
    }
    // Pauses of 50 ms, doubled after each further short link.
    assert!(clock.now().mono_ms() - begun_ms >= 1000);
    let mut link = answer_replica(&listener, &full());
    link.write_all(&encode(&["SET", "end", "v"])).expect("it reads");
    let mut client = replica.client();
    wait_until(|| client.call("EXISTS end") == ":1");
    client.expect(&[("EXISTS k before", ":0")]);
    assert_eq!(client.info("caught_panics"), "0");
}
