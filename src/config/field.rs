//! The Rust types of the fields of `Config`, parsed from and formatted as canonical text.
//!
//! Nothing is validated here: [`Kind`](crate::config::Kind) has validated the text, which is the invariant behind every
//! `expect`.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::config::kind::{bytes_to_os, os_to_bytes, parse_port_range};
use crate::profile::Profile;
use crate::store::{Classes, EvictionPolicy, ListLimit};

/// A field that is parsed from canonical text and formatted as it.
pub(super) trait Field {
    /// Parses the text, which a kind has validated.
    fn from_text(text: &[u8]) -> Self;
    /// Formats the value as `CONFIG GET` shows it.
    fn to_text(&self) -> Vec<u8>;
}

/// The output buffer limits of one client class; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// The hard limit: above it the client is disconnected at once.
    pub hard_bytes: u64,
    /// The soft limit: above it for `soft_seconds` the client is disconnected.
    pub soft_bytes: u64,
    /// Time for which the soft limit may be exceeded, in seconds.
    pub soft_seconds: u32,
}

impl OutputLimit {
    /// The minimum of a limit, in bytes: Redis does not count what fits into the fixed buffer of every client.
    pub(crate) const LEAST: usize = 16 * 1024;

    /// Returns the hard limit, if there is one.
    pub fn hard(self) -> Option<u64> {
        (self.hard_bytes != 0).then(|| self.hard_bytes.max(Self::LEAST as u64))
    }

    /// Returns these limits, raised to at least `bytes`; a missing limit stays missing.
    pub(crate) fn at_least(self, bytes: u64) -> Self {
        let raised = |limit: u64| if limit == 0 { 0 } else { limit.max(bytes) };
        OutputLimit { hard_bytes: raised(self.hard_bytes), soft_bytes: raised(self.soft_bytes), ..self }
    }

    /// Returns true if `waiting` bytes exceed the soft limit.
    pub fn is_over_soft(self, waiting: u64) -> bool {
        self.soft_bytes != 0 && waiting > self.soft_bytes.max(Self::LEAST as u64)
    }
}

/// Address of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The name or the address of the host.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Field for Option<RangeInclusive<u16>> {
    fn from_text(text: &[u8]) -> Self {
        parse_port_range(text)
    }

    fn to_text(&self) -> Vec<u8> {
        self.as_ref().map_or(Vec::new(), |ports| format!("{}-{}", ports.start(), ports.end()).into_bytes())
    }
}

impl Field for Option<&'static Profile> {
    fn from_text(text: &[u8]) -> Self {
        Profile::find(text)
    }

    fn to_text(&self) -> Vec<u8> {
        self.map_or("", |profile| profile.name).into()
    }
}

impl Field for Option<HostPort> {
    fn from_text(text: &[u8]) -> Self {
        let at = text.iter().rposition(|byte| *byte == b' ')?;
        Some(HostPort { host: String::from_utf8_lossy(&text[..at]).into_owned(), port: number(&text[at + 1..]) })
    }

    fn to_text(&self) -> Vec<u8> {
        self.as_ref().map_or(Vec::new(), |HostPort { host, port }| format!("{host} {port}").into_bytes())
    }
}

/// Condition of a snapshot: it is due as soon as both numbers are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// The seconds since the last snapshot.
    pub seconds: u64,
    /// The changes since the last snapshot.
    pub changes: u64,
}

/// The limit of the memory of all clients; 0 bytes mean no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMemory {
    /// A number of bytes.
    Bytes(u64),
    /// A percentage of `maxmemory`.
    Percent(u32),
}

impl Field for ClientMemory {
    fn from_text(text: &[u8]) -> Self {
        match text.strip_suffix(b"%") {
            Some(percent) => ClientMemory::Percent(number(percent)),
            None => ClientMemory::Bytes(number(text)),
        }
    }

    fn to_text(&self) -> Vec<u8> {
        match self {
            ClientMemory::Bytes(bytes) => bytes.to_string(),
            ClientMemory::Percent(percent) => format!("{percent}%"),
        }
        .into_bytes()
    }
}

/// The lowest level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything, for development.
    Debug,
    /// Rarely useful detail.
    Verbose,
    /// Messages that are useful in production.
    Notice,
    /// Only problems.
    Warning,
    /// Nothing.
    Nothing,
}

