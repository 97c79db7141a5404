//! Observability: statistics, the slow log, the latency monitor. Durations are those of the manual clock, which DEBUG
//! SLEEP moves, so that every number is known.

use crate::harness::{Client, TestServer};
use keylatch::internals::config::Setting;

fn start() -> TestServer {
    TestServer::start_with(&[("enable-debug-command", "yes")])
}

/// Returns the line of INFO that begins with a field's name.
#[track_caller]
fn line(client: &mut Client, section: &str, field: &str) -> Option<String> {
    let text = client.call(&format!("INFO {section}"));
    text.split(' ').find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::to_owned)
}

#[track_caller]
fn stat(client: &mut Client, command: &str) -> String {
    line(client, "commandstats", &format!("cmdstat_{command}")).unwrap_or_default()
}

#[test]
fn calls_are_counted_with_their_time_their_failures_and_their_rejections() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SET k v", "+OK"), ("DEBUG SLEEP 0.05", "+OK"), ("DEBUG SLEEP 0.1", "+OK")]);
    assert_eq!(client.call("INCR k"), "-ERR value is not an integer or out of range");
    assert!(client.call("INCR").starts_with("-ERR wrong number"));
    client.call("CLIENT ID");
    let zeros = "usec=0,usec_per_call=0.00";
    assert_eq!(stat(&mut client, "set"), format!("calls=1,{zeros},rejected_calls=0,failed_calls=0"));
    assert_eq!(stat(&mut client, "incr"), format!("calls=1,{zeros},rejected_calls=1,failed_calls=1"));
    assert_eq!(stat(&mut client, "client|id"), format!("calls=1,{zeros},rejected_calls=0,failed_calls=0"));
    assert_eq!(
        stat(&mut client, "debug"),
        "calls=2,usec=150000,usec_per_call=75000.00,rejected_calls=0,failed_calls=0"
    );
    assert_eq!(stat(&mut client, "client"), "");
    assert_eq!(stat(&mut client, "get"), "");
}

#[test]
fn exec_takes_as_long_as_all_that_it_carries_out() {
    let server = start();
    let mut client = server.client();
    client.call("MULTI");
    client.call("DEBUG SLEEP 0.25");
    client.call("DEBUG SLEEP 0.5");
    client.call("EXEC");
    assert!(stat(&mut client, "debug").starts_with("calls=2,usec=750000,"));
    assert!(stat(&mut client, "exec").starts_with("calls=1,usec=750000,"));
}

#[test]
fn percentiles_are_tracked_unless_they_are_switched_off() {
    let server = start();
    let mut client = server.client();
    let of =
        |client: &mut Client, name: &str| line(client, "latencystats", &format!("latency_percentiles_usec_{name}"));
    client.call("CONFIG SET latency-tracking no");
    client.call("SET k v");
    assert_eq!(of(&mut client, "set"), None);
    client.call("CONFIG SET latency-tracking yes");
    client.call("SET k v");
    assert_eq!(of(&mut client, "set").as_deref(), Some("p50=0.001,p99=0.001,p99.9=0.001"));
    for seconds in ["0.001", "0.001", "0.05", "5"] {
        client.call(&format!("DEBUG SLEEP {seconds}"));
    }
    client.call_args(&["CONFIG", "SET", "latency-tracking-info-percentiles", "0.0 50.0 75 100.0"]);
    let expected = "p0=999.424,p50=1003.519,p75=50069.503,p100=1002438.655";
    assert_eq!(of(&mut client, "debug").as_deref(), Some(expected));
    assert_eq!(of(&mut client, "config|set").as_deref(), Some("p0=0.001,p50=0.001,p75=0.001,p100=0.001"));
    client.call("CONFIG RESETSTAT");
    assert_eq!(of(&mut client, "debug"), None);
}

