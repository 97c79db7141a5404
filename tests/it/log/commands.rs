//! Random commands on streams, and on fields and members with deadlines.

use super::BEGIN_MS;
use crate::differential::random::Random;

/// Generates a command on the deadlines of fields.
pub(crate) fn field_command(random: &mut Random, key: &[u8]) -> Vec<Vec<u8>> {
    let time = [5, 20, 40, 1000, 0, BEGIN_MS as usize + 60, 1][random.below(7)].to_string();
    let time = time.as_bytes();
    let [field, other] = [(); 2].map(|()| [&b"f"[..], b"g", b"7", b"-1", b"field:1", b""][random.below(6)]);
    let option = [&b"NX"[..], b"XX", b"GT", b"LT"][random.below(4)];
    let args: &[&[u8]] = match random.below(12) {
        0 => &[b"HPEXPIRE", key, time, b"FIELDS", b"2", field, other],
        1 => &[b"HPEXPIRE", key, time, option, b"FIELDS", b"2", field, other],
        2 => &[b"HEXPIRE", key, b"1", b"FIELDS", b"1", field],
        3 => &[b"HPEXPIREAT", key, time, option, b"FIELDS", b"1", field],
        4 => &[b"HPERSIST", key, b"FIELDS", b"2", field, other],
        5 => &[b"HGETDEL", key, b"FIELDS", b"2", field, other],
        6 => &[b"HGETEX", key, b"PX", time, b"FIELDS", b"2", field, other],
        7 => &[b"HGETEX", key, b"PERSIST", b"FIELDS", b"1", field],
        8 => &[b"HSETEX", key, b"FNX", b"PX", time, b"FIELDS", b"1", field, b"v"],
        9 => &[b"HSETEX", key, b"FXX", b"KEEPTTL", b"FIELDS", b"2", field, b"w", other, b"x"],
        10 => &[b"HSETEX", key, b"PX", time, b"FIELDS", b"2", field, b"y", other, b"z"],
        _ => &[b"HSET", key, field, b"1", other, b"2"],
    };
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// Generates a command on the deadlines of members.
pub(crate) fn member_command(random: &mut Random, key: &[u8], other: &[u8]) -> Vec<Vec<u8>> {
    let time = [5, 20, 40, 1000, 0, BEGIN_MS as usize + 60, 1][random.below(7)].to_string();
    let time = time.as_bytes();
    let [one, two] = [(); 2].map(|()| [&b"m"[..], b"n", b"7", b"-1", b"member:1", b""][random.below(6)]);
    let option = [&b"NX"[..], b"XX", b"GT", b"LT"][random.below(4)];
    let args: &[&[u8]] = match random.below(12) {
        0 => &[b"SPEXPIRE", key, time, b"MEMBERS", b"2", one, two],
        1 => &[b"SPEXPIRE", key, time, option, b"MEMBERS", b"2", one, two],
        2 => &[b"SEXPIRE", key, b"1", b"MEMBERS", b"1", one],
        3 => &[b"SPEXPIREAT", key, time, option, b"MEMBERS", b"1", one],
        4 => &[b"SPERSIST", key, b"MEMBERS", b"2", one, two],
        5 => &[b"SADDEX", key, b"MNX", b"PX", time, b"MEMBERS", b"1", one],
        6 => &[b"SADDEX", key, b"KEEPTTL", b"MEMBERS", b"2", one, two],
        7 => &[b"SADDEX", key, b"PX", time, b"MEMBERS", b"2", one, two],
        8 => &[b"SADDEX", key, b"MEMBERS", b"2", one, two],
        9 => &[b"SMOVE", key, other, one],
        10 => &[[&b"SUNIONSTORE"[..], b"SINTERSTORE", b"SDIFFSTORE"][random.below(3)], other, key, other],
        _ => &[b"SADD", key, one, two],
    };
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// Generates a command on streams and their groups.
pub(crate) fn stream_command(random: &mut Random, key: &[u8]) -> Vec<Vec<u8>> {
    let limit = random.below(6).to_string();
    let id = (1 + random.below(20)).to_string();
    let consumer = [&b"a"[..], b"b"][random.below(2)];
    let args: &[&[u8]] = match random.below(19) {
        0..=2 => &[b"XADD", key, b"*", b"f", b"v"],
        3 => &[b"XADD", key, b"MAXLEN", b"~", limit.as_bytes(), b"*", b"f", b"v"],
        4 => &[b"XADD", key, id.as_bytes(), b"f", b"v", b"g", b"w"],
        5 => {
            &[b"XTRIM", key, b"MAXLEN", b"~", limit.as_bytes(), [&b"KEEPREF"[..], b"DELREF", b"ACKED"][random.below(3)]]
        }
        6 => &[b"XTRIM", key, b"MINID", b"~", b"1700000000050", b"ACKED"],
        7 => &[b"XDEL", key, id.as_bytes()],
        8 => &[b"XGROUP", b"CREATE", key, b"g", b"0", b"MKSTREAM"],
        9..=10 => &[b"XREADGROUP", b"GROUP", b"g", consumer, b"COUNT", b"2", b"STREAMS", key, b">"],
        11 => &[b"XREADGROUP", b"GROUP", b"g", consumer, b"CLAIM", b"5", b"STREAMS", key, b">"],
        12 => &[b"XREADGROUP", b"GROUP", b"g", consumer, b"STREAMS", key, b"0"],
        13 => &[b"XAUTOCLAIM", key, b"g", consumer, limit.as_bytes(), b"0", b"COUNT", b"3"],
        14 => &[b"XACKDEL", key, b"g", b"DELREF", b"IDS", b"1", id.as_bytes()],
        15 => &[b"XACKDEL", key, b"g", b"ACKED", b"IDS", b"2", id.as_bytes(), b"1700000000001"],
        16 => &[b"XDELEX", key, [&b"KEEPREF"[..], b"DELREF", b"ACKED"][random.below(3)], b"IDS", b"1", id.as_bytes()],
        17 => &[b"XREADGROUP", b"GROUP", b"g", consumer, b"BLOCK", b"3", b"CLAIM", b"2", b"STREAMS", key, b">"],
        _ => &[b"XGROUP", b"DELCONSUMER", key, b"g", consumer],
    };
    args.iter().map(|arg| arg.to_vec()).collect()
}
