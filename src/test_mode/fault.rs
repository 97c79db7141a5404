//! A fault as a test asks for it.

use std::time::Duration;

/// A fault: what is to happen to calls of a command. [`Server::inject`](crate::Server::inject) makes it happen.
///
/// It needs one effect: [`error`](Fault::error), [`delay`](Fault::delay), [`drop`](Fault::drop),
/// [`lose_reply`](Fault::lose_reply) or [`partial`](Fault::partial); the last one that is given counts. All else
/// limits the calls into which it is injected. Inside `EXEC` and scripts only the outer call is matched.
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
    /// The name of the command, or `*`.
    pub(crate) command: Vec<u8>,
    /// A pattern that one of the keys must match.
    pub(crate) key: Option<Vec<u8>>,
    /// The name that the client must have.
    pub(crate) client: Option<Vec<u8>>,
    /// What it does.
    pub(crate) kind: Option<FaultKind>,
    /// How many matching calls it lets pass first.
    pub(crate) after: u64,
    /// The probability with which it fires.
    pub(crate) prob: f64,
    /// Where the random numbers for that begin; `None` for anywhere.
    pub(crate) seed: Option<u64>,
    /// How often it may fire; `None` without a limit.
    pub(crate) times: Option<u64>,
}

/// What a fault does to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Replies with this error instead of executing it.
    Error(Vec<u8>),
    /// Holds its reply back for this real time.
    Delay(Duration),
    /// Closes the connection before it is executed.
    Drop,
    /// Closes the connection instead of replying.
    LoseReply,
    /// Closes the connection after this number of bytes of the reply.
    Partial(usize),
}

impl FaultKind {
    /// Returns its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            FaultKind::Error(_) => "ERROR",
            FaultKind::Delay(_) => "DELAY",
            FaultKind::Drop => "DROP",
            FaultKind::LoseReply => "LOSEREPLY",
            FaultKind::Partial(_) => "PARTIAL",
        }
    }

    /// Returns it as TEST.FAULT ADD takes it.
    pub(crate) fn text(&self) -> Vec<u8> {
        let value = match self {
            FaultKind::Error(text) => text.clone(),
            FaultKind::Delay(time) => time.as_millis().to_string().into_bytes(),
            FaultKind::Partial(bytes) => bytes.to_string().into_bytes(),
            FaultKind::Drop | FaultKind::LoseReply => return self.name().into(),
        };
        [self.name().as_bytes(), b" ", &value].concat()
    }
}

impl Fault {
    /// Creates a fault of the calls of a command, in any case. `CLIENT` stands for all its subcommands,
    /// `CLIENT|GETNAME` for one. `*` stands for all commands but those that open and close a session (`HELLO`, `AUTH`,
    /// `RESET`, `QUIT`) and `TEST.*`.
    ///
    /// The name is the one that the client library sends: its `incr()`, for instance, may send `INCRBY`.
    ///
    /// `LINK` stands for the link of a private instance to its primary, see TEST.INSTANCE: [`delay`](Fault::delay), then by
    /// the instance's clock, or [`drop`](Fault::drop), without limits.
    pub fn on(command: impl AsRef<[u8]>) -> Self {
        Fault {
            command: command.as_ref().to_vec(),
            key: None,
            client: None,
            kind: None,
            after: 0,
            prob: 1.0,
            seed: None,
            times: None,
        }
    }

    /// Strikes only calls of which a key matches this pattern.
    pub fn key(self, pattern: impl AsRef<[u8]>) -> Self {
        Fault { key: Some(pattern.as_ref().to_vec()), ..self }
    }

    /// Strikes only clients that have given themselves this name, by `CLIENT SETNAME` or `HELLO`.
    pub fn client(self, name: impl AsRef<[u8]>) -> Self {
        Fault { client: Some(name.as_ref().to_vec()), ..self }
    }

    /// Replies with this error, which begins with its code, instead of executing the call.
    pub fn error(self, line: impl AsRef<[u8]>) -> Self {
        self.with(FaultKind::Error(line.as_ref().to_vec()))
    }

    /// Executes the call and holds its reply back for this long: real time, whatever the server's clock. Other clients
    /// are not held up.
    pub fn delay(self, time: Duration) -> Self {
        self.with(FaultKind::Delay(time))
    }

    /// Closes the connection before the call is executed.
    pub fn drop(self) -> Self {
        self.with(FaultKind::Drop)
    }

    /// Executes the call and closes the connection instead of replying: the client cannot know whether it happened.
    pub fn lose_reply(self) -> Self {
        self.with(FaultKind::LoseReply)
    }

    /// Executes the call and closes the connection after this number of bytes of its reply.
    pub fn partial(self, bytes: usize) -> Self {
        self.with(FaultKind::Partial(bytes))
    }

    /// Strikes each matching call with this probability, from 0 to 1.
    pub fn probability(self, probability: f64) -> Self {
        Fault { prob: probability, ..self }
    }

    /// Begins the random numbers for that with a seed: the same calls are chosen in every run.
    pub fn seed(self, seed: u64) -> Self {
        Fault { seed: Some(seed), ..self }
    }

    /// Limits into how many calls it is injected.
    pub fn times(self, times: u64) -> Self {
        Fault { times: Some(times), ..self }
    }

    /// Sets how many matching calls pass before the first one into which it is injected.
    pub fn after(self, calls: u64) -> Self {
        Fault { after: calls, ..self }
    }

    /// Returns whether it can be one of a link: it delays or cuts it, always.
    pub(crate) fn is_for_link(&self) -> bool {
        let is_limited = self.key.is_some() || self.client.is_some() || self.seed.is_some() || self.times.is_some();
        let is_certain = self.after == 0 && self.prob == 1.0 && !is_limited;
        is_certain && matches!(self.kind, None | Some(FaultKind::Delay(_) | FaultKind::Drop))
    }

    fn with(self, kind: FaultKind) -> Self {
        Fault { kind: Some(kind), ..self }
    }
}
