//! Semaphores: locks with as many holders as there are permits.

use super::{acquired, block, fence, locks_info};
use crate::harness::{Client, TestServer};

/// Queues a new client for permits of `k`.
fn wait_for(server: &TestServer, token: &str, permits: &str) -> Client {
    block(server, server.client(), &format!("LOCK.ACQUIRE k {token} PERMITS {permits} PX 60000 BLOCK 0"))
}

#[test]
fn a_semaphore_is_held_by_as_many_as_it_has_permits_for_each_with_its_own_fence() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let first = fence(&mut one, "LOCK.ACQUIRE k a PERMITS 2 OF 3 PX 60000");
    let second = fence(&mut one, "LOCK.ACQUIRE k b PERMITS 1 PX 60000");
    assert!(second > first);
    assert_eq!(fence(&mut other, "LOCK.ACQUIRE k a PERMITS 2 OF 3 PX 60000"), first);
    other.expect(&[
        ("GET k", "$9 permits:3"),
        ("SET k x NX", "$-1"),
        ("LOCK.ACQUIRE k c PERMITS 1 PX 1000", "$-1"),
        ("LOCK.ACQUIRE k c PX 1000", "$-1"),
        ("LOCK.ACQUIRE k c SHARED PX 1000", "$-1"),
        ("LOCK.RELEASE k b", ":1"),
    ]);
    assert!(fence(&mut other, "LOCK.ACQUIRE k c PERMITS 1 PX 60000") > second);
    assert_eq!(locks_info(&mut other, "held"), 1);
    other.expect(&[("LOCK.RELEASE k a", ":1"), ("LOCK.RELEASE k c", ":1"), ("EXISTS k", ":0")]);
}

#[test]
fn requests_that_a_semaphore_cannot_serve_are_errors() {
    const MODE: &str = "-ERR token holds this lock in another mode";
    const NUMBER: &str = "-ERR value is not an integer or out of range";
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("LOCK.ACQUIRE k a PERMITS 1 PX 1000", "-ERR PERMITS needs OF where there is no semaphore"),
        ("LOCK.ACQUIRE k a PERMITS 1 PX 1000 BLOCK 0", "-ERR PERMITS needs OF where there is no semaphore"),
        ("LOCK.ACQUIRE k a PERMITS 4 OF 3 PX 1000", "-ERR the semaphore has 3 permits"),
        ("LOCK.ACQUIRE k a PERMITS 0 OF 3 PX 1000", NUMBER),
        ("LOCK.ACQUIRE k a PERMITS 1 OF 2147483648 PX 1000", NUMBER),
        ("LOCK.ACQUIRE k a PERMITS x OF 3 PX 1000", NUMBER),
        ("LOCK.ACQUIRE k a PERMITS 1 OF 1 OF 1 PX 1000", "-ERR syntax error"),
        ("LOCK.ACQUIRE k a PERMITS 1 OF 1 SHARED PX 1000", "-ERR syntax error"),
        ("LOCK.ACQUIRE k a PERMITS", "-ERR syntax error"),
        ("LOCK.RESIZE k 3", "$-1"),
        ("LOCK.RESIZE k 0", NUMBER),
        ("LOCK.RESIZE k", "-ERR wrong number of arguments for 'lock.resize' command"),
        ("LPUSH list a", ":1"),
        ("LOCK.RESIZE list 3", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        (
            "LOCK.ACQUIRE list a PERMITS 1 OF 1 PX 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("SET plain x", "+OK"),
        ("LOCK.ACQUIRE plain a PERMITS 1 PX 1", "-ERR PERMITS needs OF where there is no semaphore"),
        ("LOCK.RESIZE plain 3", "$-1"),
    ]);
    client.int("LOCK.ACQUIRE k a PERMITS 2 OF 3 PX 1000");
    client.expect(&[
        ("LOCK.ACQUIRE k b PERMITS 4 PX 1000", "-ERR the semaphore has 3 permits"),
        ("LOCK.ACQUIRE k b PERMITS 1 OF 4 PX 1000", "-ERR the semaphore has 3 permits"),
        ("LOCK.ACQUIRE k a PERMITS 1 PX 1000", MODE),
        ("LOCK.ACQUIRE k a PERMITS 3 PX 1000", MODE),
        ("LOCK.ACQUIRE k a PX 1000", MODE),
        ("LOCK.ACQUIRE k a SHARED PX 1000", MODE),
    ]);
}

