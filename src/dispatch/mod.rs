//! One way to execute a command: plan a batch, pass the gate, call the handler, record what happened.
//!
//! Invariant: every command of every caller is executed here. EXEC and scripts re-enter through [`Call`], unfinished
//! commands through [`Continuation`]: there is no second way to execute a command.

pub(crate) mod args;
pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod denials;
mod effects;
mod env;
pub(crate) mod gate;
mod handlers;
pub(crate) mod history;
pub(crate) mod inquiry;
pub(crate) mod interrupted;
pub(crate) mod next;
pub(crate) mod plan;
pub(crate) mod post_call;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod unknown;

pub(crate) use args::Args;
pub(crate) use call::Call;
pub(crate) use env::Env;
pub(crate) use handlers::Handlers;
pub(crate) use next::Continuation;
pub(crate) use next::Halted;
pub(crate) use next::Next;
pub(crate) use next::TimeTravel;
pub(crate) use next::Wait;
pub(crate) use next::{Destination, Entry};

use crate::error::Result;
use crate::spec::Row;

/// Executes a command: reads `call.args`, acts on `call.view`, writes `call.reply`.
pub(crate) type Handler = fn(&mut Call<'_>) -> Result<()>;

/// A row of a family's table.
pub(crate) type Command = Row<Handler>;
