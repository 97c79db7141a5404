//! keylatch: an in-memory key-value server that speaks RESP, the Redis protocol.
//!
//! This crate is the server as a library: above all a test double, a real server inside a test process, which any Redis
//! client can use. Each test has its own; nothing is shared, and nothing is left when it is dropped.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # use std::{io::{Read, Write}, net::{SocketAddr, TcpStream}};
//! # fn call(addr: SocketAddr, request: &str) -> std::io::Result<String> {
//! #     let (mut client, mut reply) = (TcpStream::connect(addr)?, String::new());
//! #     client.write_all(format!("{request}\r\n").as_bytes())?;
//! #     client.shutdown(std::net::Shutdown::Write)?;
//! #     client.read_to_string(&mut reply)?;
//! #     Ok(reply)
//! # }
//! use std::time::Duration;
//! use keylatch::{Clock, Fault, Server};
//!
//! let server = Server::builder().test_mode().clock(Clock::manual()).start_blocking()?;
//! let url = server.url(); // for the client under test: redis://127.0.0.1:40213
//! # let addr = server.addr();
//! # assert!(url.starts_with("redis://127.0.0.1:"));
//!
//! // Time passes when the test says so.
//! assert_eq!(call(addr, "SET session:1 token EX 3600")?, "+OK\r\n");
//! server.advance(Duration::from_secs(3599));
//! assert_eq!(server.ttl("session:1").unwrap(), Some(Duration::from_secs(1)));
//! server.advance(Duration::from_secs(1));
//! assert_eq!(call(addr, "GET session:1")?, "$-1\r\n");
//!
//! // Keys are read without a client.
//! assert_eq!(call(addr, "MSET user:1 alice user:2 bob")?, "+OK\r\n");
//! assert_eq!(server.get("user:1").unwrap().as_deref(), Some(b"alice".as_slice()));
//! assert_eq!(server.keys("user:*").unwrap(), ["user:1", "user:2"].map(Vec::from));
//!
//! // Calls fail, are late or lose their connection.
//! server.inject(Fault::on("INCR").key("hits").lose_reply().times(1)).unwrap();
//! assert_eq!(call(addr, "INCR hits")?, ""); // no reply, although ...
//! assert_eq!(server.get("hits").unwrap().as_deref(), Some(b"1".as_slice()));
//!
//! // The calls are logged.
//! let last = server.command_log().unwrap().pop().unwrap();
//! assert_eq!((last.to_string(), last.fault), ("INCR hits".into(), Some("LOSEREPLY")));
//!
//! server.flush();
//! assert!(server.keys("*").unwrap().is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! The server has a thread of its own. So it works in blocking tests, in asynchronous ones on any runtime
//! ([`Builder::start`] is [`Builder::start_blocking`] for these), in a `static`, and in `fn main`. Dropping it, or
//! [`Server::shutdown`], stops it.
//!
//! ```
//! use std::sync::LazyLock;
//! use keylatch::Server;
//!
//! static SERVER: LazyLock<Server> = LazyLock::new(|| Server::builder().start_blocking().expect("a free port"));
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let another = Server::builder().set("requirepass", "secret").settings("maxmemory 10mb").start().await?;
//! assert_ne!(another.addr(), SERVER.addr());
//! # Ok(())
//! # }
//! ```
//!
//! In test mode, clients can do the same by the commands `TEST.*`, go back to snapshots, lose the last writes, and have
//! private instances of the server; `docs/TESTING.md` describes that.
//!
//! For a dev-dependency, `default-features = false, features = ["double"]` builds everything on this page, and scripts;
//! `tls` and `metrics` may be added. The feature `internals` is for the project's own tests, and promises nothing.
//!
//! # Inside: the data flow
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
//!   (the functions of `Keys` marked so, such as `set_text`, and the guard of `View::edit`), and every change is counted
//!   and published: by `Keys::changed`, or by what does the same.
//! - **Architecture Invariant:** every command passes `dispatch`; EXEC, scripts, blocked calls and the replay of the
//!   log re-enter it: no command has a second implementation.
//! - **Architecture Invariant:** an expired key is invisible, deleted or not. Relative TTLs of keys follow the
//!   monotonic clock, absolute deadlines and those of fields of hashes the wall clock.
//! - **Architecture Invariant:** a key leaves the data because of its deadline only where expiry is owned, on a primary,
//!   and with a record in the log: a snapshot contains every key, and a load drops none that a log, a replica or a
//!   primary may still name.
//! - **Architecture Invariant:** no globals: everything hangs off a `namespace::Namespace`, except for the
//!   allocators. No thread-local carries anything from one layer to another.
//! - **Architecture Invariant:** a log record is written while the changed shards are locked, so the log's order is a
//!   valid sequential order of execution.
//! - **Architecture Invariant:** the store never keeps a slice of a read buffer.
//! - **Architecture Invariant:** a session is touched only by its own task.
//! - **Architecture Invariant:** `unsafe` lives in the store (`store/entry.rs`, `store/table.rs`,
//!   `store/table/overflow.rs`, `store/value/member.rs`, `store/value/big/sorted_set.rs`) and in the allocators
//!   (`memory/global.rs`, `memory/slab.rs`) and nowhere else.
//!

