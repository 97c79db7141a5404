//! Injected faults: the calls that they match, the conditions under which they fire, and their effects.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio_util::codec::Decoder;

use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::random::Random;
use crate::resp::{Frame, FrameDecoder, Request};
use crate::spec::marks::SPARED_BY_FAULTS;
use crate::spec::{CommandSpec, CommandTable, Group};
use crate::test_mode::fault::{Fault, FaultKind};

/// Maximum time for which a fault delays a reply: a day.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum time by which a fault moves the clock.
const ADVANCE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
/// Maximum number of faults of a namespace.
const FAULTS_MAX: usize = 10_000;

/// Word in place of a command for the link of a replica to its primary in the same process.
const LINK: &str = "LINK";
/// Word in place of a command for new connections, or the entries of clients into a private instance.
const CONNECT: &str = "CONNECT";
/// Word in place of a command for push messages.
const PUSH: &str = "PUSH";

/// The kinds of pushed messages, by their first element, each with the position of the channel or the keys that it is about.
const PUSH_KINDS: &[(&str, Option<usize>)] = &[
    ("message", Some(1)),
    ("pmessage", Some(2)),
    ("smessage", Some(1)),
    ("invalidate", Some(1)),
    ("lock-lost", Some(1)),
    ("tracking-redir-broken", None),
    ("moving", None),
    ("migrating", None),
    ("migrated", None),
    ("failing_over", None),
    ("failed_over", None),
    ("smigrating", None),
    ("smigrated", None),
];

/// Faults that the clients of a namespace share with it.
pub(crate) type SharedFaults = Arc<Mutex<Faults>>;

