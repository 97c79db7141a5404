//! State of a connection: protocol, password, name, database; and the commands allowed before authentication.

use crate::harness::{Client, TestServer, wait_until};
use keylatch::internals::{NO_AUTH, table};

const NOAUTH: &str = "-NOAUTH Authentication required.";
const NOAUTH_EXEC: &str = "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.";

/// Returns one field of a line of CLIENT LIST.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    line.split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("{name}: {line}"))
}

#[test]
fn hello_introduces_the_server_in_the_protocol_it_chooses() {
    let server = TestServer::start();
    let mut client = server.client();
    let facts = |proto: u8| {
        format!(
            "$6 server $5 redis $7 version $5 {} $5 proto :{proto} $2 id :1 $4 mode $10 standalone $4 role $6 master \
             $7 modules *",
            keylatch::internals::config::REDIS_VERSION
        )
    };
    let mut says = |line: &str, start: String| {
        let reply = client.call(line);
        assert!(reply.starts_with(&start), "{line}: {reply}");
    };
    says("HELLO", format!("*14 {}", facts(2)));
    says("HELLO 3", format!("%7 {}", facts(3)));
    says("HELLO", format!("%7 {}", facts(3)));
    says("GET none", "_".to_owned());
    says("HELLO 2", format!("*14 {}", facts(2)));
    says("GET none", "$-1".to_owned());
}

#[cfg(all(feature = "json", feature = "probabilistic", feature = "vectors"))]
#[test]
fn modules_of_redis_that_are_built_in_are_named_where_clients_look_for_them() {
    let server = TestServer::start();
    let mut client = server.client();
    for module in ["bf", "ReJSON", "vectorset"] {
        let name = format!("${} {module}", module.len());
        for line in ["MODULE LIST", "HELLO"] {
            let reply = client.call(line);
            assert!(reply.contains(&format!("$4 name {name} $3 ver :")), "{line}: {reply}");
        }
        let info = client.call("INFO modules");
        assert!(info.contains(&format!("module:name={module},ver=")), "{info}");
    }
    for (module, command) in [("bf", "$6 bf.add"), ("ReJSON", "$8 json.set"), ("vectorset", "$4 VADD")] {
        let reply = client.call(&format!("COMMAND LIST FILTERBY MODULE {module}"));
        assert!(reply.contains(command) && !reply.contains("$3 get"), "{module}: {reply}");
    }
    let shown = client.call("COMMAND INFO JSON.SET");
    assert!(shown.contains("+write +denyoom +module "), "{shown}");
    let documented = client.call("COMMAND DOCS JSON.SET");
    assert!(documented.contains("$5 group $6 module ") && documented.contains("$6 module $6 ReJSON"), "{documented}");
    client.expect(&[("COMMAND LIST FILTERBY MODULE search", "*0")]);
}

#[test]
fn every_command_but_a_few_is_rejected_before_authentication() {
    let server = TestServer::start_with(&[("requirepass", "secret")]);
    let mut client = server.client();
    let mut strangers = Vec::new();
    for row in table().all() {
        let commands = if row.subcommands.is_empty() { vec![row] } else { row.subcommands.iter().collect() };
        for command in commands {
            let mut words: Vec<&str> = command.name.split('|').collect();
            words.resize(words.len().max(command.arity.unsigned_abs() as usize), "1");
            if command.command.flags & NO_AUTH == 0 {
                // A rejected EXEC has an error of its own.
                let expected = if command.name == "exec" { NOAUTH_EXEC } else { NOAUTH };
                assert_eq!(client.call_args(&words), expected, "{}", command.name);
            } else {
                strangers.push(command.name.as_str());
            }
        }
    }
    assert_eq!(strangers, ["auth", "hello", "quit", "reset"]);
    client.expect(&[("AUTH secret", "+OK"), ("DBSIZE", ":0")]);
}

#[test]
fn a_connection_that_was_reset_is_shown_as_good_as_new() {
    let server = TestServer::start();
    let mut client = server.client3();
    client.expect(&[("SELECT 3", "+OK"), ("WATCH k", "+OK"), ("MULTI", "+OK"), ("RESET", "+RESET")]);
    let line = client.call("CLIENT INFO");
    assert_eq!(["db", "resp", "multi", "watch"].map(|name| field(&line, name)), ["0", "2", "-1", "0"]);
}

#[test]
fn clients_are_numbered_from_one_and_numbers_are_not_used_again() {
    let server = TestServer::start();
    let mut first = server.client();
    assert_eq!(first.int("CLIENT ID"), 1);
    for id in 2..20 {
        assert_eq!(server.client().int("CLIENT ID"), id);
    }
    assert_eq!(first.int("CLIENT ID"), 1);
}

#[test]
fn a_client_says_which_library_it_uses() {
    let server = TestServer::start();
    let unfit = "cannot contain spaces, newlines or special characters.";
    let mut client = server.client();
    client.expect(&[
        ("client setname Me", "+OK"),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK"),
        ("CLIENT SETINFO lib-ver 5.0.1", "+OK"),
        ("CLIENT SETINFO OTHER x", "-ERR Unrecognized option 'OTHER'"),
        ("CLIENT SETINFO LIB-NAME", "-ERR wrong number of arguments for 'client|setinfo' command"),
    ]);
    assert_eq!(client.call_args(&["CLIENT", "SETINFO", "LIB-NAME", "a b"]), format!("-ERR lib-name {unfit}"));
    assert_eq!(client.call_args(&["CLIENT", "SETINFO", "LIB-VER", "1\t"]), format!("-ERR lib-ver {unfit}"));
    let line = client.call("CLIENT INFO");
    assert_eq!((field(&line, "name"), field(&line, "lib-name"), field(&line, "lib-ver")), ("Me", "redis-py", "5.0.1"));
}

