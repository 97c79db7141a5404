#![doc = include_str!("../README.md")]

mod acquire;
mod connect;
mod convert;
mod error;
mod held;
mod keeper;
mod locks;
mod owners;
mod terms;
mod wire;

pub use connect::Connect;
pub use error::{AcquireError, Holder, LockLost, NotAcquired};
pub use held::Held;
pub use locks::{Lock, Locks};