/// The target of a fault.
#[derive(Clone, Copy)]
pub(crate) enum FaultTarget {
    /// The calls of a command, or of the commands in a container; `None` for all.
    Calls(Option<&'static CommandSpec>),
    /// The link of a replica to its primary in the same process.
    Link,
    /// New connections.
    Connections,
    /// Pushed messages of a kind; `None` for all.
    Pushes(Option<&'static str>),
}

impl FaultTarget {
    fn of(name: &[u8], commands: &'static CommandTable) -> Result<Self> {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let kind = name.split_at_checked(PUSH.len() + 1).filter(|(begin, _)| begin.eq_ignore_ascii_case(b"PUSH|"));
        Ok(match kind {
            _ if name == b"*" => FaultTarget::Calls(None),
            _ if is(LINK) => FaultTarget::Link,
            _ if is(CONNECT) => FaultTarget::Connections,
            _ if is(PUSH) => FaultTarget::Pushes(None),
            Some((_, kind)) => {
                let known = PUSH_KINDS.iter().find(|(known, _)| kind.eq_ignore_ascii_case(known.as_bytes()));
                FaultTarget::Pushes(Some(known.ok_or(Error::other("there is no such kind of pushed messages"))?.0))
            }
            None => {
                let command = commands.find_full(name).ok_or_else(|| Error::CommandNotFound(name.to_vec()))?;
                if command.command.group == Group::Test {
                    return Err(Error::other("faults cannot be injected into TEST.*"));
                }
                FaultTarget::Calls(Some(command))
            }
        })
    }

    /// Returns the word by which TEST.FAULT names it.
    pub(crate) fn name(self) -> String {
        match self {
            FaultTarget::Calls(command) => command.map_or("*", |command| &command.name).to_owned(),
            FaultTarget::Link => LINK.to_owned(),
            FaultTarget::Connections => CONNECT.to_owned(),
            FaultTarget::Pushes(None) => PUSH.to_owned(),
            FaultTarget::Pushes(Some(kind)) => format!("{PUSH}|{kind}"),
        }
    }

    /// Returns whether it may have keys, or what stands in their place.
    fn may_have_keys(self) -> bool {
        match self {
            FaultTarget::Calls(command) => command.is_none_or(CommandSpec::may_have_keys),
            FaultTarget::Link | FaultTarget::Connections => false,
            FaultTarget::Pushes(kind) => {
                kind.is_none_or(|kind| PUSH_KINDS.iter().any(|known| known.0 == kind && known.1.is_some()))
            }
        }
    }

    /// Checks that a fault suits this target, and that it could fire.
    fn check(self, fault: &Fault) -> Result<()> {
        use FaultKind::{Delay, Drop, Lose, Partial};

        let Some(kind) = &fault.kind else {
            return Err(Error::other("a fault needs an effect, such as an error or a delay"));
        };
        let has_options = fault.key.is_some() || fault.client.is_some() || fault.is_queued;
        let is_limited = fault.seed.is_some() || fault.times.is_some() || fault.after > 0 || fault.prob != 1.0;
        match self {
            FaultTarget::Calls(_) if *kind == Lose => {
                return Err(Error::other("LOSE is for PUSH: what is lost of a call is its reply, by LOSEREPLY"));
            }
            FaultTarget::Link if has_options || is_limited || !matches!(kind, Delay(_) | Drop) => {
                return Err(Error::other("a fault of LINK is DELAY or DROP, without options"));
            }
            FaultTarget::Connections if has_options || !matches!(kind, FaultKind::Error(_) | Delay(_) | Drop) => {
                return Err(Error::other("a fault of CONNECT is ERROR, DELAY or DROP, without KEY, CLIENT and QUEUED"));
            }
            FaultTarget::Pushes(_) if fault.is_queued || !matches!(kind, Delay(_) | Drop | Partial(_) | Lose) => {
                return Err(Error::other("a fault of PUSH is DELAY, DROP, PARTIAL or LOSE, without QUEUED"));
            }
            _ => {}
        }
        if fault.key.is_some() && !self.may_have_keys() {
            return Err(Error::other("a fault with KEY would never fire here: there are no keys"));
        }
        if fault.client.as_deref().is_some_and(|name| !name.iter().all(u8::is_ascii_graphic)) {
            return Err(Error::other(
                "a fault of this CLIENT would never fire: names of clients are printable characters without spaces",
            ));
        }
        if fault.times == Some(0) || fault.prob == 0.0 {
            return Err(Error::other("a fault with COUNT 0 or PROB 0 would never fire"));
        }
        Ok(())
    }
}

/// Checks the effect of a fault by itself.
fn check_effect(kind: &FaultKind) -> Result<()> {
    match kind {
        FaultKind::Delay(time) if *time > DELAY_MAX => Err(Error::other("DELAY must be at most a day")),
        FaultKind::Advance(time) if *time > ADVANCE_MAX => Err(Error::other("ADVANCE must be at most a hundred years")),
        FaultKind::Error(text) if text.is_empty() => Err(Error::other("ERROR needs a text")),
        _ => Ok(()),
    }
}

/// Fault that was injected.
#[derive(Clone)]
pub(crate) struct ActiveFault {
    pub(crate) target: FaultTarget,
    /// Pattern that one of the keys must match.
    pub(crate) key: Option<Pattern<Vec<u8>>>,
    /// Name that the client must have.
    pub(crate) client: Option<Vec<u8>>,
    /// True if calls are matched that are queued in a transaction, too.
    pub(crate) is_queued: bool,
    /// Effect of the fault.
    pub(crate) kind: FaultKind,
    /// Number of matching calls that it still lets pass.
    pub(crate) after: u64,
    /// Probability with which it fires.
    pub(crate) prob: f64,
    /// Seed of its random numbers.
    pub(crate) seed: u64,
    /// Number of times that it may still fire; `None` without a limit.
    pub(crate) left: Option<u64>,
    /// Number of times that it has fired.
    pub(crate) fired: u64,
    random: Random,
}

impl ActiveFault {
    fn new(fault: Fault, commands: &'static CommandTable, seed: u64) -> Result<Self> {
        let target = FaultTarget::of(&fault.command, commands)?;
        if !(0.0..=1.0).contains(&fault.prob) {
            return Err(Error::other("PROB must be from 0 to 1"));
        }
        target.check(&fault)?;
        let kind = fault.kind.expect("it was checked");
        check_effect(&kind)?;
        let Fault { key, client, is_queued, after, prob, times: left, .. } = fault;
        let (key, seed) = (key.map(Pattern::new), fault.seed.unwrap_or(seed));
        let random = Random::new(seed);
        Ok(ActiveFault { target, key, client, is_queued, kind, after, prob, seed, left, fired: 0, random })
    }

    /// Returns whether the fault fires at what it matches, and counts it then.
    fn fires(&mut self) -> bool {
        if self.left == Some(0) {
            return false;
        }
        if self.after > 0 {
            self.after -= 1;
            return false;
        }
        if self.prob < 1.0 && self.random.unit() >= self.prob {
            return false;
        }
        self.fired += 1;
        self.left = self.left.map(|left| left - 1);
        true
    }

    fn matches_call(&self, command: &CommandSpec, request: Request<'_>, (name, is_queueing): (&str, bool)) -> bool {
        let FaultTarget::Calls(wanted) = self.target else { return false };
        let is_command = match wanted {
            Some(wanted) => wanted.covers(command),
            None => !command.is(SPARED_BY_FAULTS),
        };
        let keys = command.keys_of(request).map(|(position, _)| request.arg(position));
        is_command && (self.is_queued || !is_queueing) && self.matches_client(name) && self.matches_keys(keys)
    }

    fn matches_push(&self, push: &PushedMessage<'_>, name: &str) -> bool {
        let FaultTarget::Pushes(wanted) = self.target else { return false };
        wanted.is_none_or(|wanted| push.kind == wanted)
            && self.matches_client(name)
            && self.matches_keys(push.keys.iter().copied())
    }

    fn matches_client(&self, name: &str) -> bool {
        self.client.as_ref().is_none_or(|wanted| wanted == name.as_bytes())
    }

    fn matches_keys<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let has_key = |pattern: &Pattern<Vec<u8>>| keys.any(|key| pattern.text() == b"*" || pattern.matches(key));
        self.key.as_ref().is_none_or(has_key)
    }
}

/// Push message, decoded.
struct PushedMessage<'a> {
    kind: &'static str,
    /// The channel, or the keys, that it is about.
    keys: Vec<&'a [u8]>,
}

