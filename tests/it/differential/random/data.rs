//! Data after a script: the keys of both servers, and their dumps, which each restores from the other.

use super::words::KEYS;
use crate::differential::oracle::{Arena, Pair, Peer, Replies};
use crate::harness::encode;

/// Databases that the commands use.
const DATABASES: std::ops::Range<usize> = 0..3;

/// Name under which a key of the other server is restored.
const RESTORED: &[u8] = b"restored";

/// Returns the first difference of the keys, their values and deadlines, if any.
pub(super) fn difference(arena: &Arena) -> Option<Replies> {
    let mut pair = arena.pair();
    for db in DATABASES {
        pair.call(&["SELECT", &db.to_string()]);
        // This also deletes expired keys, which DEBUG DIGEST would count.
        pair.call(&[&[&b"EXISTS"[..]], KEYS].concat());
        let keys = pair.call(&["KEYS", "*"]).with_sorted_lines();
        if !keys.agree() {
            return Some(keys);
        }
        for key in KEYS {
            for args in [&[b"DEBUG", &b"DIGEST-VALUE"[..], key][..], &[b"TYPE", key], &[b"PEXPIRETIME", key]] {
                let replies = pair.call(args);
                if !replies.agree() {
                    return Some(replies);
                }
            }
        }
    }
    let digests = pair.call(&["DEBUG", "DIGEST"]);
    let keys = || DATABASES.flat_map(|db| KEYS.iter().map(move |key| (db, *key)));
    Some(digests)
        .filter(|replies| !replies.agree())
        .or_else(|| keys().find_map(|(db, key)| difference_of_restored(&mut pair, db, key)))
}

/// Restores each server's dump of a key in the other one; returns the difference from the key.
fn difference_of_restored(pair: &mut Pair, db: usize, key: &[u8]) -> Option<Replies> {
    pair.call(&["SELECT", &db.to_string()]);
    pair.call(&[b"PERSIST", key]);
    let expected = digest(&mut pair.redis, key);
    let (ours, theirs) = (dump(&mut pair.keylatch, key)?, dump(&mut pair.redis, key)?);
    let found = restore(&mut pair.keylatch, &theirs);
    if found != expected {
        return Some(Replies { keylatch: found, redis: Some(theirs) });
    }
    // 7.0 reads no version above 10, which small sets have.
    let is_readable = ours[ours.len() - 10] <= 10;
    let found = if is_readable { restore(&mut pair.redis, &ours) } else { expected.clone() };
    (found != expected).then_some(Replies { keylatch: Some(ours), redis: found })
}

fn call(peer: &mut Peer, args: &[&[u8]]) -> Option<Vec<u8>> {
    peer.send(&encode(args));
    peer.reply()
}

fn digest(peer: &mut Peer, key: &[u8]) -> Option<Vec<u8>> {
    call(peer, &[b"DEBUG", b"DIGEST-VALUE", key])
}

/// Returns a key's dump; `None` if it is missing.
fn dump(peer: &mut Peer, key: &[u8]) -> Option<Vec<u8>> {
    let reply = call(peer, &[b"DUMP", key]).filter(|reply| reply.starts_with(b"$") && reply != b"$-1\r\n")?;
    let start = reply.iter().position(|byte| *byte == b'\n')? + 1;
    Some(reply[start..reply.len() - 2].to_vec())
}

/// Restores a dump; returns the digest of the value, or the error.
fn restore(peer: &mut Peer, dump: &[u8]) -> Option<Vec<u8>> {
    let reply = call(peer, &[b"RESTORE", RESTORED, b"0", dump]);
    if reply.as_deref() != Some(b"+OK\r\n") {
        return reply;
    }
    let digest = digest(peer, RESTORED);
    call(peer, &[b"DEL", RESTORED]);
    digest
}