impl LogLevel {
    /// The names of the levels, in the order of the variants.
    pub(super) const WORDS: &'static [&'static str] = &["debug", "verbose", "notice", "warning", "nothing"];

    /// Returns the name of this level.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl Field for LogLevel {
    fn from_text(text: &[u8]) -> Self {
        match text {
            b"debug" => LogLevel::Debug,
            b"verbose" => LogLevel::Verbose,
            b"warning" => LogLevel::Warning,
            b"nothing" => LogLevel::Nothing,
            _ => LogLevel::Notice,
        }
    }

    fn to_text(&self) -> Vec<u8> {
        self.as_str().into()
    }
}

/// Declares the types of settings with a fixed set of values: the variants with their names.
macro_rules! choice_fields {
    ($( $(#[doc = $doc:literal])+ $name:ident { $( $(#[doc = $about:literal])+ $variant:ident = $word:literal, )+ } )+) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[doc = $about])+ $variant, )+
        }

        impl $name {
            /// The names, in the order of the variants.
            pub(super) const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl Field for $name {
            fn from_text(text: &[u8]) -> Self {
                let found = [$(Self::$variant),+].into_iter().find(|choice| choice.to_text() == text);
                found.expect("the kind accepts only these values")
            }

            fn to_text(&self) -> Vec<u8> {
                Self::WORDS[*self as usize].into()
            }
        }
    )+ };
}

choice_fields! {
    /// Condition under which a replica loads the data of its primary from the connection.
    DisklessLoad {
        /// Never.
        Disabled = "disabled",
        /// If the replica has no keys.
        OnEmpty = "on-empty-db",
        /// Always, beside the replica's present keys.
        Swap = "swapdb",
    }
    /// The channels that a new user may use before any rule is applied.
    ChannelDefault {
        /// Every channel.
        All = "allchannels",
        /// No channel.
        None = "resetchannels",
    }
    /// Adjustment of the kernel's OOM score.
    OomScore {
        /// Not at all.
        No = "no",
        /// Added to the original value.
        Relative = "yes",
        /// Set instead of the original value.
        Absolute = "absolute",
    }
    /// The supervisor that is notified when the server is ready.
    Supervisor {
        /// upstart, which is obsolete and gets no notification.
        Upstart = "upstart",
        /// systemd, through the socket in its environment variable.
        Systemd = "systemd",
        /// systemd, if its environment variable is set.
        Auto = "auto",
        /// None.
        No = "no",
    }
    /// Requirement of certificates from clients.
    TlsAuthClients {
        /// Clients need no certificate.
        No = "no",
        /// Clients must present a valid certificate.
        Yes = "yes",
        /// Clients may present a certificate, which must then be valid.
        Optional = "optional",
    }
    /// Fsync policy of the append-only file.
    AppendFsync {
        /// Every second.
        EverySecond = "everysec",
        /// Before the reply to a write is sent.
        Always = "always",
        /// At times that the kernel decides.
        No = "no",
    }
    /// Treatment of a client that is about to wait for a lock for ever.
    OnDeadlock {
        /// The client gets an error at once.
        Error = "error",
        /// The client waits, until its timeout.
        Wait = "wait",
    }
    /// Name of a node of a cluster to clients.
    EndpointType {
        /// Its address.
        Ip = "ip",
        /// Its host name.
        HostName = "hostname",
        /// None: clients use the address that they have.
        Unknown = "unknown-endpoint",
    }
    /// Place of the data.
    EngineKind {
        /// In the memory of this process.
        Memory = "memory",
        /// In an etcd cluster.
        Etcd = "etcd",
    }
    /// Consistency of reads where the data is in an etcd cluster.
    EtcdReads {
        /// Reads wait until they see everything that was acknowledged before them.
        Linearizable = "linearizable",
        /// Reads see the changes that have arrived at this process.
        Local = "local",
    }
    /// Treatment at startup of settings that have no effect.
    Unsupported {
        /// The settings are named in the log.
        Warn = "warn",
        /// The settings prevent the start.
        Refuse = "refuse",
    }
    /// Clients that may use a protected feature.
    Allowance {
        /// No clients.
        No = "no",
        /// All clients.
        Yes = "yes",
        /// Clients on this machine.
        Local = "local",
    }
}

impl Supervisor {
    /// Returns the name of the supervisor by the environment variables: `systemd` or `upstart`.
    pub fn detected(self) -> Option<&'static str> {
        let find = |names: &[(&'static str, &str)]| {
            names.iter().find(|(_, variable)| std::env::var_os(variable).is_some()).map(|(name, _)| *name)
        };
        const UPSTART: (&str, &str) = ("upstart", "UPSTART_JOB");
        const SYSTEMD: (&str, &str) = ("systemd", "NOTIFY_SOCKET");
        match self {
            Supervisor::No => None,
            Supervisor::Systemd => find(&[SYSTEMD]),
            Supervisor::Upstart => find(&[UPSTART]),
            Supervisor::Auto => find(&[UPSTART, SYSTEMD]),
        }
    }
}

impl Allowance {
    /// Returns true if a client is allowed; `is_local` is true for a client on this machine.
    pub fn allows(self, is_local: bool) -> bool {
        self == Allowance::Yes || self == Allowance::Local && is_local
    }
}

/// The options of a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownOptions {
    /// Save the data first.
    pub save: bool,
    /// Do not save the data, even if `save` is configured.
    pub nosave: bool,
    /// Do not wait for replicas.
    pub now: bool,
    /// Stop even if saving fails.
    pub force: bool,
}