impl<'a> PushedMessage<'a> {
    /// Returns the kind and the keys of a message; `None` for what is not one of the kinds, such as a line of MONITOR.
    fn of(elements: &'a [Frame]) -> Option<Self> {
        let kind = elements.first()?.as_bytes()?;
        let (kind, keys_at) = PUSH_KINDS.iter().find(|(known, _)| kind.eq_ignore_ascii_case(known.as_bytes()))?;
        let keys = match keys_at.and_then(|at| elements.get(at)) {
            Some(Frame::Array(keys)) => keys.iter().filter_map(Frame::as_bytes).collect(),
            Some(key) => key.as_bytes().into_iter().collect(),
            None => Vec::new(),
        };
        Some(PushedMessage { kind, keys })
    }
}

/// Faults in the order in which they were added.
#[derive(Default)]
pub(crate) struct Faults {
    list: Vec<(i64, ActiveFault)>,
    last_id: i64,
    /// Number of faults of push messages in the list.
    push_count: usize,
}

impl Faults {
    /// Adds a fault; returns its id. `seed` is used if the fault has no seed of its own.
    ///
    /// # Errors
    /// An error when the command does not exist, or the fault has no effect or one that is out of range.
    pub(crate) fn add(&mut self, fault: Fault, commands: &'static CommandTable, seed: u64) -> Result<i64> {
        let fault = ActiveFault::new(fault, commands, seed)?;
        if self.list.len() >= FAULTS_MAX {
            return Err(Error::other("there are too many faults"));
        }
        self.last_id += 1;
        self.list.push((self.last_id, fault));
        self.count();
        Ok(self.last_id)
    }

    /// Removes a fault; returns whether one with this id existed.
    pub(crate) fn remove(&mut self, id: i64) -> bool {
        let before = self.list.len();
        self.list.retain(|(other, _)| *other != id);
        self.count();
        self.list.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.count();
    }

    fn count(&mut self) {
        let is_of_pushes = |fault: &ActiveFault| matches!(fault.target, FaultTarget::Pushes(_));
        self.push_count = self.list.iter().filter(|(_, fault)| is_of_pushes(fault)).count();
    }

    /// Returns all faults with their ids.
    pub(crate) fn all(&self) -> &[(i64, ActiveFault)] {
        &self.list
    }

    /// Returns the delay of everything sent over the link, by its first fault; `None` if that cuts it.
    pub(crate) fn link_delay(&self) -> Option<Duration> {
        let of_link = |fault: &ActiveFault| matches!(fault.target, FaultTarget::Link);
        match self.list.iter().find(|(_, fault)| of_link(fault)).map(|(_, fault)| &fault.kind) {
            None => Some(Duration::ZERO),
            Some(FaultKind::Delay(time)) => Some(*time),
            Some(_) => None,
        }
    }

    /// Returns the effect of the first fault that fires at a call of a client with this name, which may be queued in a
    /// transaction.
    pub(crate) fn fault_of(
        &mut self,
        command: &CommandSpec,
        request: Request<'_>,
        (name, is_queueing): (&str, bool),
    ) -> Option<FaultKind> {
        if command.command.group == Group::Test {
            return None;
        }
        self.first(|fault| fault.matches_call(command, request, (name, is_queueing)))
    }

    /// Returns the effect of the first fault that fires at a new connection.
    pub(crate) fn fault_of_connection(&mut self) -> Option<FaultKind> {
        self.first(|fault| matches!(fault.target, FaultTarget::Connections))
    }

    /// Returns the effect of the first fault that fires at a message to a client with this name. `encode` returns it in RESP3.
    pub(crate) fn fault_of_push(&mut self, encode: &mut dyn FnMut() -> Bytes, name: &str) -> Option<FaultKind> {
        if self.push_count == 0 {
            return None;
        }
        let decoded = FrameDecoder::new().decode(&mut BytesMut::from(&encode()[..])).ok()??;
        let (Frame::Push(elements) | Frame::Array(elements)) = decoded else { return None };
        let push = PushedMessage::of(&elements)?;
        self.first(|fault| fault.matches_push(&push, name))
    }

    fn first(&mut self, matches: impl Fn(&ActiveFault) -> bool) -> Option<FaultKind> {
        self.list.iter_mut().find_map(|(_, fault)| (matches(fault) && fault.fires()).then(|| fault.kind.clone()))
    }
}
