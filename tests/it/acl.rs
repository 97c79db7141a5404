//! Users and permissions: cases that the differential tests do not cover, such as files, settings, other clients and
//! statistics.

use crate::harness::{Client, TestServer};
use keylatch::internals::config::load;
use keylatch::{Clock, Server};

fn no_command(name: &str) -> String {
    format!("-NOPERM this user has no permissions to run the '{name}' command")
}

/// Starts a server with `aclfile users.acl` and that file in a directory.
fn server_with_file(dir: &tempfile::TempDir, users: &str) -> TestServer {
    std::fs::write(dir.path().join("users.acl"), users).expect("a temporary file");
    TestServer::start_with(&[("dir", dir.path().to_str().expect("a plain path")), ("aclfile", "users.acl")])
}

/// Returns the error with which a server with these settings fails to start.
fn refusal(settings: &str) -> String {
    let mut config = load(None, Some(settings.as_bytes()), b"").expect("valid settings");
    (config.port, config.bind) = (0, vec!["127.0.0.1".into()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let started = runtime.block_on(Server::builder().clock(Clock::manual()).config(config).start());
    started.err().expect("the start is refused").to_string()
}

/// Asserts that the server has closed a connection.
#[track_caller]
fn assert_closed(mut client: Client) {
    client.send(b"PING\r\n");
    assert_eq!(client.read_raw(), None);
}

#[test]
fn users_of_a_file_are_loaded_changed_saved_and_loaded_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server =
        server_with_file(&dir, "user alice on >alice ~* &* +@all\n\nuser bob on nopass ~b* +get (+set %W~c*)\n");
    let mut admin = server.client();
    let mut alice = server.client();
    assert_eq!(admin.call("ACL USERS"), "*3 $5 alice $3 bob $7 default");
    alice.expect(&[("AUTH alice alice", "+OK"), ("SET k v", "+OK"), ("AUTH bob x", "+OK"), ("SET c1 v", "+OK")]);
    assert_eq!(
        alice.call("SET b1 v"),
        "-NOPERM this user has no permissions to access one of the keys used as arguments"
    );
    admin.expect(&[("ACL SETUSER eve on >eve +get allkeys", "+OK"), ("ACL DELUSER alice", ":1"), ("ACL SAVE", "+OK")]);
    let hash = "85262adf74518bbb70c7cb94cd6159d91669e5a81edf1efebd543eadbda9fa2b";
    let saved = format!(
        "user bob on nopass sanitize-payload ~b* resetchannels -@all +get (%W~c* resetchannels -@all +set)\n\
         user default on nopass sanitize-payload ~* &* +@all\n\
         user eve on sanitize-payload #{hash} ~* resetchannels -@all +get\n"
    );
    let file = dir.path().join("users.acl");
    assert_eq!(std::fs::read_to_string(&file).expect("saved"), saved);
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing temporary is left");
    admin.expect(&[("ACL SETUSER eve -get", "+OK"), ("ACL SETUSER default -set", "+OK"), ("ACL LOAD", "+OK")]);
    admin.expect(&[("SET k v", "+OK"), ("AUTH eve eve", "+OK"), ("GET k", "$1 v")]);
    assert_eq!(admin.call("SET k v"), no_command("set"));
    // The clients of the user that became bob stay connected, because bob still exists.
    alice.expect(&[("GET b1", "$-1")]);
}

#[test]
fn loading_disconnects_only_clients_whose_user_is_gone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = server_with_file(&dir, "user alice on nopass ~* +@all\nuser bob on nopass ~* +@all\n");
    let (mut default, mut alice, mut bob) = (server.client(), server.client(), server.client());
    default.expect(&[("PING", "+PONG")]);
    alice.expect(&[("AUTH alice x", "+OK"), ("ACL LOAD", "+OK"), ("ACL WHOAMI", "$5 alice"), ("GET k", "$-1")]);
    bob.expect(&[("AUTH bob x", "+OK")]);
    let text = "user alice on >new ~a* +@all -set\nuser eve on nopass ~* +@all\n";
    std::fs::write(dir.path().join("users.acl"), text).expect("a temporary file");
    bob.expect(&[("ACL LOAD", "+OK")]); // a client whose user was removed still gets the reply
    assert_closed(bob);
    default.expect(&[("PING", "+PONG"), ("ACL USERS", "*3 $5 alice $7 default $3 eve")]);
    // The new rules apply; clients that are already authenticated are not asked for the new password.
    alice.expect(&[("ACL WHOAMI", "$5 alice"), ("GET ab", "$-1"), ("CLIENT KILL USER alice", ":0")]);
    assert_eq!(alice.call("SET ab v"), no_command("set"));
}

