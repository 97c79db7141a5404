//! HIMPORT: hashes with the fields of a fieldset.

use crate::harness::TestServer;

const NO_SET: &str = "-ERR no such fieldset";
const COUNT: &str = "-ERR value count does not match fieldset";

#[test]
fn a_hash_gets_its_fields_from_a_fieldset_of_the_connection() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("HIMPORT PREPARE user name email age", "+OK"),
        ("HIMPORT SET u1 user alice a@b 30", "+OK"),
        ("himport set u2 user bob b@c 4", "+OK"),
        ("HGETALL u1", "*6 $4 name $5 alice $5 email $3 a@b $3 age $2 30"),
        ("HINCRBY u2 age 1", ":5"),
        ("OBJECT ENCODING u1", "$8 listpack"),
        ("HIMPORT PREPARE user only", "+OK"),
        ("HIMPORT SET u1 user x", "+OK"),
        ("HGETALL u1", "*2 $4 only $1 x"),
        ("HIMPORT SET u1 user x y", COUNT),
        ("HIMPORT SET u1 other x", NO_SET),
        ("HIMPORT PREPARE other a b", "+OK"),
        ("HIMPORT SET u1 other x", COUNT),
        ("HIMPORT DISCARD other", ":1"),
        ("HIMPORT DISCARD other", ":0"),
        ("HIMPORT SET u1 other x y", NO_SET),
        ("HIMPORT PREPARE other a b", "+OK"),
        ("HIMPORT DISCARDALL", ":2"),
        ("HIMPORT DISCARDALL", ":0"),
        ("HIMPORT SET u1 user x", NO_SET),
        ("HGETALL u1", "*2 $4 only $1 x"),
    ]);
    client.expect(&[("HIMPORT PREPARE kept a", "+OK")]);
    server.client().expect(&[("HIMPORT SET k kept v", NO_SET)]);
    client.expect(&[("RESET", "+RESET"), ("HIMPORT SET k kept v", NO_SET)]);
}

#[test]
fn a_hash_replaces_the_hash_that_the_key_held_and_nothing_else() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "KEAoc")]);
    let (mut client, mut listener) = (server.client(), server.client());
    client.expect(&[
        ("HIMPORT PREPARE f a b", "+OK"),
        ("HSET s c 1", ":1"),
        ("EXPIRE s 100", ":1"),
        ("SET text v", "+OK"),
        ("HIMPORT SET text f 1 2", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GET text", "$1 v"),
        ("HSET h c 1", ":1"),
        ("HEXPIRE h 100 FIELDS 1 c", "*1 :1"),
    ]);
    listener.call("SUBSCRIBE __keyspace@0__:s");
    client.expect(&[
        ("HIMPORT SET s f 1 2", "+OK"),
        ("HGETALL s", "*4 $1 a $1 1 $1 b $1 2"),
        ("TTL s", ":-1"),
        ("HIMPORT SET h f 1 2", "+OK"),
        ("HKEYS h", "*2 $1 a $1 b"),
        ("HTTL h FIELDS 1 a", "*1 :-1"),
    ]);
    let events = [(); 2].map(|()| listener.reply());
    for (event, name) in events.iter().zip(["overwritten", "hset"]) {
        assert!(event.ends_with(name), "{events:?}");
    }
}

#[test]
fn wrong_fieldsets_are_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("HIMPORT PREPARE f a b a", "-ERR duplicate field name in fieldset"),
        ("HIMPORT SET k f 1 2 3", NO_SET),
        ("HIMPORT PREPARE f", "-ERR wrong number of arguments for 'himport|prepare' command"),
        ("HIMPORT SET k f", "-ERR wrong number of arguments for 'himport|set' command"),
        ("HIMPORT DISCARD", "-ERR wrong number of arguments for 'himport|discard' command"),
        ("HIMPORT DISCARDALL f", "-ERR wrong number of arguments for 'himport|discardall' command"),
        ("HIMPORT", "-ERR wrong number of arguments for 'himport' command"),
        ("HIMPORT FORGET f", "-ERR unknown subcommand 'FORGET'. Try HIMPORT HELP."),
        ("COMMAND GETKEYS HIMPORT SET k f v", "*1 $1 k"),
        ("MULTI", "+OK"),
        ("HIMPORT PREPARE f a b", "+QUEUED"),
        ("HIMPORT SET k f 1 2", "+QUEUED"),
        ("EXEC", "*2 +OK +OK"),
        ("HGETALL k", "*4 $1 a $1 1 $1 b $1 2"),
    ]);
    assert_eq!(client.call_args(&["HIMPORT", "PREPARE", "", "", "b"]), "+OK");
    assert_eq!(client.call_args(&["HIMPORT", "SET", "", "", "x", ""]), "+OK");
    assert_eq!(client.call_args(&["HGETALL", ""]), "*4 $0  $1 x $1 b $0 ");
    #[cfg(feature = "lua")]
    {
        let shown = client.call("EVAL return(redis.call('HIMPORT','DISCARDALL')) 0");
        assert!(shown.starts_with("-ERR This Redis command is not allowed from script"), "{shown}");
    }
}

#[test]
fn fieldsets_count_as_memory_of_their_client() {
    let server = TestServer::start();
    let mut client = server.client();
    let memory = |client: &mut crate::harness::Client| {
        let info = client.call("CLIENT INFO");
        let total = info.split(' ').find_map(|field| field.strip_prefix("tot-mem=")?.parse::<i64>().ok());
        total.expect("the memory of the client")
    };
    let before = memory(&mut client);
    let fields: Vec<String> = (0..1000).map(|number| format!("field{number}")).collect();
    for name in ["a", "b", "a"] {
        client.call(&format!("HIMPORT PREPARE {name} {}", fields.join(" ")));
    }
    let both = memory(&mut client);
    assert!(both - before > 2 * 16_000, "{before} {both}");
    client.expect(&[("HIMPORT DISCARD a", ":1")]);
    let one = memory(&mut client);
    assert!(both - one > 16_000, "{one} {both}");
    client.expect(&[("RESET", "+RESET")]);
    assert!(memory(&mut client) - before < 1000);
}
