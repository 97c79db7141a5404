//! Settings: CONFIG GET and SET, the effect of changes at run time, and the example file.

use crate::harness::{Client, ReservedPort, TestServer, wait_until};
use keylatch::Server;
use keylatch::internals::config::{Setting, ValueLimits};
use keylatch::internals::{Names, table};

fn failed(name: &str, reason: &str) -> String {
    format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

#[test]
fn config_get_of_everything_lists_every_name_and_each_setting_has_its_default() {
    let server = TestServer::start();
    let mut client = server.client();
    let count = Setting::names().filter(|(_, setting)| !setting.hidden).count();
    assert!(client.call("CONFIG GET *").starts_with(&format!("*{} ", 2 * count)));
    // The server was started on a free loopback port; `dir` is the working directory of the tests.
    for setting in Setting::all().filter(|setting| !["port", "bind", "dir"].contains(&setting.name)) {
        // An embedded server touches no files.
        let value = if ["save", "dbfilename"].contains(&setting.name) { "" } else { setting.default };
        let expected = format!("*2 ${} {} ${} {value}", setting.name.len(), setting.name, value.len());
        assert_eq!(client.call(&format!("CONFIG GET {}", setting.name)), expected);
    }
}

#[test]
fn an_embedded_server_saves_nothing_unless_it_is_asked_to() {
    let server = TestServer::start();
    let (mut client, refused) = (server.client(), "-ERR there is no snapshot file: the setting 'dbfilename' is empty");
    client.expect(&[("SET k v", "+OK"), ("BGSAVE x", "-ERR syntax error"), ("CONFIG GET save", "*2 $4 save $0 ")]);
    for call in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE"] {
        assert_eq!(client.call(call), refused, "{call}");
    }
    for (field, status) in [
        ("rdb_last_bgsave_status", "ok"),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_last_write_status", "ok"),
        ("aof_enabled", "0"),
    ] {
        assert_eq!(client.info(field), status, "{field}");
    }
    assert!(client.call("INFO locks").contains(" durability:memory "));
    client.expect(&[("CONFIG SET timeout 5 save 1", &failed("save", "Invalid save parameters")), ("GET k", "$1 v")]);
    let dir = tempfile::tempdir().expect("a directory");
    let asked = TestServer::start_with(&[("save", "900 1"), ("dir", dir.path().to_str().expect("text"))]);
    asked.client().expect(&[("CONFIG GET save dbfilename", "*4 $4 save $5 900 1 $10 dbfilename $8 dump.rdb")]);
}

#[test]
fn a_start_with_settings_that_would_make_it_another_server_is_refused() {
    let refusal = |settings: &str| {
        let started = Server::builder().settings(settings).start_blocking();
        started.err().map_or_else(String::new, |error| error.to_string())
    };
    let strict = refusal("unsupported-settings refuse\nrepl-disable-tcp-nodelay yes\nactiverehashing no");
    assert!(["'repl-disable-tcp-nodelay'", "'activerehashing'"].iter().all(|name| strict.contains(name)), "{strict}");
    for settings in ["replicaof no one\ncluster-enabled no", "unsupported-settings refuse\nsave ''\nappendfsync no"] {
        assert_eq!(refusal(settings), "", "{settings}");
    }
}

#[test]
fn a_setting_that_may_not_change_is_refused_and_every_other_takes_its_own_value_again() {
    let server = TestServer::start();
    let mut client = server.client();
    // Addresses have their own test, and save points would create files.
    for setting in Setting::all().filter(|setting| !["port", "bind", "save"].contains(&setting.name)) {
        let expected = match setting.change {
            keylatch::internals::config::ChangeTime::Start => failed(setting.name, "can't set immutable config"),
            keylatch::internals::config::ChangeTime::Protected => failed(setting.name, "can't set protected config"),
            keylatch::internals::config::ChangeTime::Runtime => "+OK".to_owned(),
        };
        assert_eq!(client.call_args(&["CONFIG", "SET", setting.name, setting.default]), expected, "{}", setting.name);
    }
}

