//! WAIT and WAITAOF: block until replicas have this connection's writes. There are none, so only the timeout ends the
//! wait.

use crate::command::timeout::read_timeout;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{BLOCKING, Group, integer};

const TIPS: &[&str] = &["request_policy:all_shards", "response_policy:agg_min"];

/// Declares the commands of this file.
#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("WAIT", wait, BLOCKING, Group::Generic)
        .args(&[integer("numreplicas"), integer("timeout")])
        .categories(&["connection"])
        .tips(TIPS)
        .docs("3.0.0", "O(1)", "Waits until replicas have acknowledged all writes of the connection; there are no replicas."),
    Command::new("WAITAOF", wait_aof, BLOCKING, Group::Generic)
        .args(&[integer("numlocal"), integer("numreplicas"), integer("timeout")])
        .categories(&["connection"])
        .tips(TIPS)
        .docs("7.2.0", "O(1)", "Waits until all writes of the connection are fsynced; there is no append-only file."),
];

fn wait(call: &mut Call<'_>) -> Result<()> {
    let (replicas, until_ms) = (call.args.int()?, read_timeout(call)?);
    wait_for(call, replicas > 0, until_ms, |reply| reply.int(0))
}

fn wait_aof(call: &mut Call<'_>) -> Result<()> {
    const LOCAL: &str = "value is out of range, must be between 0 and 1";
    let local = call.args.int().and_then(|local| u8::try_from(local).map_err(|_| Error::other(LOCAL)))?;
    if local > 1 {
        return Err(Error::other(LOCAL));
    }
    let replicas = call.args.int()?;
    if replicas < 0 {
        return Err(Error::NotPositive);
    }
    let until_ms = read_timeout(call)?;
    if local > 0 {
        return Err(Error::other("WAITAOF cannot be used when numlocal is set but appendonly is disabled."));
    }
    wait_for(call, replicas > 0, until_ms, |reply| {
        reply.array(2);
        reply.int(0);
        reply.int(0);
    })
}

fn wait_for(call: &mut Call<'_>, is_wanted: bool, until_ms: u64, reply: fn(&mut Reply<'_>)) -> Result<()> {
    if !is_wanted {
        reply(&mut call.reply);
        return Ok(());
    }
    call.wait_until(until_ms, reply);
    Ok(())
}
