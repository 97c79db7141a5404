//! WAIT and WAITAOF: block until replicas, or the append-only file, have this connection's writes. There are no replicas,
//! so only the timeout ends a wait for them.

use std::sync::Arc;

use crate::client::registry::Unblocked;
use crate::command::timeout::read_timeout;
use crate::dispatch::{Call, Command, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::persist::Persistence;
use crate::resp::Reply;
use crate::spec::{BLOCKING, Group, integer};
use crate::store::{NEVER, View};
use crate::time::clock::Clock;

const TIPS: &[&str] = &["request_policy:all_shards", "response_policy:agg_min"];

const NO_FILE: &str = "WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

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
        .docs("7.2.0", "O(1)", "Waits until all writes of the connection are fsynced to the append-only file; there are no replicas."),
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
    if local == 0 {
        return wait_for(call, replicas > 0, until_ms, |reply| {
            reply.array(2);
            reply.int(0);
            reply.int(0);
        });
    }
    if call.namespace.persistence.read(|figures| figures.log.is_none()) {
        return Err(Error::other(NO_FILE));
    }
    let (files, clock) = (call.namespace.persistence.clone(), call.namespace.clock.clone());
    call.continue_with(Syncing { files, clock, wants_replicas: replicas > 0, until_ms, outcome: Outcome::Unsynced })
}

/// What WAITAOF has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unsynced,
    Synced,
    /// There is no append-only file any more.
    NoFile,
}

/// The rest of WAITAOF while the append-only file is not fsynced.
struct Syncing {
    files: Arc<Persistence>,
    clock: Clock,
    /// Whether it waits for replicas too, and so until its timeout.
    wants_replicas: bool,
    /// When its timeout is over, in monotonic milliseconds.
    until_ms: u64,
    outcome: Outcome,
}

impl Syncing {
    /// Waits until the file is fsynced and replicas have the writes, or until the timeout.
    async fn run(&mut self) {
        let Syncing { files, clock, wants_replicas, until_ms, outcome } = self;
        let synced = async {
            *outcome = if files.synced().await { Outcome::Synced } else { Outcome::NoFile };
            if *wants_replicas && *outcome == Outcome::Synced {
                std::future::pending::<()>().await;
            }
        };
        let time_is_over = async {
            match *until_ms == NEVER || clock.is_stopped() {
                true => std::future::pending().await,
                false => tokio::time::sleep(clock.time_until(*until_ms)).await,
            }
        };
        tokio::select! {
            biased;
            () = synced => {}
            () = time_is_over => {}
        }
    }
}

impl Continuation for Syncing {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Work(Box::pin(self.run()))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        if self.outcome == Outcome::NoFile {
            return Err(Error::other(NO_FILE));
        }
        reply.array(2);
        reply.int(i64::from(self.outcome == Outcome::Synced));
        reply.int(0);
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

fn wait_for(call: &mut Call<'_>, is_wanted: bool, until_ms: u64, reply: fn(&mut Reply<'_>)) -> Result<()> {
    if !is_wanted {
        reply(&mut call.reply);
        return Ok(());
    }
    call.wait_until(until_ms, reply);
    Ok(())
}
