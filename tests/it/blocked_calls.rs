//! Statistics of calls that block their client: they are counted when they end, not when they block.

use crate::harness::{Client, TestServer, wait_until};

/// Returns the fields of a line of `INFO commandstats`.
fn counted(client: &mut Client, command: &str) -> String {
    let info = client.call("INFO commandstats");
    let line = info.split_whitespace().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    line.unwrap_or("none").to_owned()
}

fn is_in_slow_log(client: &mut Client, command: &str) -> bool {
    client.call("SLOWLOG GET -1").contains(command)
}

fn is_timed(client: &mut Client, command: &str) -> bool {
    client.call("LATENCY HISTOGRAM").contains(command)
}

fn start() -> TestServer {
    TestServer::start_with(&[("slowlog-log-slower-than", "0")])
}

#[test]
fn a_served_call_is_counted_and_logged_when_it_is_served() {
    let server = start();
    let mut client = server.client();
    let mut blocked = server.block("BLPOP l 0");
    let id = blocked.local_addr().to_string();
    let calls = |client: &mut Client| {
        let list = client.call("CLIENT LIST").replace(" id=", "\nid=");
        let line = list.lines().find(|line| line.contains(&format!("addr={id} "))).expect("it is listed").to_owned();
        let count = line.split(' ').find_map(|field| field.strip_prefix("tot-cmds="));
        count.expect("the number of calls").trim().parse::<u64>().expect("a number")
    };
    let before = calls(&mut client);
    assert_eq!(counted(&mut client, "blpop"), "none");
    assert!(!is_in_slow_log(&mut client, "BLPOP") && !is_timed(&mut client, "blpop"));
    client.call("RPUSH l v");
    assert_eq!(blocked.reply(), "*2 $1 l $1 v");
    assert!(counted(&mut client, "blpop").starts_with("calls=1,"));
    assert!(is_in_slow_log(&mut client, "*3 $5 BLPOP $1 l $1 0"));
    assert!(is_timed(&mut client, "blpop"));
    wait_until(|| calls(&mut client) == before + 1);
    // The next call of the client is counted as usual.
    client.call("RPUSH l v");
    blocked.call("BLPOP l 0");
    assert!(counted(&mut client, "blpop").starts_with("calls=2,"));
}

#[test]
fn a_call_that_is_served_by_an_exec_is_logged_after_it() {
    let server = start();
    let mut client = server.client();
    let mut blocked = server.block("BLPOP l 0");
    client.expect(&[("MULTI", "+OK"), ("LPUSH l v", "+QUEUED"), ("SLOWLOG RESET", "+QUEUED"), ("EXEC", "*2 :1 +OK")]);
    assert_eq!(blocked.reply(), "*2 $1 l $1 v");
    let latest = client.call("SLOWLOG GET 1");
    assert!(latest.contains("*3 $5 BLPOP $1 l $1 0"), "{latest}");
}