#[test]
fn loading_disconnects_clients_that_may_not_listen_any_more() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let users = "user alice on nopass &a* +@all\nuser bob on nopass &b* +@all\n";
    let server = server_with_file(&dir, users);
    let listen = |user: &str, channel: &str| {
        let mut client = server.client();
        assert_eq!(client.call(&format!("AUTH {user} x")), "+OK");
        assert!(client.call(&format!("SUBSCRIBE {channel}")).ends_with(":1"));
        client
    };
    let (revoked, mut kept, mut bob) = (listen("alice", "a2"), listen("alice", "a1"), listen("bob", "b1"));
    let mut admin = server.client();
    let text = "user alice on nopass &a1 +@all\nuser bob on nopass &b* &c +@all\n";
    std::fs::write(dir.path().join("users.acl"), text).expect("a temporary file");
    admin.expect(&[("ACL LOAD", "+OK")]);
    assert_closed(revoked);
    admin.expect(&[("PUBLISH a1 x", ":1"), ("PUBLISH b1 x", ":1"), ("PUBLISH a2 x", ":0")]);
    assert_eq!((kept.reply(), bob.reply()), ("*3 $7 message $2 a1 $1 x".into(), "*3 $7 message $2 b1 $1 x".into()));
}

#[test]
fn rules_about_commands_are_shown_as_they_were_given() {
    let server = TestServer::start();
    let mut client = server.client();
    let cases = [
        ("+GET +set", "-@all +get +set"),
        ("-get", "-@all +set -get"),
        ("+@String -@bitmap +setbit", "-@all +set -get +@string -@bitmap +setbit"),
        ("+set +@string", "-@all -get -@bitmap +setbit +set +@string"),
        ("+@all", "+@all"),
        ("-@dangerous -client +Client|ID", "+@all -@dangerous -client +client|id"),
        ("+client|getname -client|id", "+@all -@dangerous -client +client|getname -client|id"),
        ("+client", "+@all -@dangerous +client"),
        ("nocommands +select|0 +SELECT|1 +hget", "-@all +select|0 +select|1 +hget"),
        ("+select", "-@all +hget +select"),
        ("-@all", "-@all"),
    ];
    for (rules, shown) in cases {
        assert_eq!(client.call(&format!("ACL SETUSER s {rules}")), "+OK", "{rules}");
        let user = client.call("ACL GETUSER s");
        assert!(user.contains(&format!("$8 commands ${} {shown} $4 keys", shown.len())), "{rules}: {user}");
        let line = format!("user s off sanitize-payload resetchannels {shown}");
        assert!(client.call("ACL LIST").ends_with(&format!("${} {line}", line.len())), "{rules}");
    }
    client.expect(&[("ACL SETUSER s skip-sanitize-payload", "+OK")]);
    assert!(client.call("ACL LIST").ends_with("user s off skip-sanitize-payload resetchannels -@all"));
}

#[test]
fn a_first_argument_with_a_blank_is_refused_because_a_file_would_make_two_rules_of_it() {
    let server = TestServer::start();
    let mut client = server.client();
    for rule in ["+get|a +@all", "+hget|a\t+@all"] {
        let refused = client.call_args(&["ACL", "SETUSER", "s", rule]);
        assert!(refused.starts_with("-ERR Error in ACL SETUSER modifier"), "{refused}");
    }
    client.expect(&[("ACL GETUSER s", "$-1")]);
}

#[test]
fn log_entries_have_an_id_and_the_times_of_the_first_and_the_last_denial() {
    let server = TestServer::start();
    let (mut admin, mut bob) = (server.client(), server.client());
    admin.expect(&[("ACL SETUSER bob on nopass +acl|whoami", "+OK")]);
    bob.expect(&[("AUTH bob x", "+OK"), ("GET k", &no_command("get"))]);
    server.advance_ms(1_500);
    bob.expect(&[("GET k", &no_command("get"))]);
    server.advance_ms(250);
    let log = admin.call("ACL LOG");
    assert!(log.starts_with("*1 *20 $5 count :2 $6 reason $7 command "), "{log}");
    assert!(log.contains(" $11 age-seconds $4 0.25 $11 client-info "), "{log}");
    let number = |log: &str, field: &str| -> i64 {
        let after = log.split(&format!(" {field} :")).nth(1).unwrap_or_else(|| panic!("no {field} in {log}"));
        after.split(' ').next().and_then(|digits| digits.parse().ok()).expect("a number")
    };
    assert_eq!(number(&log, "entry-id"), 0);
    assert_eq!(number(&log, "timestamp-last-updated") - number(&log, "timestamp-created"), 1_500);
    bob.expect(&[("SET k v", &no_command("set"))]);
    assert_eq!(number(&admin.call("ACL LOG 1"), "entry-id"), 1);
    admin.expect(&[("ACL LOG RESET", "+OK")]);
    bob.expect(&[("SET k v", &no_command("set"))]);
    assert_eq!(number(&admin.call("ACL LOG"), "entry-id"), 2, "numbers are not used again");
    admin.expect(&[("CONFIG SET acllog-max-len 0", "+OK")]);
    bob.expect(&[("SET k v", &no_command("set"))]);
    admin.expect(&[("ACL LOG", "*0")]);
}