#[test]
fn permits_are_given_in_order_of_arrival_also_to_those_who_need_fewer() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE k a PERMITS 2 OF 4 PX 60000");
    let mut three = wait_for(&server, "b", "3");
    let (mut first, mut second) = (wait_for(&server, "c", "1"), wait_for(&server, "d", "1 OF 4"));
    // Two permits are free, but a client that needs three is first in the queue.
    other.expect(&[("LOCK.ACQUIRE k e PERMITS 1 PX 1000", "$-1"), ("LOCK.RELEASE k a", ":1")]);
    let fences = [acquired(&mut three), acquired(&mut first)];
    assert!(fences[0] < fences[1]);
    assert_eq!(locks_info(&mut other, "waiting"), 1);
    assert_eq!(other.call("LOCK.RELEASE k b"), ":1");
    acquired(&mut second);
    let info = other.call("LOCK.INFO k");
    assert!(info.contains("mode $7 permits $7 permits :4 $4 free :2 $7 holders *2"), "{info}");
    assert!(info.starts_with("*34 $5 token $-1 $5 fence $-1 "), "{info}");
}

#[test]
fn a_holder_that_dies_gives_its_permits_back() {
    let server = TestServer::start();
    let (mut one, mut dying) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE k a PERMITS 1 OF 3 PX 1000");
    fence(&mut dying, "LOCK.ACQUIRE k b PERMITS 2 SESSION");
    let mut waiting = wait_for(&server, "c", "2");
    drop(dying);
    acquired(&mut waiting);
    assert_eq!(one.call("PTTL k"), ":60000");
    let mut next = wait_for(&server, "d", "1");
    server.advance_ms(1000);
    acquired(&mut next);
    assert_eq!(one.call("LOCK.FENCE k a"), "$-1");
}

#[test]
fn a_session_that_holds_permits_by_several_tokens_gives_all_of_them_back_when_it_ends() {
    let server = TestServer::start();
    let (mut dying, mut other) = (server.client(), server.client());
    for token in 0..9 {
        fence(&mut dying, &format!("LOCK.ACQUIRE k {token} PERMITS 1 OF 9 SESSION"));
    }
    // The permit that it has released itself is not all that it holds.
    assert_eq!(dying.call("LOCK.RELEASE k 0"), ":1");
    let mut waiting = wait_for(&server, "d", "9");
    drop(dying);
    acquired(&mut waiting);
    assert_eq!(locks_info(&mut other, "held"), 1);
}

#[test]
fn a_semaphore_can_be_resized_while_it_is_held() {
    let server = TestServer::start();
    let mut client = server.client();
    fence(&mut client, "LOCK.ACQUIRE k a PERMITS 3 OF 3 PX 60000");
    let mut waiting = wait_for(&server, "b", "2");
    let mut greedy = wait_for(&server, "c", "3");
    client.expect(&[("LOCK.RESIZE k 5", ":1"), ("GET k", "$9 permits:5"), ("PTTL k", ":60000")]);
    acquired(&mut waiting);
    // No permit is taken away, and a client that asks for more than the size gets an error.
    client.expect(&[("LOCK.RESIZE k 2", ":1"), ("GET k", "$9 permits:2")]);
    assert_eq!(greedy.reply(), "-ERR the semaphore has 2 permits");
    let info = client.call("LOCK.INFO k");
    assert!(info.contains("$7 permits :2 $4 free :0 $7 holders *2"), "{info}");
    let mut next = wait_for(&server, "d", "1");
    client.expect(&[("LOCK.RELEASE k b", ":1"), ("LOCK.FENCE k d", "$-1"), ("LOCK.RELEASE k a", ":1")]);
    acquired(&mut next);
    assert_eq!(client.call("GET k"), "$9 permits:2");
}

#[test]
fn who_waits_for_more_permits_than_a_smaller_size_has_is_told_at_once_wherever_it_stands() {
    let server = TestServer::start();
    let mut client = server.client();
    fence(&mut client, "LOCK.ACQUIRE k a PERMITS 3 OF 3 PX 60000");
    let mut first = wait_for(&server, "b", "2");
    let mut greedy = wait_for(&server, "c", "3");
    assert_eq!(client.call("LOCK.RESIZE k 2"), ":1");
    assert_eq!(greedy.reply(), "-ERR the semaphore has 2 permits");
    assert_eq!(locks_info(&mut client, "waiting"), 1);
    assert_eq!(client.call("LOCK.RELEASE k a"), ":1");
    acquired(&mut first);
}

#[test]
fn who_waits_without_naming_the_size_makes_the_semaphore_that_it_waited_for() {
    let server = TestServer::start();
    let mut client = server.client();
    fence(&mut client, "LOCK.ACQUIRE k a PERMITS 3 OF 3 PX 60000");
    let mut waiting = wait_for(&server, "b", "2");
    assert_eq!(client.call("DEL k"), ":1");
    acquired(&mut waiting);
    assert_eq!(client.call("GET k"), "$9 permits:3");
    // A client that waits for more permits than the new size gets an error.
    let mut greedy = wait_for(&server, "c", "2");
    let mut alone = block(&server, server.client(), "LOCK.ACQUIRE k d PX 1000 BLOCK 0");
    client.expect(&[("LOCK.RESIZE k 1", ":1")]);
    assert_eq!(greedy.reply(), "-ERR the semaphore has 1 permits");
    assert_eq!(client.call("LOCK.RELEASE k b"), ":1");
    acquired(&mut alone);
}