#[test]
fn histograms_double_from_step_to_step() {
    let server = start();
    let mut client = server.client3();
    for seconds in ["0", "0.000001", "0.000002", "0.001", "2"] {
        client.call(&format!("DEBUG SLEEP {seconds}"));
    }
    client.call("CLIENT ID");
    client.call("CLIENT GETNAME");
    let debug = "$5 debug %2 $5 calls :5 $14 histogram_usec %3 :1 :2 :2 :3 :1056 :4";
    let client_id = "%2 $5 calls :1 $14 histogram_usec %1 :1 :1";
    assert_eq!(client.call("LATENCY HISTOGRAM debug nosuch set"), format!("%1 {debug}"));
    let both = format!("%2 $14 client|getname {client_id} $9 client|id {client_id}");
    assert_eq!(client.call("LATENCY HISTOGRAM CLIENT"), both);
    assert_eq!(client.call("LATENCY HISTOGRAM client|id"), format!("%1 $9 client|id {client_id}"));
    assert!(client.call("LATENCY HISTOGRAM").contains(debug));
    client.call("CONFIG RESETSTAT");
    assert_eq!(client.call("LATENCY HISTOGRAM"), "%1 $16 config|resetstat %2 $5 calls :1 $14 histogram_usec %1 :1 :1");
}

#[test]
fn resetstat_forgets_what_was_counted_and_nothing_else() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 5", "+OK"), ("GET k", "$1 v"), ("GET missing", "$-1")]);
    server.advance_ms(10);
    client.call("CONFIG SET slowlog-log-slower-than 0 latency-monitor-threshold 1");
    client.call("NOSUCH");
    client.call("DEBUG SLEEP 0.1");
    for (field, value) in [("expired_keys", "1"), ("keyspace_hits", "1"), ("keyspace_misses", "1")] {
        assert_eq!(client.info(field), value, "{field}");
    }
    client.call("CONFIG RESETSTAT");
    for field in [
        "expired_keys",
        "keyspace_hits",
        "keyspace_misses",
        "total_error_replies",
        "total_connections_received",
        "rejected_connections",
        "instantaneous_ops_per_sec",
    ] {
        assert_eq!(client.info(field), "0", "{field}");
    }
    assert_eq!(line(&mut client, "errorstats", "errorstat_ERR"), None);
    assert_eq!(stat(&mut client, "get"), "");
    assert!(stat(&mut client, "config|resetstat").starts_with("calls=1,"));
    assert_ne!(client.info("rdb_changes_since_last_save"), "0");
    assert!(client.int("SLOWLOG LEN") > 2);
    assert!(client.call("LATENCY LATEST").contains("$7 command"));
}

#[test]
fn rates_are_those_of_the_last_second() {
    let server = start();
    let mut client = server.client();
    server.advance_ms(1000);
    let pings: Vec<String> = (0..50).map(|_| "PING".to_owned()).collect();
    client.pipeline(&pings);
    server.advance_ms(500);
    assert_eq!(client.info("instantaneous_ops_per_sec"), "100");
    server.advance_ms(1000);
    assert_eq!(client.info("instantaneous_ops_per_sec"), "1");
    assert_ne!(client.info("total_reads_processed"), "0");
    assert_ne!(client.info("eventloop_cycles"), "0");
}

/// Returns one entry of the slow log without its time, and with the client's port masked.
fn masked(entry: &str, client: &Client) -> String {
    let words: Vec<&str> = entry.split(' ').enumerate().filter(|(at, _)| *at != 2).map(|(_, word)| word).collect();
    words.join(" ").replace(&client.local_addr().to_string(), "ADDR")
}

#[test]
fn slow_calls_are_logged_with_their_time_arguments_and_caller() {
    let server = start();
    let mut client = server.client();
    client.call("CLIENT SETNAME me");
    client.expect(&[
        ("SLOWLOG LEN", ":0"),
        ("SLOWLOG GET", "*0"),
        ("CONFIG SET slowlog-log-slower-than 100000", "+OK"),
    ]);
    client.call("DEBUG SLEEP 0.09");
    client.expect(&[("SLOWLOG LEN", ":0"), ("DEBUG SLEEP 0.1", "+OK"), ("SLOWLOG LEN", ":1")]);
    let log = client.call("SLOWLOG GET");
    let (count, entry) = log.split_once(' ').expect("an entry");
    let addr = client.local_addr().to_string();
    let expected = format!("*6 :0 :100000 *3 $5 DEBUG $5 SLEEP $3 0.1 ${} ADDR $2 me", addr.len());
    assert_eq!((count, masked(entry, &client)), ("*1", expected));
    client.expect(&[("SLOWLOG RESET", "+OK"), ("SLOWLOG LEN", ":0")]);
    client.call("DEBUG SLEEP 0.2");
    assert!(client.call("SLOWLOG GET -1").starts_with("*1 *6 :1 :"), "numbers go on");
}

