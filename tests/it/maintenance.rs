//! Notices of maintenance: CLIENT MAINT_NOTIFICATIONS, TEST.MAINT, and SHUTDOWN DRAIN, which sends clients to another server.

use crate::harness::{TestServer, wait_until};

#[test]
fn a_client_asks_for_notices_as_the_handshakes_of_libraries_do() {
    let server = TestServer::start();
    let mut client = server.client3();
    client.expect(&[
        ("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", "+OK"),
        ("client maint_notifications on MOVING-ENDPOINT-TYPE External-FQDN", "+OK"),
        ("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none", "+OK"),
        ("CLIENT MAINT_NOTIFICATIONS ON", "+OK"),
        ("CLIENT MAINT_NOTIFICATIONS OFF", "+OK"),
        (
            "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type public",
            "-ERR moving-endpoint-type is one of internal-ip, internal-fqdn, external-ip, external-fqdn, none",
        ),
        ("CLIENT MAINT_NOTIFICATIONS SOMETIMES", "-ERR syntax error"),
        ("CLIENT MAINT_NOTIFICATIONS ON endpoint none", "-ERR syntax error"),
        ("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none more", "-ERR syntax error"),
    ]);
    server.client().expect(&[
        ("CLIENT MAINT_NOTIFICATIONS ON", "-ERR notices of maintenance are push messages, which need RESP3"),
        ("CLIENT MAINT_NOTIFICATIONS OFF", "+OK"),
    ]);
}

#[test]
fn notices_have_the_shapes_that_libraries_parse() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let (mut control, mut client, mut blind, mut other) =
        (server.client(), server.client3(), server.client3(), server.client3());
    client.expect(&[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", "+OK")]);
    blind.expect(&[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none", "+OK")]);
    for (request, push) in [
        ("MOVING 15 10.0.0.2:6379", ">4 $6 MOVING :1 :15 $13 10.0.0.2:6379"),
        ("MOVING 15 NULL", ">4 $6 MOVING :2 :15 _"),
        ("MIGRATING 20 [\"1\"]", ">4 $9 MIGRATING :3 :20 $5 [\"1\"]"),
        ("MIGRATED [\"1\"]", ">3 $8 MIGRATED :4 $5 [\"1\"]"),
        ("FAILING_OVER 5 [\"2\"]", ">4 $12 FAILING_OVER :5 :5 $5 [\"2\"]"),
        ("FAILED_OVER [\"2\"]", ">3 $11 FAILED_OVER :6 $5 [\"2\"]"),
        ("SMIGRATING 0-99,200", ">3 $10 SMIGRATING :7 $8 0-99,200"),
        (
            "SMIGRATED a:1 b:2 0-99 a:1 c:3 200",
            ">3 $9 SMIGRATED :8 *2 *3 $3 a:1 $3 b:2 $4 0-99 *3 $3 a:1 $3 c:3 $3 200",
        ),
    ] {
        let words: Vec<&str> = format!("TEST.MAINT {request}").leak().split(' ').collect();
        assert_eq!(control.call_args(&words), ":2", "{request}");
        assert_eq!(client.reply(), push);
        let blindly = if push.contains(":15 $13") { ">4 $6 MOVING :1 :15 _" } else { push };
        assert_eq!(blind.reply(), blindly);
    }
    control.expect(&[
        ("TEST.MAINT SMIGRATED a:1 b:2", "-ERR a move has a source, a destination and slots"),
        ("TEST.MAINT MOVING 1 elsewhere", "-ERR an address is a host and a port, as host:port"),
        ("TEST.MAINT MOVING -1 a:1", "-ERR value is out of range, must be positive"),
    ]);
    // Nothing comes to those who have not asked, or ask no more, or speak RESP2 since.
    client.expect(&[("CLIENT MAINT_NOTIFICATIONS OFF", "+OK")]);
    assert!(blind.call("HELLO 2").starts_with('*'));
    control.expect(&[("TEST.MAINT MIGRATED 1", ":0")]);
    for silent in [&mut client, &mut blind, &mut other] {
        silent.expect(&[("PING", "+PONG")]);
    }
    client.expect(&[("CLIENT MAINT_NOTIFICATIONS ON", "+OK"), ("RESET", "+RESET")]);
    assert!(client.call("HELLO 3").starts_with('%'));
    control.expect(&[("TEST.MAINT MIGRATED 1", ":0")]);
}

#[test]
fn a_server_is_drained_when_all_have_gone_who_were_told() {
    let server = TestServer::start();
    let (mut operator, mut told, mut silent) = (server.client(), server.client3(), server.client());
    told.expect(&[("CLIENT MAINT_NOTIFICATIONS ON", "+OK"), ("SET k v", "+OK")]);
    operator.send(b"SHUTDOWN DRAIN 127.0.0.2:7000 30\r\n");
    let notice = ">4 $6 MOVING :1 :30 $14 127.0.0.2:7000";
    assert_eq!(told.reply(), notice);
    // It is served until it goes, and so is who comes later, and is told at once.
    told.expect(&[("GET k", "$1 v")]);
    let mut later = server.client3();
    later.expect(&[("CLIENT MAINT_NOTIFICATIONS ON", "+OK")]);
    assert_eq!(later.reply(), notice);
    silent.expect(&[("GET k", "$1 v")]);
    drop(told);
    later.expect(&[("CLIENT MAINT_NOTIFICATIONS OFF", "+OK")]);
    assert_eq!([operator.read_to_end(), later.read_to_end(), silent.read_to_end()], [b"", b"", b""]);
}

#[test]
fn a_drained_server_ends_when_the_time_is_over() {
    let server = TestServer::start();
    let (mut operator, mut told) = (server.client(), server.client3());
    told.expect(&[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none", "+OK")]);
    operator.send(b"SHUTDOWN DRAIN other.example.org:7000\r\n");
    assert_eq!(told.reply(), ">4 $6 MOVING :1 :10 _");
    server.advance_ms(9_999);
    told.expect(&[("PING", "+PONG")]);
    server.advance_ms(1);
    assert_eq!([operator.read_to_end(), told.read_to_end()], [b"", b""]);
    wait_until(|| server.server().namespace().clients.is_empty());
}

#[test]
fn a_drain_needs_an_address_and_a_time() {
    let server = TestServer::start();
    let needs = "-ERR SHUTDOWN DRAIN needs the address that clients go to, as host:port";
    server.client().expect(&[
        ("SHUTDOWN DRAIN", "-ERR syntax error"),
        ("SHUTDOWN DRAIN elsewhere", needs),
        ("SHUTDOWN DRAIN :7000", needs),
        ("SHUTDOWN DRAIN a:70000", needs),
        ("SHUTDOWN DRAIN a:7000 -1", "-ERR the time for SHUTDOWN DRAIN is from 0 to 86400 seconds"),
        ("SHUTDOWN DRAIN a:7000 soon", "-ERR the time for SHUTDOWN DRAIN is from 0 to 86400 seconds"),
        ("SHUTDOWN DRAIN a:7000 1 NOSAVE", "-ERR syntax error"),
        ("SHUTDOWN NOSAVE DRAIN", "-ERR syntax error"),
    ]);
}
