//! TEST.INSTANCE: a private instance that replicates this one.

use crate::client::registry::Unblocked;
use crate::command::connection::check_private_user;
use crate::command::test_mode::controls::CONTROLS;
use crate::dispatch::{Call, Command, Continuation, Env, NewReplica, Wait};
use crate::error::Result;
use crate::resp::Reply;
use crate::spec::{Group, string};
use crate::store::View;

pub(super) const COMMANDS: &[Command] = &[Command::container(
    "TEST.INSTANCE",
    Group::Test,
    &[Command::new("REPLICA", replica, CONTROLS, Group::Test)
        .args(&[string("username").about("The user of the new instance, which begins with ns-.")])
        .docs(
            "0.1.0",
            "O(N) where N is the number of keys",
            "Makes a private instance that is a replica of this one, and shares its clock.",
        )],
)
.help_since("0.1.0")
.docs("0.1.0", "Depends on subcommand.", "Contains the subcommands that make private instances.")];

fn replica(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    check_private_user(name)?;
    call.continue_with(Founding(NewReplica { name: name.into(), refusal: None }))
}

/// The continuation that replies once the replica has all data.
struct Founding(NewReplica);

impl Continuation for Founding {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Replica(&mut self.0)
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        match self.0.refusal.take() {
            Some(refusal) => Err(refusal),
            None => {
                reply.ok();
                Ok(true)
            }
        }
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}