#[test]
fn the_value_of_a_secret_setting_is_hidden_under_every_name_that_it_has() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("CONFIG SET slowlog-log-slower-than 0", "+OK"), ("CONFIG SET slowlog-max-len 100", "+OK")]);
    let mut names = Vec::new();
    for setting in Setting::all().filter(|setting| setting.secret) {
        names.extend([Some(setting.name), setting.alias, setting.synonym].into_iter().flatten());
    }
    for name in ["requirepass", "masterauth", "primaryauth", "masteruser", "primaryuser", "tls-client-key-file-pass"] {
        assert!(names.contains(&name), "{name}");
    }
    for name in &names {
        let spelled = name.to_uppercase();
        client.call(&format!("CONFIG SET {spelled} hush hz 10"));
        client.call(&format!("CONFIG SET hz 10 {name} hush"));
    }
    let log = client.call("SLOWLOG GET -1");
    assert!(!log.contains("hush"), "{log}");
    assert_eq!(log.matches("$10 (redacted) ").count(), 2 * names.len(), "{log}");
    client.expect(&[("ACL SETUSER alice >hush", "+OK"), ("ACL DELUSER hush", ":0"), ("ACL GETUSER hush", "$-1")]);
    assert!(!client.call("SLOWLOG GET -1").contains("hush"));
}

#[test]
fn latency_events_remember_the_worst_of_every_second() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("LATENCY LATEST", "*0"), ("CONFIG SET latency-monitor-threshold 100", "+OK")]);
    for seconds in ["0.3", "0.05", "0.2"] {
        client.call(&format!("DEBUG SLEEP {seconds}"));
    }
    server.advance_ms(2000);
    client.call("DEBUG SLEEP 0.4");
    server.advance_ms(60_000);
    let latest = client.call("LATENCY LATEST");
    let unix_s: i64 = latest.split(' ').nth(4).and_then(|word| word[1..].parse().ok()).expect("a time");
    assert_eq!(latest, format!("*1 *4 $7 command :{unix_s} :400 :400"));
    let history = client.call("LATENCY HISTORY command");
    assert!(history.ends_with(&format!("*2 :{unix_s} :400")) && history.contains(" :300 "), "{history}");
    let graph = client.call("LATENCY GRAPH command");
    assert!(graph.contains("command - high 400 ms, low ") && graph.contains("(all time high 400 ms)"), "{graph}");
    assert!(client.call("LATENCY DOCTOR").contains("1. command: in "));
    client.expect(&[
        ("LATENCY HISTORY nosuch", "*0"),
        ("LATENCY RESET nosuch", ":0"),
        ("LATENCY RESET nosuch COMMAND", ":1"),
        ("LATENCY LATEST", "*0"),
        ("LATENCY GRAPH command", "-ERR No samples available for event 'command'"),
    ]);
}

#[test]
fn debug_is_for_those_who_are_allowed() {
    let refused = "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
                   from a local connection, otherwise you need to set this option in the configuration file, and then \
                   restart the server.";
    assert_eq!(TestServer::start().client().call("DEBUG SLEEP 0"), refused);
    let local = TestServer::start_with(&[("enable-debug-command", "local")]);
    assert_eq!(local.client().call("DEBUG SLEEP 0"), "+OK");
}

#[test]
fn debug_sleep_makes_keys_older_for_the_rest_of_the_pipeline() {
    let server = start();
    let mut client = server.client();
    let commands = ["SET k v PX 50", "DEBUG SLEEP 0.1", "GET k", "DBSIZE"].map(str::to_owned);
    assert_eq!(client.pipeline(&commands), ["+OK", "+OK", "$-1", ":0"]);
}

#[test]
fn expired_keys_that_are_not_swept_stay_counted_and_invisible() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET a v PX 5", "+OK"), ("SET b v PX 5", "+OK")]);
    server.advance_ms(10);
    client.expect(&[("DBSIZE", ":2"), ("GET a", "$-1"), ("DBSIZE", ":1"), ("DEBUG SET-ACTIVE-EXPIRE 1", "+OK")]);
    server.advance_ms(1);
    client.expect(&[("DBSIZE", ":0")]);
}

