//! The gate and the call: every command of every client passes here.

pub(crate) mod args;
pub(crate) mod call;
mod handlers;
pub(crate) mod limits;
pub(crate) mod post_call;
pub(crate) mod turn;
pub(crate) mod unknown;

pub(crate) use args::Args;
pub(crate) use call::Call;
pub(crate) use handlers::Handlers;

use crate::error::Result;
use crate::spec::Row;

/// Carries out a command: reads `call.args`, acts on `call.view`, writes `call.reply`.
pub(crate) type Handler = fn(&mut Call<'_>) -> Result<()>;

/// A row of a family's table.
pub(crate) type Command = Row<Handler>;
