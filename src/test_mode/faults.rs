//! Injected faults: the calls that they match, the conditions under which they fire, and their effects.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::random::Random;
use crate::resp::Request;
use crate::spec::marks::SPARED_BY_FAULTS;
use crate::spec::{CommandSpec, CommandTable, Group};
use crate::test_mode::fault::{Fault, FaultKind};

/// Maximum time for which a fault delays a reply: a day.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum time by which a fault moves the clock.
const ADVANCE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
/// Maximum number of faults of a namespace.
const FAULTS_MAX: usize = 10_000;

/// Name used in place of a command for a fault of the link of a replica to its primary in the same process.
pub(crate) const LINK: &str = "LINK";

/// Fault that was injected.
#[derive(Clone)]
pub(crate) struct ActiveFault {
    /// True if the fault affects the link instead of calls.
    pub(crate) is_of_link: bool,
    /// Command whose calls it matches, or the container of such commands; `None` for all.
    pub(crate) command: Option<&'static CommandSpec>,
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
        let is_of_link = fault.command.eq_ignore_ascii_case(LINK.as_bytes());
        if is_of_link && !fault.is_for_link() {
            return Err(Error::other("a fault of LINK is DELAY or DROP, without options"));
        }
        let command = match &fault.command[..] {
            b"*" => None,
            _ if is_of_link => None,
            name => Some(commands.find_full(name).ok_or_else(|| Error::CommandNotFound(name.to_vec()))?),
        };
        if command.is_some_and(|command| command.command.group == Group::Test) {
            return Err(Error::other("faults cannot be injected into TEST.*"));
        }
        let kind = fault.kind.ok_or(Error::other("a fault needs an effect, such as an error or a delay"))?;
        if matches!(kind, FaultKind::Delay(time) if time > DELAY_MAX) {
            return Err(Error::other("DELAY must be at most a day"));
        }
        if matches!(kind, FaultKind::Advance(time) if time > ADVANCE_MAX) {
            return Err(Error::other("ADVANCE must be at most a hundred years"));
        }
        if matches!(&kind, FaultKind::Error(text) if text.is_empty()) {
            return Err(Error::other("ERROR needs a text"));
        }
        if !(0.0..=1.0).contains(&fault.prob) {
            return Err(Error::other("PROB must be from 0 to 1"));
        }
        let Fault { key, client, is_queued, after, prob, times: left, .. } = fault;
        let (key, seed) = (key.map(Pattern::new), fault.seed.unwrap_or(seed));
        let random = Random::new(seed);
        Ok(ActiveFault { is_of_link, command, key, client, is_queued, kind, after, prob, seed, left, fired: 0, random })
    }

    /// Returns whether the fault fires at a call, and counts it then.
    fn fires(&mut self, command: &CommandSpec, request: Request<'_>, (name, is_queueing): (&str, bool)) -> bool {
        if !self.matches(command, request, (name, is_queueing)) || self.left == Some(0) {
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

    fn matches(&self, command: &CommandSpec, request: Request<'_>, (name, is_queueing): (&str, bool)) -> bool {
        let is_command = match self.command {
            Some(wanted) => wanted.covers(command),
            None => !command.is(SPARED_BY_FAULTS),
        };
        let has_key = |pattern: &Pattern<Vec<u8>>| {
            let mut keys = command.keys_of(request).map(|(position, _)| request.arg(position));
            keys.any(|key| pattern.text() == b"*" || pattern.matches(key))
        };
        is_command
            && !self.is_of_link
            && (self.is_queued || !is_queueing)
            && self.client.as_ref().is_none_or(|wanted| wanted == name.as_bytes())
            && self.key.as_ref().is_none_or(has_key)
    }
}

/// Faults in the order in which they were added.
#[derive(Default)]
pub(crate) struct Faults {
    list: Vec<(i64, ActiveFault)>,
    last_id: i64,
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
        Ok(self.last_id)
    }

    /// Removes a fault; returns whether one with this id existed.
    pub(crate) fn remove(&mut self, id: i64) -> bool {
        let before = self.list.len();
        self.list.retain(|(other, _)| *other != id);
        self.list.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Returns all faults with their ids.
    pub(crate) fn all(&self) -> &[(i64, ActiveFault)] {
        &self.list
    }

    /// Returns the delay of everything sent over the link, by its first fault; `None` if that cuts it.
    pub(crate) fn link_delay(&self) -> Option<Duration> {
        match self.list.iter().find(|(_, fault)| fault.is_of_link).map(|(_, fault)| &fault.kind) {
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
        if self.list.is_empty() || command.command.group == Group::Test {
            return None;
        }
        self.list
            .iter_mut()
            .find_map(|(_, fault)| fault.fires(command, request, (name, is_queueing)).then(|| fault.kind.clone()))
    }
}
