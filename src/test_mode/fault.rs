//! Description of a fault by a test.

use std::time::Duration;

/// A fault: an effect on calls of a command. [`Server::inject`](crate::Server::inject) injects it.
///
/// A fault needs one effect: [`error`](Fault::error), [`delay`](Fault::delay), [`drop`](Fault::drop),
/// [`drop_all`](Fault::drop_all), [`lose_reply`](Fault::lose_reply), [`partial`](Fault::partial),
/// [`advance`](Fault::advance), [`expire`](Fault::expire), [`evict`](Fault::evict), [`no_script`](Fault::no_script),
/// [`fail_over`](Fault::fail_over) or [`lose`](Fault::lose); if several are given, the last one counts. All other
/// methods limit the calls into which it is injected. Faults with zero calls, probability 0, or a key pattern for a
/// command without keys are refused. Inside `EXEC` and scripts only the outer call is matched; calls that `MULTI`
/// queues, with [`queued`](Fault::queued).
///
/// ```
/// # use std::time::Duration;
/// use keylatch::Fault;
///
/// let loading = Fault::on("GET").key("user:*").error("LOADING Redis is loading the dataset in memory").times(2);
/// let slow = Fault::on("*").client("worker").delay(Duration::from_millis(50)).probability(0.1).seed(7);
/// let ambiguous = Fault::on("SET").key("lock:*").lose_reply().after(1).times(1);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a fault does nothing until it is injected"]
pub struct Fault {
    /// Name of the command, or `*`.
    pub(crate) command: Vec<u8>,
    /// Pattern that one of the keys must match.
    pub(crate) key: Option<Vec<u8>>,
    /// Name that the client must have.
    pub(crate) client: Option<Vec<u8>>,
    /// True if calls are matched that are queued in a transaction, too.
    pub(crate) is_queued: bool,
    /// Effect of the fault.
    pub(crate) kind: Option<FaultKind>,
    /// Number of matching calls that it lets pass first.
    pub(crate) after: u64,
    /// Probability with which it fires.
    pub(crate) prob: f64,
    /// Seed of its random numbers; `None` for any.
    pub(crate) seed: Option<u64>,
    /// Maximum number of times that it fires; `None` without a limit.
    pub(crate) times: Option<u64>,
}

/// Effect of a fault on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Replies with this error instead of executing the call.
    Error(Vec<u8>),
    /// Delays the reply by this real time.
    Delay(Duration),
    /// Closes the connection before the call is executed.
    Drop,
    /// Closes the connection instead of replying.
    LoseReply,
    /// Closes the connection after this number of bytes of the reply.
    Partial(usize),
    /// Closes all connections before the call is executed.
    DropAll,
    /// Moves the clock by this time after the call is executed, before the reply.
    Advance(Duration),
    /// Makes a key that has a TTL expire before the call is executed.
    Expire(Vec<u8>),
    /// Evicts a key before the call is executed.
    Evict(Vec<u8>),
    /// Forgets scripts before the call is executed, functions if it calls one.
    NoScript,
    /// Forgets the last write, and closes all connections, before the call is executed.
    Failover,
    /// Leaves a pushed message unsent; the connection stays.
    Lose,
}

impl FaultKind {
    /// Returns the name of the kind.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            FaultKind::Error(_) => "ERROR",
            FaultKind::Delay(_) => "DELAY",
            FaultKind::Drop => "DROP",
            FaultKind::LoseReply => "LOSEREPLY",
            FaultKind::Partial(_) => "PARTIAL",
            FaultKind::DropAll => "DROPALL",
            FaultKind::Advance(_) => "ADVANCE",
            FaultKind::Expire(_) => "EXPIRE",
            FaultKind::Evict(_) => "EVICT",
            FaultKind::NoScript => "NOSCRIPT",
            FaultKind::Failover => "FAILOVER",
            FaultKind::Lose => "LOSE",
        }
    }

    /// Returns true if the call is executed, and the fault strikes the reply.
    pub(crate) fn is_of_reply(&self) -> bool {
        matches!(self, FaultKind::Delay(_) | FaultKind::LoseReply | FaultKind::Partial(_) | FaultKind::Advance(_))
    }

    /// Returns true if the call is executed after the fault has changed the data or the scripts.
    pub(crate) fn is_of_data(&self) -> bool {
        matches!(self, FaultKind::Expire(_) | FaultKind::Evict(_) | FaultKind::NoScript)
    }

    /// Returns the effect in the syntax of TEST.FAULT ADD.
    pub(crate) fn text(&self) -> Vec<u8> {
        let value = match self {
            FaultKind::Error(text) => text.clone(),
            FaultKind::Delay(time) | FaultKind::Advance(time) => time.as_millis().to_string().into_bytes(),
            FaultKind::Partial(bytes) => bytes.to_string().into_bytes(),
            FaultKind::Expire(key) | FaultKind::Evict(key) => key.clone(),
            _ => return self.name().into(),
        };
        [self.name().as_bytes(), b" ", &value].concat()
    }
}

