//! keylatch: an in-memory key-value server that speaks RESP, the Redis protocol.
//!
//! It is a drop-in for string workloads, a test double for CI and a lock server for small
//! deployments. This crate is the server as a library; the binary is a thin caller.
//!
//! Public are [`Server`], [`Builder`], [`Config`], [`Clock`] and [`resp`]. All other modules are there for the project's own
//! binary, tests and benchmarks: the documentation leaves them out, and they may change with every version.
//!
//! # Data flow
//!
//! ```text
//! bytes -> resp::Codec -> Batch -> connection -> command::dispatch -> handler -> store::View -> table
//!                                      ^                                 |
//!                                      +------------- Output <- Reply ---+
//! ```
//!
//! # Invariants
//!
//! - **Architecture Invariant:** `resp` is pure: the same bytes in any split give the same requests; no input panics
//!   or allocates beyond its limits.
//! - **Architecture Invariant:** `store` knows no client, no wire, no clock: the time is an argument, at most a tenth of a
//!   millisecond old when a call begins.
//! - **Architecture Invariant:** a key changes only through a [`store::View`], and every change passes
//!   `Shard::changed`.
//! - **Architecture Invariant:** every command passes `dispatch`, also inside EXEC: there is no second implementation.
//! - **Architecture Invariant:** an expired key is invisible, swept or not. Relative times to live follow the monotonic
//!   clock, absolute ones the wall clock.
//! - **Architecture Invariant:** no globals: everything hangs off a [`namespace::Namespace`].
//! - **Architecture Invariant:** the store never keeps a slice of a read buffer.
//! - **Architecture Invariant:** a session is touched only by its own task.
//! - **Architecture Invariant:** `unsafe` lives in `store/entry.rs` and `store/table.rs` and nowhere else.
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use std::time::Duration;
//! use keylatch::{Clock, Server};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let server = Server::builder().clock(Clock::manual()).start().await?;
//! let mut client = tokio::net::TcpStream::connect(server.addr()).await?;
//! let mut reply = [0; 5];
//! client.write_all(b"SET lock.foo me PX 100\r\n").await?;
//! client.read_exact(&mut reply).await?;
//! assert_eq!(&reply, b"+OK\r\n");
//!
//! server.advance(Duration::from_millis(100)); // nobody slept
//! client.write_all(b"GET lock.foo\r\n").await?;
//! client.read_exact(&mut reply).await?;
//! assert_eq!(&reply, b"$-1\r\n");
//! # Ok(())
//! # }
//! ```

#[doc(hidden)]
pub mod acl;
#[cfg(feature = "binary")]
#[doc(hidden)]
pub mod app;
#[doc(hidden)]
pub mod client;
#[doc(hidden)]
pub mod command;
pub mod config;
#[doc(hidden)]
pub mod dispatch;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod glob;
mod memory;
#[doc(hidden)]
pub mod namespace;
#[doc(hidden)]
pub mod net;
#[doc(hidden)]
pub mod observe;
#[doc(hidden)]
pub mod push;
#[doc(hidden)]
pub mod rdb;
pub mod resp;
#[doc(hidden)]
pub mod runtime;
#[cfg(feature = "lua")]
#[doc(hidden)]
pub mod script;
#[doc(hidden)]
pub mod spec;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod time;

pub use config::Config;
pub use net::server::{Builder, Server};
pub use time::clock::Clock;
