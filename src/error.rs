//! All error replies, each with its text.
//!
//! The text is sent between `-` and the line end: an upper-case prefix that clients match on, then a sentence for
//! people. The wording is Redis' own wherever Redis has the error, and Valkey's where a handler asks for it
//! ([`Dialect`]).

use std::borrow::Cow;
use std::fmt;

use crate::store::WrongType;
use crate::text::{Dialect, until_nul};

/// The result of a command handler.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The reason why a command fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The options of a command do not fit together.
    Syntax,
    /// An argument is not a signed 64-bit integer.
    NotInteger,
    /// A majority of the cluster that has the data does not answer: the command was not executed.
    NoQuorum,
    /// The command is not possible with data in a cluster; holds its full name.
    NotOnEngine(&'static str),
    /// A script or a transaction that writes has called this command, whose keys it has not declared.
    UndeclaredKey(&'static str),
    /// A command has more keys than a transaction of the cluster takes; holds its full name and the limit.
    TooManyKeysForEngine(&'static str, usize),
    /// A transaction that writes has queued this command, which cannot be repeated as writes can.
    NotRepeatable(&'static str),
    /// A value is larger than `etcd-value-max`, or a call changes too much for one transaction.
    TooLargeForEngine,
    /// The cluster that has the data has not confirmed whether the command was executed.
    Uncertain,
    /// An argument or value is not a floating-point number.
    NotFloat,
    /// An argument is negative, or is not an integer.
    NotPositive,
    /// The key holds another data type.
    WrongType,
    /// Adding would leave the range of a signed 64-bit integer.
    Overflow,
    /// The decrement cannot be negated.
    DecrementOverflow,
    /// Adding would give NaN or infinity.
    NotFinite,
    /// The string would be longer than `proto-max-bulk-len`.
    StringTooLong,
    /// An offset is negative.
    OffsetOutOfRange,
    /// The offset of a bit is negative, too large or not an integer.
    BitOffset,
    /// A bit is neither 0 nor 1.
    BitValue,
    /// A TTL is zero, negative or too large; holds the command's name.
    InvalidExpire(&'static str),
    /// The source key of a RENAME does not exist.
    NoSuchKey,
    /// RESTORE would overwrite a key.
    BusyKey,
    /// COPY or MOVE would put a key where it already is.
    SameObject,
    /// A cursor is not an unsigned integer.
    InvalidCursor,
    /// No such command; holds the quoted name and arguments.
    UnknownCommand(Vec<u8>),
    /// No such subcommand; holds the subcommand and the container's name as it was called, in capitals.
    UnknownSubcommand(Vec<u8>, String),
    /// Too few or too many arguments; holds the command's full name.
    WrongArity(Cow<'static, str>),
    /// The client must authenticate first.
    NoAuth,
    /// The user lacks permission for this command, named in full, or for a key or channel.
    NoPerm(Denial, &'static str),
    /// The user no longer has permission for a queued command.
    NoPermAtExec(Denial),
    /// HELLO without AUTH, though authentication is required.
    NoAuthHello,
    /// User name or password are wrong.
    WrongPass,
    /// AUTH was given a password though none is set.
    NoPasswordSet,
    /// HELLO asked for a protocol other than 2 and 3.
    NoProto,
    /// HELLO's version is not an integer.
    ProtoNotInteger,
    /// HELLO with an unknown option; holds the option.
    HelloOption(Vec<u8>),
    /// A database number is out of range.
    DbOutOfRange,
    /// MULTI inside MULTI.
    NestedMulti,
    /// WATCH inside MULTI.
    WatchInsideMulti,
    /// EXEC without MULTI, DISCARD without MULTI; holds the command's name.
    WithoutMulti(&'static str),
    /// A queued command was rejected, so EXEC fails.
    ExecAborted,
    /// EXEC itself was rejected; holds the reason without its `ERR` prefix.
    ExecRefused(Vec<u8>),
    /// A client would be queued forever; holds the cycle in words.
    Deadlock(String),
    /// An error injected by a test, verbatim.
    Injected(Vec<u8>),
    /// The error of a service that the server answers as, verbatim.
    Verbatim(Vec<u8>),
    /// The command must not be queued.
    NotInMulti,
    /// A command about the process, called in a private instance.
    NotInPrivate,
    /// The server is a replica that takes no writes.
    ReadOnlyReplica,
    /// The server is a replica, and the client, which follows redirections, must call the primary; holds its address.
    Redirected(Box<str>, u16),
    /// The keys of a call are in different slots of a cluster.
    CrossSlot,
    /// The cluster does not serve the keys of a call; holds the text.
    ClusterDown(&'static str),
    /// Some keys of a call have moved to another node already.
    TryAgain,
    /// The key of a call is at the node to which its slot is being moved.
    Ask {
        /// The slot.
        slot: u16,
        /// The host of the node.
        host: Box<str>,
        /// Its port.
        port: u16,
    },
    /// The keys of a call belong to another node.
    Moved {
        /// The slot.
        slot: u16,
        /// The host of the node.
        host: Box<str>,
        /// Its port.
        port: u16,
    },
    /// The server is a replica without a link to its primary, and serves no stale data.
    StaleReplica,
    /// A replica without a link to its primary is asked for its data.
    NoPrimaryLink,
    /// The server has become a replica while the client was blocked.
    RoleChanged,
    /// The client is subscribed in RESP2, where few commands are allowed; holds the command's full name.
    NotWhileListening(String),
    /// UNSUBSCRIBE without a subscription, which Valkey rejects; holds the command's name.
    NotSubscribed(&'static str),
    /// CLIENT UNBLOCK ended the wait.
    Unblocked,
    /// The call panicked, which is a bug.
    Internal,
    /// A client name has bytes outside `!`..`~`.
    ClientName,
    /// CLIENT SETINFO with an unknown attribute; holds it.
    SetInfoOption(Vec<u8>),
    /// A name of a connection or of its library is too long; holds the kind of name, and the limit in bytes.
    NameTooLong(&'static str, usize),
    /// CLIENT SETINFO's value has bytes outside `!`..`~`; holds the attribute.
    SetInfoValue(&'static str),
    /// HEXPIRE, HGETEX, HSETEX or a related command with an unknown option; holds it.
    UnknownArgument(Vec<u8>),
    /// EXPIRE or a related command with an unknown option; holds it.
    UnsupportedOption(Vec<u8>),
    /// The string is not a HyperLogLog.
    NotHyperLogLog,
    /// The runs of a sparse HyperLogLog do not add up.
    CorruptHyperLogLog,
    /// PFDEBUG with an unknown subcommand; holds it.
    PfdebugSubcommand(Vec<u8>),
    /// Too many arguments for a container's subcommand; holds the subcommand and the container's name.
    SubcommandSyntax(Vec<u8>, &'static str),
    /// ACL rejects rules, or the ACL file; holds the reason.
    AclRefused(Vec<u8>),
    /// ACL LOAD and SAVE without `aclfile`.
    NoAclFile,
    /// ACL CAT with an unknown category; holds it.
    UnknownCategory(Vec<u8>),
    /// ACL DRYRUN with an unknown user; holds the name.
    UserNotFound(Vec<u8>),
    /// ACL DRYRUN with an unknown command; holds the name.
    CommandNotFound(Vec<u8>),
    /// No user has this name.
    NoSuchUser(Vec<u8>),
    /// CLIENT LIST TYPE with an unknown type; holds it.
    UnknownClientType(Vec<u8>),
    /// CONFIG SET failed; holds the reason.
    Config(String),
    /// DEBUG or MODULE is disabled by a setting, for this client or for all; holds the command's name.
    NotAllowed(&'static str),
    /// Memory usage is over the limit, and no key can be evicted.
    OutOfMemory,
    /// There are fewer replicas than `min-replicas-to-write` asks for.
    NoReplicas,
    /// Snapshots cannot be saved, and writes are rejected then; holds the dialect.
    SnapshotFails(Dialect),
    /// The append-only file cannot be written; holds the reason.
    LogFails(String),
    /// A script may write while data cannot be saved; holds the dialect and, if the append-only file is the cause, the
    /// reason.
    ScriptNotSaved(Dialect, Option<String>),
    /// No keys are served yet.
    Loading,
    /// The number of clients has reached `maxclients`.
    MaxClients,
    /// A word that is no id of a stream's entry.
    InvalidStreamId,
    /// A connection from another machine in protected mode.
    ProtectedMode,
    /// A script has been running for too long; holds the dialect, and `SCRIPT` or `FUNCTION`.
    Busy(Dialect, &'static str),
    /// SCRIPT KILL or FUNCTION KILL found nothing to kill.
    NotBusy,
    /// The script to be killed has written already.
    Unkillable,
    /// There is no script with this SHA1.
    NoScript,
    /// There is no such stream or consumer group; holds the sentence.
    NoGroup(Vec<u8>),
    /// XGROUP CREATE would overwrite a group.
    BusyGroup,
    /// XCLAIM or XNACK with an unknown option; holds the command and the option.
    StreamOption(&'static str, Vec<u8>),
    /// A script failed or does not compile; holds the whole line.
    Script(Vec<u8>),
    /// The values are too large for the table of LCS.
    LcsTooLong,
    /// The target of MIGRATE replied with an error; holds it.
    TargetRefused(Vec<u8>),
    /// The connection to the target of MIGRATE failed or timed out.
    TargetUnknown,
    /// The connection to the target of MIGRATE broke or timed out later; holds the step.
    TargetLost(&'static str),
    /// Two prefixes of one client overlap; holds the new one, the origin of the other one, and the other one.
    PrefixOverlap(Vec<u8>, &'static str, Vec<u8>),
    /// An error of a single command, without the `ERR` prefix.
    Other(Cow<'static, str>),
    /// An error of a single command, as the whole line: those of some types begin with no code.
    Line(&'static str),
    /// The same, with a part of the request.
    ComposedLine(String),
}

/// The permission that a user lacks. If several are missing, the last in this order is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// Permission to call the command.
    Command,
    /// Permission for the key at this position of the request.
    Key(usize),
    /// Permission for the channel at this position of the request.
    Channel(usize),
}

const PROTECTED_MODE: &str = "DENIED keylatch is running in protected mode because it accepts connections from other \
hosts and no password is set. Only connections from the loopback interface are served. Either set a password \
(requirepass), or bind to trusted addresses only (bind), or turn the protection off (protected-mode no) if no stranger \
can reach this port.";

const NO_ACL_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order \
to store users in the Redis configuration.";
const NO_AUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";

const NO_PASSWORD_SET: &str = "ERR AUTH <password> called without any password configured for the default user. Are \
you sure your configuration is correct?";

const LISTENING_ONLY: &str = "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
context";

const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either \
wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";

impl From<WrongType> for Error {
    #[cold]
    fn from(_: WrongType) -> Self {
        Error::WrongType
    }
}

impl Error {
    /// Returns an error with the prefix `ERR` and the given text.
    pub fn other(text: impl Into<Cow<'static, str>>) -> Self {
        Error::Other(text.into())
    }

    /// Returns the error of an EXEC that was refused for this reason.
    pub fn of_exec(&self) -> Error {
        let text = self.wire_text();
        Error::ExecRefused(text.strip_prefix(b"ERR ").unwrap_or(&text).to_vec())
    }

    /// Returns true if the error tells that other nodes have the keys, or that none has.
    pub(crate) fn is_of_routing(&self) -> bool {
        matches!(
            self,
            Error::CrossSlot | Error::ClusterDown(_) | Error::TryAgain | Error::Ask { .. } | Error::Moved { .. }
        )
    }

    /// Returns the error line, without `-` and line end.
    pub fn wire_text(&self) -> Vec<u8> {
        self.quoted().unwrap_or_else(|| self.to_string().into_bytes())
    }

    /// Returns the text of an error that quotes bytes sent by the client, verbatim.
    fn quoted(&self) -> Option<Vec<u8>> {
        Some(match self {
            Error::NotOnEngine(name) => format!("ERR '{name}' is not possible with engine etcd").into_bytes(),
            Error::UndeclaredKey(name) => {
                format!("ERR '{name}' needs keys that are not declared, which engine etcd does not have here")
                    .into_bytes()
            }
            Error::TooManyKeysForEngine(name, max) => {
                format!("ERR '{name}' has more than {max} keys, which engine etcd does not change at once").into_bytes()
            }
            Error::NotRepeatable(name) => {
                format!("ERR '{name}' is not possible in a transaction that writes with engine etcd").into_bytes()
            }
            Error::Ask { slot, host, port } => format!("ASK {slot} {host}:{port}").into_bytes(),
            Error::Moved { slot, host, port } => format!("MOVED {slot} {host}:{port}").into_bytes(),
            Error::Redirected(host, port) => format!("REDIRECT {host}:{port}").into_bytes(),
            Error::HelloOption(word) => quoting("ERR Syntax error in HELLO option '", word, "'"),
            Error::UnknownCommand(quoted) => quoting("ERR unknown command ", quoted, ""),
            Error::UnknownSubcommand(word, container) => {
                quoting("ERR unknown subcommand '", word, &format!("'. Try {container} HELP."))
            }
            Error::NotWhileListening(name) => quoting("ERR Can't execute '", name.as_bytes(), LISTENING_ONLY),
            Error::ExecRefused(reason) => quoting("EXECABORT Transaction discarded because of: ", reason, ""),
            Error::UnknownArgument(word) => quoting("ERR unknown argument: ", word, ""),
            Error::UnsupportedOption(word) => quoting("ERR Unsupported option ", word, ""),
            Error::PfdebugSubcommand(word) => {
                // The text ends at its first NUL, as in C.
                let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
                quoting("ERR Unknown PFDEBUG subcommand '", word, "'")
            }
            Error::SubcommandSyntax(word, container) => {
                let before = "ERR unknown subcommand or wrong number of arguments for '";
                quoting(before, clip(word, QUOTED_MAX), &format!("'. Try {container} HELP."))
            }
            Error::AclRefused(reason) => quoting("ERR ", reason, ""),
            Error::UnknownCategory(word) => quoting("ERR Unknown category '", clip(word, QUOTED_MAX), "'"),
            Error::UserNotFound(name) => quoting("ERR User '", clip(name, usize::MAX), "' not found"),
            Error::CommandNotFound(name) => quoting("ERR Command '", clip(name, usize::MAX), "' not found"),
            Error::NoSuchUser(name) => quoting("ERR No such user '", name, "'"),
            Error::UnknownClientType(word) => quoting("ERR Unknown client type '", word, "'"),
            Error::NoGroup(sentence) => quoting("NOGROUP ", sentence, ""),
            Error::StreamOption(command, word) => {
                quoting(&format!("ERR Unrecognized {command} option '"), until_nul(word), "'")
            }
            Error::Script(line) | Error::Injected(line) | Error::Verbatim(line) => line.clone(),
            Error::Line(line) => line.as_bytes().to_vec(),
            Error::TargetRefused(text) => quoting("ERR Target instance replied with error: ", text, ""),
            Error::PrefixOverlap(prefix, kind, other) => {
                let between = format!("' overlaps with {kind} prefix '");
                let first = quoting("ERR Prefix '", until_nul(prefix), &between);
                [first, quoting("", until_nul(other), "'. Prefixes for a single client must not overlap.")].concat()
            }
            Error::SetInfoOption(word) => quoting("ERR Unrecognized option '", word, "'"),
            _ => return None,
        })
    }
}

/// Maximum number of bytes of an unknown argument that are quoted in an error.
const QUOTED_MAX: usize = 128;

/// Truncates as C's `%.*s` would: after `max_len` bytes or before a NUL.
fn clip(word: &[u8], max_len: usize) -> &[u8] {
    until_nul(&word[..word.len().min(max_len)])
}

fn quoting(before: &str, quoted: &[u8], after: &str) -> Vec<u8> {
    [before.as_bytes(), quoted, after.as_bytes()].concat()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidExpire(command) => write!(f, "ERR invalid expire time in '{command}' command"),
            Error::Deadlock(cycle) => write!(f, "DEADLOCK {cycle}"),
            Error::WrongArity(name) => write!(f, "ERR wrong number of arguments for '{name}' command"),
            Error::NoPerm(denial, command) => f.write_str(&denied(*denial, command)),
            Error::NoPermAtExec(denial) => f.write_str(&denied_at_exec(*denial)),
            Error::WithoutMulti(command) => write!(f, "ERR {command} without MULTI"),
            Error::NotSubscribed(name) => write!(f, "NOSUB '{name}' command executed not in subscribed mode"),
            Error::SetInfoValue(attribute) => {
                write!(f, "ERR {attribute} cannot contain spaces, newlines or special characters.")
            }
            Error::NameTooLong(what, max_len) => write!(f, "ERR {what} cannot be longer than {max_len} bytes."),
            Error::Config(reason) => write!(f, "ERR {reason}"),
            Error::NotAllowed(command) => f.write_str(&not_allowed(command)),
            Error::SnapshotFails(dialect) => f.write_str(&snapshot_fails(*dialect)),
            Error::LogFails(reason) => write!(f, "MISCONF Errors writing to the AOF file: {reason}"),
            Error::ScriptNotSaved(dialect, reason) => f.write_str(&script_not_saved(*dialect, reason.as_deref())),
            Error::Busy(dialect, kind) => f.write_str(&busy(*dialect, kind)),
            Error::TargetLost(act) => write!(f, "IOERR error or timeout {act} to target instance"),
            Error::Other(text) => write!(f, "ERR {text}"),
            Error::ComposedLine(line) => f.write_str(line),
            other => match other.fixed_text() {
                Some(text) => f.write_str(text),
                None => f.write_str(&String::from_utf8_lossy(&other.quoted().unwrap_or_default())),
            },
        }
    }
}

impl Error {
    /// Returns the text of an error that has no arguments.
    fn fixed_text(&self) -> Option<&'static str> {
        Some(match self {
            Error::Syntax => "ERR syntax error",
            Error::ClusterDown(text) => text,
            Error::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot",
            Error::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot",
            Error::NoQuorum => "NOQUORUM the engine cannot reach a majority of the cluster",
            Error::Uncertain => "UNCERTAIN the engine has not confirmed the outcome",
            Error::TooLargeForEngine => "ERR what is written is larger than engine etcd takes, see etcd-value-max",
            Error::NotInteger => "ERR value is not an integer or out of range",
            Error::NotFloat => "ERR value is not a valid float",
            Error::NotPositive => "ERR value is out of range, must be positive",
            Error::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Error::Overflow => "ERR increment or decrement would overflow",
            Error::DecrementOverflow => "ERR decrement would overflow",
            Error::NotFinite => "ERR increment would produce NaN or Infinity",
            Error::StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Error::OffsetOutOfRange => "ERR offset is out of range",
            Error::BitOffset => "ERR bit offset is not an integer or out of range",
            Error::BitValue => "ERR bit is not an integer or out of range",
            Error::NoSuchKey => "ERR no such key",
            Error::BusyGroup => "BUSYGROUP Consumer Group name already exists",
            Error::BusyKey => "BUSYKEY Target key name already exists.",
            Error::SameObject => "ERR source and destination objects are the same",
            Error::InvalidCursor => "ERR invalid cursor",
            Error::NoAuth => "NOAUTH Authentication required.",
            Error::NoAuthHello => NO_AUTH_HELLO,
            Error::WrongPass => "WRONGPASS invalid username-password pair or user is disabled.",
            Error::NoPasswordSet => NO_PASSWORD_SET,
            Error::NoProto => "NOPROTO unsupported protocol version",
            Error::ProtoNotInteger => "ERR Protocol version is not an integer or out of range",
            Error::NotHyperLogLog => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Error::CorruptHyperLogLog => "INVALIDOBJ Corrupted HLL object detected",
            Error::DbOutOfRange => "ERR DB index is out of range",
            Error::NestedMulti => "ERR MULTI calls can not be nested",
            Error::WatchInsideMulti => "ERR WATCH inside MULTI is not allowed",
            Error::ExecAborted => "EXECABORT Transaction discarded because of previous errors.",
            Error::NotInMulti => "ERR Command not allowed inside a transaction",
            Error::NotInPrivate => {
                "ERR this command is about the whole process, which a private instance cannot change"
            }
            Error::ReadOnlyReplica => "READONLY You can't write against a read only replica.",
            Error::StaleReplica => "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            Error::NoPrimaryLink => "NOMASTERLINK Can't SYNC while not connected with my master",
            Error::RoleChanged => {
                "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
            }
            Error::Unblocked => "UNBLOCKED client unblocked via CLIENT UNBLOCK",
            Error::Internal => "ERR internal error: the command has failed by a bug of the server, see its log",
            Error::ClientName => "ERR Client names cannot contain spaces, newlines or special characters.",
            Error::Loading => "LOADING Redis is loading the dataset in memory",
            Error::NoReplicas => "NOREPLICAS Not enough good replicas to write.",
            Error::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Error::MaxClients => "ERR max number of clients reached",
            Error::InvalidStreamId => "ERR Invalid stream ID specified as stream command argument",
            Error::ProtectedMode => PROTECTED_MODE,
            Error::NoAclFile => NO_ACL_FILE,
            Error::NotBusy => "NOTBUSY No scripts in execution right now.",
            Error::Unkillable => UNKILLABLE,
            Error::TargetUnknown => "IOERR error or timeout connecting to the client",
            Error::NoScript => "NOSCRIPT No matching script. Please use EVAL.",
            Error::LcsTooLong => "ERR String too long for LCS",
            _ => return None,
        })
    }
}

/// Returns the error text of a command that a setting disables.
fn not_allowed(command: &str) -> String {
    let setting = format!("enable-{}-command", command.to_ascii_lowercase());
    format!(
        "ERR {command} command not allowed. If the {setting} option is set to \"local\", you can run it from a local \
         connection, otherwise you need to set this option in the configuration file, and then restart the server."
    )
}

/// Returns the MISCONF error text for a write.
fn snapshot_fails(dialect: Dialect) -> String {
    let name = dialect.title();
    format!(
        "MISCONF {name} is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that \
         may modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
         snapshotting fails (stop-writes-on-bgsave-error option). Please check the {name} logs for details about the RDB \
         error."
    )
}

/// Returns the MISCONF error text for a script that may write, with the reason if the append-only file is the cause.
fn script_not_saved(dialect: Dialect, reason: Option<&str>) -> String {
    let name = dialect.title();
    let task = if reason.is_some() { "persist data to AOF" } else { "save RDB snapshots" };
    let detail = reason.map(|reason| format!(" AOF error: {reason}")).unwrap_or_default();
    format!(
        "MISCONF {name} is configured to {task}, but it's currently unable to persist to disk. Writable scripts are \
         blocked. Use 'no-writes' flag for read only scripts.{detail}"
    )
}

/// Returns the BUSY error text.
fn busy(dialect: Dialect, kind: &str) -> String {
    let name = dialect.title();
    format!("BUSY {name} is busy running a script. You can only call {kind} KILL or SHUTDOWN NOSAVE.")
}

/// Returns the NOPERM error text of the gate.
fn denied(denial: Denial, command: &str) -> String {
    let what = match denial {
        Denial::Command => format!("run the '{command}' command"),
        Denial::Key(_) => "access one of the keys used as arguments".into(),
        Denial::Channel(_) => "access one of the channels used as arguments".into(),
    };
    format!("NOPERM this user has no permissions to {what}")
}

/// Returns the NOPERM error text at EXEC.
fn denied_at_exec(denial: Denial) -> String {
    let what = match denial {
        Denial::Command => "execute the command or subcommand",
        Denial::Key(_) => "touch the specified keys",
        Denial::Channel(_) => "access one of the channels used as arguments",
    };
    format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
         is no longer allowed for the following reason: no permission to {what}"
    )
}

impl std::error::Error for Error {}
