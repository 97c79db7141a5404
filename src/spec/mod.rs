//! The declaration of a command: its row, arguments and flags, and everything derived from them.
//!
//! A row declares name, handler, flags, argument grammar and docs. Everything else is computed from it, here and in
//! `COMMAND`: look-up, arity, key positions and with them the shards to lock, the gate, ACL categories, `COMMAND DOCS`
//! and the table of docs/COMMANDS.md. The type of a handler is not known here: it is a parameter of the [`Row`].

use std::num::NonZero;

use crate::profile::Version;
use crate::resp::Request;

pub(crate) mod known;
pub(crate) mod marks;
mod profiled;
pub(crate) mod registry;
pub(crate) mod renames;
mod row;
#[cfg(test)]
pub(crate) mod sample;
mod table;

pub(crate) use marks::Marks;
pub use registry::CommandSpec;
pub use renames::Names;
pub(crate) use renames::Renames;
pub(crate) use row::Row;
pub(crate) use table::CommandTable;

/// A set of the flags below.
pub(crate) type Flags = u32;

/// May change keys.
pub(crate) const WRITE: Flags = 1;
/// Reads keys and changes nothing.
pub(crate) const READ: Flags = 1 << 1;
/// Rejected when memory is over the limit.
pub(crate) const DENY_OOM: Flags = 1 << 2;
/// An administrative command.
pub(crate) const ADMIN: Flags = 1 << 3;
/// Not allowed in scripts.
pub(crate) const NO_SCRIPT: Flags = 1 << 4;
/// Allowed while a data set is loaded.
pub(crate) const LOADING: Flags = 1 << 5;
/// Allowed on a replica that has lost its primary.
pub(crate) const STALE: Flags = 1 << 6;
/// Takes constant or logarithmic time.
pub(crate) const FAST: Flags = 1 << 7;
/// Allowed before authentication.
pub const NO_AUTH: Flags = 1 << 8;
/// Rejected inside MULTI.
pub(crate) const NO_MULTI: Flags = 1 << 9;
/// Allowed while a script has exceeded its time limit.
pub(crate) const ALLOW_BUSY: Flags = 1 << 10;
/// Not shown by MONITOR.
pub(crate) const SKIP_MONITOR: Flags = 1 << 11;
/// Not recorded in the slow log.
pub(crate) const SKIP_SLOWLOG: Flags = 1 << 12;
/// May block the client.
pub(crate) const BLOCKING: Flags = 1 << 13;
/// Related to publish/subscribe.
pub(crate) const PUBSUB: Flags = 1 << 14;
/// Internal: may have effects on other servers without changing a key, so CLIENT PAUSE WRITE holds it back. Not shown
/// by COMMAND.
pub(crate) const MAY_REPLICATE: Flags = 1 << 18;
/// Internal: allowed for subscribed clients in RESP2. Not shown by COMMAND.
pub(crate) const ALLOW_SUBSCRIBED: Flags = 1 << 19;
/// The number of keys is given by an argument and may be 0.
pub(crate) const NO_MANDATORY_KEYS: Flags = 1 << 15;
/// The positions of the keys depend on the arguments.
pub(crate) const MOVABLE_KEYS: Flags = 1 << 16;
/// Not allowed while a data set is loaded in the background.
pub(crate) const NO_ASYNC_LOADING: Flags = 1 << 17;
/// Internal: needs the whole store, see `store`. Not shown by COMMAND.
pub(crate) const EXCLUSIVE: Flags = 1 << 20;
/// Internal: executed at once inside MULTI instead of queued. Not shown by COMMAND.
pub(crate) const NO_QUEUE: Flags = 1 << 21;
/// Internal: changes the process, of which a private instance is only a part. Not shown by COMMAND.
pub(crate) const OF_PROCESS: Flags = 1 << 22;

/// Internal: refused while the data is in an etcd cluster. Not shown by COMMAND.
pub(crate) const NO_ENGINE: Flags = 1 << 23;

