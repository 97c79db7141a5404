//! Clients blocked on lists, sorted sets and streams: the calls that are repeated when another process has filled the
//! keys.

use crate::engine::{Fleet, engine_info};
use crate::harness::Client;

/// Number of blocked clients.
const BLOCKED: usize = 40;

#[test]
fn no_more_blocked_calls_are_made_than_there_are_elements() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    for (request, fill, replies) in [
        ("BLPOP k 0", "RPUSH k a b c", ["*2 $1 k $1 a", "*2 $1 k $1 b", "*2 $1 k $1 c"]),
        ("BZPOPMIN k 0", "ZADD k 1 a 2 b 3 c", ["*3 $1 k $1 a $1 1", "*3 $1 k $1 b $1 2", "*3 $1 k $1 c $1 3"]),
    ] {
        let mut blocked: Vec<Client> = (0..BLOCKED).map(|_| fleet.servers[0].block(request)).collect();
        one.expect(&[("EXISTS k", ":0")]); // by now all of them are in the queue
        let before: u64 = engine_info(&mut one, "engine_calls").parse().expect("a number");
        other.expect(&[(fill, ":3")]);
        let told: Vec<String> = blocked.iter_mut().take(3).map(|client| client.reply()).collect();
        assert_eq!(told, replies);
        one.expect(&[("EXISTS k", ":0")]);
        let made = engine_info(&mut one, "engine_calls").parse::<u64>().expect("a number") - before;
        assert_eq!(made, 3, "{request}");
    }
}

#[test]
fn a_group_has_no_more_calls_made_than_a_stream_has_entries_for_it() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("XGROUP CREATE s g $ MKSTREAM", "+OK"), ("XGROUP CREATE s h $", "+OK")]);
    let mut block = |group: &str, at: usize| {
        let call = format!("XREADGROUP GROUP {group} c{at} COUNT 1 BLOCK 0 STREAMS s >");
        let client = fleet.servers[0].block(&call);
        one.expect(&[("XLEN s", ":0")]); // by now it is in the queue; each creates a consumer first, and might change places
        client
    };
    let mut of_g: Vec<Client> = (0..BLOCKED).map(|at| block("g", at)).collect();
    let mut of_h: Vec<Client> = (0..BLOCKED).map(|at| block("h", at)).collect();
    let before: u64 = engine_info(&mut one, "engine_calls").parse().expect("a number");
    for words in ["MULTI", "XADD s 1-1 f a", "XADD s 1-2 f b", "EXEC"] {
        other.call(words);
    }
    for clients in [&mut of_g, &mut of_h] {
        for (client, (id, value)) in clients.iter_mut().zip([("1-1", "a"), ("1-2", "b")]) {
            let told = format!("*1 *2 $1 s *1 *2 $3 {id} *2 $1 f $1 {value}");
            assert_eq!(client.reply(), told);
        }
    }
    one.expect(&[("XLEN s", ":2")]);
    let made = engine_info(&mut one, "engine_calls").parse::<u64>().expect("a number") - before;
    assert!((4..2 * BLOCKED as u64).contains(&made), "{made} calls"); // a late one may be made again
    // All are told that their group is gone.
    one.expect(&[("XGROUP DESTROY s g", ":1")]);
    for client in of_g.iter_mut().skip(2) {
        assert!(client.reply().starts_with("-NOGROUP"));
    }
}

#[test]
fn an_element_that_the_first_one_does_not_take_is_for_the_next_one() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let mut limited = fleet.servers[0].client();
    one.expect(&[("ACL SETUSER app on nopass ~* +@all", "+OK"), ("SET text v", "+OK")]);
    limited.expect(&[("AUTH app x", "+OK")]);
    let mut limited = fleet.servers[0].block_as(limited, "BLPOP list 0");
    let mut elsewhere = fleet.servers[0].block("BLMOVE list text LEFT LEFT 0");
    let mut on_two = fleet.servers[0].block("BLPOP other list 0");
    let mut last = fleet.servers[0].block("BLPOP list 0");
    one.expect(&[("EXISTS list", ":0"), ("ACL SETUSER app -blpop", "+OK")]); // by now all of them are in the queue
    for words in ["MULTI", "RPUSH other a", "RPUSH list b", "EXEC"] {
        other.call(words);
    }
    assert!(limited.reply().starts_with("-NOPERM"));
    assert!(elsewhere.reply().starts_with("-WRONGTYPE"));
    assert_eq!(on_two.reply(), "*2 $5 other $1 a");
    assert_eq!(last.reply(), "*2 $4 list $1 b");
}
