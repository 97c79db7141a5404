//! TEST.MAINT: notices of maintenance on demand.

use crate::command::test_mode::controls::CONTROLS;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::push::maintenance::MaintenanceNotice;
use crate::spec::{Arg, Group, integer, string};

const PER_CLIENT: &str = "O(N) where N is the number of clients of the instance";
const SECONDS: Arg = integer("seconds").about("How long it takes, or may take.");
const SHARDS: Arg = string("shards").about("The shards that it concerns, sent as it is given, such as [\"1\",\"2\"].");
const SLOTS: Arg = string("slots").about("The slots, such as 0-99,200.");

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(super) const COMMANDS: &[Command] = &[Command::container("TEST.MAINT", Group::Test, &[
    Command::new("FAILED_OVER", |call| ends(call, "FAILED_OVER"), CONTROLS, Group::Test)
        .args(&[SHARDS])
        .docs("0.2.0", PER_CLIENT, "Announces that a failover is over."),
    Command::new("FAILING_OVER", |call| begins(call, "FAILING_OVER"), CONTROLS, Group::Test)
        .args(&[SECONDS, SHARDS])
        .docs("0.2.0", PER_CLIENT, "Announces a failover."),
    Command::new("MIGRATED", |call| ends(call, "MIGRATED"), CONTROLS, Group::Test)
        .args(&[SHARDS])
        .docs("0.2.0", PER_CLIENT, "Announces that shards have been moved."),
    Command::new("MIGRATING", |call| begins(call, "MIGRATING"), CONTROLS, Group::Test)
        .args(&[SECONDS, SHARDS])
        .docs("0.2.0", PER_CLIENT, "Announces that shards are being moved."),
    Command::new("MOVING", moving, CONTROLS, Group::Test)
        .args(&[
            integer("seconds").about("The time within which clients are to go."),
            string("address").about("Where to, as host:port; NULL for clients that are to connect again. Clients of the type none are told NULL."),
        ])
        .docs("0.2.0", PER_CLIENT, "Tells clients to go to another address."),
    Command::new("SMIGRATED", slots_migrated, CONTROLS, Group::Test)
        .args(&[string("move").multiple().about("Source and destination, as host:port, and the slots: three arguments for each move.")])
        .docs("0.2.0", PER_CLIENT, "Announces that slots have moved."),
    Command::new("SMIGRATING", slots_migrating, CONTROLS, Group::Test)
        .args(&[SLOTS])
        .docs("0.2.0", PER_CLIENT, "Announces that slots are being moved."),
])
.help_since("0.2.0")
.docs("0.2.0", "Depends on subcommand.", "Contains the notices of maintenance.")];

fn seconds(call: &mut Call<'_>) -> Result<i64> {
    let seconds = call.args.int()?;
    if seconds < 0 { Err(Error::NotPositive) } else { Ok(seconds) }
}

fn moving(call: &mut Call<'_>) -> Result<()> {
    let (seconds, address) = (seconds(call)?, call.args.bytes()?);
    let address: Option<Box<[u8]>> = (!is_word(address, "NULL")).then(|| address.into());
    if address.as_ref().is_some_and(|address| !MaintenanceNotice::is_address(address)) {
        return Err(Error::other("an address is a host and a port, as host:port"));
    }
    announce(call, &MaintenanceNotice::Moving { seconds, address })
}

fn begins(call: &mut Call<'_>, kind: &'static str) -> Result<()> {
    let (seconds, shards) = (seconds(call)?, call.args.bytes()?.into());
    announce(call, &MaintenanceNotice::Begins { kind, seconds, shards })
}

fn ends(call: &mut Call<'_>, kind: &'static str) -> Result<()> {
    let shards = call.args.bytes()?.into();
    announce(call, &MaintenanceNotice::Ends { kind, shards })
}

fn slots_migrating(call: &mut Call<'_>) -> Result<()> {
    let slots = call.args.bytes()?.into();
    announce(call, &MaintenanceNotice::SlotsMigrating(slots))
}

fn slots_migrated(call: &mut Call<'_>) -> Result<()> {
    if !call.args.left().is_multiple_of(3) {
        return Err(Error::other("a move has a source, a destination and slots"));
    }
    let mut moves = Vec::new();
    while call.args.left() > 0 {
        moves.push([call.args.bytes()?.into(), call.args.bytes()?.into(), call.args.bytes()?.into()]);
    }
    announce(call, &MaintenanceNotice::SlotsMigrated(moves))
}

/// Sends a notice to the clients of the instance that have asked for notices, and replies with their number.
fn announce(call: &mut Call<'_>, notice: &MaintenanceNotice) -> Result<()> {
    let clients = call.namespace.clients.all();
    let count = call.namespace.push.maintenance.announce(notice, &clients, (call.config, call.now()));
    call.reply.int(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}