/// Executed as if the client had sent ASKING before it.
pub(crate) const ASKING: Flags = 1 << 24;

/// Internal: exists only at a sentinel. Not shown by COMMAND.
pub(crate) const ONLY_SENTINEL: Flags = 1 << 25;

/// Derived, in the tables of profiles: the command lacks arguments that it has without the profile.
pub(crate) const NARROWED: Flags = 1 << 26;

/// Derived, see [`CommandSpec::flags`]: set for every command. In a mask of the flags that must be checked it
/// selects every command.
pub(crate) const EVERY: Flags = 1 << 31;
/// Derived, see [`CommandSpec::flags`]: not a plain data command, so the gate's state may differ after it.
pub(crate) const CONTROL: Flags = 1 << 30;

/// Derived, see [`CommandSpec::flags`]: a request may have several keys, or channels of shards.
pub(crate) const MANY_KEYS: Flags = 1 << 28;
/// Derived, see [`CommandSpec::flags`]: the command is one of a module in Redis.
pub(crate) const OF_MODULE: Flags = 1 << 29;

/// The names under which `COMMAND` lists the flags, in Redis' order.
pub(crate) const FLAG_NAMES: &[(Flags, &str)] = &[
    (WRITE, "write"),
    (READ, "readonly"),
    (DENY_OOM, "denyoom"),
    (OF_MODULE, "module"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NO_SCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (ASKING, "asking"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (ALLOW_BUSY, "allow_busy"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (MOVABLE_KEYS, "movablekeys"),
];

/// The groups of commands in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Strings.
    String,
    /// Strings as arrays of bits.
    Bitmap,
    /// Strings that count distinct elements.
    HyperLogLog,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Streams.
    Stream,
    /// Sorted sets of places.
    Geo,
    /// JSON documents.
    Json,
    /// Bloom filters.
    Bloom,
    /// Cuckoo filters.
    Cuckoo,
    /// Count-min sketches.
    CountMinSketch,
    /// Most frequent items.
    TopK,
    /// Distributions of observations.
    TDigest,
    /// Keys of any type.
    Generic,
    /// Transactions.
    Transactions,
    /// Publish/subscribe.
    PubSub,
    /// This connection.
    Connection,
    /// Clusters.
    Cluster,
    /// Sentinels.
    Sentinel,
    /// Scripts and functions.
    Scripting,
    /// The server as a whole.
    Server,
    /// Vector sets.
    VectorSet,
    /// Locks.
    Lock,
    /// Control of a server in test mode.
    Test,
}

/// A module of Redis whose commands are built in, as `MODULE LIST` shows it: clients look for it before they use these.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: &'static str,
    pub(crate) version: i64,
}

/// The module of JSON documents, in its version for Redis 8.4.
const JSON_MODULE: Module = Module { name: "ReJSON", version: 80400 };
/// The module of the probabilistic types.
const BLOOM_MODULE: Module = Module { name: "bf", version: 80400 };
/// The module of vector sets, which is in Redis itself.
const VECTOR_SET_MODULE: Module = Module { name: "vectorset", version: 1 };

impl Group {
    /// Returns the module that the commands belong to in Redis.
    pub(crate) fn module(self) -> Option<&'static Module> {
        match self {
            Group::VectorSet => Some(&VECTOR_SET_MODULE),
            Group::Json => Some(&JSON_MODULE),
            Group::Bloom | Group::Cuckoo | Group::CountMinSketch | Group::TopK | Group::TDigest => Some(&BLOOM_MODULE),
            _ => None,
        }
    }

    /// Returns true if the commands are those of a module in Redis.
    pub fn is_of_module(self) -> bool {
        self.module().is_some()
    }

    /// Returns the name that `COMMAND DOCS` gives to the commands of Redis itself.
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::Stream => "stream",
            Group::Geo => "geo",
            Group::Json => "json",
            Group::Bloom => "bf",
            Group::Cuckoo => "cf",
            Group::CountMinSketch => "cms",
            Group::TopK => "topk",
            Group::TDigest => "tdigest",
            Group::Generic => "generic",
            Group::Transactions => "transactions",
            Group::PubSub => "pubsub",
            Group::Connection => "connection",
            Group::Cluster => "cluster",
            Group::Sentinel => "sentinel",
            Group::Scripting => "scripting",
            Group::Server => "server",
            Group::VectorSet => "vector_set",
            Group::Lock => "lock",
            Group::Test => "test",
        }
    }
}