#[test]
fn an_invalid_file_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = server_with_file(&dir, "user alice on nopass ~* +@all\n");
    let file = dir.path().join("users.acl");
    let mut client = server.client();
    let unchanged = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    std::fs::write(&file, "user alice on\nuser alice on\n").expect("a temporary file");
    assert_eq!(client.call("ACL LOAD"), format!("-ERR WARNING: Duplicate user 'alice' found on line 2. {unchanged}"));
    std::fs::write(&file, "user bob on foo\n").expect("a temporary file");
    assert_eq!(client.call("ACL LOAD"), format!("-ERR users.acl:1: Syntax error. {unchanged}"));
    std::fs::remove_file(&file).expect("a temporary file");
    assert_eq!(client.call("ACL LOAD"), "-ERR Error loading ACLs, opening file 'users.acl': No such file or directory");
    assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
    assert_eq!(client.call("ACL LOAD"), "-ERR Error loading ACLs, opening file 'users.acl': Not a regular file");
    std::fs::remove_file(&file).expect("a temporary file");
    assert_eq!(client.call("ACL USERS"), "*2 $5 alice $7 default");
    std::fs::remove_dir(dir.path()).expect("an empty directory");
    assert_eq!(
        client.call("ACL SAVE"),
        "-ERR There was an error trying to save the ACLs. Please check the server logs for more information"
    );
}

#[test]
fn a_parenthesis_inside_another_is_an_error_that_names_the_first() {
    let server = TestServer::start();
    let mut client = server.client();
    let nested = |rule: &str| format!("-ERR Error in ACL SETUSER modifier '{rule}': Syntax error");
    let open = "-ERR Unmatched parenthesis in acl selector starting at '(+PING'.";
    for (rules, reply) in [
        ("on (+PING (+SELECT (+DEL )", nested("(+PING (+SELECT (+DEL )")),
        ("on (+PING (+SELECT (+DEL ) )", nested("(+PING (+SELECT (+DEL )")),
        ("on (+PING (+SELECT (+DEL ) ) ) ", nested("(+PING (+SELECT (+DEL )")),
        ("on (+PING (+SELECT (+DEL", open.to_owned()),
        ("on (+GET) (+PING (+SELECT", open.to_owned()),
    ] {
        assert_eq!(client.call(&format!("ACL SETUSER s {rules}")), reply, "{rules}");
    }
    client.expect(&[("ACL GETUSER s", "$-1")]);
    client.expect(&[("ACL SETUSER s on (+ping ) ( +select (+del) )", &nested("( +select (+del)"))]);
}

#[test]
fn settings_declare_users_and_redeclare_the_default_one() {
    let server = TestServer::start_with(&[
        ("requirepass", "secret"),
        ("acl-pubsub-default", "allchannels"),
        ("user", "alice on >pw +get ( +set ~x )"),
        ("user", "default on nopass ~* +@all -flushdb"),
    ]);
    let mut client = server.client();
    assert_eq!(client.call("FLUSHDB"), no_command("flushdb"));
    let hash = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    let alice = format!("user alice on sanitize-payload #{hash} &* -@all +get (~x &* -@all +set)");
    let listed = client.call("ACL LIST");
    assert!(listed.contains(&alice), "{listed}");
    assert!(listed.contains("user default on nopass sanitize-payload ~* &* +@all -flushdb"), "{listed}");
}

#[test]
fn a_start_is_refused_for_users_that_cannot_be_made() {
    let cases = [
        (
            "user alice on +nosuch",
            "Error loading ACL rule '+nosuch' for the user named 'alice': Unknown command or category name in ACL",
        ),
        ("user 'a b' on", "Spaces not allowed in ACL usernames"),
        (
            "user alice on\naclfile x",
            "Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is invalid.",
        ),
        (
            "aclfile nosuch.acl",
            "Aborting Redis startup because of ACL errors: Error loading ACLs, opening file 'nosuch.acl': No such file or directory",
        ),
    ];
    for (settings, reason) in cases {
        let refused = refusal(settings);
        assert!(refused.starts_with(reason), "{settings}: {refused}");
    }
}

