//! Marks of commands: facts about a few commands that single layers depend on, and that no flag of Redis expresses.
//!
//! A layer asks for a mark where it would otherwise compare the name of a command.

/// A set of the marks below.
pub(crate) type Marks = u32;

/// Opens a transaction: MULTI.
pub(crate) const OPENS_QUEUE: Marks = 1;
/// Executes the queue of a transaction: EXEC.
pub(crate) const EXECUTES_QUEUE: Marks = 1 << 1;
/// Drops the queue of a transaction, and so is accepted inside MULTI when memory is over the limit.
pub(crate) const DROPS_QUEUE: Marks = 1 << 2;
/// Selects the database that its argument numbers: SELECT.
pub(crate) const SELECTS_DB: Marks = 1 << 3;
/// Tells monitors whether the server takes writes, and carries records of locks and fences in the log: PING.
pub(crate) const HEALTH_CHECK: Marks = 1 << 4;
/// Belongs to a replication link itself when a primary sends it outside of a transaction.
pub(crate) const OF_LINK: Marks = 1 << 5;
/// Publishes a message, on all servers of a cluster.
pub(crate) const PUBLISHES: Marks = 1 << 6;
/// Deletes all keys of one database or of all, and reads none.
pub(crate) const CLEARS: Marks = 1 << 7;
/// Reads keys that its arguments do not name, besides those that they do.
pub(crate) const READS_ANY_KEY: Marks = 1 << 8;
/// Depends on keys without the flag READ.
pub(crate) const NEEDS_FRESH_KEYS: Marks = 1 << 9;
/// Has the same result when it is executed again, although its group has state of the connection.
pub(crate) const REPEATABLE: Marks = 1 << 10;
/// Leaves the choice of CLIENT CACHING in force for the call after it. Subcommands inherit it.
pub(crate) const KEEPS_CACHING: Marks = 1 << 11;
/// Allowed in scripts after DEBUG SET-DISABLE-DENY-SCRIPTS.
pub(crate) const SCRIPTS_IN_DEBUGGING: Marks = 1 << 12;
/// Sets up or ends a connection, and so is spared by injected faults that name no command.
pub(crate) const SPARED_BY_FAULTS: Marks = 1 << 13;
/// Runs the script that its first argument is.
pub(crate) const RUNS_TEXT: Marks = 1 << 14;
/// Runs the cached script whose digest is its first argument.
pub(crate) const RUNS_DIGEST: Marks = 1 << 15;
/// Runs the function that its first argument names.
pub(crate) const RUNS_FUNCTION: Marks = 1 << 16;
/// Changes users: calls that were admitted before are admitted again.
pub(crate) const CHANGES_USERS: Marks = 1 << 17;
/// Moves keys to another server: MIGRATE.
pub(crate) const MOVES_KEYS: Marks = 1 << 18;
/// Allows the next call a slot that is being moved to the node: ASKING.
pub(crate) const ASKS: Marks = 1 << 20;
/// Loads scripts or libraries of functions, or shows that they are loaded.
pub(crate) const ENSURES_SCRIPTS: Marks = 1 << 21;
/// Changes the process, and is answered by a node of a topology all the same, which stands for a process.
pub(crate) const OF_NODE: Marks = 1 << 22;
/// Exists at a sentinel. Subcommands inherit it.
pub(crate) const OF_SENTINEL: Marks = 1 << 19;
/// Exists in Valkey only, and `since` is its version there. Subcommands inherit it.
pub(crate) const ONLY_VALKEY: Marks = 1 << 24;
/// Reads or changes settings, among which the profile is.
pub(crate) const CONFIGURES: Marks = 1 << 23;
/// Names an option that it does not know in its error.
pub(crate) const NAMES_OPTIONS: Marks = 1 << 25;
/// Takes an option that it does not know for the id of an entry: XADD.
pub(crate) const EXPECTS_ID: Marks = 1 << 26;
/// Depends on the libraries of functions, or changes them.
pub(crate) const OF_FUNCTIONS: Marks = 1 << 28;
/// Takes over the locks that are held with its argument, whose keys no argument names: LOCK.RESUME.
pub(crate) const RESUMES_LOCKS: Marks = 1 << 27;
