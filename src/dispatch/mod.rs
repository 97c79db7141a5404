//! The gate and the call: every command of every client passes here.

pub mod args;
pub mod call;
pub mod limits;
pub mod post_call;
pub mod turn;
pub mod unknown;

pub use args::Args;
pub use call::Call;

use crate::error::Result;

/// Carries out a command: reads `call.args`, acts on `call.view`, writes `call.reply`.
pub type Handler = fn(&mut Call<'_>) -> Result<()>;
