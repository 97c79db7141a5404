//! Stories about client-side caching: invalidation messages, their order, and the related CLIENT commands.

use super::companions::{play, play_in};
use super::script::tell;

#[test]
fn options_of_tracking_are_refused_and_shown_as_by_redis() {
    tell(
        "options",
        "
        CLIENT TRACKING
        CLIENT TRACKING maybe
        CLIENT TRACKING ON REDIRECT
        CLIENT TRACKING ON REDIRECT x
        CLIENT TRACKING ON REDIRECT 0
        CLIENT TRACKING ON REDIRECT -1
        CLIENT TRACKING ON REDIRECT 999999
        CLIENT TRACKING ON PREFIX a
        CLIENT TRACKING ON PREFIX
        CLIENT TRACKING OFF PREFIX a
        CLIENT TRACKING ON BCAST OPTIN
        CLIENT TRACKING ON BCAST OPTOUT
        CLIENT TRACKING ON OPTIN OPTOUT
        CLIENT TRACKING ON FOO
        CLIENT TRACKING OFF FOO
        CLIENT TRACKINGINFO
        CLIENT GETREDIR
        CLIENT CACHING YES
        CLIENT CACHING maybe
        CLIENT CACHING
        CLIENT TRACKINGINFO x
        CLIENT GETREDIR x

        CLIENT TRACKING ON
        CLIENT TRACKINGINFO
        CLIENT GETREDIR
        CLIENT CACHING YES
        CLIENT CACHING NO
        CLIENT CACHING maybe
        CLIENT TRACKING ON NOLOOP
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON BCAST
        CLIENT TRACKING ON OPTIN
        CLIENT TRACKINGINFO
        CLIENT CACHING YES
        CLIENT TRACKINGINFO
        GET k
        CLIENT TRACKINGINFO
        CLIENT CACHING NO
        CLIENT TRACKING ON OPTOUT
        CLIENT TRACKING OFF
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON OPTOUT NOLOOP
        CLIENT CACHING NO
        CLIENT CACHING NO
        CLIENT TRACKINGINFO
        PING
        CLIENT TRACKINGINFO
        CLIENT CACHING YES
        CLIENT TRACKING ON OPTIN
        CLIENT TRACKING on optout
        CLIENT TRACKINGINFO
        RESET
        CLIENT TRACKINGINFO

        CLIENT TRACKING ON BCAST PREFIX b PREFIX a PREFIX c:1
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON BCAST PREFIX b
        CLIENT TRACKING ON BCAST PREFIX bb
        CLIENT TRACKING ON BCAST PREFIX c
        CLIENT TRACKING ON BCAST PREFIX d PREFIX dd
        CLIENT TRACKING ON BCAST PREFIX dd PREFIX x PREFIX d
        CLIENT TRACKING ON BCAST PREFIX e PREFIX \"\"
        CLIENT TRACKING ON BCAST PREFIX e
        CLIENT TRACKING ON BCAST PREFIX \"f\\x00g\" PREFIX \"f\\x00g\\r\\n\"
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON
        CLIENT TRACKING ON BCAST
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON BCAST
        CLIENT TRACKING ON BCAST PREFIX zz
        CLIENT TRACKINGINFO
        CLIENT TRACKING OFF
        CLIENT TRACKING OFF
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON BCAST NOLOOP
        CLIENT TRACKINGINFO
        ",
    );
}

