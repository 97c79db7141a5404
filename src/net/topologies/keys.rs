//! The keys of slots that move: copied to their new node, and deleted at the former one.

use bytes::Bytes;

use crate::dispatch::Handlers;
use crate::dispatch::host::HostCall;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::resp::parse_int;
use crate::store::{Cx, Origin};
use crate::topology::{Slot, slot_of};

/// Deletes the keys of slots that a node has lost.
pub(super) fn delete_slots(node: &Namespace, handlers: &'static Handlers, slots: &[(Slot, Slot)]) {
    let is_lost = |slot: Slot| slots.iter().any(|(first, last)| (*first..=*last).contains(&slot));
    let keys = keys_where(node, is_lost, usize::MAX);
    if keys.is_empty() {
        return;
    }
    let mut host = HostCall::begin(node, handlers);
    for key in keys {
        host.execute(&[b"DEL", &key]);
    }
}

/// Returns true if a node has keys in a slot.
pub(super) fn has_keys_in(node: &Namespace, slot: Slot) -> bool {
    !keys_where(node, |of_key| of_key == slot, 1).is_empty()
}

/// Moves at most `limit` keys in a range of slots from one node to another; returns how many.
///
/// # Errors
/// The error of the target.
pub(super) fn move_keys(
    (from, to): (&Namespace, &Namespace),
    handlers: &'static Handlers,
    (first, last): (Slot, Slot),
    limit: usize,
) -> Result<usize> {
    let keys = keys_where(from, |slot| (first..=last).contains(&slot), limit);
    if keys.is_empty() {
        return Ok(0);
    }
    let mut source = HostCall::begin(from, handlers);
    // Calls that were admitted while the keys were here are routed again.
    from.store.renew_generation();
    let mut moved = 0;
    let mut target = HostCall::begin(to, handlers);
    for key in &keys {
        let (payload, expires) = (source.execute(&[b"DUMP", key]), source.execute(&[b"PEXPIRETIME", key]));
        let Some(payload) = bulk(&payload) else { continue }; // it has expired
        let expires_ms = expires.strip_prefix(b":").and_then(|rest| parse_int(rest.trim_ascii_end())).unwrap_or(-1);
        let ms = expires_ms.max(0).to_string();
        let reply = target.execute(&[b"RESTORE", key, ms.as_bytes(), payload, b"REPLACE", b"ABSTTL"]);
        if let Some(error) = reply.strip_prefix(b"-") {
            return Err(Error::other(String::from_utf8_lossy(error.trim_ascii_end()).into_owned()));
        }
        source.execute(&[b"DEL", key]);
        moved += 1;
    }
    Ok(moved)
}

/// Returns the payload of a bulk string.
fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let rest = reply.strip_prefix(b"$").filter(|rest| !rest.starts_with(b"-"))?;
    let start = rest.iter().position(|byte| *byte == b'\n')? + 1;
    rest.get(start..rest.len().checked_sub(2)?)
}

/// Returns at most `limit` keys whose slots meet a condition, in order.
fn keys_where(node: &Namespace, is_wanted: impl Fn(Slot) -> bool, limit: usize) -> Vec<Bytes> {
    let mut guard = node.store.exclusive();
    let mut view = guard.view(0, Cx::new(node.clock.now(), Origin::HOST));
    let (mut found, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = view.scan(cursor, |entry| {
            if is_wanted(slot_of(entry.key())) {
                found.push(Bytes::copy_from_slice(entry.key()));
            }
        });
        if cursor == 0 {
            break;
        }
    }
    // The order does not depend on the seed of the hash table.
    found.sort_unstable();
    found.dedup();
    found.truncate(limit);
    found
}
