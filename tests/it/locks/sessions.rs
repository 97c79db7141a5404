//! Sessions that outlive their connections: `session-grace-ms`, LOCK.RESUME, and reserved places in queues.

use super::{acquired, block, fence, locks_info};
use crate::harness::{Client, TestServer, encode, wait_until};

fn start() -> TestServer {
    TestServer::start_with(&[("session-grace-ms", "5000")])
}

/// Closes a connection, and returns when the server has noticed.
fn close(server: &TestServer, mut client: Client) {
    let id = client.int("CLIENT ID");
    drop(client);
    wait_until_gone(server, id);
}

fn wait_until_gone(server: &TestServer, id: i64) {
    let (mut other, shown) = (server.client(), format!("CLIENT LIST ID {id}"));
    wait_until(|| !other.call(&shown).contains("id="));
}

/// Queues a new client; returns it with its id.
fn waits(server: &TestServer, request: &str) -> (Client, i64) {
    let mut client = server.client();
    let id = client.int("CLIENT ID");
    (block(server, client, request), id)
}

#[test]
fn what_belongs_to_a_session_stays_for_the_grace_after_its_connection_has_ended() {
    let server = start();
    let (mut one, mut other) = (server.client(), server.client());
    let first = fence(&mut one, "LOCK.ACQUIRE k t SESSION");
    fence(&mut one, "LOCK.ACQUIRE s r SHARED SESSION");
    fence(&mut one, "LOCK.ACQUIRE p q PERMITS 1 OF 1 SESSION PX 2000");
    close(&server, one);
    let mut waiting = block(&server, server.client(), "LOCK.ACQUIRE k u PX 1000 BLOCK 0");
    server.advance_ms(2000);
    other.expect(&[("EXISTS p", ":0"), ("GET k", "$1 t"), ("GET s", "$7 shared:")]);
    let info = other.call("LOCK.INFO k");
    assert!(info.contains(" $9 client-id $-1 $4 addr $-1 ") && info.contains("session :1"), "{info}");
    server.advance_ms(2999);
    assert_eq!(fence(&mut other, "LOCK.FENCE k t"), first);
    server.advance_ms(1);
    acquired(&mut waiting);
    assert_eq!(other.call("EXISTS s"), ":0");
}

#[test]
fn places_are_kept_in_a_limited_memory_that_counts_as_used_and_the_oldest_are_given_up() {
    const LIMIT: i64 = 16 * 1024 * 1024;
    let server = start();
    let mut holder = server.client();
    // Names so long that there is room for a few of them only.
    let key = |number: usize| format!("{number}:{}", "k".repeat(1024 * 1024 - 100));
    let queue = |number: usize| {
        let (mut client, token) = (server.client(), format!("t{number}"));
        client.send(&encode(&["LOCK.ACQUIRE", &key(number), &token, "SESSION", "BLOCK", "0"]));
        client
    };
    (0..20).for_each(|number| _ = fence(&mut holder, &format!("LOCK.ACQUIRE {} t PX 600000", key(number))));
    let used = |client: &mut Client| client.info("used_memory").parse::<i64>().expect("a number");
    let before = used(&mut holder);
    for number in 0..20 {
        let client = queue(number);
        let kept = |client: &mut Client| (locks_info(client, "kept_places"), locks_info(client, "waiting"));
        let is_queued = |client: &mut Client| kept(client).1 == kept(client).0 + 1;
        wait_until(|| is_queued(&mut holder));
        drop(client);
        wait_until(|| !is_queued(&mut holder) && holder.info("connected_clients") == "1");
    }
    let (places, bytes) = (locks_info(&mut holder, "kept_places"), locks_info(&mut holder, "kept_places_bytes"));
    assert_eq!(
        (places, locks_info(&mut holder, "waiting")),
        (15, 15),
        "of places of a little more than a megabyte each"
    );
    assert!((15 * 1024 * 1024..=LIMIT).contains(&bytes), "{bytes}");
    let grown = used(&mut holder) - before;
    assert!((bytes..bytes + 1_000_000).contains(&grown), "{grown} of {bytes}");
    // The last ones are there, and are resumed.
    let back = queue(19);
    wait_until(|| locks_info(&mut holder, "kept_places") == 14);
    assert_eq!(locks_info(&mut holder, "waiting"), 15);
    let again = queue(0);
    wait_until(|| locks_info(&mut holder, "waiting") == 16);
    assert_eq!(locks_info(&mut holder, "kept_places"), 14);
    drop((back, again));
    wait_until(|| holder.info("connected_clients") == "1");
    server.advance_ms(5000);
    assert_eq!(["kept_places", "kept_places_bytes", "waiting"].map(|name| locks_info(&mut holder, name)), [0; 3]);
    let left = used(&mut holder) - before;
    assert!(left < 100_000, "{left} bytes are left");
}

