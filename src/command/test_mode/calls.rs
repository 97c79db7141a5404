//! TEST.CALLS: the calls that the server has received.

use crate::command::test_mode::controls::{CONTROLS, test_mode};
use crate::command::test_mode::fault::read_command;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{Group, integer, string, token};
use crate::test_mode::ReceivedCall;

pub(super) const COMMANDS: &[Command] = &[Command::new("TEST.CALLS", calls, CONTROLS, Group::Test)
    .args(&[
        string("command").token("MATCH").optional().about("Only calls of this command."),
        integer("count").token("COUNT").optional().about("At most this many, the latest ones; all without it."),
        token("full", "FULL").optional().about("With what is needed to inject faults: the name of the command, whether the call was refused, which of its keys existed, and which of them had a TTL, and the offset of the log when it arrived."),
        token("reset", "RESET").optional().about("Forgets all calls; stands alone."),
    ])
    .docs("0.1.0", "O(N) where N is the number of calls kept", "Returns the calls received, oldest first.")];

/// Replies with the latest calls, or forgets them all.
fn calls(call: &mut Call<'_>) -> Result<()> {
    let (mut command, mut count, mut is_full, mut is_reset) = (None, usize::MAX, false, false);
    let is_alone = call.args.left() == 1;
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "MATCH") {
            command = read_command(call)?;
        } else if is_word(word, "COUNT") {
            count = usize::try_from(call.args.int()?).map_err(|_| Error::NotPositive)?;
        } else if is_word(word, "FULL") {
            is_full = true;
        } else if is_alone && is_word(word, "RESET") {
            is_reset = true;
        } else {
            return Err(Error::Syntax);
        }
    }
    let calls = &test_mode(call)?.calls;
    if is_reset {
        calls.lock().clear();
        call.reply.ok();
        return Ok(());
    }
    let found = calls.lock().latest(count, command);
    call.reply.array(found.len());
    for received in found {
        write(call, &received, is_full);
    }
    Ok(())
}

fn write(call: &mut Call<'_>, received: &ReceivedCall, is_full: bool) {
    let reply = &mut call.reply;
    reply.map(if is_full { 10 } else { 5 });
    reply.bulk(b"time-ms");
    reply.int(received.unix_ms);
    reply.bulk(b"client-id");
    reply.int(i64::try_from(received.client_id).unwrap_or(i64::MAX));
    reply.bulk(b"client-name");
    reply.bulk(received.client_name.as_bytes());
    reply.bulk(b"args");
    reply.array(received.args.len());
    received.args.iter().for_each(|arg| reply.bulk(arg));
    reply.bulk(b"fault");
    match received.fault {
        Some(kind) => reply.bulk(kind.as_bytes()),
        None => reply.null(),
    }
    if is_full {
        reply.bulk(b"command");
        match received.command {
            Some(command) => reply.bulk(command.name.as_bytes()),
            None => reply.null(),
        }
        reply.bulk(b"refused");
        reply.int(i64::from(received.is_refused));
        reply.bulk(b"keys");
        write_keys(reply, received.keys.iter().map(|(key, _)| key));
        reply.bulk(b"expiring");
        write_keys(reply, received.keys.iter().filter(|(_, has_ttl)| *has_ttl).map(|(key, _)| key));
        reply.bulk(b"offset");
        reply.int(i64::try_from(received.offset).unwrap_or(i64::MAX));
    }
}

fn write_keys<'k>(reply: &mut Reply<'_>, keys: impl Iterator<Item = &'k Box<[u8]>> + Clone) {
    reply.array(keys.clone().count());
    keys.for_each(|key| reply.bulk(key));
}