#[test]
fn the_server_says_what_it_is() {
    let server = start();
    let mut client = server.client();
    assert!(client.int("LASTSAVE") > 0);
    for art in ["LOLWUT", "LOLWUT VERSION 5", "LOLWUT VERSION 9 ignored", "LOLWUT what"] {
        assert!(client.call(art).contains("Redis ver. 8.4."), "{art}");
    }
    assert_eq!(client.call("DEBUG CONFIG-REWRITE-FORCE-ALL"), "-ERR The server is running without a config file");
    assert!(client.call("MEMORY STATS").starts_with("*62 $14 peak.allocated :"));
    assert!(client.call("MEMORY DOCTOR").contains("Too little memory"));
    assert!(client.call("MEMORY MALLOC-STATS").contains("Stats not supported"));
}

#[test]
fn a_slow_log_that_keeps_nothing_numbers_nothing() {
    let server = start();
    let mut client = server.client();
    client.expect(&[
        ("CONFIG SET slowlog-log-slower-than 0", "+OK"),
        ("SLOWLOG RESET", "+OK"),
        ("CONFIG SET slowlog-max-len 0", "+OK"),
        ("PING", "+PONG"),
        ("PING", "+PONG"),
        ("SLOWLOG LEN", ":0"),
        ("CONFIG SET slowlog-max-len 10", "+OK"),
    ]);
    // Only kept calls get an id; the calls above have taken 0 and 1.
    let entries = client.call("SLOWLOG GET 1");
    assert!(entries.starts_with("*1 *6 :2 "), "{entries}");
}

#[test]
fn a_timeout_that_no_clock_can_hold_is_refused() {
    let server = start();
    let most = i64::MAX;
    server.client().expect(&[
        (&format!("WAIT 0 {most}"), "-ERR timeout is out of range"),
        (&format!("WAIT 2 {most}"), "-ERR timeout is out of range"),
        (&format!("WAITAOF 0 0 {most}"), "-ERR timeout is out of range"),
        (&format!("CLIENT PAUSE {most} WRITE"), "-ERR timeout is out of range"),
        ("WAIT 2 9223372036854775808", "-ERR timeout is not an integer or out of range"),
        ("WAIT 2 -1", "-ERR timeout is negative"),
        ("WAIT 0 1000", ":0"),
        ("SET k v", "+OK"),
    ]);
}

#[test]
fn info_lists_the_listeners() {
    let server = start();
    let (mut client, port) = (server.client(), server.addr().port());
    assert_eq!(line(&mut client, "server", "listener0"), Some(format!("name=tcp,bind=127.0.0.1,port={port}")));
    assert_eq!(line(&mut client, "server", "listener1"), None);
    assert_eq!(line(&mut client, "server", "listener2"), None);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let _server = TestServer::start_with(&[("unixsocket", path.to_str().expect("text"))]);
    let mut client = Client::connect_unix(&path);
    let text = client.call("INFO server");
    assert!(text.contains(&format!(" listener1:name=unix,bind={}", path.display())), "{text}");
    assert!(!text.contains("listener0:"), "{text}");
}

#[test]
fn debug_shows_a_key_whose_time_is_over_until_it_is_removed() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET k value PX 10", "+OK")]);
    server.advance_ms(10);
    assert!(client.call("DEBUG OBJECT k").contains("encoding:embstr serializedlength:6 "));
    assert_eq!(client.call("EXISTS k"), ":0");
    assert_eq!(client.call("DEBUG OBJECT k"), "-ERR no such key");
}

#[test]
fn what_newer_servers_can_be_asked_for_their_tests_is_answered() {
    let server = start();
    let mut client = server.client();
    client.expect(&[
        ("DEBUG DICT-RESIZING 0", "+OK"),
        ("DEBUG DICT-RESIZING 1", "+OK"),
        ("CLUSTERSCAN 0 MATCH {a}* COUNT 5 TYPE string SLOT 1", "-ERR This instance has cluster support disabled"),
        ("CLUSTERSCAN", "-ERR wrong number of arguments for 'clusterscan' command"),
        ("CLUSTER SLOT-STATS SLOTSRANGE 0 0", "-ERR This instance has cluster support disabled"),
        ("CLUSTER SLOT-STATS ORDERBY", "-ERR wrong number of arguments for 'cluster|slot-stats' command"),
    ]);
    let sizes = client.call("DEBUG STRUCTSIZE");
    assert!(sizes.contains("bits:64 client:") && sizes.contains(" shard:"), "{sizes}");
}