#[test]
fn readers_are_notified_once_that_a_key_has_changed() {
    play_in(
        &[3],
        "keys",
        "
        a: CLIENT TRACKING ON
        a: GET k
        b: SET k v
        a<
        b: SET k w
        a: MGET k l m
        b: DEL k
        a<
        b: MSET l 1 m 2
        a<
        a<
        a: PING

        # every command that reads
        a: CLIENT TRACKING ON
        b: MSET a 1 b 2 c 3
        a> EXISTS a ; STRLEN b ; TTL c ; TYPE d ; GETRANGE e 0 1 ; GETBIT f 1 ; OBJECT ENCODING a ; PFCOUNT g ; BITCOUNT h
        a<
        a<
        a<
        a<
        a<
        a<
        a<
        a<
        a<
        b: MSET a 1 b 1 c 1 d 1 e 1 f 1 h 1
        a<
        a<
        a<
        a<
        a<
        a<
        a<
        b: PFADD g x
        a<
        a: PING

        # and those that read and write are not remembered
        a: CLIENT TRACKING ON
        b: MSET a 1 b 2
        a: GETSET a 2
        a: GETDEL b
        a: GETEX a
        a: INCR a
        a: BITFIELD a GET u8 0
        a: SET a 1 GET
        b: MSET a 1 b 2
        a: PING

        # every command that changes
        a: CLIENT TRACKING ON
        b: SET k 1
        a: GET k
        b: INCR k
        a<
        a: GET k
        b: APPEND k 1
        a<
        a: GET k
        b: EXPIRE k 100
        a<
        a: GET k
        b: PERSIST k
        a<
        a: GET k
        b: PERSIST k
        b: SETBIT k 1 1
        a<
        a: MGET k l
        b: RENAME k l
        a<
        a<
        a: MGET k l
        b: COPY l k
        a<
        b: MOVE l 3
        a<
        a: GET k
        b: SELECT 5
        b: SET k v
        a<
        a: PING

        # wrong types and failures are remembered as well
        a: CLIENT TRACKING ON
        a: EXISTS k k k
        b: SET k v
        a<
        a: GETRANGE k x y
        b: SET k v
        a<
        a: GET
        b: SET k v
        a: PING
        ",
    );
}

#[test]
fn own_changes_are_notified_after_the_reply() {
    play_in(
        &[3],
        "own-changes",
        "
        a: CLIENT TRACKING ON
        a> GET k ; SET k v ; GET k ; SET k w ; PING
        a<
        a<
        a<
        a<
        a<
        a<
        a<
        a: GET k
        a: FLUSHALL
        a<
        a: PING

        a: CLIENT TRACKING ON
        a: MULTI
        a: GET k
        a: SET k v
        a: GET k
        a: EXEC
        a<
        a: SET k w
        a<
        a: PING

        a: CLIENT TRACKING ON NOLOOP
        a: MGET k l m
        a: SET k v
        b: SET l v
        a<
        b: SET k v
        a: MULTI
        a: SET m v
        a: GET m
        a: EXEC
        b: SET m w
        a<
        a: PING
        ",
    );
}

#[cfg(feature = "lua")]
#[test]
fn what_scripts_read_and_write_is_told() {
    play_in(
        &[3],
        "scripts",
        "
        a: CLIENT TRACKING ON
        a: EVAL \"return redis.call('get', KEYS[1])\" 1 k
        b: SET k v
        a<
        a: EVAL \"return redis.call('mget', 'k', 'l')\" 2 k l
        b: EVAL \"redis.call('set', 'k', 1) redis.call('set', 'l', 1)\" 0
        a<
        a<
        a: EVAL \"return redis.call('set', KEYS[1], 1)\" 2 k l
        b: SET k v
        a: EVAL_RO \"return 1\" 1 k
        b: SET k v
        a: EVAL_RO \"return redis.call('get', KEYS[1])\" 1 k
        b: SET k v
        a<
        a: GET k
        a: EVAL \"redis.call('set', 'k', 1) return redis.call('get', 'k')\" 1 k
        a<
        b: MSET k w m w
        a<
        a: EVAL \"redis.call('get', 'k') redis.call('set', 'k', 1) redis.call('set', 'l', 1)\" 1 k
        a<
        b: MSET k w l w
        a: PING

        a: CLIENT TRACKING ON NOLOOP
        a: GET k
        a: EVAL \"redis.call('set', 'k', 1) return redis.call('get', 'l')\" 1 l
        b: SET k w
        b: SET l w
        a<
        a: PING
        ",
    );
}