impl Field for ShutdownOptions {
    fn from_text(text: &[u8]) -> Self {
        let has = |option: &[u8]| text.split(|byte| *byte == b' ').any(|word| word == option);
        ShutdownOptions { save: has(b"save"), nosave: has(b"nosave"), now: has(b"now"), force: has(b"force") }
    }

    fn to_text(&self) -> Vec<u8> {
        let words = [(self.save, "save"), (self.nosave, "nosave"), (self.now, "now"), (self.force, "force")];
        let chosen: Vec<&str> = words.iter().filter(|(is_chosen, _)| *is_chosen).map(|(_, word)| *word).collect();
        if chosen.is_empty() { b"default".into() } else { chosen.join(" ").into() }
    }
}

/// Parses a number of the range to which the kind of the setting limits it.
fn number<T: FromStr>(digits: &[u8]) -> T {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.expect("the kind accepts only such numbers")
}

macro_rules! number_fields {
    ($($type:ty)+) => { $(
        impl Field for $type {
            fn from_text(text: &[u8]) -> Self {
                number(text)
            }

            fn to_text(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        }
    )+ };
}

number_fields!(u16 u32 u64 i64 usize f64);

impl Field for ListLimit {
    fn from_text(text: &[u8]) -> Self {
        ListLimit::new(number(text))
    }

    fn to_text(&self) -> Vec<u8> {
        self.setting().to_string().into_bytes()
    }
}

impl Field for EvictionPolicy {
    fn from_text(text: &[u8]) -> Self {
        let policy = std::str::from_utf8(text).ok().and_then(EvictionPolicy::from_word);
        policy.expect("the kind accepts only names of policies")
    }

    fn to_text(&self) -> Vec<u8> {
        self.as_str().into()
    }
}

impl Field for Classes {
    fn from_text(text: &[u8]) -> Self {
        Classes::from_letters(text)
    }

    fn to_text(&self) -> Vec<u8> {
        self.to_letters()
    }
}

impl Field for bool {
    fn from_text(text: &[u8]) -> Self {
        text == b"yes"
    }

    fn to_text(&self) -> Vec<u8> {
        if *self { b"yes".into() } else { b"no".into() }
    }
}

/// Permission bits in octal; 0 means unset.
impl Field for Option<u32> {
    fn from_text(text: &[u8]) -> Self {
        let mode = std::str::from_utf8(text).ok().and_then(|digits| u32::from_str_radix(digits, 8).ok());
        let mode = mode.expect("the kind accepts only permission bits");
        (mode != 0).then_some(mode)
    }

    fn to_text(&self) -> Vec<u8> {
        format!("{:o}", self.unwrap_or(0)).into_bytes()
    }
}

impl Field for Option<Vec<u8>> {
    fn from_text(text: &[u8]) -> Self {
        (!text.is_empty()).then(|| text.to_vec())
    }

    fn to_text(&self) -> Vec<u8> {
        self.clone().unwrap_or_default()
    }
}

impl Field for Option<PathBuf> {
    fn from_text(text: &[u8]) -> Self {
        (!text.is_empty()).then(|| PathBuf::from(bytes_to_os(text)))
    }

    fn to_text(&self) -> Vec<u8> {
        let path = self.as_deref().unwrap_or(Path::new(""));
        os_to_bytes(path.as_os_str()).to_vec()
    }
}

/// The working directory: kept as given until it is applied, shown as an absolute path.
impl Field for PathBuf {
    fn from_text(text: &[u8]) -> Self {
        PathBuf::from(bytes_to_os(text))
    }

    fn to_text(&self) -> Vec<u8> {
        let shown = self.canonicalize().unwrap_or_else(|_| self.clone());
        os_to_bytes(shown.as_os_str()).to_vec()
    }
}

/// The name of a file or directory.
impl Field for OsString {
    fn from_text(text: &[u8]) -> Self {
        bytes_to_os(text).to_owned()
    }

    fn to_text(&self) -> Vec<u8> {
        os_to_bytes(self).to_vec()
    }
}

impl Field for Vec<SavePoint> {
    fn from_text(text: &[u8]) -> Self {
        // The kind writes pairs of numbers.
        let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        words.chunks_exact(2).map(|pair| SavePoint { seconds: number(pair[0]), changes: number(pair[1]) }).collect()
    }

    fn to_text(&self) -> Vec<u8> {
        let shown = |point: &SavePoint| format!("{} {}", point.seconds, point.changes);
        self.iter().map(shown).collect::<Vec<_>>().join(" ").into_bytes()
    }
}

impl Field for Vec<f64> {
    fn from_text(text: &[u8]) -> Self {
        text.split(u8::is_ascii_whitespace).filter(|digits| !digits.is_empty()).map(number).collect()
    }

    fn to_text(&self) -> Vec<u8> {
        self.iter().map(f64::to_string).collect::<Vec<_>>().join(" ").into_bytes()
    }
}

impl Field for Vec<String> {
    fn from_text(text: &[u8]) -> Self {
        String::from_utf8_lossy(text).split_ascii_whitespace().map(str::to_owned).collect()
    }

    fn to_text(&self) -> Vec<u8> {
        self.join(" ").into_bytes()
    }
}

/// The values of a primary, a replica and a child process, in this order.
impl Field for [i32; 3] {
    fn from_text(text: &[u8]) -> Self {
        let mut numbers = text.split(|byte| *byte == b' ').map(number);
        [(); 3].map(|()| numbers.next().expect("the kind accepts three numbers"))
    }

    fn to_text(&self) -> Vec<u8> {
        self.map(|number| number.to_string()).join(" ").into_bytes()
    }
}

/// The limits of normal clients, replicas and subscribers, in this order.
impl Field for [OutputLimit; 3] {
    fn from_text(text: &[u8]) -> Self {
        // The kind writes three numbers for each of three classes.
        let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        [1, 5, 9].map(|at| OutputLimit {
            hard_bytes: number(words[at]),
            soft_bytes: number(words[at + 1]),
            soft_seconds: number(words[at + 2]),
        })
    }

    fn to_text(&self) -> Vec<u8> {
        let class = |name: &str, limit: &OutputLimit| {
            format!("{name} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
        };
        let [normal, replica, pubsub] = self;
        [class("normal", normal), class("slave", replica), class("pubsub", pubsub)].join(" ").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<F: Field>(text: &str) {
        assert_eq!(F::from_text(text.as_bytes()).to_text(), text.as_bytes(), "{text:?}");
    }

    #[test]
    fn canonical_text_survives_every_field() {
        LogLevel::WORDS.iter().for_each(|word| round::<LogLevel>(word));
        ChannelDefault::WORDS.iter().for_each(|word| round::<ChannelDefault>(word));
        Supervisor::WORDS.iter().for_each(|word| round::<Supervisor>(word));
        TlsAuthClients::WORDS.iter().for_each(|word| round::<TlsAuthClients>(word));
        round::<u16>("65535");
        round::<ListLimit>("-2147483648");
        round::<usize>("9223372036854775807");
        round::<Vec<f64>>("50 99 99.9");
        round::<Vec<f64>>("");
        round::<bool>("yes");
        round::<bool>("no");
        round::<Option<u32>>("700");
        round::<Option<u32>>("0");
        round::<Option<Vec<u8>>>("");
        round::<Option<Vec<u8>>>("a b");
        round::<Option<PathBuf>>("../x y");
        round::<PathBuf>("/");
        round::<Vec<String>>("* -::*");
        round::<Option<HostPort>>("");
        round::<Option<HostPort>>("::1 6379");
        round::<OsString>("appendonly.aof");
        AppendFsync::WORDS.iter().for_each(|word| round::<AppendFsync>(word));
        round::<Vec<SavePoint>>("3600 1 60 10000");
        round::<Vec<SavePoint>>("");
        Unsupported::WORDS.iter().for_each(|word| round::<Unsupported>(word));
        OomScore::WORDS.iter().for_each(|word| round::<OomScore>(word));
        round::<[i32; 3]>("0 -200 2000");
        round::<[OutputLimit; 3]>("normal 1 2 3 slave 18446744073709551615 5 6 pubsub 7 8 4294967295");
    }

    #[test]
    fn empty_values_are_none() {
        assert_eq!(Option::<PathBuf>::from_text(b""), None);
        assert_eq!(Option::<Vec<u8>>::from_text(b""), None);
        assert_eq!(Option::<u32>::from_text(b"0"), None);
        assert_eq!(Option::<u32>::from_text(b"700"), Some(0o700));
    }
}