/// A set of the key flags below: the use that a command makes of a key.
pub(crate) type KeyFlags = u16;

/// Returns the use that a request makes of its keys; its number of arguments fits the arity.
pub(crate) type KeyUse = fn(Request<'_>) -> KeyFlags;

/// Finds all keys of a request, some of which have no fixed position, and the use of each.
pub(crate) type KeySearch = fn(Request<'_>) -> Vec<(usize, KeyFlags)>;

/// Finds the keys of a request in databases other than the client's: the database and the position of each key.
pub(crate) type KeysElsewhere = fn(Request<'_>) -> Vec<(usize, usize)>;

/// Returns true if a request needs the whole store.
pub(crate) type ExclusiveIf = fn(Request<'_>) -> bool;

/// Replaces the secrets among a call's arguments, including the command's name, by [`REDACTED`].
pub(crate) type Redact = fn(&mut [&[u8]]);

/// The record that a call which has changed keys writes to the log; its replay repeats the change.
#[derive(Clone, Copy)]
pub enum Effect {
    /// The request as it came: in the same state it makes the same change at any time.
    AsIs,
    /// The present values of the keys that the call has changed, as SET, RESTORE or DEL: for a change that depends on the time, on chance or on a condition, or a request that older servers do not know.
    Values,
    /// The same, except for requests for which the function returns true: these are written as they came.
    ValuesUnless(fn(Request<'_>) -> bool),
    /// The present deadlines of the keys that the call has changed, as PEXPIREAT, PERSIST or DEL. Their values stay, or
    /// the keys go.
    Deadlines,
    /// The commands that the handler passes to `Call::log`.
    Given,
}

/// The text shown instead of a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// Redacts all arguments except the command's name.
pub(crate) fn redact_all(args: &mut [&[u8]]) {
    args[1..].fill(REDACTED);
}

/// Redacts all arguments except the names of the command and its subcommand.
pub(crate) fn redact_all_of_subcommand(args: &mut [&[u8]]) {
    args[2..].fill(REDACTED);
}

/// Reads the value.
pub(crate) const RO: KeyFlags = 1;
/// Reads and writes the value.
pub(crate) const RW: KeyFlags = 1 << 1;
/// Overwrites the value without reading it.
pub(crate) const OW: KeyFlags = 1 << 2;
/// Removes the key without reading it.
pub(crate) const RM: KeyFlags = 1 << 3;
/// Returns the value, or part of it, to the client.
pub(crate) const ACCESS: KeyFlags = 1 << 4;
/// Changes the existing value.
pub(crate) const UPDATE: KeyFlags = 1 << 5;
/// Adds data without changing existing data.
pub(crate) const INSERT: KeyFlags = 1 << 6;
/// Removes data.
pub(crate) const DELETE: KeyFlags = 1 << 7;
/// Use depends on the options.
pub(crate) const VARIABLE: KeyFlags = 1 << 8;
/// Not a key, but routed like one in a cluster.
pub(crate) const NOT_KEY: KeyFlags = 1 << 9;
/// Not found from a spec alone, only from the whole request.
pub(crate) const INCOMPLETE: KeyFlags = 1 << 10;

/// The names under which `COMMAND` lists the key flags, in Redis' order.
pub(crate) const KEY_FLAG_NAMES: &[(KeyFlags, &str)] = &[
    (RW, "RW"),
    (RO, "RO"),
    (OW, "OW"),
    (RM, "RM"),
    (ACCESS, "access"),
    (UPDATE, "update"),
    (INSERT, "insert"),
    (DELETE, "delete"),
    (NOT_KEY, "not_key"),
    (INCOMPLETE, "incomplete"),
    (VARIABLE, "variable_flags"),
];

/// The kind of an argument.
#[derive(Clone, Copy, Debug)]
pub enum ArgKind {
    /// The name of a key.
    Key(KeyFlags),
    /// Any bytes.
    String,
    /// A signed 64-bit integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A time in seconds or milliseconds since 1970.
    UnixTime,
    /// A glob pattern.
    Pattern,
    /// The name of a channel that is published or subscribed to. Unsubscribing needs no permission: there it is a
    /// `String`.
    Channel,
    /// A pattern of channels that is subscribed to.
    ChannelPattern,
    /// The name of a channel of a cluster's shard.
    ShardChannel,
    /// A literal keyword.
    Token,
    /// One of several alternatives.
    OneOf(&'static [Arg]),
    /// Several arguments in a row.
    Block(&'static [Arg]),
}

/// One argument of a command.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// The name in the documentation.
    pub name: &'static str,
    /// The kind.
    pub kind: ArgKind,
    /// The purpose, in a sentence; empty for arguments of Redis.
    pub summary: &'static str,
    /// The keyword before the argument, or the argument itself if it is a token.
    pub token: Option<&'static str>,
    /// True if the argument is optional.
    pub optional: bool,
    /// True if the argument may be repeated.
    pub multiple: bool,
    /// True if the keyword is repeated with every repetition.
    pub multiple_token: bool,
    /// The Redis version that introduced the argument, where later than the command.
    pub since: Option<Version>,
    /// The Valkey version that introduced the argument, where that is another one.
    pub valkey: Option<Version>,
    /// True if only Valkey has the argument, since a version of its own.
    pub is_only_valkey: bool,
    /// The notes on the key that COMMAND shows.
    pub key_notes: Option<&'static str>,
    /// The use of the keys that the argument names, when neither names nor positions are known in advance.
    pub unplaced: Option<NonZero<KeyFlags>>,
    /// True if the argument is an element that the command looks up in the collection of its key.
    pub is_element: bool,
}

impl Arg {
    /// Declares an argument of a kind.
    pub const fn new(name: &'static str, kind: ArgKind) -> Self {
        Arg {
            name,
            kind,
            summary: "",
            token: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            since: None,
            valkey: None,
            is_only_valkey: false,
            key_notes: None,
            unplaced: None,
            is_element: false,
        }
    }

    /// Sets the purpose of the argument.
    pub const fn about(self, summary: &'static str) -> Self {
        Arg { summary, ..self }
    }

    /// Sets the keyword before the argument.
    pub const fn token(self, token: &'static str) -> Self {
        Arg { token: Some(token), ..self }
    }

    /// Makes the argument optional.
    pub const fn optional(self) -> Self {
        Arg { optional: true, ..self }
    }

    /// Makes the argument repeatable.
    pub const fn multiple(self) -> Self {
        Arg { multiple: true, ..self }
    }

    /// Makes the argument repeatable together with its keyword.
    pub const fn multiple_token(self) -> Self {
        Arg { multiple: true, multiple_token: true, ..self }
    }

    /// Sets the notes on the key.
    pub const fn key_notes(self, notes: &'static str) -> Self {
        Arg { key_notes: Some(notes), ..self }
    }

    /// Declares that neither names nor positions of the keys are known in advance, and the reason.
    pub const fn unplaced(self, flags: KeyFlags, why: &'static str) -> Self {
        Arg { unplaced: NonZero::new(flags), key_notes: Some(why), ..self }
    }

    /// Sets the Redis version that introduced the argument.
    pub const fn since(self, version: &'static str) -> Self {
        Arg { since: Some(Version::parse(version)), ..self }
    }

    /// Sets the Valkey version that introduced the argument, where that is another one.
    pub const fn valkey(self, version: &'static str) -> Self {
        Arg { valkey: Some(Version::parse(version)), ..self }
    }

    /// Sets the Valkey version that introduced the argument, which Redis has not.
    pub const fn only_valkey(self, version: &'static str) -> Self {
        Arg { since: Some(Version::parse(version)), is_only_valkey: true, ..self }
    }
}

pub(crate) const fn key(name: &'static str, flags: KeyFlags) -> Arg {
    Arg::new(name, ArgKind::Key(flags))
}

pub(crate) const fn string(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::String)
}

/// Declares a field or a member that the command looks up in the collection of its key.
pub(crate) const fn element(name: &'static str) -> Arg {
    Arg { is_element: true, ..string(name) }
}

pub(crate) const fn integer(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::Integer)
}

pub(crate) const fn double(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::Double)
}

pub(crate) const fn unix_time(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::UnixTime)
}

pub(crate) const fn pattern(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::Pattern)
}

/// Declares a channel name that the client needs permission for.
pub(crate) const fn channel(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::Channel)
}

/// Declares a channel pattern that the client needs permission for.
pub(crate) const fn channel_pattern(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::ChannelPattern)
}

