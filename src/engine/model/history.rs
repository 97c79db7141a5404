//! Linearizability of the replies for one key, by the algorithm of Wing and Gong. An operation with an unknown outcome
//! may have been executed at any time after its call, however late, or never.

use std::collections::HashSet;

/// An operation on a key, whose values are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HistoryAction {
    Get,
    /// SETNX.
    SetNx(i64),
    /// SET with NX and a TTL.
    SetNxPx(i64),
    GetSet(i64),
    Del,
    /// FLUSHALL.
    Flush,
    Incr,
    /// LOCK.ACQUIRE with a token.
    Take(i64),
    /// LOCK.RELEASE with a token.
    Release(i64),
    /// A value ends by itself: its TTL is over, or its client is gone. There is no reply.
    End(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Ok,
    Null,
    Number(i64),
    Value(i64),
    /// A fencing token.
    Fence,
}

#[derive(Clone, Debug)]
pub(super) struct HistoryOperation {
    pub(super) action: HistoryAction,
    /// Time of the call, in ticks.
    pub(super) called: u64,
    /// Time of the reply, and the reply; `None` if it is unknown whether the operation was executed, or ever will be.
    pub(super) reply: Option<(u64, Told)>,
}

/// Executes an action; returns the reply and the key's value after it.
fn run(action: HistoryAction, value: Option<i64>) -> (Told, Option<i64>) {
    let shown = value.map_or(Told::Null, Told::Value);
    match (action, value) {
        (HistoryAction::Get, _) => (shown, value),
        (HistoryAction::SetNx(new), None) => (Told::Number(1), Some(new)),
        (HistoryAction::SetNx(_), Some(_)) => (Told::Number(0), value),
        (HistoryAction::SetNxPx(new), None) => (Told::Ok, Some(new)),
        (HistoryAction::SetNxPx(_), Some(_)) => (Told::Null, value),
        (HistoryAction::GetSet(new), _) => (shown, Some(new)),
        (HistoryAction::Del, _) => (Told::Number(value.is_some().into()), None),
        (HistoryAction::Flush, _) => (Told::Ok, None),
        (HistoryAction::Incr, _) => (Told::Number(value.unwrap_or(0) + 1), Some(value.unwrap_or(0) + 1)),
        (HistoryAction::Take(token), None) => (Told::Fence, Some(token)),
        (HistoryAction::Take(token), Some(held)) => (if held == token { Told::Fence } else { Told::Null }, value),
        (HistoryAction::Release(token) | HistoryAction::End(token), Some(held)) if held == token => {
            (Told::Number(1), None)
        }
        (HistoryAction::Release(_) | HistoryAction::End(_), _) => (Told::Number(0), value),
    }
}

/// Returns true if one order of the operations explains all replies.
pub(super) fn is_linearizable(operations: &[HistoryOperation]) -> bool {
    // Reads without a reply are no evidence of anything.
    let known =
        operations.iter().filter(|operation| operation.reply.is_some() || operation.action != HistoryAction::Get);
    let operations: Vec<&HistoryOperation> = known.collect();
    assert!(operations.len() <= 64, "a history that is too long for the checker");
    search(&operations, 0, None, &mut HashSet::new())
}

/// Returns true if the operations outside the set `done` can follow those in it.
fn search(
    operations: &[&HistoryOperation],
    done: u64,
    value: Option<i64>,
    seen: &mut HashSet<(u64, Option<i64>)>,
) -> bool {
    if !seen.insert((done, value)) {
        return false;
    }
    let left = || operations.iter().enumerate().filter(|(at, _)| done & (1 << at) == 0);
    let Some(first) = left().filter_map(|(_, operation)| operation.reply.map(|(tick, _)| tick)).min() else {
        return true; // the others have no reply
    };
    let mut next = left().filter(|(_, operation)| operation.called < first);
    next.any(|(at, operation)| {
        let (told, after) = run(operation.action, value);
        let is_right = operation.reply.is_none_or(|(_, reply)| reply == told);
        is_right && search(operations, done | 1 << at, after, seen)
    })
}

#[test]
fn the_checker_tells_right_histories_from_wrong_ones() {
    let told = |action, called, tick, told| HistoryOperation { action, called, reply: Some((tick, told)) };
    let unknown = |action, called| HistoryOperation { action, called, reply: None };
    let get = |called, value| told(HistoryAction::Get, called, called + 1, Told::Value(value));
    assert!(is_linearizable(&[told(HistoryAction::SetNx(1), 0, 3, Told::Number(1)), get(1, 1)]), "side by side");
    assert!(
        !is_linearizable(&[get(0, 1), told(HistoryAction::SetNx(1), 2, 3, Told::Number(1))]),
        "before it was called"
    );
    let twice =
        [told(HistoryAction::SetNx(1), 0, 1, Told::Number(1)), told(HistoryAction::SetNx(2), 2, 3, Told::Number(1))];
    assert!(!is_linearizable(&twice), "two have it");
    assert!(is_linearizable(&[&twice[..], &[unknown(HistoryAction::End(1), 1)]].concat()), "the first one has ended");
    assert!(!is_linearizable(&[&twice[..], &[unknown(HistoryAction::End(1), 4)]].concat()), "that has ended later");
    let incr = |called, number| told(HistoryAction::Incr, called, called + 1, Told::Number(number));
    assert!(is_linearizable(&[unknown(HistoryAction::Incr, 0), incr(2, 1), incr(4, 3)]));
    assert!(!is_linearizable(&[unknown(HistoryAction::Incr, 0), incr(2, 1), incr(4, 4)]));
}
