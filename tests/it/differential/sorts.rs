//! Stories about SORT and SORT_RO.

use super::notifications::tell_beside_listener;
use super::script::tell;

#[test]
fn lists_are_sorted_as_by_redis() {
    tell("sorts", SORTS);
}

#[test]
fn what_is_sorted_and_stored_has_the_events_of_redis() {
    tell_beside_listener("events", SORT_EVENTS);
}

const SORTS: &str = r#"
    RPUSH k 3 1 2 -1 10 2.5 -0.5 1e2
    SORT k
    SORT_RO k
    SORT k DESC
    SORT k DESC ASC
    SORT k ALPHA
    SORT k ALPHA DESC
    SORT k LIMIT 0 2
    SORT k LIMIT 2 3 DESC
    SORT k LIMIT 7 10
    SORT k LIMIT 8 10
    SORT k LIMIT 100 10
    SORT k LIMIT -5 2
    SORT k LIMIT 0 -1
    SORT k LIMIT 3 -5
    SORT k LIMIT 0 0
    SORT k LIMIT 9223372036854775807 9223372036854775807
    SORT k LIMIT -9223372036854775808 -9223372036854775808
    SORT k LIMIT 1
    SORT k LIMIT x 1
    SORT k LIMIT 1 x
    SORT k BY nosort
    SORT k BY nosort DESC
    SORT k BY nosort BY missing_*
    SORT k BY missing_* BY nosort
    SORT k BY nosort BY * DESC ALPHA
    SORT k BY nosort LIMIT 2 2
    SORT k BY nosort LIMIT 2 2 DESC
    SORT k BY nosort LIMIT 0 3 DESC
    SORT k BY nosort LIMIT 7 9 DESC
    SORT k BY nosort LIMIT 8 9 DESC
    SORT k BY nosort LIMIT 0 0 DESC
    SORT k BY nosort LIMIT -3 2 DESC
    SORT k BY nosort LIMIT 5 -1
    SORT k BY nosort LIMIT 5 -7 DESC
    SORT k BY nosort LIMIT 9223372036854775807 9223372036854775807 DESC
    SORT k BY nosort LIMIT 2 3 STORE l
    LRANGE l 0 -1
    SORT k BY nosort GET #
    SORT k GET # GET #
    SORT k GET nopattern
    SORT k GET w_* GET #
    SORT k BY w_*
    SORT k FOO
    SORT k BY
    SORT k GET
    SORT k STORE
    SORT_RO k STORE x
    SORT missing
    SORT missing STORE k2
    SORT missing ALPHA GET x_*
    SORT k STORE l
    LRANGE l 0 -1
    OBJECT ENCODING l
    SORT k LIMIT 2 3 STORE l GET # GET w_*
    LRANGE l 0 -1
    SORT k LIMIT 0 0 STORE l
    EXISTS l
    SORT k STORE k
    LRANGE k 0 -1
    RPUSH k x
    SORT k
    SORT k STORE l
    SORT k ALPHA
    SORT k BY nosort
    SET s x
    SORT s
    SORT_RO s ALPHA
    SORT k BY nosort STORE s
    TYPE s

    ZADD z 3 1 2 2 1 30 0 x 5 4
    SORT z
    ZREM z x
    SORT z
    SORT z DESC
    SORT z ALPHA LIMIT 1 2
    SORT z BY nosort
    SORT z BY nosort DESC
    SORT z BY nosort LIMIT 1 2
    SORT z BY nosort DESC LIMIT 1 2
    SORT z BY nosort STORE l
    LRANGE l 0 -1
    SORT z BY nosort GET # LIMIT 0 1
    SORT_RO z BY nosort LIMIT -5 2
    SORT z BY nosort LIMIT 0 1 DESC
    SORT z BY nosort LIMIT 3 1
    SORT z BY nosort LIMIT 4 1 DESC
    SORT z BY nosort BY w_* DESC LIMIT 1 9

    RPUSH k 1 2 3 4
    MSET w_1 4 w_2 3 w_3 2 w_4 1
    MSET v_1 one v_2 two v_4 four
    SORT k BY w_*
    SORT k BY w_* DESC
    SORT k BY w_* GET v_*
    SORT k BY w_* GET # GET v_* GET w_*
    SORT k BY v_* ALPHA
    SORT k BY v_* ALPHA DESC
    SORT k BY v_*
    SORT k BY w_* STORE l GET v_*
    LRANGE l 0 -1
    SORT k BY missing_*
    SORT k GET v_*_x GET *
    SORT k GET v_*->f GET v_*-> GET v_*->
    SORT k BY w_*->f
    SORT k BY * DESC
    SORT k BY w_* LIMIT 1 2
    SORT k by w_* get v_* limit 1 2 asc alpha
    SORT k BY nosort BY w_*
    SORT k BY nosort BY w_* DESC LIMIT 1 2
    SORT k BY w_* BY nosort GET w_*
    SORT k BY nosort BY w_* STORE l
    LRANGE l 0 -1
    SADD i 3 1 2 4
    SORT i BY nosort
    SORT i BY nosort DESC
    SORT i BY nosort BY w_* LIMIT 1 2 DESC
    SORT i BY w_* DESC
    SORT i BY nosort BY w_* STORE l
    LRANGE l 0 -1
    SADD m c a b
    SORT m BY nosort BY w_* DESC STORE l
    LRANGE l 0 -1
    SORT m BY nosort LIMIT 0 0
    SORT m BY nosort LIMIT 3 2
    RPUSH w_5 list
    RPUSH k 5
    SORT k BY w_* GET w_*
    HSET h_1 f 30 "" x
    HSET h_2 f 10
    HSET h_3 f 20
    SORT k BY h_*->f GET # GET h_*->f GET h_*->g GET w_*->f GET h_*
    SORT k BY h_*->f DESC ALPHA
    RPUSH e "" 5 -3
    SORT e
    RPUSH f a B c "" aa Z
    SORT f ALPHA
    SORT f ALPHA DESC STORE g
    LRANGE g 0 -1
    MULTI
    SORT k BY w_* GET v_*
    SORT k STORE l
    EXEC
    LRANGE l 0 -1
    PEXPIREAT l 4102444800000
    SORT k STORE l
    TTL l
"#;

const SORT_EVENTS: &str = r#"
    RPUSH k 2 1
    SORT k
    SORT k STORE l
    SORT k STORE l
    SORT missing STORE l
    SORT missing STORE l
    SORT k BY w_* GET v_*
    SET s x
    SORT k STORE s
"#;
