//! Stories about clients that block on keys of any type: who is served first, and what ends their wait.

use super::companions::play;

#[test]
fn calls_of_different_commands_on_one_key_are_served_in_the_order_of_redis() {
    play("order", ORDER);
}

#[test]
fn client_unblock_ends_every_kind_of_wait_as_in_redis() {
    let requests = ["BLPOP k 0", "BZMPOP 0 1 k MIN", "XREAD BLOCK 0 STREAMS k $", "BLMOVE k l LEFT RIGHT 0"];
    let story = |request| UNBLOCKED.replace("REQUEST", request);
    play("unblocked", &requests.map(story).join("\n"));
}

#[test]
fn clients_that_were_killed_or_have_left_take_no_element_as_in_redis() {
    let pops = [("BLPOP k 0", "RPUSH k a", "LLEN k"), ("BZPOPMIN k 0", "ZADD k 1 a", "ZCARD k")];
    let story = |(pop, push, len)| GONE.replace("POP", pop).replace("PUSH", push).replace("LEN", len);
    play("gone", &pops.map(story).join("\n"));
}

#[test]
fn a_pause_holds_back_what_would_serve_as_in_redis() {
    play("paused", PAUSED);
}

const ORDER: &str = r#"
    a> BLPOP k 0
    ? blocked_clients:1
    b> BLMOVE k l LEFT RIGHT 0
    ? blocked_clients:2
    c> BLMPOP 0 1 k LEFT
    ? blocked_clients:3
    d> BRPOP k 0
    ? blocked_clients:4
    e> BRPOPLPUSH k l 0
    ? blocked_clients:5
    f> BZPOPMIN k 0
    ? blocked_clients:6
    g: RPUSH k a b c d e f
    a<
    b<
    c<
    d<
    e<
    g: LRANGE k 0 -1
    g: LRANGE l 0 -1
    g: DEL k
    h> BZPOPMAX k 0
    ? blocked_clients:2
    g: ZADD k 1 a 2 b 3 c
    f<
    h<
"#;

const UNBLOCKED: &str = r#"
    a> REQUEST ; PING
    ? blocked_clients:1
    b: CLIENT UNBLOCK {a} TIMEOUT
    a<
    a<
    a> REQUEST ; PING
    ? blocked_clients:1
    b: CLIENT UNBLOCK {a} ERROR
    a<
    a<
    b: RPUSH k a
    b: LLEN k
"#;

const GONE: &str = r#"
    a> POP
    ? blocked_clients:1
    b> POP
    ? blocked_clients:2
    b/
    ? blocked_clients:1
    c: CLIENT KILL ID {a}
    a<
    ? blocked_clients:0
    c: PUSH
    c: LEN
"#;

const PAUSED: &str = r#"
    a> BLPOP k 0
    ? blocked_clients:1
    b> BZPOPMIN z 0
    ? blocked_clients:2
    c: CLIENT PAUSE 1000000 WRITE
    d> RPUSH k a ; ZADD z 1 a
    ? blocked_clients:3
    c: CLIENT UNPAUSE
    d<
    d<
    a<
    b<
"#;
