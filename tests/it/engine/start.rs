//! Rejected starts on a cluster, and commands that are not possible there.

use keylatch::Clock;

use crate::engine::Fleet;
use crate::engine::etcd::Etcd;
use crate::harness::{Client, ReservedPort, TestServer};
#[cfg(feature = "binary")]
use crate::process::Process;

/// Starts a server with settings that must fail; returns the error.
fn refusal(settings: &str) -> String {
    let builder = keylatch::Server::builder().settings(settings);
    builder.start_blocking().err().expect("it is refused").to_string()
}

#[test]
fn settings_that_an_engine_does_not_have_prevent_the_start() {
    let base = "engine etcd\netcd-endpoints http://127.0.0.1:1\n";
    for (setting, name) in [
        ("save 60 1", "save"),
        ("appendonly yes", "appendonly"),
        ("replicaof 127.0.0.1 6379", "replicaof"),
        ("maxmemory-policy allkeys-lru", "maxmemory-policy"),
        ("test-mode yes", "test-mode"),
    ] {
        let reason = refusal(&format!("{base}{setting}\n"));
        assert!(reason.starts_with(&format!("the setting '{name}' is not possible with engine etcd: ")), "{reason}");
    }
    assert!(refusal("engine etcd\n").contains("'etcd-endpoints'"));
    assert!(refusal("engine etcd\netcd-endpoints 127.0.0.1:1\n").contains("must be URLs"));
    assert!(refusal(&format!("{base}etcd-user root\n")).contains("etcd-password-file"));
    assert!(refusal(&format!("{base}etcd-user root\netcd-password-file /nonexistent\n")).contains("/nonexistent"));
}

#[test]
fn settings_that_an_engine_does_not_have_are_refused_later_as_well() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    for setting in ["appendonly yes", "maxmemory-policy allkeys-lru"] {
        let reply = client.call(&format!("CONFIG SET {setting}"));
        assert!(reply.contains("not possible with engine etcd"), "{reply}");
    }
    let reply = client.call_args(&["CONFIG", "SET", "save", "60 1"]);
    assert!(reply.contains("not possible with engine etcd"), "{reply}");
    client.expect(&[("CONFIG SET maxmemory 1gb", "+OK"), ("CONFIG SET etcd-timeout 1000", "+OK")]);
}

#[test]
fn a_cluster_that_does_not_answer_prevents_the_start() {
    let port = ReservedPort::new();
    let settings = format!("engine etcd\netcd-timeout 300\netcd-endpoints http://{}\n", port.addr());
    assert_eq!(refusal(&settings), "engine etcd: no majority of the cluster answers");
}

#[test]
fn a_version_of_etcd_whose_leases_cannot_be_relied_on_prevents_the_start() {
    let Some(etcd) = Etcd::start_old() else { return };
    let reason = refusal(&format!("engine etcd\netcd-endpoints {}\n", etcd.endpoints()));
    assert_eq!(reason, "engine etcd: etcd 3.4.23 cannot be used, only 3.5.13 and later");
}

#[test]
fn values_of_an_earlier_version_are_taken_over_once_its_processes_have_ended() {
    let Some(etcd) = Etcd::start(1) else { return };
    let settings = |prefix: &str| format!("engine etcd\netcd-endpoints {}\netcd-prefix {prefix}\n", etcd.endpoints());
    etcd.put("later/format", "keylatch 3");
    let reason = refusal(&settings("later/"));
    assert_eq!(reason, "engine etcd: what is under the prefix later/ has another format: keylatch 3");
    etcd.put("k/format", "keylatch 1");
    etcd.put("k/fence", "1700000000000000");
    etcd.put("k/p/00000000000000ab", "");
    let reason = refusal(&settings("k/"));
    assert_eq!(reason, "engine etcd: processes of an earlier version of keylatch are running: stop all of them first");
    etcd.put("e/format", "keylatch 1");
    etcd.put("e/fence", "1700000000000000");
    let server = || {
        TestServer::start_on(
            Clock::system(),
            &[("engine", "etcd"), ("etcd-endpoints", &etcd.endpoints()), ("etcd-prefix", "e/")],
        )
    };
    for _ in 0..2 {
        let server = server();
        assert!(server.client().int("LOCK.ACQUIRE k t SHARED PX 100000") > 0);
    }
}