/// Follows the order of Redis 8.4.
#[test]
fn info_has_the_fields_of_later_versions_in_their_places() {
    let server = start();
    let mut client = server.client();
    client.call("SET k v");
    let text = client.call("INFO");
    let mut rest = &text[..];
    for name in [
        "io_threads_active:0 listener0:",
        "# Threads io_thread_0:clients=1,reads=",
        "# Stats ",
        "sync_partial_err:0 expired_subkeys:0 expired_subkeys_active:0 expired_keys:0 expired_keys_active:0 ",
        "io_threaded_total_prefetch_batches:0 io_threaded_total_prefetch_entries:0 client_query_buffer_limit",
        "reply_buffer_expands:0 eventloop_cycles:",
        "instantaneous_eventloop_duration_usec:0 acl_access_denied_auth:0 acl_access_denied_cmd:0 ",
        "# Replication ",
        "# Keyspace db0:keys=1,expires=0,avg_ttl=0,subexpiry=0  # Keysizes",
    ] {
        let at = rest.find(name).unwrap_or_else(|| panic!("no {name} in {rest}"));
        rest = &rest[at + name.len()..];
    }
    client.call("CONFIG SET repl-backlog-size 2mb");
    assert_eq!(client.info("repl_backlog_size"), "2097152");
}

#[test]
fn keys_that_the_sweeper_finds_are_counted_apart_from_those_that_a_look_up_finds() {
    let server = start();
    let mut client = server.client();
    client.call("SET swept v PX 10");
    server.advance_ms(10);
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    client.call("SET looked v PX 10");
    server.advance_ms(10);
    client.call("GET looked");
    assert_eq!((client.info("expired_keys").as_str(), client.info("expired_keys_active").as_str()), ("2", "1"));
    client.call("CONFIG RESETSTAT");
    assert_eq!((client.info("expired_keys").as_str(), client.info("expired_keys_active").as_str()), ("0", "0"));
}

#[test]
fn what_is_for_debugging_is_shown_to_who_asks_for_it_by_name() {
    let server = start();
    let mut client = server.client();
    for sections in ["", " all", " everything", " default stats"] {
        assert!(!client.call(&format!("INFO{sections}")).contains("eventloop_cmd_per_cycle_max"), "{sections}");
    }
    client.call("DEBUG SLEEP 0.005");
    client.pipeline(&vec!["PING".to_owned(); 7]);
    let text = client.call("INFO debug");
    assert!(text.contains("# Debug eventloop_duration_aof_sum:0 eventloop_duration_cron_sum:"), "{text}");
    let number = |client: &mut Client, field| -> u64 {
        line(client, "debug", field).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{field}: {text}"))
    };
    assert_eq!(number(&mut client, "eventloop_duration_max"), 5000);
    assert!((2..=7).contains(&number(&mut client, "eventloop_cmd_per_cycle_max")), "{text}");
    client.call("CONFIG RESETSTAT");
    assert_eq!(number(&mut client, "eventloop_cmd_per_cycle_max"), 1);
}

#[test]
fn an_idle_server_still_counts_the_rounds_of_its_background_work() {
    let server = TestServer::start_in_real_time();
    let mut client = server.client();
    let number = |client: &mut Client, section, field| -> u64 {
        line(client, section, field).and_then(|value| value.parse().ok()).expect("a number")
    };
    client.call("CONFIG RESETSTAT");
    crate::harness::wait_until(|| number(&mut client, "debug", "eventloop_duration_cron_sum") > 0);
    crate::harness::wait_until(|| number(&mut client, "stats", "instantaneous_eventloop_duration_usec") > 0);
    assert!(number(&mut client, "stats", "eventloop_cycles") > 0);
}

#[test]
fn debug_object_tells_when_a_key_was_last_used() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    let mut seen = |words: &str| -> (u64, u64) {
        client.call(words);
        let line = client.call("DEBUG OBJECT k");
        let field = |name: &str| line.split(' ').find_map(|part| part.strip_prefix(name)?.parse().ok()).expect(name);
        (field("lru:"), field("lru_seconds_idle:"))
    };
    let (set, _) = seen("SET k v");
    server.advance_ms(5_000);
    assert_eq!(seen("PING"), (set, 5));
    assert_eq!(seen("GET k"), (set + 5, 0));
}