#[test]
fn idle_clients_are_closed_after_the_timeout_and_busy_ones_are_not() {
    let server = TestServer::start_with(&[("timeout", "5")]);
    let (mut idle, mut busy) = (server.client(), server.client());
    idle.expect(&[("PING", "+PONG")]);
    for _ in 0..5 {
        server.advance_ms(1_000);
        busy.expect(&[("PING", "+PONG")]);
    }
    idle.expect(&[("PING", "+PONG")]); // the client is idle for five seconds, not longer
    for _ in 0..6 {
        server.advance_ms(1_000);
        busy.expect(&[("PING", "+PONG")]);
    }
    assert_eq!(idle.read_raw(), None);
    wait_until(|| busy.info("connected_clients") == "1");
}

#[test]
fn without_a_timeout_nobody_is_closed_however_long_it_takes() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("PING", "+PONG")]);
    server.advance_ms(1_000_000_000);
    client.expect(&[("PING", "+PONG"), ("CONFIG SET timeout 0", "+OK")]);
    server.advance_ms(1_000_000_000);
    client.expect(&[("PING", "+PONG")]);
}

#[test]
fn settings_of_other_sections_are_honoured_where_they_say_so() {
    let server = TestServer::start_with(&[("databases", "1"), ("maxclients", "7"), ("hz", "50")]);
    let mut client = server.client();
    client.expect(&[("SELECT 1", "-ERR DB index is out of range"), ("SELECT 0", "+OK")]);
    assert_eq!((client.info("maxclients"), client.info("configured_hz")), ("7".into(), "50".into()));
}

#[test]
fn the_example_file_in_the_repository_is_the_one_the_table_gives() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/redis.conf.example");
    let expected = keylatch::internals::config::example_file();
    if std::env::var_os("KEYLATCH_BLESS").is_some() {
        std::fs::write(path, &expected).expect("a writable repository");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(found, expected, "stale; KEYLATCH_BLESS=1 regenerates it");
}

#[test]
fn the_example_file_starts_a_server_as_it_is() {
    let config = keylatch::internals::config::load(
        None,
        Some(keylatch::internals::config::example_file().as_bytes()),
        b"port 0\n",
    );
    let config = config.expect("the example is valid");
    assert_eq!(config.maxclients, 10_000);
    assert!(config.requirepass.is_none());
}

#[test]
fn a_renamed_command_answers_to_its_new_name_alone() {
    let server = TestServer::start_with(&[
        ("rename-command", "FLUSHALL ''"),
        ("rename-command", "get fetch"),
        ("rename-command", "exec go"),
        ("rename-command", "config conf"),
    ]);
    let mut client = server.client();
    client.expect(&[
        ("SET k v", "+OK"),
        ("FLUSHALL", "-ERR unknown command 'FLUSHALL', with args beginning with: "),
        ("GET k", "-ERR unknown command 'GET', with args beginning with: 'k' "),
        ("FETCH k", "$1 v"),
        ("fetch", "-ERR wrong number of arguments for 'get' command"),
        ("COMMAND INFO get", "*1 $-1"),
        ("CONF GET timeout", "*2 $7 timeout $1 0"),
        ("CONF NOPE", "-ERR unknown subcommand 'NOPE'. Try CONF HELP."),
        ("MULTI", "+OK"),
        ("Fetch k", "+QUEUED"),
        ("go x", "-EXECABORT Transaction discarded because of: invalid check condition syntax"),
        ("MULTI", "+OK"),
        ("Fetch k", "+QUEUED"),
        ("Go", "*1 $1 v"),
    ]);
    let count = |client: &mut Client| client.int("COMMAND COUNT");
    assert_eq!(count(&mut client) + 1, count(&mut TestServer::start().client()));
    assert!(client.call("COMMAND LIST FILTERBY PATTERN get").ends_with("$3 get"), "listed by its own name");
    assert!(client.call("COMMAND INFO fetch").starts_with("*1 *10 $3 get "));
}

#[test]
fn the_port_changes_while_clients_stay() {
    let server = TestServer::start();
    let mut client = server.client();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let reserved = ReservedPort::new();
    let free = reserved.port();
    let set = format!("CONFIG SET port {} timeout 5", taken.local_addr().expect("bound").port());
    client.expect(&[(&set, &failed("port", "Unable to listen on this port. Check server logs."))]);
    client.expect(&[("CONFIG GET timeout", "*2 $7 timeout $1 0")]);
    server.client().expect(&[("PING", "+PONG")]);
    client.expect(&[(&format!("CONFIG SET port {free}"), "+OK")]);
    let mut moved = Client::connect(reserved.addr());
    assert_eq!(moved.info("tcp_port"), free.to_string());
    client.expect(&[("CONFIG SET port 0", "+OK"), ("PING", "+PONG")]);
    moved.expect(&[("PING", "+PONG")]);
    assert!(std::net::TcpStream::connect(reserved.addr()).is_err());
}