#[test]
fn a_wrong_password_prevents_the_start() {
    let Some(etcd) = Etcd::start(1) else { return };
    etcd.ask("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#);
    etcd.ask("/v3/auth/role/add", r#"{"name":"root"}"#);
    etcd.ask("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    etcd.ask("/v3/auth/enable", "{}");
    let dir = tempfile::tempdir().expect("a directory");
    let [right, wrong] = ["secret", "other"].map(|password| {
        let path = dir.path().join(password);
        std::fs::write(&path, format!("{password}\n")).expect("it is written");
        format!("etcd-user root\netcd-password-file {}\n", path.display())
    });
    let base = format!("engine etcd\netcd-endpoints {}\n", etcd.endpoints());
    let reason = refusal(&format!("{base}{wrong}"));
    assert!(reason.starts_with("engine etcd: ") && reason.contains("authentication failed"), "{reason}");
    assert!(refusal(&base).starts_with("engine etcd: "), "without a user");
    let server = keylatch::Server::builder().settings(&format!("{base}{right}")).start_blocking().expect("it starts");
    Client::connect(server.addr()).expect(&[("SET k v", "+OK"), ("GET k", "$1 v")]);
}

#[test]
fn a_user_of_etcd_needs_permission_for_the_prefix_and_nothing_else() {
    let Some(etcd) = Etcd::start(1) else { return };
    // "keylatch/" and "keylatch0", the end of the range of all names with that prefix.
    let permission = r#"{"permType":"READWRITE","key":"a2V5bGF0Y2gv","range_end":"a2V5bGF0Y2gw"}"#;
    etcd.ask("/v3/auth/role/add", r#"{"name":"keylatch"}"#);
    etcd.ask("/v3/auth/role/grant", &format!(r#"{{"name":"keylatch","perm":{permission}}}"#));
    for (user, role) in [("root", "root"), ("keylatch", "keylatch")] {
        etcd.ask("/v3/auth/user/add", &format!(r#"{{"name":"{user}","password":"secret"}}"#));
        etcd.ask("/v3/auth/role/add", r#"{"name":"root"}"#);
        etcd.ask("/v3/auth/user/grant", &format!(r#"{{"user":"{user}","role":"{role}"}}"#));
    }
    etcd.ask("/v3/auth/enable", "{}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret").expect("it is written");
    let (endpoints, path) = (etcd.endpoints(), file.path().display());
    let login = format!("etcd-user keylatch\netcd-password-file {path}\n");
    let server = keylatch::Server::builder().settings(&format!("engine etcd\netcd-endpoints {endpoints}\n{login}"));
    let server = server.start_blocking().expect("it starts");
    let mut client = Client::connect(server.addr());
    client.expect(&[("SET k v PX 100000", "+OK"), ("GET k", "$1 v"), ("FLUSHALL", "+OK"), ("DBSIZE", ":0")]);
    let other = refusal(&format!("engine etcd\netcd-prefix other/\netcd-endpoints {endpoints}\n{login}"));
    assert!(other.contains("permission denied"), "{other}");
}

#[test]
fn data_in_another_format_prevents_the_start() {
    let Some(etcd) = Etcd::shared() else { return };
    let prefix = Etcd::prefix();
    etcd.put(&format!("{prefix}format"), "keylatch 9");
    let settings = format!("engine etcd\netcd-endpoints {}\netcd-prefix {prefix}\n", etcd.endpoints());
    assert_eq!(
        refusal(&settings),
        format!("engine etcd: what is under the prefix {prefix} has another format: keylatch 9")
    );
}

#[cfg(feature = "binary")]
#[test]
fn the_binary_says_in_one_line_why_it_does_not_start() {
    let port = ReservedPort::new();
    let url = format!("http://{}", port.addr());
    let mut process = Process::start(&["--engine", "etcd", "--etcd-endpoints", &url, "--etcd-timeout", "1500"]);
    assert_eq!(process.wait().code(), Some(1));
    let log = process.rest();
    assert_eq!(log.lines().filter(|line| line.contains("no majority of the cluster answers")).count(), 1, "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("etcd does not answer yet")).count(), 1, "{log}");
    assert!(!log.contains("Unknown("), "{log}");
}

#[test]
fn commands_that_a_cluster_does_not_have_are_refused_by_name() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    client.expect(&[("RPUSH list b a", ":2"), ("HSET hash f v", ":1")]);
    for (request, name) in [
        ("SWAPDB 0 1", "swapdb"),
        ("MIGRATE 127.0.0.1 1 k 0 10", "migrate"),
        ("REPLICAOF NO ONE", "replicaof"),
        ("SAVE", "save"),
        ("BGSAVE", "bgsave"),
        ("BGREWRITEAOF", "bgrewriteaof"),
        ("HIMPORT PREPARE f a b", "himport|prepare"),
        ("HIMPORT SET k f 1 2", "himport|set"),
        ("XCFGSET s IDMP-MAXSIZE 5", "xcfgset"),
        ("XIDMPRECORD s p n 1-1", "xidmprecord"),
        ("XADD s IDMP p n * f v", "xadd"),
        ("PSYNC ? -1", "psync"),
    ] {
        let reply = client.call(request);
        assert_eq!(reply, format!("-ERR '{name}' is not possible with engine etcd"), "{request}");
    }
    for (request, name) in [("SORT list BY w_* ALPHA", "sort"), ("SORT list GET w_* ALPHA", "sort")] {
        let reply = client.call(request);
        let expected = format!("-ERR '{name}' needs keys that are not declared, which engine etcd does not have here");
        assert_eq!(reply, expected, "{request}");
    }
    client.expect(&[("SORT list ALPHA", "*2 $1 a $1 b"), ("SORT_RO list BY w_* ALPHA", "*2 $1 b $1 a")]);
}

#[test]
fn values_and_transactions_that_etcd_does_not_take_are_refused_and_change_nothing() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    client.expect(&[("CONFIG SET etcd-value-max 10kb", "+OK"), ("SET k v", "+OK")]);
    let too_large = "-ERR what is written is larger than engine etcd takes, see etcd-value-max";
    assert_eq!(client.call_args(&["SET", "k", &"x".repeat(10_300)]), too_large);
    assert_eq!(client.call_args(&["SET", "k", &"x".repeat(10_000)]), "+OK");
    client.expect(&[("SETRANGE k 10299 x", too_large), ("STRLEN k", ":10000")]);
    let many: Vec<String> = (0..121).flat_map(|number| [format!("k{number}"), "v".to_owned()]).collect();
    let request: Vec<&str> = std::iter::once("MSET").chain(many.iter().map(String::as_str)).collect();
    let too_many = "-ERR 'mset' has more than 120 keys, which engine etcd does not change at once";
    assert_eq!(client.call_args(&request), too_many);
    assert_eq!(client.call_args(&request[..241]), "+OK");
    client.expect(&[("DBSIZE", ":121"), ("MGET k0 k119 k120", "*3 $1 v $1 v $-1")]);
}

#[test]
fn a_transaction_that_writes_has_no_commands_about_all_keys_or_the_connection() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    for (request, reason) in [
        ("DBSIZE", "'dbsize' needs keys that are not declared, which engine etcd does not have here"),
        ("CLIENT SETNAME x", "'client|setname' is not possible in a transaction that writes with engine etcd"),
        ("ACL SETUSER x on", "'acl|setuser' is not possible in a transaction that writes with engine etcd"),
        ("ACL DELUSER x", "'acl|deluser' is not possible in a transaction that writes with engine etcd"),
        ("ACL LOAD", "'acl|load' is not possible in a transaction that writes with engine etcd"),
        ("CONFIG SET requirepass a", "'config|set' is not possible in a transaction that writes with engine etcd"),
        ("SUBSCRIBE c", "'subscribe' is not possible in a transaction that writes with engine etcd"),
    ] {
        client.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED"), (request, "+QUEUED")]);
        client
            .expect(&[("EXEC", &format!("-EXECABORT Transaction discarded because of: {reason}")), ("EXISTS k", ":0")]);
    }
    client.expect(&[("MULTI", "+OK"), ("DBSIZE", "+QUEUED"), ("CLIENT SETNAME x", "+QUEUED"), ("EXEC", "*2 :0 +OK")]);
}