#[test]
fn a_client_that_comes_back_with_its_token_keeps_what_it_held() {
    let server = start();
    let (mut one, mut back) = (server.client(), server.client3());
    let first = fence(&mut one, "LOCK.ACQUIRE k t SESSION NOTIFY META note");
    fence(&mut one, "LOCK.ACQUIRE s t SHARED SESSION");
    fence(&mut one, "LOCK.ACQUIRE lasting t PX 60000");
    fence(&mut one, "LOCK.ACQUIRE other u SESSION");
    one.expect(&[("SELECT 1", "+OK")]);
    fence(&mut one, "LOCK.ACQUIRE elsewhere t SESSION");
    close(&server, one);
    server.advance_ms(1000);
    let mut keys: Vec<String> = back.call("LOCK.RESUME t").split(' ').skip(1).map(str::to_owned).collect();
    keys.retain(|word| !word.starts_with('$'));
    keys.sort();
    assert_eq!(keys, ["k", "lasting", "s"]);
    let id = back.int("CLIENT ID");
    server.advance_ms(10_000);
    let info = back.call("LOCK.INFO k");
    for part in
        [format!("fence :{first}"), "age-ms :11000".to_owned(), format!("client-id :{id}"), "$4 note".to_owned()]
    {
        assert!(info.contains(&part), "{part} is not in {info}");
    }
    let mut other = server.client();
    other.expect(&[("EXISTS other", ":0"), ("LOCK.RESUME none", "*0"), ("GET s", "$7 shared:")]);
    // Its NOTIFY has moved, too, and its session ends with this connection.
    other.call("PERSIST k");
    other.call("SET k x");
    assert_eq!(back.reply(), format!(">5 $9 lock-lost $1 k $1 t :{first} $11 overwritten"));
    assert_eq!(back.call("QUIT"), "+OK");
    wait_until_gone(&server, id);
    other.expect(&[("EXISTS s", ":0"), ("EXISTS lasting", ":1")]);
}