#[test]
fn addresses_change_while_clients_stay() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("CONFIG SET bind 192.0.2.1", &failed("bind", "Failed to bind to specified addresses.")),
        ("CONFIG GET bind", "*2 $4 bind $9 127.0.0.1"),
    ]);
    server.client().expect(&[("PING", "+PONG")]);
    assert_eq!(client.call_args(&["CONFIG", "SET", "bind", "127.0.0.2 -192.0.2.1"]), "+OK");
    assert!(std::net::TcpStream::connect(server.addr()).is_err());
    let other: std::net::SocketAddr = ([127, 0, 0, 2], server.addr().port()).into();
    Client::connect(other).expect(&[("PING", "+PONG")]);
    client.expect(&[("PING", "+PONG")]);
    // Without any address no client can connect, and the port is the same when an address is set again.
    assert_eq!(client.call_args(&["CONFIG", "SET", "bind", ""]), "+OK");
    assert!(std::net::TcpStream::connect(other).is_err());
    assert_eq!(client.call_args(&["CONFIG", "SET", "bind", "127.0.0.2"]), "+OK");
    Client::connect(other).expect(&[("PING", "+PONG")]);
}

#[test]
fn settings_that_redis_and_valkey_got_since_7_0_are_taken_shown_and_kept() {
    let server = TestServer::start();
    let mut client = server.client();
    let listed = client.call("CONFIG GET *");
    for (name, default) in [
        ("server-cpulist", ""),
        ("server_cpulist", ""),
        ("bio-cpulist", ""),
        ("aof-rewrite-cpulist", ""),
        ("bgsave-cpulist", ""),
        ("set-max-listpack-entries", "128"),
        ("set-max-listpack-value", "64"),
        ("locale-collate", ""),
        ("cluster-announce-human-nodename", ""),
        ("hide-user-data-from-log", "no"),
        ("max-new-connections-per-cycle", "10"),
        ("max-new-tls-connections-per-cycle", "1"),
        ("cluster-slot-stats-enabled", "no"),
        ("cluster-compatibility-sample-ratio", "0"),
        ("replica-full-sync-buffer-limit", "0"),
        ("lookahead", "16"),
        ("aof-load-corrupt-tail-max-size", "0"),
        ("cluster-slot-migration-handoff-max-lag-bytes", "1048576"),
        ("cluster-slot-migration-write-pause-timeout", "10000"),
    ] {
        let shown = format!("${} {name} ${} {default}", name.len(), default.len());
        assert_eq!(client.call(&format!("CONFIG GET {name}")), format!("*2 {shown}"));
        assert!(listed.contains(&shown), "{name} is not listed");
    }
    // Settings that Redis lacks, or lacks in 8.4, are shown only by their exact name.
    for (name, default) in [
        ("availability-zone", ""),
        ("import-mode", "no"),
        ("active-defrag-cycle-us", "500"),
        ("commandlog-request-larger-than", "-1"),
        ("tcp-keepalive-probes", "3"),
        ("rdma-completion-vector", "-1"),
        ("cluster-databases", "1"),
    ] {
        let shown = format!("${} {name} ${} {default}", name.len(), default.len());
        assert_eq!(client.call(&format!("CONFIG GET {name}")), format!("*2 {shown}"));
        assert!(!listed.contains(&shown), "{name} is listed");
    }
    let bounds = "argument must be between 1 and 64 inclusive";
    let levels = "argument(s) must be one of the following: debug, verbose, notice, warning, nothing";
    client.expect(&[
        ("CONFIG SET maxmemory-samples 64", "+OK"),
        ("CONFIG SET maxmemory-samples 65", &failed("maxmemory-samples", bounds)),
        ("CONFIG SET loglevel loud", &failed("loglevel", levels)),
        ("CONFIG SET server-cpulist 1", &failed("server-cpulist", "can't set immutable config")),
        ("CONFIG SET lookahead 0", &failed("lookahead", "argument must be between 1 and 2147483647 inclusive")),
        ("CONFIG SET lookahead 7", "+OK"),
        ("CONFIG GET lookahead", "*2 $9 lookahead $1 7"),
    ]);
}

