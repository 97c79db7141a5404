//! Checks of a profile: what the service that the server answers as refuses of commands that it has.

use crate::dispatch::admission::{Admission, Obstacle};
use crate::dispatch::declared::routed_keys_of;
use crate::error::Error;
use crate::profile::{Profile, Slots};
use crate::resp::{Request, parse_int};
use crate::spec::CommandSpec;
use crate::spec::marks::{
    EXECUTES_QUEUE, EXPECTS_ID, NAMES_OPTIONS, RUNS_DIGEST, RUNS_FUNCTION, RUNS_TEXT, SELECTS_DB,
};
use crate::topology::{SlotsDiffer, slot_of};

/// Position of the number of keys in the request that runs a script; the keys follow it.
const KEY_COUNT: usize = 2;

/// Rejects what the service does not do: requests beyond its limits, other databases, scripts against its rules, keywords that
/// its version does not know, keys in different slots.
pub(super) fn of_service(call: &Admission<'_>) -> Option<Obstacle> {
    let profile = call.config.profile?;
    beyond_limits(profile, call.request)
        .or_else(|| other_database(profile, call))
        .or_else(|| script_rules(profile, call))
        .or_else(|| (!call.is_in_transaction()).then(|| newer_word(call)).flatten())
        .or_else(|| several_slots(profile, call))
}

fn beyond_limits(profile: &Profile, request: Request<'_>) -> Option<Obstacle> {
    let is_too_long = |len: usize| request.bytes_len() > len;
    let too_long = profile.limits.request_len.filter(|(len, _)| is_too_long(*len));
    let too_many = profile.limits.args.filter(|(count, _)| request.len() > *count);
    too_long.or(too_many).map(|(_, line)| Error::Line(line).into())
}

fn other_database(profile: &Profile, call: &Admission<'_>) -> Option<Obstacle> {
    let count = profile.databases.filter(|_| call.command.is(SELECTS_DB))?;
    let wanted = usize::try_from(parse_int(call.request.arg(1))?).ok()?;
    (wanted >= count).then(|| Error::DbOutOfRange.into())
}

fn script_rules(profile: &Profile, call: &Admission<'_>) -> Option<Obstacle> {
    if !call.command.is(RUNS_TEXT | RUNS_DIGEST | RUNS_FUNCTION) {
        return None;
    }
    let rules = profile.scripts;
    let in_transaction = rules.in_transaction.filter(|_| call.is_in_transaction());
    let has_none = || call.request.len() > KEY_COUNT && parse_int(call.request.arg(KEY_COUNT)) == Some(0);
    let without_keys = rules.without_keys.filter(|_| has_none());
    in_transaction.or(without_keys).map(|line| Error::Line(line).into())
}

/// Rejects a keyword that the version does not know, as it rejects any word that it does not know.
pub(super) fn newer_word(call: &Admission<'_>) -> Option<Obstacle> {
    let word = call.command.newer_word(call.request)?;
    let error = match call.command {
        command if command.is(NAMES_OPTIONS) => Error::UnsupportedOption(word.to_vec()),
        command if command.is(EXPECTS_ID) => Error::InvalidStreamId,
        _ => Error::Syntax,
    };
    Some(error.into())
}

/// Rejects keys in several slots where a proxy hides a cluster, in the words of Redis Enterprise.
fn several_slots(profile: &Profile, call: &Admission<'_>) -> Option<Obstacle> {
    let Slots::Proxied(allowed) = profile.slots else { return None };
    if allowed.contains(&&*call.command.name) || !matches!(call.slot(), Err(SlotsDiffer)) {
        return None;
    }
    let keys = call.routed_keys();
    let (first, other) = keys.iter().find_map(|key| {
        let first = keys.first()?;
        (slot_of(key) != slot_of(first)).then_some((*first, *key))
    })?;
    let context = if call.command.is(EXECUTES_QUEUE) { "within MULTI" } else { "" };
    let text = format!(
        "CROSSSLOT Keys in request don't hash to the same slot (context='{context}', command='{}', \
         original-slot='{}', wrong-slot='{}', first-key='",
        call.command.name,
        slot_of(first),
        slot_of(other),
    );
    Some(Error::Verbatim([text.as_bytes(), first, b"', violating-key='", other, b"')"].concat()).into())
}

/// Rejects a key in a script that the call of the script has not named.
pub(super) fn undeclared_key(call: &Admission<'_>) -> Option<Obstacle> {
    let line = call.config.profile?.scripts.undeclared_key?;
    let key = call.request.arg(call.script?.undeclared?);
    Some(Error::Verbatim([line.as_bytes(), key].concat()).into())
}

/// Returns the position of the first key of a script's call that the request which runs the script has not named.
#[cfg(feature = "lua")]
pub(super) fn first_undeclared(outer: Request<'_>, command: &CommandSpec, request: Request<'_>) -> Option<usize> {
    let count = (outer.len() > KEY_COUNT).then(|| parse_int(outer.arg(KEY_COUNT))).flatten();
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let is_declared = |key: &[u8]| outer.args().skip(KEY_COUNT + 1).take(count).any(|declared| declared == key);
    let key = routed_keys_of(command, request).find(|key| !is_declared(key))?;
    (0..request.len()).find(|at| std::ptr::eq(request.arg(*at), key))
}