#[test]
fn the_greeting_of_todays_client_libraries_is_answered_line_by_line() {
    let server = TestServer::start();
    let mut client = server.client();
    let greeting = [
        "HELLO 3",
        "CLIENT SETINFO LIB-NAME redis-py",
        "CLIENT SETINFO LIB-VER 6.4.0",
        "CLIENT MAINT_NOTIFICATIONS ON",
        "SELECT 0",
        "PING",
    ];
    let replies = client.pipeline(&greeting.map(String::from));
    assert!(replies[0].starts_with("%7"));
    assert_eq!(replies[1..], ["+OK", "+OK", "+OK", "+OK", "+PONG"]);
}

#[test]
fn client_info_shows_what_the_client_does() {
    let server = TestServer::start();
    let mut client = server.client3();
    client.expect(&[("SELECT 4", "+OK"), ("WATCH a b", "+OK"), ("CLIENT SETNAME me", "+OK")]);
    server.advance_ms(5000);
    let line = client.call("CLIENT INFO");
    assert!(line.starts_with('=') && line.contains(" txt:id=1 addr=127.0.0.1:"), "{line}");
    let facts =
        ["name", "age", "db", "sub", "multi", "watch", "cmd", "user", "resp", "flags"].map(|name| field(&line, name));
    assert_eq!(facts, ["me", "5", "4", "0", "-1", "2", "client|info", "default", "3", "N"]);
    assert_eq!(field(&line, "addr"), client.local_addr().to_string());
    assert_eq!(field(&line, "laddr"), server.addr().to_string());
}

#[test]
fn client_list_shows_all_clients_or_those_requested() {
    let server = TestServer::start();
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.expect(&[(&format!("CLIENT SETNAME c{}", n + 1), "+OK")]);
    }
    let client = &mut clients[0];
    let names = |list: &str| -> Vec<String> {
        list.split(' ').filter_map(|word| word.strip_prefix("name=")).map(String::from).collect()
    };
    assert_eq!(names(&client.call("CLIENT LIST")), ["c1", "c2", "c3"]);
    assert_eq!(names(&client.call("CLIENT LIST TYPE normal")), ["c1", "c2", "c3"]);
    assert_eq!(names(&client.call("CLIENT LIST ID 3 1 99")), ["c3", "c1"]);
    clients.pop();
    wait_until(|| !clients[0].call("CLIENT LIST").contains("name=c3"));
    assert_eq!(clients[0].info("connected_clients"), "2");
}

#[test]
fn the_state_of_one_client_is_no_other_clients_business() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client3(), server.client());
    first.expect(&[("SELECT 2", "+OK"), ("CLIENT SETNAME first", "+OK"), ("MULTI", "+OK")]);
    second.expect(&[("GET none", "$-1"), ("CLIENT GETNAME", "$-1"), ("SET k zero", "+OK")]);
    first.expect(&[("GET k", "+QUEUED"), ("EXEC", "*1 _")]);
}

#[test]
fn a_thousand_clients_come_and_go() {
    let server = TestServer::start();
    let mut clients: Vec<Client> = (0..500).map(|_| server.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.int("INCR n"), n as i64 + 1);
    }
    assert_eq!(clients[0].info("connected_clients"), "500");
    drop(clients);
    let mut clients: Vec<Client> = (0..500).map(|_| server.client()).collect();
    assert_eq!(clients[499].call("GET n"), "$3 500");
    wait_until(|| clients[0].info("connected_clients") == "500");
    assert_eq!(clients[0].info("total_connections_received"), "1000");
}

#[test]
fn hello_does_nothing_before_all_of_it_is_right_and_the_last_of_several_options_counts() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("ACL SETUSER bob on >pw +@all ~*", "+OK"), ("ACL SETUSER eve on >pw +@all ~*", "+OK")]);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    client.expect(&[
        ("HELLO 3 SETNAME late AUTH nobody x", wrong),
        ("HELLO 3 SETNAME late AUTH bob pw FOO", "-ERR Syntax error in HELLO option 'FOO'"),
        ("HELLO 3 AUTH bob pw SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 3 AUTH bob pw AUTH eve wrong", wrong),
        ("CLIENT GETNAME", "$-1"),
        ("ACL WHOAMI", "$7 default"),
    ]);
    let named = client.call_args(&["HELLO", "3", "AUTH", "bob", "pw", "SETNAME", "a b"]);
    assert_eq!(named, "-ERR Client names cannot contain spaces, newlines or special characters.");
    client.expect(&[("ACL WHOAMI", "$7 default")]);
    assert!(client.call("HELLO 3 SETNAME one AUTH bob wrong SETNAME two AUTH eve pw").starts_with("%7 "));
    client.expect(&[("ACL WHOAMI", "$3 eve"), ("CLIENT GETNAME", "$3 two")]);
}
