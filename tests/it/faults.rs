//! TEST.FAULT and TEST.CALLS: errors, slow replies and broken connections on demand, and the journal of received calls.

use keylatch::Clock;

use crate::harness::{Client, TestServer, wait_until};

fn start() -> (TestServer, Client, Client) {
    let server = TestServer::start_on(Clock::system(), &[("test-mode", "yes")]);
    let (control, client) = (server.client(), server.client());
    (server, control, client)
}

#[test]
fn an_error_is_the_reply_as_given_and_the_call_is_not_executed() {
    let (_server, mut control, mut client) = start();
    control.call_args(&["TEST.FAULT", "ADD", "set", "ERROR", "READONLY You can't write\r\nhere", "COUNT", "2"]);
    client.expect(&[
        ("SET k v", "-READONLY You can't write  here"),
        ("GET k", "$-1"),
        ("SET k v", "-READONLY You can't write  here"),
        ("SET k v", "+OK"),
    ]);
    assert!(control.call("INFO errorstats").contains("errorstat_READONLY:count=2"));
}

#[test]
fn drop_closes_before_the_call_and_losereply_after_it() {
    let (server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD INCR KEY a* DROP", ":1"), ("TEST.FAULT ADD INCR KEY b* LOSEREPLY", ":2")]);
    client.expect(&[("INCR c", ":1")]);
    client.send(b"SET before 1\r\nINCR a\r\nSET after 1\r\n");
    assert_eq!(client.read_to_end(), b"+OK\r\n");
    let mut client = server.client();
    client.send(b"SET before 2\r\nINCR b\r\nSET after 1\r\n");
    assert_eq!(client.read_to_end(), b"+OK\r\n");
    control.expect(&[("GET a", "$-1"), ("GET b", "$1 1"), ("EXISTS after", ":0"), ("GET before", "$1 2")]);
}

#[test]
fn partial_sends_the_first_bytes_of_the_reply_and_closes() {
    let (server, mut control, mut client) = start();
    client.call(&format!("SET big {}", "x".repeat(100_000)));
    for len in [0, 3, 20_000] {
        control.call(&format!("TEST.FAULT ADD GET PARTIAL {len} COUNT 1"));
        let mut client = server.client();
        client.send(b"PING\r\nGET big\r\n");
        assert_eq!(client.read_to_end().len(), "+PONG\r\n".len() + len);
    }
    control.expect(&[("TEST.FAULT ADD GET PARTIAL 1000000", ":4")]);
    client.send(b"GET big\r\n");
    assert_eq!(client.read_to_end().len(), "$100000\r\n".len() + 100_002);
}

#[test]
fn a_delay_is_one_of_real_time_and_holds_up_nobody_else() {
    let (server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD INCR CLIENT slow DELAY 86400000", ":1"), ("CLIENT SETNAME other", "+OK")]);
    client.expect(&[("CLIENT SETNAME slow", "+OK")]);
    client.send(b"SET k 1\r\nINCR k\r\nPING\r\n");
    assert_eq!(client.reply(), "+OK");
    // The call is executed at once; only its reply is late.
    wait_until(|| control.call("GET k") == "$1 2");
    control.expect(&[("INCR k", ":3")]);
    control.int("TEST.TIME ADVANCE 86400000");
    control.expect(&[("TEST.FAULT CLEAR", "+OK"), ("TEST.FAULT ADD INCR DELAY 1", ":2")]);
    let mut late = server.client();
    late.send(b"INCR k\r\nPING\r\n");
    assert_eq!([late.reply(), late.reply()], [":4", "+PONG"]);
}

#[test]
fn what_is_pushed_does_not_overtake_a_late_reply_and_follows_no_cut_one() {
    let (server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD SUBSCRIBE DELAY 300", ":1"), ("TEST.FAULT ADD SET CLIENT slow DELAY 1", ":2")]);
    client.send(b"SUBSCRIBE c\r\n");
    wait_until(|| control.call("PUBLISH c early") == ":1");
    assert_eq!([client.reply(), client.reply()], ["*3 $9 subscribe $1 c :1", "*3 $7 message $1 c $5 early"]);
    let mut client = server.client3();
    client.expect(&[("CLIENT SETNAME slow", "+OK"), ("CLIENT TRACKING ON", "+OK"), ("GET k", "_"), ("SET k 1", "+OK")]);
    assert_eq!(client.reply(), ">2 $10 invalidate *1 $1 k");
    control.expect(&[("TEST.FAULT CLEAR", "+OK"), ("TEST.FAULT ADD SET CLIENT slow PARTIAL 2", ":3")]);
    client.expect(&[("GET k", "$1 1")]);
    client.send(b"SET k 2\r\n");
    assert_eq!(client.read_to_end(), b"+O");
}

#[test]
fn a_reply_that_is_held_back_is_lost_when_the_connection_closes() {
    let (server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD INCR DELAY 86400000", ":1")]);
    let id = client.int("CLIENT ID");
    client.send(b"INCR k\r\n");
    wait_until(|| control.call("GET k") == "$1 1");
    control.expect(&[(&format!("CLIENT KILL ID {id}"), ":1")]);
    assert_eq!(client.read_to_end(), b"");
    let mut client = server.client();
    client.send(b"INCR k\r\n");
    wait_until(|| control.call("GET k") == "$1 2");
    control.expect(&[("TEST.FAILOVER LOSE 1", "+OK")]);
    assert_eq!(client.read_to_end(), b"");
}

#[test]
fn a_blocked_call_is_struck_when_it_would_reply() {
    let (server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD BLPOP LOSEREPLY", ":1")]);
    client.send(b"BLPOP q 0\r\n");
    wait_until(|| control.info("blocked_clients") == "1");
    control.expect(&[("RPUSH q one two", ":2")]);
    assert_eq!(client.read_to_end(), b"");
    control.expect(&[("LRANGE q 0 -1", "*1 $3 two"), ("TEST.FAULT CLEAR", "+OK")]);
    control.expect(&[("TEST.FAULT ADD BLPOP DELAY 1", ":2")]);
    let mut client = server.client();
    client.expect(&[("BLPOP q 0", "*2 $1 q $3 two"), ("PING", "+PONG")]);
}

#[test]
fn transactions_are_struck_as_a_whole_and_scripts_by_their_own_call() {
    let (_server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD SET ERROR no", ":1"), ("TEST.FAULT ADD EXEC ERROR broken COUNT 1", ":2")]);
    client.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED"), ("EXEC", "-broken"), ("EXISTS k", ":0")]);
    client.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED"), ("EXEC", "*1 +OK"), ("GET k", "$1 v")]);
    #[cfg(feature = "lua")]
    assert_eq!(client.call_args(&["EVAL", "return redis.call('SET', 'k', 'w')", "0"]), "+OK");
    client.expect(&[("SET k v", "-no")]);
}

#[test]
fn the_first_fault_that_fires_wins_by_match_after_probability_and_count() {
    let (_server, mut control, mut client) = start();
    control.expect(&[
        ("TEST.FAULT ADD GET KEY user:* AFTER 2 COUNT 1 ERROR first", ":1"),
        ("TEST.FAULT ADD * ERROR second PROB 0.000000001 SEED 1", ":2"),
        ("TEST.FAULT ADD client|getname ERROR third", ":3"),
        ("TEST.FAULT ADD CLIENT ERROR fourth", ":4"),
    ]);
    client.expect(&[
        ("GET user:1", "$-1"),
        ("GET other", "$-1"),
        ("GET user:2", "$-1"),
        ("GET user:3", "-first"),
        ("GET user:3", "$-1"),
        ("CLIENT GETNAME", "-third"),
        ("CLIENT ID", "-fourth"),
        ("TEST.FAULT DEL 4", ":1"),
        ("TEST.FAULT DEL 4", ":0"),
    ]);
    let list = control.call("TEST.FAULT LIST");
    let first =
        "*22 $2 id :1 $7 command $3 get $3 key $6 user:* $6 client $-1 $4 kind $11 ERROR first $4 prob $1 1 $4 seed :";
    assert!(list.starts_with(&format!("*3 {first}")), "{list}");
    assert!(
        list.contains(" $5 after :0 $4 left :0 $5 fired :1 $6 queued :0 *22 $2 id :2 $7 command $1 * $3 key $-1 "),
        "{list}"
    );
}

#[test]
fn the_same_seed_fires_at_the_same_calls() {
    let (_server, mut control, mut client) = start();
    let mut draw = |seed: u64| -> Vec<bool> {
        control.expect(&[("TEST.FAULT CLEAR", "+OK")]);
        control.call(&format!("TEST.FAULT ADD PING ERROR no PROB 0.3 SEED {seed}"));
        (0..200).map(|_| client.call("PING") == "-no").collect()
    };
    let (one, again, other) = (draw(7), draw(7), draw(8));
    assert_eq!(one, again);
    assert_ne!(one, other);
    let fired = one.iter().filter(|fired| **fired).count();
    assert!((30..=90).contains(&fired), "{fired} of 200");
}

#[test]
fn a_fault_of_all_commands_spares_what_a_connection_needs_to_begin_and_end() {
    let (server, mut control, _) = start();
    control.expect(&[("TEST.FAULT ADD * ERROR no", ":1"), ("PING", "-no")]);
    let mut client = server.client();
    assert!(client.call("HELLO 3").starts_with('%'));
    client.expect(&[("GET k", "-no"), ("RESET", "+RESET"), ("AUTH default any", "+OK"), ("QUIT", "+OK")]);
    control.expect(&[("TEST.FAULT CLEAR", "+OK"), ("PING", "+PONG")]);
}

#[test]
fn wrong_faults_are_refused() {
    let (_server, mut control, _) = start();
    let kinds = "-ERR TEST.FAULT ADD needs an effect, such as ERROR, DELAY, DROP, LOSEREPLY or PARTIAL";
    control.expect(&[
        ("TEST.FAULT ADD", "-ERR wrong number of arguments for 'test.fault|add' command"),
        ("TEST.FAULT ADD nosuch DROP", "-ERR Command 'nosuch' not found"),
        ("TEST.FAULT ADD GET COUNT 1", kinds),
        ("TEST.FAULT ADD GET DROP LOSEREPLY", "-ERR syntax error"),
        ("TEST.FAULT ADD GET DROP PROB 1.5", "-ERR PROB must be from 0 to 1"),
        ("TEST.FAULT ADD GET DELAY 86400001", "-ERR DELAY must be at most a day"),
        ("TEST.FAULT ADD GET ADVANCE 3162240000001", "-ERR ADVANCE must be at most a hundred years"),
        ("TEST.FAULT ADD GET DROP QUEUED QUEUED", "-ERR syntax error"),
        ("TEST.FAULT ADD GET EXPIRE", "-ERR syntax error"),
        ("TEST.FAULT ADD GET DELAY -1", "-ERR value is out of range, must be positive"),
        ("TEST.FAULT ADD GET DROP SOMETIMES 1", "-ERR syntax error"),
        ("TEST.FAULT ADD GET DROP PROB 1 PROB 0", "-ERR syntax error"),
        ("TEST.FAULT ADD GET DROP AFTER 1 AFTER 2", "-ERR syntax error"),
        ("TEST.FAULT ADD TEST.TIME DROP", "-ERR faults cannot be injected into TEST.*"),
    ]);
    assert_eq!(control.call_args(&["TEST.FAULT", "ADD", "GET", "ERROR", ""]), "-ERR ERROR needs a text");
    control.expect(&[("TEST.FAULT LIST", "*0")]);
}

#[test]
fn calls_are_listed_oldest_first_with_the_fault_that_struck_them() {
    let (_server, mut control, mut client) = start();
    client.expect(&[("CLIENT SETNAME app", "+OK"), ("AUTH default secret", "+OK")]);
    let now = control.int("TEST.TIME FREEZE");
    control.expect(&[("TEST.CALLS RESET", "+OK"), ("TEST.FAULT ADD INCR ERROR no", ":1")]);
    client.call("AUTH default secret");
    client.expect(&[("SET k v", "+OK"), ("INCR k", "-no")]);
    assert!(client.call("NOSUCH x").starts_with("-ERR unknown command"));
    let id = client.int("CLIENT ID");
    let shown = |args: &str, fault: &str| {
        format!("*10 $7 time-ms :{now} $9 client-id :{id} $11 client-name $3 app $4 args {args} $5 fault {fault}")
    };
    let set = shown("*3 $3 SET $1 k $1 v", "$-1");
    let incr = shown("*2 $4 INCR $1 k", "$5 ERROR");
    let auth = shown("*3 $4 AUTH $10 (redacted) $10 (redacted)", "$-1");
    let unknown = shown("*2 $6 NOSUCH $1 x", "$-1");
    let asked = shown("*2 $6 CLIENT $2 ID", "$-1");
    control.expect(&[
        ("TEST.CALLS", &format!("*5 {auth} {set} {incr} {unknown} {asked}")),
        ("TEST.CALLS COUNT 2", &format!("*2 {unknown} {asked}")),
        ("TEST.CALLS MATCH incr", &format!("*1 {incr}")),
        ("TEST.CALLS MATCH client COUNT 1", &format!("*1 {asked}")),
        ("TEST.CALLS MATCH client|id", &format!("*1 {asked}")),
        ("TEST.CALLS COUNT -1", "-ERR value is out of range, must be positive"),
        ("TEST.CALLS RESET", "+OK"),
        ("TEST.CALLS", "*0"),
    ]);
}

#[test]
fn only_the_latest_calls_are_kept() {
    let (_server, mut control, mut client) = start();
    control.expect(&[("CONFIG SET test-calls-max 3", "+OK")]);
    (0..10).for_each(|at| assert_eq!(client.call(&format!("ECHO {at}")), format!("$1 {at}")));
    let calls = control.call("TEST.CALLS");
    assert!(calls.starts_with("*3 ") && calls.contains("$4 ECHO $1 7") && calls.contains("$4 ECHO $1 9"), "{calls}");
    control.expect(&[("CONFIG SET test-calls-max 0", "+OK"), ("PING", "+PONG"), ("TEST.CALLS", "*0")]);
    // The memory for calls is limited, whatever their length.
    control.expect(&[("CONFIG SET test-calls-max 10000", "+OK")]);
    let value = "x".repeat(10_000_000);
    (0..10).for_each(|_| assert_eq!(client.call_args(&["SET", "k", &value]), "+OK"));
    let kept = control.call("TEST.CALLS MATCH set COUNT 100").matches("$3 SET").count();
    assert_eq!(kept, 6);
}

#[test]
fn the_ambiguous_acquire_breaks_a_naive_client_and_not_lock_acquire() {
    let (server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD SET LOSEREPLY COUNT 1", ":1")]);
    control.expect(&[("TEST.FAULT ADD LOCK.ACQUIRE LOSEREPLY COUNT 1", ":2")]);
    client.send(b"SET naive me NX PX 30000\r\n");
    assert_eq!(client.read_to_end(), b"");
    let mut client = server.client();
    // It holds the lock without knowing: it waits for itself.
    client.expect(&[("SET naive me NX PX 30000", "$-1"), ("GET naive", "$2 me")]);
    client.send(b"LOCK.ACQUIRE l me PX 30000\r\n");
    assert_eq!(client.read_to_end(), b"");
    let mut client = server.client();
    let fence = client.int("LOCK.ACQUIRE l me PX 30000");
    assert_eq!(control.int("LOCK.FENCE l me"), fence);
}

#[test]
fn a_call_that_a_pause_held_back_is_listed_once() {
    let (server, mut control, mut client) = start();
    control.expect(&[("TEST.CALLS RESET", "+OK"), ("CLIENT PAUSE 60000 WRITE", "+OK")]);
    client.send(b"SET k v\r\n");
    wait_until(|| server.server().namespace().clients.blocked() > 0);
    server.advance_ms(60_000);
    assert_eq!(client.reply(), "+OK");
    let calls = control.call("TEST.CALLS MATCH set");
    assert!(calls.starts_with("*1 "), "{calls}");
}

#[test]
fn what_is_not_queued_in_a_transaction_is_struck_by_its_own_faults() {
    let (_server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD DISCARD ERROR no COUNT 1", ":1")]);
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET k v", "+QUEUED"),
        ("DISCARD", "-no"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn as_many_calls_of_a_command_are_listed_as_asked_for_whatever_came_after_them() {
    let (_server, mut control, mut client) = start();
    client.expect(&[("GET a", "$-1"), ("GET b", "$-1"), ("PING", "+PONG"), ("PING", "+PONG"), ("PING", "+PONG")]);
    let calls = control.call("TEST.CALLS MATCH get COUNT 1");
    assert!(calls.starts_with("*1 ") && calls.contains("args *2 $3 GET $1 b"), "{calls}");
    assert!(control.call("TEST.CALLS MATCH get COUNT 3").starts_with("*2 "));
}

#[test]
fn a_command_whose_name_begins_like_anothers_is_another() {
    let (_server, mut control, mut client) = start();
    control.expect(&[("TEST.FAULT ADD SET ERROR no", ":1"), ("TEST.FAULT ADD client ERROR no COUNT 1", ":2")]);
    client.expect(&[("SETEX k 100 v", "+OK"), ("SETNX k v", ":0"), ("SET k v", "-no"), ("CLIENT ID", "-no")]);
    let calls = control.call("TEST.CALLS MATCH set COUNT 10");
    assert!(calls.starts_with("*1 ") && calls.contains("args *3 $3 SET $1 k"), "{calls}");
}

#[test]
fn dropall_closes_every_connection_of_the_instance_but_those_that_observe() {
    let (server, mut control, mut client) = start();
    let (mut other, mut observer) = (server.client(), server.client());
    let mut elsewhere = server.client();
    elsewhere.expect(&[("AUTH ns-other any", "+OK")]);
    observer.expect(&[("CLIENT SETNAME keylatch-control", "+OK")]);
    control.expect(&[("TEST.FAULT ADD INCR DROPALL COUNT 1", ":1")]);
    client.send(b"SET before 1\r\nINCR n\r\nSET after 1\r\n");
    assert_eq!(client.read_to_end(), b"+OK\r\n");
    assert_eq!([other.read_to_end(), control.read_to_end()], [b"", b""]);
    observer.expect(&[("EXISTS n after", ":0"), ("INCR n", ":1")]);
    elsewhere.expect(&[("PING", "+PONG")]);
}

#[test]
fn a_reply_comes_after_the_clock_was_moved() {
    let (_server, mut control, mut client) = start();
    control.int("TEST.TIME FREEZE");
    control.expect(&[
        ("TEST.FAULT ADD SET ADVANCE 30000 COUNT 1", ":1"),
        ("SUBSCRIBE news", "*3 $9 subscribe $4 news :1"),
    ]);
    let before = client.int("TEST.TIME GET");
    client.expect(&[("SET lock token NX PX 30000", "+OK"), ("GET lock", "$-1")]);
    assert_eq!(client.int("TEST.TIME GET"), before + 30_000);
    client.expect(&[("SET lock token NX PX 30000", "+OK"), ("PTTL lock", ":30000")]);
}

#[test]
fn a_key_expires_or_is_evicted_a_moment_before_a_call() {
    let (server, mut control, mut client) = start();
    let mut listener = server.client();
    listener.expect(&[("CONFIG SET notify-keyspace-events Exe", "+OK"), ("SELECT 3", "+OK")]);
    listener.call("PSUBSCRIBE __keyevent@3__:*");
    control.expect(&[
        ("TEST.FAULT ADD SET KEY lock EXPIRE lock AFTER 1 COUNT 1", ":1"),
        ("TEST.FAULT ADD GET KEY other EVICT other COUNT 1", ":2"),
        ("TEST.FAULT ADD DEL EXPIRE forever COUNT 1", ":3"),
    ]);
    client.expect(&[
        ("SELECT 3", "+OK"),
        ("SET lock one NX PX 30000", "+OK"),
        ("SET lock two NX PX 30000", "+OK"),
        ("GET lock", "$3 two"),
        ("SET other 1", "+OK"),
        ("SET forever 1", "+OK"),
        ("GET other", "$-1"),
        ("DEL forever", ":1"),
    ]);
    let event = |name: &str, key: &str| {
        let channel = format!("__keyevent@3__:{name}");
        format!("*4 $8 pmessage $16 __keyevent@3__:* ${} {channel} ${} {key}", channel.len(), key.len())
    };
    assert_eq!([listener.reply(), listener.reply()], [event("expired", "lock"), event("evicted", "other")]);
    // A transaction that watches the key fails; one journal line tells of the call.
    client.expect(&[("SET lock two PX 30000", "+OK"), ("WATCH lock", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")]);
    control.expect(&[("TEST.FAULT ADD EXEC EXPIRE lock COUNT 1", ":4"), ("TEST.CALLS RESET", "+OK")]);
    client.expect(&[("EXEC", "*-1")]);
    assert!(control.call("TEST.CALLS").starts_with("*1 *10 "));
}

#[test]
#[cfg(feature = "lua")]
fn scripts_are_forgotten_a_moment_before_a_call() {
    let (_server, mut control, mut client) = start();
    let digest = client.call_args(&["SCRIPT", "LOAD", "return 1"])[4..].to_owned();
    let library = "#!lua name=l\nredis.register_function('f', function() return 2 end)";
    assert_eq!(client.call_args(&["FUNCTION", "LOAD", library]), "$1 l");
    control
        .expect(&[("TEST.FAULT ADD EVALSHA NOSCRIPT COUNT 1", ":1"), ("TEST.FAULT ADD FCALL NOSCRIPT AFTER 1", ":2")]);
    assert_eq!(client.call(&format!("EVALSHA {digest} 0")), "-NOSCRIPT No matching script. Please use EVAL.");
    assert_eq!(client.call_args(&["EVAL", "return 1", "0"]), ":1");
    client.expect(&[
        (&*format!("EVALSHA {digest} 0"), ":1"),
        ("FCALL f 0", ":2"),
        ("FCALL f 0", "-ERR Function not found"),
    ]);
    assert_eq!(client.call(&format!("EVALSHA {digest} 0")), ":1");
}

#[test]
fn a_failover_before_a_call_forgets_the_write_before_it() {
    let (server, mut control, mut client) = start();
    control.expect(&[("CLIENT SETNAME keylatch-control", "+OK"), ("TEST.FAULT ADD GET FAILOVER COUNT 1", ":1")]);
    let mut blocked = server.client();
    blocked.send(b"BLPOP q 0\r\n");
    wait_until(|| control.info("blocked_clients") == "1");
    client.expect(&[("SET a 1", "+OK"), ("SET b 1", "+OK")]);
    client.send(b"GET b\r\nSET c 1\r\n");
    assert_eq!([client.read_to_end(), blocked.read_to_end()], [b"", b""]);
    control.expect(&[("MGET a b c", "*3 $1 1 $-1 $-1")]);
    #[cfg(feature = "lua")]
    {
        let digest = control.call_args(&["SCRIPT", "LOAD", "return 1"])[4..].to_owned();
        assert_eq!(control.call("TEST.FAILOVER LOSE 0"), "+OK");
        assert_eq!(server.client().call(&format!("SCRIPT EXISTS {digest}")), "*1 :0");
    }
    drop(server);
}

#[test]
fn a_call_is_struck_while_it_is_queued_if_the_fault_says_so() {
    let (server, mut control, mut client) = start();
    control.expect(&[
        ("TEST.FAULT ADD SET KEY k QUEUED ERROR no COUNT 1", ":1"),
        ("TEST.FAULT ADD INCR QUEUED LOSEREPLY", ":2"),
    ]);
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET other 1", "+QUEUED"),
        ("SET k 1", "-no"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EXISTS other k", ":0"),
        ("MULTI", "+OK"),
    ]);
    client.send(b"INCR n\r\nEXEC\r\n");
    assert_eq!(client.read_to_end(), b"");
    server.client().expect(&[("EXISTS n", ":0")]);
}

#[test]
fn the_full_journal_tells_which_keys_there_were_and_what_was_written() {
    let (_server, mut control, mut client) = start();
    client.expect(&[("SET a 1", "+OK"), ("SET b 1 PX 60000", "+OK")]);
    control.expect(&[("TEST.CALLS RESET", "+OK")]);
    client.expect(&[("MGET a b c", "*3 $1 1 $1 1 $-1"), ("DEL a", ":1"), ("MULTI", "+OK"), ("GET b", "+QUEUED")]);
    client.call("GET");
    let calls = control.call("TEST.CALLS FULL");
    let of = |name: &str| calls.split("*20 ").find(|call| call.contains(name)).expect("it was called").to_owned();
    assert!(
        of("$4 MGET")
            .contains(" $7 command $4 mget $7 refused :0 $4 keys *2 $1 a $1 b $8 expiring *1 $1 b $6 offset :"),
        "{calls}"
    );
    assert!(of("*2 $3 GET $1 b").contains(" $4 keys *1 $1 b $8 expiring *1 $1 b "), "{calls}");
    assert!(of("*1 $3 GET").contains(" $7 refused :1 $4 keys *0 $8 expiring *0 "), "{calls}");
    let offset =
        |name| of(name).rsplit_once("offset :").expect("the last field").1.trim().parse::<u64>().expect("a number");
    assert!(offset("$5 MULTI") > offset("$3 DEL") && offset("$3 DEL") == offset("$4 MGET"), "{calls}");
}