#[test]
fn a_config_file_of_redis_7_4_or_valkey_8_starts_the_server_and_survives_a_rewrite() {
    let settings = "server-cpulist 0-7:2\nbio_cpulist 1,3\naof-rewrite-cpulist 8-11\nbgsave-cpulist 1,10-11\n\
                    hide-user-data-from-log yes\nlookahead 4\navailability-zone us-east-1\n\
                    cluster-slot-stats-enabled yes\ncommandlog-execution-slower-than 77\n\
                    commandlog-slow-execution-max-len 5\ncommandlog-reply-larger-than 3\n";
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("redis.conf");
    std::fs::write(&path, settings).expect("writable");
    let before = keylatch::internals::config::load(Some(&path), None, b"").expect("it is understood");
    keylatch::internals::config::rewrite_file(&before, Vec::new(), &path, false).expect("it is rewritten");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.contains("\nslowlog-log-slower-than 77\nslowlog-max-len 5\n"), "{text}");
    assert!(text.contains("server-cpulist \"0-7:2\"\nbio-cpulist \"1,3\"\n"), "{text}");
    let after = keylatch::internals::config::load(Some(&path), None, b"").expect("it is understood again");
    for setting in Setting::all() {
        assert_eq!(setting.get(&before), setting.get(&after), "{}", setting.name);
    }
    assert_eq!(after.get(&[b"bgsave_cpulist"]), [("bgsave_cpulist".to_owned(), b"1,10-11".to_vec())]);
}

#[test]
fn commands_that_only_redis_has_can_be_hidden_and_their_names_be_given_to_others() {
    let load = |text: &str| {
        keylatch::internals::config::load(None, Some(text.as_bytes()), b"").map_err(|error| error.to_string())
    };
    let config = load("rename-command COMMANDLOG \"\"\nrename-command sflush other\nrename-command GET psync2\n");
    let renames = config.expect("it is understood").directives.renames;
    let names = Names::new(table(), &renames);
    assert!(names.find(b"get").is_none() && names.find(b"other").is_none());
    assert_eq!(names.find(b"PSYNC2").map(|command| command.name.as_str()), Some("get"));
    for line in ["rename-command nosuch \"\"", "rename-command xgroup|create x"] {
        let refusal = load(line).expect_err("it names no command");
        assert!(refusal.ends_with("No such command in rename-command"), "{refusal}");
    }
}

#[test]
fn the_limits_of_packed_collections_follow_their_settings_and_default_to_those_of_redis() {
    let limits = |text: &str| {
        let config = keylatch::internals::config::load(None, Some(text.as_bytes()), b"").expect("it is understood");
        config.limits()
    };
    assert_eq!(limits(""), ValueLimits::default());
    let changed = limits(
        "hash-max-ziplist-entries 1\nhash-max-listpack-value 1kb\nlist-max-ziplist-size -5\n\
         set-max-intset-entries 9223372036854775807\nset-max-listpack-entries 2\nset-max-listpack-value 3\n\
         zset-max-ziplist-entries 4\nzset-max-ziplist-value 5\nstream-node-max-bytes 1k\nstream-node-max-entries 0\n",
    );
    assert_eq!((changed.hash.entries, changed.hash.len), (1, 1024));
    assert_eq!((changed.list.setting(), changed.intset_entries), (-5, 1 << 30));
    assert_eq!((changed.set.entries, changed.set.len), (2, 3));
    assert_eq!((changed.zset.entries, changed.zset.len), (4, 5));
    assert_eq!((changed.stream.bytes, changed.stream.entries), (1000, 0));
}

#[test]
fn the_classes_of_events_that_came_in_8_2_are_taken_and_printed() {
    let server = TestServer::start();
    let refused = "Invalid event class character. Use 'Ag$lshzxeKEtmdnoc'.";
    server.client().expect(&[
        ("CONFIG SET notify-keyspace-events KEcon", "+OK"),
        ("CONFIG GET notify-keyspace-events", "*2 $22 notify-keyspace-events $5 nocKE"),
        ("CONFIG SET notify-keyspace-events KEAoc", "+OK"),
        ("CONFIG GET notify-keyspace-events", "*2 $22 notify-keyspace-events $3 AKE"),
        ("CONFIG SET notify-keyspace-events r", &failed("notify-keyspace-events", refused)),
    ]);
}