pub(crate) const fn shard_channel(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::ShardChannel)
}

/// Declares a literal keyword.
pub(crate) const fn token(name: &'static str, word: &'static str) -> Arg {
    Arg::new(name, ArgKind::Token).token(word)
}

/// Declares a choice between alternatives.
pub(crate) const fn one_of(name: &'static str, choices: &'static [Arg]) -> Arg {
    Arg::new(name, ArgKind::OneOf(choices))
}

/// Declares a group of arguments.
pub(crate) const fn block(name: &'static str, parts: &'static [Arg]) -> Arg {
    Arg::new(name, ArgKind::Block(parts))
}

/// The declaration of a command, without its handler.
#[derive(Clone, Copy)]
pub struct Declaration {
    /// Upper-case name; of a subcommand, without its container.
    pub name: &'static str,
    /// The flags: effects, and conditions for calls.
    pub flags: Flags,
    /// Facts that single layers depend on.
    pub marks: Marks,
    /// The grammar of the arguments.
    pub args: &'static [Arg],
    /// The group that the command belongs to.
    pub group: Group,
    /// The Redis version that introduced the command; for a command that only Valkey has, its version.
    pub since: Option<Version>,
    /// The Valkey version that introduced the command, where that is another one.
    pub valkey: Option<Version>,
    /// The time complexity.
    pub complexity: &'static str,
    /// The effect of the command, in one sentence.
    pub summary: &'static str,
    /// ACL categories beyond those that flags and group imply, without `@`.
    pub categories: &'static [&'static str],
    /// Command tips, as Redis defines them.
    pub tips: &'static [&'static str],
    /// The version since which the command is deprecated, as the reference of Redis writes it, and its replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// True if the command is documented as a system command, for debugging rather than applications.
    pub internal: bool,
    /// Returns the use that a request makes of its keys, where that depends on the options.
    pub key_use: Option<KeyUse>,
    /// Finds the keys, where some have no fixed position.
    pub key_search: Option<KeySearch>,
    /// Finds the keys in other databases than the client's.
    pub keys_elsewhere: Option<KeysElsewhere>,
    /// Redacts secrets among the arguments of a call that is shown elsewhere.
    pub redact: Option<Redact>,
    /// Returns true for requests that need the whole store, where not all requests of an EXCLUSIVE command do.
    pub exclusive_if: Option<ExclusiveIf>,
    /// The record in the log of a call that has changed keys.
    pub effect: Effect,
    /// The arity, where it differs from the grammar's.
    pub arity: Option<i32>,
    /// The Redis version that introduced the subcommand `HELP`.
    pub help_since: Version,
}