#[test]
fn opting_in_and_out_holds_for_one_request() {
    play_in(
        &[3],
        "opting",
        "
        a: CLIENT TRACKING ON OPTIN
        a: GET k
        b: SET k v
        a: CLIENT CACHING YES
        a: GET k
        b: SET k v
        a<
        a: CLIENT CACHING YES
        a: PING
        a: GET k
        b: SET k v
        a: CLIENT CACHING YES
        a: CLIENT GETNAME
        a: GET k
        b: SET k v
        a<
        a: CLIENT CACHING YES
        a: MULTI
        a: GET k
        a: GET l
        a: EXEC
        a: GET m
        b: MSET k v l v m v
        a<
        a<
        a: CLIENT CACHING YES
        a: NOSUCH
        a: GET k
        b: SET k v
        a: CLIENT CACHING YES
        a: GET
        a: GET k
        b: SET k v
        a: PING

        a: CLIENT TRACKING ON OPTOUT
        a: GET k
        b: SET k v
        a<
        a: CLIENT CACHING NO
        a: GET k
        b: SET k v
        a: GET k
        b: SET k v
        a<
        a: PING
        ",
    );
}

#[test]
fn broadcasts_tell_of_all_keys_with_a_prefix() {
    play_in(
        &[3],
        "broadcasts",
        "
        a: CLIENT TRACKING ON BCAST
        b: SET k v
        a<
        b: MSET z 1 y 2 x 3
        a<
        a: SET k w
        a<
        b: FLUSHDB
        a<
        a: GET k
        a: PING

        a: CLIENT TRACKING ON BCAST PREFIX a: PREFIX b:
        b: MSET a:1 1 b:1 1 c:1 1 a:2 1
        a<
        a<
        b: SET c v
        b: SET a v
        b: SET a: v
        a<
        a> SET b:1 1 ; SET a:2 2 ; PING
        a<
        a<
        a<
        a<
        a<
        a: PING

        a: CLIENT TRACKING ON BCAST NOLOOP
        a: SET k v
        b: SET k v
        a<
        a: MULTI
        a: SET k v
        a: SET l v
        a: EXEC
        a: PING

        # what was read before is not told any more
        a: CLIENT TRACKING ON
        a: GET k
        a: CLIENT TRACKING OFF
        a: CLIENT TRACKING ON BCAST PREFIX z
        b: SET k v
        a: CLIENT TRACKING OFF
        b: SET zz v
        a: PING
        ",
    );
}

#[test]
fn messages_are_redirected_in_either_protocol() {
    play(
        "redirected",
        "
        b: PING
        c: SUBSCRIBE __redis__:invalidate
        a: CLIENT TRACKING ON REDIRECT {c}
        a: GET k
        b: SET k v
        c<
        a: MGET k l
        b: FLUSHALL
        c<
        a: GET k
        a: SET k v
        c<
        b: SET k v
        a: CLIENT TRACKING ON REDIRECT {c} NOLOOP
        a: GET k
        a: SET k v
        b: SET k v
        a: PING
        c: PING

        c: SUBSCRIBE any
        a: CLIENT TRACKING ON BCAST REDIRECT {c} PREFIX k
        b: MSET k1 1 k2 1 l 1
        c<
        a: SET k3 v
        c<
        a: SELECT 3
        a: FLUSHDB
        c<
        c: PING

        c: PING
        a: CLIENT TRACKING ON REDIRECT {c}
        b: SET other v
        a: GET nope
        b: PING
        a: PING
        ",
    );
    play_in(
        &[3],
        "redirected-in-resp3",
        "
        c: PING
        a: CLIENT TRACKING ON REDIRECT {c}
        a: GET k
        b: SET k v
        c<
        c/
        ? connected_clients:3
        a: GET k
        b: SET k v
        ",
    );
}

#[test]
fn info_counts_what_is_tracked() {
    play(
        "counts",
        "
        a: CLIENT TRACKING ON
        a: MGET k l m
        ? tracking_clients:1
        ? tracking_total_keys:3
        ? tracking_total_items:3
        b: CLIENT TRACKING ON
        b: MGET k l
        ? tracking_total_keys:3
        ? tracking_total_items:5
        c: CLIENT TRACKING ON BCAST PREFIX a PREFIX b
        d: CLIENT TRACKING ON BCAST PREFIX b PREFIX c
        ? tracking_clients:4
        ? tracking_total_prefixes:3
        c/
        ? tracking_total_prefixes:2
        e: SET k v
        ? tracking_total_keys:2
        ? tracking_total_items:3
        e: FLUSHALL
        ? tracking_total_keys:0
        d: RESET
        ? tracking_total_prefixes:0
        ? tracking_clients:2
        ",
    );
}
