//! Command execution: plan a batch, pass the checks, call the handler, record the call.
//!
//! Invariant: every command of every caller is executed here. EXEC and scripts re-enter through [`Call`], unfinished
//! commands through [`Continuation`]: there is no second way to execute a command.

mod admission;
pub(crate) mod args;
pub(crate) mod batch;
mod blocking;
pub(crate) mod call;
pub(crate) mod checks;
mod declared;
pub(crate) mod denials;
mod effects;
pub(crate) mod history;
pub(crate) mod host;
pub(crate) mod interrupted;
pub(crate) mod introspection;
mod nested;
pub(crate) mod plan;
pub(crate) mod post_call;
mod profile;
mod repeat_limit;
pub(crate) mod replay;
pub(crate) mod routing;
mod run;
pub(crate) mod serve;
pub(crate) mod staged;
pub(crate) mod texts;
pub(crate) mod unknown;
#[cfg(feature = "metrics")]
pub(crate) mod visit;
mod wait;

pub(crate) use args::Args;
pub(crate) use blocking::BlockedRetry;
pub(crate) use call::{Call, Command, Continuation, Env, Handlers, Next, PostponedOperation};
pub(crate) use run::refuse;
pub(crate) use wait::{
    BlockedRequest, Destination, MadeTopology, NamespaceEntry, NewReplica, NewTopology, TimeTravel, TopologyAccess,
    TopologyKind, Wait,
};
