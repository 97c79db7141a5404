//! TEST.CALLS: the calls that the server has received.

use crate::command::test_mode::controls::{CONTROLS, test_mode};
use crate::command::test_mode::fault::read_command;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{Group, integer, string, token};
use crate::test_mode::ReceivedCall;

pub(super) const COMMANDS: &[Command] = &[Command::new("TEST.CALLS", calls, CONTROLS, Group::Test)
    .args(&[
        string("command").token("MATCH").optional().about("Only calls of this command."),
        integer("count").token("COUNT").optional().about("At most this many, the latest ones; all without it."),
        token("reset", "RESET").optional().about("Forgets all calls; stands alone."),
    ])
    .docs("0.1.0", "O(N) where N is the number of calls kept", "Returns the calls received, oldest first.")];

/// Replies with the latest calls, or forgets them all.
fn calls(call: &mut Call<'_>) -> Result<()> {
    let (mut command, mut count, mut is_reset) = (None, usize::MAX, false);
    let is_alone = call.args.left() == 1;
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "MATCH") {
            command = read_command(call)?;
        } else if is_word(word, "COUNT") {
            count = usize::try_from(call.args.int()?).map_err(|_| Error::NotPositive)?;
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
        write(call, &received);
    }
    Ok(())
}

fn write(call: &mut Call<'_>, received: &ReceivedCall) {
    let reply = &mut call.reply;
    reply.map(5);
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
}