// Checked in the build of the tests: without the feature, only the embedding API is reachable.
#![cfg_attr(feature = "internals", deny(unreachable_pub))]
// Items used only by the program around the server are not marked one by one; the binary's build finds dead code.
#![cfg_attr(
    not(all(
        feature = "binary",
        feature = "json",
        feature = "lua",
        feature = "metrics",
        feature = "probabilistic",
        feature = "tls",
        feature = "vectors"
    )),
    allow(dead_code, unused_imports)
)]

#[cfg(test)]
extern crate self as keylatch; // for the client of the tests in `tests/it`, which some of the unit tests use

mod acl;
#[cfg(feature = "binary")]
mod app;
mod client;
mod command;
mod config;
mod dial;
mod dispatch;
mod durability;
#[cfg(feature = "etcd")]
mod engine;
mod error;
mod explore;
mod glob;
mod instance;
#[cfg(feature = "json")]
mod json;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod murmur;
mod namespace;
mod net;
mod observe;
mod persist;
#[cfg(feature = "probabilistic")]
mod probabilistic;
mod profile;
mod push;
mod random;
mod rdb;
mod replication;
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
mod topology;
mod types;
mod upkeep;
#[cfg(feature = "vectors")]
mod vectors;

#[cfg(feature = "binary")]
#[doc(hidden)]
pub use app::{Console, main as run_binary};
pub use explore::{Explore, ExploreReport, ScenarioOutcome, TestInstance, explore};
#[cfg(feature = "jemalloc")]
#[doc(hidden)]
pub use memory::global::Jemalloc;
pub use net::builder::Builder;
pub use net::embedded_topology::{TestNode, TestTopology};
pub use net::inspect::{CommandError, LoggedCall};
pub use net::server::Server;
pub use test_mode::Fault;
pub use time::clock::Clock;

