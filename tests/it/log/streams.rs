//! Log records of streams.

use super::{expect, start, start_with, take};

#[test]
fn a_stream_is_logged_with_the_ids_it_has_given_and_what_its_groups_have_read() {
    expect(
        &start_with(&[("stream-node-max-entries", "2")]),
        &[
            ("XADD s * f v", "XADD s 1700000000000-0 f v"),
            ("XADD s NOMKSTREAM 1700000000000-* f v", "XADD s 1700000000000-1 f v"),
            ("XADD s 1700000000001 f v", "XADD s 1700000000001-0 f v"),
            ("XADD s MAXLEN ~ 2 1700000000002 f v", "XADD s MAXLEN = 2 1700000000002-0 f v"),
            ("XADD s MAXLEN ~ 1 1700000000003 f v", "XADD s MAXLEN = 1 1700000000003-0 f v"),
            ("XADD s MINID ~ 1700000000005 1700000000004 f v", "XADD s MINID = 1700000000005-0 1700000000004-0 f v"),
            ("XTRIM s MAXLEN ~ 5", ""),
            ("XADD s 1700000000005 f v", "XADD s 1700000000005-0 f v"),
            ("XADD s 1700000000006 f v", "XADD s 1700000000006-0 f v"),
            ("XADD s 1700000000007 f v", "XADD s 1700000000007-0 f v"),
            ("XTRIM s MINID ~ 1700000000006", ""),
            ("XTRIM s MINID ~ 1700000000007 ACKED", "XTRIM s ACKED MINID = 1700000000007-0"),
            ("XGROUP CREATE s g 0", "xgroup create s g 0"),
        ],
    );
}

#[test]
fn what_a_group_has_read_is_logged_as_claims_with_times_and_counts() {
    let claim = |id: &str, consumer: &str, time: &str, count: u32| {
        format!("XCLAIM s g {consumer} 0 {id}-0 TIME {time} RETRYCOUNT {count} FORCE JUSTID")
    };
    let (now, earlier) = ("1700000000000", "1699999999990");
    let first = format!(
        "MULTI; XGROUP CREATECONSUMER s g a; {}; {}; XGROUP SETID s g 2-0 ENTRIESREAD 2; EXEC",
        claim("1", "a", now, 1),
        claim("2", "a", now, 1)
    );
    let claims = format!("MULTI; XGROUP CREATECONSUMER s g c; {}; EXEC", claim("1", "c", earlier, 2));
    let server = start();
    expect(
        &server,
        &[
            ("XADD s 1 f v", "XADD s 1-0 f v"),
            ("XADD s 2 f v", "XADD s 2-0 f v"),
            ("XGROUP CREATE s g 0", "xgroup create s g 0"),
            ("XREADGROUP GROUP g a STREAMS s >", &first),
            ("XREADGROUP GROUP g a STREAMS s >", ""),
            ("XREADGROUP GROUP g b STREAMS s >", "XGROUP CREATECONSUMER s g b"),
            ("XCLAIM s g c 0 1-0 IDLE 10", &claims),
            ("XREADGROUP GROUP g c STREAMS s 0", &claim("1", "c", now, 3)),
            ("XADD s 3 f v", "XADD s 3-0 f v"),
            ("XREADGROUP GROUP g a NOACK STREAMS s >", "XGROUP SETID s g 3-0 ENTRIESREAD 3"),
            ("XDEL s 2", "xdel s 2"),
            ("XAUTOCLAIM s g b 0 0", &format!("MULTI; {}; XACK s g 2-0; EXEC", claim("1", "b", now, 4))),
            ("XACK s g 1", "xack s g 1"),
            ("XACK s g 1", ""),
            ("XGROUP DESTROY s g", "xgroup destroy s g"),
        ],
    );
}

#[test]
fn what_is_deleted_of_a_stream_is_logged_in_words_of_every_version() {
    let server = start();
    let mut client = server.client();
    for id in 1..=9 {
        client.call(&format!("XADD s {id} f v"));
    }
    for request in [
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s h 0",
        "XREADGROUP GROUP g a COUNT 6 STREAMS s >", // these are pending in one group
        "XREADGROUP GROUP g a NOACK STREAMS s >",
        "XREADGROUP GROUP h a COUNT 2 STREAMS s >", // and these in the other one, too
        "XREADGROUP GROUP h a NOACK STREAMS s >",
    ] {
        client.call(request);
    }
    take(&server);
    expect(
        &server,
        &[
            ("XDELEX s IDS 3 9 8 8", "XDEL s 9-0 8-0"),
            ("XDELEX s ACKED IDS 2 7 1", "XDEL s 7-0"),
            ("XDELEX s DELREF IDS 2 6 100", "MULTI; XDEL s 6-0; XACK s g 6-0; EXEC"),
            ("XDELEX s DELREF IDS 1 6", ""),
            ("XDELEX s ACKED IDS 1 1", ""),
            ("XACKDEL s g IDS 2 5 100", "MULTI; XACK s g 5-0; XDEL s 5-0; EXEC"),
            ("XACKDEL s g ACKED IDS 2 4 1", "MULTI; XACK s g 4-0 1-0; XDEL s 4-0; EXEC"),
            ("XACKDEL s g DELREF IDS 1 2", "MULTI; XACK s g 2-0; XDEL s 2-0; XACK s h 2-0; EXEC"),
            ("XACKDEL s g IDS 1 2", ""),
        ],
    );
}