impl Fault {
    /// Creates a fault of the calls of a command, whose name is case-insensitive. `CLIENT` stands for all its
    /// subcommands, `CLIENT|GETNAME` for one. `*` stands for all commands except those that open and close a session
    /// (`HELLO`, `AUTH`, `RESET`, `QUIT`) and `TEST.*`.
    ///
    /// The name must be the one that the client library sends: its `incr()`, for instance, may send `INCRBY`.
    ///
    /// `LINK` stands for the link of a private instance to its primary, see TEST.INSTANCE. Its fault can have a
    /// [`delay`](Fault::delay), which is then measured by the instance's clock, or [`drop`](Fault::drop), and no
    /// limits.
    ///
    /// `CONNECT` stands for new TCP connections, or, in a private instance, for clients that enter it. Its fault can have
    /// [`drop`](Fault::drop), [`delay`](Fault::delay) or [`error`](Fault::error).
    ///
    /// `PUSH` stands for push messages: of Pub/Sub, invalidations, lost locks, notices of maintenance. `PUSH|MESSAGE` stands
    /// for one kind, by the first element of the message. Its fault can have [`drop`](Fault::drop), [`delay`](Fault::delay),
    /// [`partial`](Fault::partial) or [`lose`](Fault::lose); [`key`](Fault::key) is then the channel, or the key that the message
    /// is about, and [`client`](Fault::client) the receiver.
    pub fn on(command: impl AsRef<[u8]>) -> Self {
        Fault {
            command: command.as_ref().to_vec(),
            key: None,
            client: None,
            is_queued: false,
            kind: None,
            after: 0,
            prob: 1.0,
            seed: None,
            times: None,
        }
    }

    /// Limits the fault to calls with a key that matches this pattern.
    pub fn key(self, pattern: impl AsRef<[u8]>) -> Self {
        Fault { key: Some(pattern.as_ref().to_vec()), ..self }
    }

    /// Limits the fault to clients that have set this name by `CLIENT SETNAME` or `HELLO`.
    pub fn client(self, name: impl AsRef<[u8]>) -> Self {
        Fault { client: Some(name.as_ref().to_vec()), ..self }
    }

    /// Replies with this error, which begins with its error code, instead of executing the call.
    pub fn error(self, line: impl AsRef<[u8]>) -> Self {
        self.with(FaultKind::Error(line.as_ref().to_vec()))
    }

    /// Executes the call and delays its reply by this real time, whatever the server's clock. Other clients are not
    /// delayed.
    pub fn delay(self, time: Duration) -> Self {
        self.with(FaultKind::Delay(time))
    }

    /// Closes the connection before the call is executed.
    pub fn drop(self) -> Self {
        self.with(FaultKind::Drop)
    }

    /// Executes the call and closes the connection instead of replying: the client cannot know whether it was executed.
    pub fn lose_reply(self) -> Self {
        self.with(FaultKind::LoseReply)
    }

    /// Executes the call and closes the connection after this number of bytes of its reply.
    pub fn partial(self, bytes: usize) -> Self {
        self.with(FaultKind::Partial(bytes))
    }

    /// Closes every connection of the instance before the call is executed, except those named `keylatch-control`.
    pub fn drop_all(self) -> Self {
        self.with(FaultKind::DropAll)
    }

    /// Executes the call, moves the clock forward, and replies when everything that is due by then has happened: a late reply
    /// without real waiting.
    pub fn advance(self, time: Duration) -> Self {
        self.with(FaultKind::Advance(time))
    }

    /// Makes this key expire before the call is executed, if it has a TTL; the clock does not move.
    pub fn expire(self, key: impl AsRef<[u8]>) -> Self {
        self.with(FaultKind::Expire(key.as_ref().to_vec()))
    }

    /// Evicts this key before the call is executed.
    pub fn evict(self, key: impl AsRef<[u8]>) -> Self {
        self.with(FaultKind::Evict(key.as_ref().to_vec()))
    }

    /// Forgets all scripts before the call is executed; before a call of a function (`FCALL`) all functions instead.
    pub fn no_script(self) -> Self {
        self.with(FaultKind::NoScript)
    }

    /// Forgets the last write and all scripts, and closes every connection, except those named `keylatch-control`, before the
    /// call is executed: a failover to a replica that lacks one write.
    pub fn fail_over(self) -> Self {
        self.with(FaultKind::Failover)
    }

    /// Leaves a pushed message unsent; the connection stays.
    pub fn lose(self) -> Self {
        self.with(FaultKind::Lose)
    }

    /// Matches calls that are queued in a transaction, too, at the time when they are queued.
    pub fn queued(self) -> Self {
        Fault { is_queued: true, ..self }
    }

    /// Makes the fault fire at each matching call with this probability, from 0 to 1.
    pub fn probability(self, probability: f64) -> Self {
        Fault { prob: probability, ..self }
    }

    /// Sets the seed of the random numbers for [`probability`](Fault::probability): every run then chooses the same
    /// calls.
    pub fn seed(self, seed: u64) -> Self {
        Fault { seed: Some(seed), ..self }
    }

    /// Limits the number of calls into which the fault is injected.
    pub fn times(self, times: u64) -> Self {
        Fault { times: Some(times), ..self }
    }

    /// Sets the number of matching calls that pass before the first one into which the fault is injected.
    pub fn after(self, calls: u64) -> Self {
        Fault { after: calls, ..self }
    }

    fn with(self, kind: FaultKind) -> Self {
        Fault { kind: Some(kind), ..self }
    }
}