#[test]
fn calls_end_counted_on_timeout_and_when_they_are_unblocked() {
    let server = start();
    let mut client = server.client();
    let mut blocked = server.block("BRPOP l 5");
    assert_eq!(counted(&mut client, "brpop"), "none");
    server.advance_ms(5000);
    assert_eq!(blocked.reply(), "*-1");
    wait_until(|| counted(&mut client, "brpop").starts_with("calls=1,"));
    assert!(is_in_slow_log(&mut client, "*3 $5 BRPOP $1 l $1 5"));
    for (word, reply, count) in
        [("TIMEOUT", "*-1", "calls=2,"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK", "calls=3,")]
    {
        let mut blocked = server.block("BRPOP l 0");
        let list = client.call("CLIENT LIST").replace(" id=", "\nid=");
        let line = list.lines().find(|line| line.contains(" flags=b ")).expect("it is listed");
        let id = line.trim_start_matches(|byte: char| !byte.is_ascii_digit()).split(' ').next().expect("an id");
        let id = id.split("id=").last().expect("an id");
        assert_eq!(client.call(&format!("CLIENT UNBLOCK {id} {word}")), ":1");
        assert_eq!(blocked.reply(), reply);
        wait_until(|| counted(&mut client, "brpop").starts_with(count));
    }
    let counts = counted(&mut client, "brpop");
    assert!(counts.ends_with("rejected_calls=0,failed_calls=1"), "{counts}");
}

#[test]
fn a_call_refused_when_its_key_is_ready_is_counted_as_rejected_only() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("ACL SETUSER u on nopass +@all allkeys", "+OK")]);
    let mut reader = server.client();
    reader.expect(&[("AUTH u x", "+OK")]);
    let mut blocked = server.block_as(reader, "BLPOP l 0");
    client.expect(&[("ACL SETUSER u resetkeys", "+OK"), ("LPUSH l v", ":1")]);
    assert!(blocked.reply().starts_with("-NOPERM "));
    assert_eq!(blocked.call("PING"), "+PONG");
    let counts = counted(&mut client, "blpop");
    assert!(counts.starts_with("calls=0,usec=0,") && counts.ends_with("rejected_calls=1,failed_calls=0"), "{counts}");
}

#[test]
fn a_key_that_has_expired_while_the_transaction_ran_serves_nobody() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    for (call, add) in [("BLPOP k 0", "RPUSH k v"), ("BZPOPMIN k 0", "ZADD k 1 v")] {
        let mut blocked = server.block(call);
        client.expect(&[
            ("MULTI", "+OK"),
            (add, "+QUEUED"),
            ("PEXPIRE k 100", "+QUEUED"),
            ("DEBUG SLEEP 0.2", "+QUEUED"),
            ("EXEC", "*3 :1 :1 +OK"),
        ]);
        assert_eq!(client.info("blocked_clients"), "1", "{call}");
        client.call(add);
        assert!(blocked.reply().starts_with("*"), "{call}");
    }
}

#[test]
fn the_keys_whose_deletion_wakes_clients_are_counted() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("XGROUP CREATE s g $ MKSTREAM");
    let _list = server.block("BLPOP l 0");
    assert_eq!(client.info("total_blocking_keys_on_nokey"), "0");
    let mut readers: Vec<Client> = (0..2).map(|_| server.block("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")).collect();
    assert_eq!(client.info("total_blocking_keys"), "2");
    assert_eq!(client.info("total_blocking_keys_on_nokey"), "1");
    client.call("DEL s");
    readers.iter_mut().for_each(|reader| assert!(reader.reply().starts_with("-NOGROUP ")));
    wait_until(|| client.info("blocked_clients") == "1");
    assert_eq!(client.info("total_blocking_keys_on_nokey"), "0");
}

#[test]
fn what_a_served_call_changes_is_pushed_to_its_client_after_the_reply() {
    let server = TestServer::start();
    let mut client = server.client();
    for round in 0..20 {
        let mut tracker = server.client3();
        client.expect(&[("DEL to", if round == 0 { ":0" } else { ":1" }), ("RPUSH to a", ":1")]);
        tracker.expect(&[("CLIENT TRACKING ON", "+OK"), ("LRANGE to 0 -1", "*1 $1 a")]);
        let mut tracker = server.block_as(tracker, "BLMOVE from to LEFT LEFT 0");
        client.call("RPUSH from v");
        assert_eq!(tracker.reply(), "$1 v", "round {round}");
        assert_eq!(tracker.reply(), ">2 $10 invalidate *1 $2 to", "round {round}");
    }
}

#[test]
fn a_call_that_blocks_is_one_call_of_its_client() {
    let server = start();
    let mut client = server.client();
    let mut blocked = server.block("BLPOP l 0");
    client.expect(&[("RPUSH l v", ":1")]);
    assert_eq!(blocked.reply(), "*2 $1 l $1 v");
    // The harness has asked for its id before.
    let line = blocked.call("CLIENT INFO");
    assert!(line.contains(" tot-cmds=2 "), "{line}");
}