#[test]
fn quit_and_reset_end_a_session_at_once() {
    let server = start();
    let (mut one, mut two, mut other) = (server.client(), server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE a t SESSION");
    fence(&mut two, "LOCK.ACQUIRE b t SESSION");
    let id = one.int("CLIENT ID");
    assert_eq!((one.call("QUIT").as_str(), two.call("RESET").as_str()), ("+OK", "+RESET"));
    wait_until_gone(&server, id);
    other.expect(&[("EXISTS a b", ":0"), ("CONFIG SET session-grace-ms 0", "+OK")]);
    fence(&mut two, "LOCK.ACQUIRE b t SESSION");
    close(&server, two);
    assert_eq!(other.call("EXISTS b"), ":0");
}

#[test]
fn locks_are_resumed_by_their_user_alone_and_only_where_it_may_write() {
    let server = start();
    let mut admin = server.client();
    admin.expect(&[
        ("ACL SETUSER u on nopass ~* +@all", "+OK"),
        ("ACL SETUSER v on nopass ~* +@all", "+OK"),
        ("ACL SETUSER w on nopass ~* +@all", "+OK"),
    ]);
    let mut one = server.client();
    one.expect(&[("AUTH u x", "+OK")]);
    fence(&mut one, "LOCK.ACQUIRE k t SESSION");
    fence(&mut one, "LOCK.ACQUIRE l t SESSION");
    close(&server, one);
    admin.expect(&[("ACL SETUSER u resetkeys ~k %R~l", "+OK")]);
    let (mut same, mut another) = (server.client(), server.client());
    another.expect(&[("AUTH v x", "+OK"), ("LOCK.RESUME t", "*0"), ("SET plain t", "+OK"), ("LOCK.RESUME t", "*0")]);
    same.expect(&[
        ("AUTH u x", "+OK"),
        ("LOCK.RESUME t", "*1 $1 k"),
        ("LOCK.RESUME", "-ERR wrong number of arguments for 'lock.resume' command"),
    ]);
    // It works while the old connection lives.
    let mut again = server.client();
    again.expect(&[("AUTH u x", "+OK"), ("LOCK.RESUME t", "*1 $1 k")]);
    assert!(same.call("CLIENT LIST").contains(" locks=1 "));
}

#[test]
fn the_place_of_a_client_is_kept_and_stepped_over_while_it_is_away() {
    let server = start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE k x PX 60000");
    let (first, first_id) = waits(&server, "LOCK.ACQUIRE k t SESSION BLOCK 0");
    let mut second = block(&server, server.client(), "LOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let mut third = block(&server, server.client(), "LOCK.ACQUIRE k v PX 60000 BLOCK 0");
    drop(first);
    wait_until_gone(&server, first_id);
    let info = other.call("LOCK.INFO k");
    assert!(info.contains("waiters *3 *12 $9 client-id $-1 $4 addr $-1 "), "{info}");
    // Back in time, it is before the clients that came later.
    let mut first = block(&server, server.client(), "LOCK.ACQUIRE k t SESSION BLOCK 0");
    assert_eq!(locks_info(&mut other, "waiting"), 3);
    other.expect(&[("LOCK.RELEASE k x", ":1"), ("GET k", "$1 t")]);
    acquired(&mut first);
    // While one client is away, the next ones are served.
    let (late, late_id) = waits(&server, "LOCK.ACQUIRE k w SESSION BLOCK 0");
    other.expect(&[("LOCK.RELEASE k t", ":1")]);
    acquired(&mut second);
    drop(late);
    wait_until_gone(&server, late_id);
    other.expect(&[("LOCK.RELEASE k u", ":1")]);
    acquired(&mut third);
    other.expect(&[("LOCK.RELEASE k v", ":1"), ("EXISTS k", ":0")]);
    assert_eq!(locks_info(&mut other, "waiting"), 1);
    server.advance_ms(5000);
    assert_eq!(locks_info(&mut other, "waiting"), 0);
}

#[test]
fn a_client_that_takes_its_place_up_again_does_not_wait_for_those_behind_it() {
    let server = start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut other, "LOCK.ACQUIRE k x PX 60000");
    fence(&mut one, "LOCK.ACQUIRE j t SESSION");
    let id = one.int("CLIENT ID");
    let one = block(&server, one, "LOCK.ACQUIRE k t SESSION BLOCK 0");
    let mut behind = block(&server, server.client(), "LOCK.ACQUIREMULTI 2 k j u PX 60000 BLOCK 0");
    drop(one);
    wait_until_gone(&server, id);
    let mut back = server.client();
    back.expect(&[("LOCK.RESUME t", "*1 $1 j")]);
    let mut back = block(&server, back, "LOCK.ACQUIRE k t SESSION BLOCK 0");
    other.expect(&[("LOCK.RELEASE k x", ":1")]);
    acquired(&mut back);
    other.expect(&[("LOCK.RELEASE k t", ":1"), ("LOCK.RELEASE j t", ":1")]);
    assert!(behind.reply().starts_with("*2 :"));
}

#[test]
fn a_kept_place_is_taken_up_only_with_the_same_request() {
    let server = start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE a x PX 600000");
    fence(&mut one, "LOCK.ACQUIRE b x PX 600000");
    let (first, first_id) = waits(&server, "LOCK.ACQUIREMULTI 2 a b t SESSION BLOCK 0");
    let mut second = block(&server, server.client(), "LOCK.ACQUIRE a u PX 60000 BLOCK 0");
    drop(first);
    wait_until_gone(&server, first_id);
    let mut shared = block(&server, server.client(), "LOCK.ACQUIRE a t SHARED PX 1000 BLOCK 0");
    let mut alone = block(&server, server.client(), "LOCK.ACQUIRE a t PX 1000 BLOCK 1000");
    let mut first = block(&server, server.client(), "LOCK.ACQUIREMULTI 2 a b t PX 60000 BLOCK 0");
    assert_eq!(locks_info(&mut other, "waiting"), 5);
    server.advance_ms(1000);
    assert_eq!(alone.reply(), "$-1");
    other.expect(&[("LOCK.RELEASE a x", ":1"), ("LOCK.RELEASE b x", ":1")]);
    assert!(first.reply().starts_with("*2 :"));
    other.expect(&[("LOCK.RELEASE a t", ":1")]);
    assert_eq!(shared.reply(), "-ERR token holds this lock in another mode");
    acquired(&mut second);
}

#[test]
fn a_kept_place_is_not_taken_up_in_another_mode_or_for_another_number_of_permits() {
    let server = start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE k x PX 600000");
    fence(&mut one, "LOCK.ACQUIRE p x PERMITS 3 OF 3 PX 600000");
    for (kept, next, back) in
        [("k t SESSION", "k u", "k t SHARED"), ("p t PERMITS 2 SESSION", "p u PERMITS 3", "p t PERMITS 1")]
    {
        let (first, id) = waits(&server, &format!("LOCK.ACQUIRE {kept} BLOCK 0"));
        let mut next = block(&server, server.client(), &format!("LOCK.ACQUIRE {next} PX 60000 BLOCK 0"));
        drop(first);
        wait_until_gone(&server, id);
        let before = locks_info(&mut other, "waiting");
        let mut back = block(&server, server.client(), &format!("LOCK.ACQUIRE {back} PX 60000 BLOCK 0"));
        assert_eq!(locks_info(&mut other, "waiting"), before + 1);
        let key = &kept[..1];
        other.expect(&[(&format!("LOCK.RELEASE {key} x"), ":1")]);
        acquired(&mut next);
        other.expect(&[(&format!("LOCK.RELEASE {key} u"), ":1")]);
        acquired(&mut back);
    }
}

#[test]
fn a_kept_place_is_not_taken_up_in_another_database() {
    let server = start();
    let (mut one, mut elsewhere) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE k x PX 600000");
    elsewhere.expect(&[("SELECT 1", "+OK")]);
    fence(&mut elsewhere, "LOCK.ACQUIRE k x PX 600000");
    let (first, id) = waits(&server, "LOCK.ACQUIRE k t SESSION BLOCK 0");
    drop(first);
    wait_until_gone(&server, id);
    let mut other = server.client();
    other.expect(&[("SELECT 1", "+OK")]);
    let mut other = block(&server, other, "LOCK.ACQUIRE k t SESSION BLOCK 0");
    assert_eq!((locks_info(&mut one, "kept_places"), locks_info(&mut one, "waiting")), (1, 2));
    elsewhere.expect(&[("LOCK.RELEASE k x", ":1")]);
    acquired(&mut other);
}

#[test]
fn a_client_that_was_served_and_gone_before_it_knew_keeps_the_lock_for_the_grace() {
    let server = start();
    let mut other = server.client();
    fence(&mut other, "LOCK.ACQUIRE k x PX 60000");
    let (first, id) = waits(&server, "LOCK.ACQUIRE k t SESSION BLOCK 0");
    // Whichever the server notices first, the release or the end of the connection, the lock is not lost.
    other.send(b"LOCK.RELEASE k x\r\n");
    drop(first);
    assert_eq!(other.reply(), ":1");
    wait_until_gone(&server, id);
    let mut back = server.client();
    fence(&mut back, "LOCK.ACQUIRE k t SESSION BLOCK 1000");
    assert_eq!(locks_info(&mut other, "waiting"), 0);
    server.advance_ms(5000);
    assert_eq!(other.call("GET k"), "$1 t");
}

#[test]
fn the_end_of_a_session_leaves_what_another_client_has_acquired_in_its_grace() {
    let server = start();
    let (mut one, mut other) = (server.client(), server.client());
    for key in ["k", "l"] {
        fence(&mut one, &format!("LOCK.ACQUIRE {key} t SESSION"));
    }
    fence(&mut one, "LOCK.ACQUIRE s t SHARED SESSION");
    close(&server, one);
    other.expect(&[("LOCK.RELEASE k t", ":1"), ("DEL l", ":1"), ("LOCK.RELEASE s t", ":1")]);
    let fences = ["k u PX 60000", "l t PX 60000", "s t SHARED PX 60000"]
        .map(|request| fence(&mut other, &format!("LOCK.ACQUIRE {request}")));
    server.advance_ms(5000);
    assert_eq!(["k u", "l t", "s t"].map(|lock| fence(&mut other, &format!("LOCK.FENCE {lock}"))), fences);
}

#[cfg(feature = "lua")]
#[test]
fn a_lock_whose_session_ends_while_a_script_is_busy_is_released_after_the_script() {
    let server = TestServer::start();
    let (mut holder, mut script, mut other) = (server.client(), server.client(), server.client());
    fence(&mut holder, "LOCK.ACQUIRE k t SESSION");
    let id = holder.int("CLIENT ID");
    script.send(b"EVAL \"while true do end\" 0\r\n");
    std::thread::scope(|scope| {
        let is_busy = scope.spawn(|| wait_until(|| other.call("GET k").starts_with("-BUSY ")));
        while !is_busy.is_finished() {
            server.advance_ms(6000);
        }
    });
    drop(holder);
    for _ in 0..100 {
        assert!(other.call("GET k").starts_with("-BUSY ")); // meanwhile the server notices the end of the connection
        server.advance_ms(20);
    }
    other.expect(&[("SCRIPT KILL", "+OK")]);
    assert!(script.reply().contains("Script killed by user"));
    wait_until_gone(&server, id);
    wait_until(|| {
        server.advance_ms(20); // releases that the script has prevented are retried by the clock
        other.call("EXISTS k") == ":0"
    });
}
