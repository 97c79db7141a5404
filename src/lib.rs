//! keylatch: an in-memory key-value server that speaks RESP, the Redis protocol.
//!
//! It is a drop-in server for string workloads, a test double for CI and a lock server for small deployments. This
//! crate is the server as a library; the binary is a thin wrapper.
//!
//! The public API is [`Server`], [`Builder`] and [`Clock`]. The project's own tests, benchmarks
//! and fuzz targets access internals through the feature `internals`, which has no stability guarantee.
//!
//! # Data flow
//!
//! ```text
//! bytes -> resp::Codec -> Batch -> connection -> dispatch -> handler -> store::View -> table
//!                                      ^                        |
//!                                      +--- Output <- Reply ----+
//! ```
//!
//! # Invariants
//!
//! - **Architecture Invariant:** `resp` is pure: the same bytes in any split give the same requests; no input panics
//!   or allocates beyond its limits.
//! - **Architecture Invariant:** `store` knows no client, no wire, no clock: the time is an argument, at most a tenth
//!   of a millisecond old when a call begins.
//! - **Architecture Invariant:** a key is reached through a `store::View`, it changes only in the funnel of its shard
//!   (`edit`, `insert`, `replace`, `remove`), and every change passes `Shard::changed`.
//! - **Architecture Invariant:** every command passes `dispatch`; EXEC, scripts, blocked calls and the replay of the
//!   log re-enter it: no command has a second implementation.
//! - **Architecture Invariant:** an expired key is invisible, deleted or not. Relative TTLs of keys follow the
//!   monotonic clock, absolute deadlines and those of fields of hashes the wall clock.
//! - **Architecture Invariant:** no globals: everything hangs off a `namespace::Namespace`, except for the
//!   allocators.
//! - **Architecture Invariant:** a log record is written while the changed shards are locked, so the log's order is a
//!   valid sequential order of execution.
//! - **Architecture Invariant:** the store never keeps a slice of a read buffer.
//! - **Architecture Invariant:** a session is touched only by its own task.
//! - **Architecture Invariant:** `unsafe` lives in the store (`store/entry.rs`, `store/table.rs`,
//!   `store/table/overflow.rs`, `store/value/member.rs`, `store/value/sorted_set/big.rs`) and in the allocators
//!   (`memory/global.rs`, `memory/slab.rs`) and nowhere else.
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
//! server.advance(Duration::from_millis(100)); // no sleep
//! client.write_all(b"GET lock.foo\r\n").await?;
//! client.read_exact(&mut reply).await?;
//! assert_eq!(&reply, b"$-1\r\n");
//! # Ok(())
//! # }
//! ```

// Checked in the build of the tests: without the feature, only the embedding API is reachable.
#![cfg_attr(feature = "internals", deny(unreachable_pub))]
// Items used only by the program around the server are not marked one by one; its own build finds dead code.
#![cfg_attr(
    not(all(feature = "binary", feature = "lua", feature = "metrics", feature = "tls")),
    allow(dead_code, unused_imports)
)]

mod acl;
#[cfg(feature = "binary")]
mod app;
mod client;
mod command;
mod config;
mod dispatch;
mod error;
mod glob;
mod instance;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod namespace;
mod net;
mod observe;
mod persist;
mod push;
mod rdb;
#[cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports, reason = "tests use all of the protocol"))]
mod resp;
mod runtime;
#[cfg(feature = "lua")]
mod script;
mod spec;
mod store;
mod test_mode;
mod text;
mod time;
mod upkeep;

#[cfg(feature = "binary")]
#[doc(hidden)]
pub use app::{Console, main as run_binary};
#[cfg(feature = "jemalloc")]
#[doc(hidden)]
pub use memory::global::Jemalloc;
pub use net::builder::Builder;
pub use net::server::Server;
pub use time::clock::Clock;

/// What the project's own tests, benchmarks and fuzz targets need besides the embedding API. It may change in every
/// version.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::acl::User;
    pub use crate::client::registry::Peer;
    pub use crate::client::session::Client;
    pub use crate::command::{FAMILIES, table};
    pub use crate::dispatch::replay::{ReplayError, Replayed};
    pub use crate::namespace::Namespace;
    pub use crate::net::connection::Connection;
    pub use crate::runtime::worker;
    pub use crate::spec::registry::CATEGORIES;
    pub use crate::spec::{CommandSpec, NO_AUTH, Names};

    /// Executes the commands of a log, see [`Namespace::take_log`], without other clients in between.
    ///
    /// # Errors
    /// Why it could not be executed to its end.
    pub fn replay(namespace: &Namespace, log: bytes::BytesMut) -> Result<Replayed, ReplayError> {
        crate::dispatch::replay::replay(namespace, crate::command::handlers(), log)
    }

    pub mod config {
        use std::path::Path;

        use crate::config::LoadError;
        pub use crate::config::{Change, Config, Limits, Setting, example_file, options_text, rewrite_file};
        pub use crate::text::{REDIS_VERSION, quote, split_words};

        /// Loads settings; users and renamed commands are checked against the existing commands.
        ///
        /// # Errors
        /// The first invalid line, or a file that cannot be read.
        pub fn load(file: Option<&Path>, stdin: Option<&[u8]>, options: &[u8]) -> Result<Config, LoadError> {
            crate::config::load(crate::command::table(), file, stdin, options)
        }
    }

    pub mod packed {
        use crate::store::value::intset::IntSet;
        use crate::store::value::listpack::Listpack;

        /// Checks a listpack. Returns its elements, read forward and backward.
        pub fn listpack(bytes: &[u8]) -> Option<[Vec<Vec<u8>>; 2]> {
            let listpack = Listpack::validate(bytes)?;
            let forward = listpack.iter().map(|item| item.to_cow().into_owned()).collect();
            let backward = listpack.iter().rev().map(|item| item.to_cow().into_owned()).collect();
            Some([forward, backward])
        }

        /// Checks an intset. Returns its integers.
        pub fn intset(bytes: &[u8]) -> Option<Vec<i64>> {
            Some(IntSet::validate(bytes)?.iter().collect())
        }
    }

    pub mod rdb {
        pub use crate::rdb::*;
    }

    pub mod resp {
        pub use crate::resp::*;
    }

    pub mod payload {
        pub use crate::persist::payload::rewrite;
    }
}
