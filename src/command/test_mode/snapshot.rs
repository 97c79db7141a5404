//! TEST.SNAPSHOT, TEST.RESTORE and TEST.FAILOVER: states to return to.

use crate::command::test_mode::controls::{CONTROLS, test_mode};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command, history};
use crate::error::{Error, Result};
use crate::spec::{EXCLUSIVE, Flags, Group, integer, string};

/// The flags of the commands of this file.
const STATES: Flags = CONTROLS | EXCLUSIVE;

const SNAPSHOT_COST: &str =
    "O(N) where N is the number of keys; only those changed since the last snapshot are copied.";
const RESTORE_COST: &str = "O(N) where N is the number of keys changed since the snapshot.";
const FAILOVER_COST: &str = "O(N) where N is the number of keys changed by the writes that are remembered.";
const LOSE: &str = "How many writes are forgotten: an EXEC or script counts as one. Without it those that no replica made by \
TEST.INSTANCE has executed.";

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(super) const COMMANDS: &[Command] = &[
    Command::new("TEST.FAILOVER", failover, STATES, Group::Test)
        .args(&[integer("writes").token("LOSE").optional().about(LOSE)])
        .docs("0.1.0", FAILOVER_COST, "Forgets the last writes, and closes every connection."),
    Command::new("TEST.RESTORE", restore, STATES, Group::Test)
        .args(&[string("name").about("The name of the snapshot.")])
        .docs("0.1.0", RESTORE_COST, "Goes back to a snapshot."),
    Command::new("TEST.SNAPSHOT", snapshot, STATES, Group::Test)
        .args(&[string("name").about("The name of the snapshot; an earlier one of this name is replaced.")])
        .docs("0.1.0", SNAPSHOT_COST, "Remembers keys, locks, scripts and functions by a name."),
];

fn snapshot(call: &mut Call<'_>) -> Result<()> {
    let (name, test_mode) = (call.args.bytes()?, test_mode(call)?);
    history::snapshot(call, test_mode, name)?;
    call.reply.ok();
    Ok(())
}

fn restore(call: &mut Call<'_>) -> Result<()> {
    let (name, test_mode) = (call.args.bytes()?, test_mode(call)?);
    history::restore(call, test_mode, name)?;
    call.reply.ok();
    Ok(())
}

fn failover(call: &mut Call<'_>) -> Result<()> {
    let test_mode = test_mode(call)?;
    let Some(word) = call.args.next_arg() else {
        history::fail_over_to_replica(call, test_mode)?;
        call.reply.ok();
        return Ok(());
    };
    if !is_word(word, "LOSE") {
        return Err(Error::Syntax);
    }
    let lost = usize::try_from(call.args.int()?).map_err(|_| Error::NotPositive)?;
    history::fail_over(call, test_mode, lost)?;
    call.reply.ok();
    Ok(())
}