/// API for the project's own tests, benchmarks and fuzz targets. It may change in every version.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::acl::{RuleSettings, User};
    pub use crate::client::info::Peer;
    pub use crate::client::session::Client;
    pub use crate::command::{FAMILIES, table};
    pub use crate::dispatch::replay::{ReplayError, Replayed};
    pub use crate::instance::Instance;
    pub use crate::namespace::Namespace;
    pub use crate::net::connection::Connection;
    pub use crate::persist::{LogReader, LostPlace, ReaderPurpose};
    use crate::push::hub::Message;
    pub use crate::runtime::worker;
    pub use crate::spec::registry::CATEGORIES;
    pub use crate::spec::{CommandSpec, NO_AUTH, Names};
    use crate::store::{Cx, Origin};

    /// Executes the commands of a log, see [`Namespace::read_log`], without other clients in between.
    ///
    /// # Errors
    /// The reason why the log could not be executed to its end.
    pub fn replay(namespace: &Namespace, log: bytes::BytesMut) -> Result<Replayed, ReplayError> {
        crate::dispatch::replay::replay(namespace, crate::command::handlers(), log)
    }

    /// Runs `act` while the shard of a key of database 0 is locked, as by a call of another thread.
    pub fn with_shard_locked(namespace: &Namespace, key: &[u8], act: impl FnOnce()) {
        let cx = Cx::new(namespace.clock.now(), Origin::Replay);
        let mut guard = namespace.store.hold(1);
        let _view = guard.view(0, &[namespace.store.hash(key)], cx);
        act();
    }

    /// Publishes a message without a call, and so without the gate.
    pub fn publish(namespace: &Namespace, channel: &[u8], payload: &[u8]) {
        let config = namespace.instance.settings.current();
        namespace.push.hub.publish(Message { channel, payload }, &config, namespace.clock.now());
    }

    /// Returns the data visible to clients, in order: a line for each key with its value, deadlines and fence, and a
    /// line for each library of functions.
    pub fn image(namespace: &Namespace) -> Vec<String> {
        crate::command::image(namespace)
    }

    /// Returns the number of calls of a command by all clients.
    pub fn calls(namespace: &Namespace, name: &str) -> u64 {
        let command = namespace.commands.find(name.as_bytes());
        command.map_or(0, |command| namespace.observed.command_stats.calls(command).count)
    }

    /// A simulated disk in memory, for servers that lose power; see [`Builder::disk`](crate::Builder::disk).
    pub mod disk {
        pub use crate::persist::disk::simulated::faults::{DiskFailure, DiskFaults, DiskOperation, PlannedFaults};
        pub use crate::persist::disk::simulated::{CrashKind, SimulatedDisk};
    }

    /// The files of an append-only file.
    pub mod append_only {
        use std::io::{self, Read};

        use crate::persist::aof::{Manifest, SegmentReader, Verdict};

        /// The result of reading a file of commands.
        #[derive(Debug, PartialEq, Eq)]
        pub struct Found {
            /// The commands, without the records between them.
            pub commands: Vec<u8>,
            /// The number of valid bytes of the file.
            pub valid_len: u64,
            /// The damage after the valid bytes, and true if the rest may be cut off.
            pub damage: Option<(String, bool)>,
        }

        /// Reads a file of commands of length `len`.
        ///
        /// # Errors
        /// The errors of reading the file.
        pub fn read(file: impl Read, len: u64) -> io::Result<Found> {
            let (mut reader, mut commands) = (SegmentReader::new(file, len), Vec::new());
            while let Some(piece) = reader.next()? {
                commands.extend_from_slice(&piece.bytes);
            }
            let (damage, damaged_at) = match reader.verdict() {
                Verdict::Complete => (None, len),
                Verdict::TornTail { valid_len, reason } => (Some((reason, true)), valid_len),
                Verdict::Corrupt { offset, reason } => (Some((reason, false)), offset),
            };
            Ok(Found { commands, valid_len: damaged_at, damage })
        }

        /// Parses a manifest; returns it in its written form.
        pub fn manifest(text: &[u8]) -> Option<String> {
            Some(Manifest::parse(text).ok()?.to_text(true))
        }
    }

    pub mod config {
        use std::path::Path;

        use crate::config::SettingsError;
        pub use crate::config::{ChangeTime, Config, Setting, ValueLimits, example_file, options_text, rewrite_file};
        pub use crate::text::{REDIS_VERSION, quote, split_words};

        /// Loads settings; users and renamed commands are checked against the existing commands.
        ///
        /// # Errors
        /// The first invalid line, or a file that cannot be read.
        pub fn load(file: Option<&Path>, stdin: Option<&[u8]>, options: &[u8]) -> Result<Config, SettingsError> {
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

    #[cfg(any(feature = "json", feature = "probabilistic", feature = "vectors"))]
    pub mod parts {
        pub use crate::types::parts::*;
    }

    pub mod payload {
        pub use crate::persist::rdb_file::rewrite as rewrite_file;
        pub use crate::types::payload::rewrite;
    }
}