#[cfg(feature = "binary")]
#[test]
fn a_user_is_declared_once_on_the_command_line() {
    for name in ["foo", "default"] {
        let binary =
            std::process::Command::new(env!("CARGO_BIN_EXE_keylatch")).args(["--user", name, "--user", name]).output();
        let output = binary.expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let reason = format!(
            "Error in user declaration '{name}': Duplicate user found. A user can only be defined once in config files"
        );
        assert!(!output.status.success() && stderr.contains(&reason), "{stderr}");
    }
}

#[test]
fn a_change_takes_effect_for_the_next_command_of_the_same_pipeline() {
    let server = TestServer::start();
    let mut client = server.client();
    let commands = ["ACL SETUSER default -get", "GET k", "ACL SETUSER default +get", "GET k"].map(str::to_owned);
    assert_eq!(client.pipeline(&commands), ["+OK", &no_command("get"), "+OK", "$-1"]);
}

#[test]
fn client_list_and_info_tell_of_users_and_refusals() {
    let server = TestServer::start();
    let (mut admin, mut client) = (server.client(), server.client());
    admin.expect(&[("ACL SETUSER alice on nopass +get +client ~a", "+OK")]);
    client.expect(&[("AUTH nobody x", "-WRONGPASS invalid username-password pair or user is disabled.")]);
    client.expect(&[("AUTH alice x", "+OK")]);
    assert!(client.call("CLIENT INFO").contains(" user=alice "));
    assert!(admin.call("CLIENT INFO").contains(" user=default "));
    for command in ["SET a b", "GET b", "GET c", "DBSIZE"] {
        assert!(client.call(command).starts_with("-NOPERM"), "{command}");
    }
    let counted = ["auth", "cmd", "key", "channel"].map(|what| admin.info(&format!("acl_access_denied_{what}")));
    assert_eq!(counted, ["1", "2", "2", "0"]);
    assert_eq!(admin.call("RESET"), "+RESET");
    let log = admin.call("ACL LOG 1");
    assert!(log.contains(" name= ") && log.contains(" cmd=dbsize user=alice "), "{log}");
}

#[test]
fn the_age_of_a_refusal_follows_the_clock() {
    let server = TestServer::start();
    let mut client = server.client3();
    client.expect(&[("ACL SETUSER default -dbsize", "+OK")]);
    assert_eq!(client.call("DBSIZE"), no_command("dbsize"));
    server.advance_ms(1500);
    assert!(client.call("ACL LOG").contains(" $11 age-seconds ,1.5 "));
}

#[test]
fn passwords_are_generated_with_the_requested_length() {
    let server = TestServer::start();
    let mut client = server.client();
    for (command, digits) in
        [("ACL GENPASS", 64), ("ACL GENPASS 5", 2), ("ACL GENPASS 9", 3), ("ACL GENPASS 4096", 1024)]
    {
        let password = client.call(command);
        let (_, word) = password.split_once(' ').expect("a bulk string");
        assert!(word.len() == digits && word.bytes().all(|digit| digit.is_ascii_hexdigit()), "{command}: {password}");
        assert_ne!(client.call(command), password, "{command}");
    }
}

#[test]
fn rules_about_commands_that_only_redis_has_are_taken_and_shown_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let rules = "-@all +get +hget -vadd +xgroup|create +zadd|x";
    let server = server_with_file(
        &dir,
        &format!("user app on nopass ~* {rules} (+LPUSH +@hash)\nuser default on nopass ~* &* +@all -vsim -Vsim\n"),
    );
    let mut client = server.client();
    let listed = client.call("ACL LIST");
    for expected in
        [rules, "(resetchannels -@all +lpush +@hash)", "user default on nopass sanitize-payload ~* &* +@all -vsim"]
    {
        assert!(listed.contains(expected), "no {expected} in {listed}");
    }
    client.expect(&[
        ("ACL SETUSER app +vadd -xgroup|create", "+OK"),
        (
            "ACL SETUSER app -nosuch",
            "-ERR Error in ACL SETUSER modifier '-nosuch': Unknown command or category name in ACL",
        ),
        (
            "ACL SETUSER app +xgroup|nosuch",
            "-ERR Error in ACL SETUSER modifier '+xgroup|nosuch': Unknown command or category name in ACL",
        ),
        (
            "ACL SETUSER app -hget|x",
            "-ERR Error in ACL SETUSER modifier '-hget|x': Unknown command or category name in ACL",
        ),
        ("ACL SAVE", "+OK"),
        ("ACL LOAD", "+OK"),
    ]);
    let listed = client.call("ACL LIST");
    assert!(listed.contains("-@all +get +hget +zadd|x +vadd -xgroup|create"), "{listed}");
    client.expect(&[("ACL SETUSER app +@all", "+OK"), ("AUTH app x", "+OK"), ("SET k v", "+OK")]);
    assert!(client.call("ACL LIST").contains("user app on nopass sanitize-payload ~* resetchannels +@all ("));
}
