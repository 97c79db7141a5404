//! Session with a server: connects, also after the connection was lost; sends commands, prints replies, and records
//! what they change for the prompt.

use std::io::{self, IsTerminal};

use crate::app::link::{RespConnection, lost};
use crate::app::redis_cli::interrupts::Interrupts;
use crate::app::redis_cli::options::{CliOptions, Resp3};
use crate::app::redis_cli::output::{is, pause, print};
use crate::app::redis_cli::show::ReplyForm;
use crate::dial::Address;
use crate::resp::Frame;
use crate::text::system_text;

/// Commands after which messages arrive until the connection closes.
const STREAMING: [&[u8]; 4] = [b"monitor", b"psubscribe", b"ssubscribe", b"subscribe"];

/// Commands whose reply is human-readable text, which is printed verbatim.
const TEXTS: [&[&[u8]]; 12] = [
    &[b"info"],
    &[b"lolwut"],
    &[b"debug", b"htstats"],
    &[b"debug", b"htstats-key"],
    &[b"memory", b"malloc-stats"],
    &[b"memory", b"doctor"],
    &[b"cluster", b"nodes"],
    &[b"cluster", b"info"],
    &[b"client", b"list"],
    &[b"client", b"info"],
    &[b"latency", b"graph"],
    &[b"latency", b"doctor"],
];

pub(super) struct CliSession {
    /// The options, of which the prompt changes the address and the database.
    pub options: CliOptions,
    /// Handler of Ctrl-C; only at a prompt.
    pub interrupts: Option<Interrupts>,
    /// True if the commands of the server should be asked for.
    pub may_know_commands: bool,
    /// Prints a line on standard error.
    pub complain: fn(&str),
    /// True once nobody reads what is printed.
    pub is_unread: bool,
    link: Option<RespConnection>,
    /// The database of the connection.
    database: u32,
    /// The database before MULTI, in a transaction.
    transaction: Option<u32>,
}

/// Kind of a reply, as far as it matters to the session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Error,
    Null,
    Other,
}

impl CliSession {
    /// Prepares a session; it is not connected.
    pub(super) fn new(options: CliOptions, complain: fn(&str)) -> Self {
        let (link, interrupts) = (None, None);
        let (may_know_commands, is_unread) = (false, false);
        CliSession { options, interrupts, may_know_commands, complain, is_unread, link, database: 0, transaction: None }
    }

    /// Connects, authenticates and selects the database by the options; returns true if the server accepts that. An
    /// error of the server is printed.
    ///
    /// # Errors
    /// If there is no connection.
    pub(super) fn connect(&mut self) -> Result<bool, String> {
        (self.link, self.database, self.transaction) = (None, 0, None);
        let address = &self.options.address;
        let link = RespConnection::connect(address, self.options.tls.as_ref())
            .map_err(|cause| format!("Could not connect to Redis at {address}: {}", system_text(&cause)))?;
        self.link = Some(link);
        self.may_know_commands = true;
        for (name, words) in self.options.greeting() {
            match self.ask(&words)? {
                Frame::Error(text) => {
                    (self.complain)(&format!("{name} failed: {}", String::from_utf8_lossy(&text)));
                    return Ok(false);
                }
                _ if is(&words[0], b"select") => self.database = self.options.database,
                _ => {}
            }
        }
        Ok(true)
    }

    /// Returns true while there is a connection, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn ask(&mut self, words: &[Vec<u8>]) -> Result<Frame, String> {
        self.send(words)?;
        loop {
            let frame = self.receive().map_err(|cause| failed(&cause))?;
            if !matches!(frame, Frame::Push(_)) {
                return Ok(frame);
            }
        }
    }

    /// Sends commands at once and waits for their replies.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn ask_all(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<Vec<Frame>, String> {
        requests.iter().try_for_each(|words| self.send(words))?;
        requests.iter().map(|_| self.receive().map_err(|cause| failed(&cause))).collect()
    }

    fn send(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let request: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let link = self.link.as_mut().ok_or("Error: Server closed the connection")?;
        link.send(&request).map_err(|cause| {
            self.link = None;
            failed(&cause)
        })
    }

    fn receive(&mut self) -> io::Result<Frame> {
        let link = self.link.as_mut().ok_or(io::ErrorKind::UnexpectedEof)?;
        link.receive().inspect_err(|_| self.link = None)
    }

    /// Sends a command `times` times and prints the replies; returns true if the exit status stays 0.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn repeat(&mut self, words: &[Vec<u8>], times: i64) -> Result<bool, String> {
        let mut left = times;
        while left != 0 && !self.is_unread {
            left -= i64::from(left > 0);
            if !self.command(words)? {
                return Ok(false);
            }
            pause(self.options.interval);
        }
        Ok(true)
    }

    /// Sends a command and prints the reply; returns true if the exit status stays 0.
    fn command(&mut self, words: &[Vec<u8>]) -> Result<bool, String> {
        self.send(words)?;
        let is_streaming = STREAMING.iter().any(|name| is(&words[0], name));
        if is_streaming && !is(&words[0], b"monitor") && self.options.format.form != ReplyForm::Raw {
            // Where standard output is closed, the messages find out.
            let _ = print(b"Reading messages... (press Ctrl-C to quit)\n");
        }
        if is_streaming && let (Some(interrupts), Some(link)) = (&self.interrupts, &self.link) {
            interrupts.may_close(link.socket());
        }
        let outcome = self.print_replies(words, is_streaming);
        if is_streaming && self.interrupts.as_ref().is_some_and(Interrupts::has_closed) {
            return self.connect().map(|_| true);
        }
        outcome
    }

    fn print_replies(&mut self, words: &[Vec<u8>], is_streaming: bool) -> Result<bool, String> {
        let is_text =
            TEXTS.iter().any(|text| words.len() >= text.len() && text.iter().zip(words).all(|(a, b)| is(b, a)));
        loop {
            let frame = match self.receive() {
                Ok(frame) => frame,
                // SHUTDOWN closes the connection, as requested.
                Err(_) if is(&words[0], b"shutdown") => return Ok(true),
                Err(cause) => return Err(failed(&cause)),
            };
            if let Frame::Error(text) = &frame
                && self.options.error_status
            {
                (self.complain)(&String::from_utf8_lossy(text));
                return Ok(false);
            }
            // A push message is not the reply.
            if matches!(frame, Frame::Push(_)) && !is_streaming {
                if io::stdout().is_terminal() {
                    self.is_unread = print(&self.options.format.show_push(&frame)).is_err();
                }
                continue;
            }
            self.is_unread = print(&self.options.format.show(&frame, is_text)).is_err();
            if !is_streaming {
                self.note(words, Answer::of(&frame));
            }
            if self.is_unread || !is_streaming || matches!(frame, Frame::Error(_)) {
                return Ok(true);
            }
        }
    }

    /// Records what a command has changed for the prompt and for a later connection.
    fn note(&mut self, words: &[Vec<u8>], answer: Answer) {
        let (name, is_accepted) = (words[0].to_ascii_lowercase(), answer != Answer::Error);
        let select = |session: &mut CliSession, database: u32| {
            (session.database, session.options.database) = (database, database);
        };
        match (&name[..], words.len()) {
            (b"select", 2) if is_accepted => {
                let number = std::str::from_utf8(&words[1]).ok().and_then(|word| word.parse().ok());
                select(self, number.unwrap_or_default());
            }
            (b"auth", 2 | 3) if is_accepted => self.may_know_commands = true,
            (b"multi", 1) if is_accepted => self.transaction = Some(self.database),
            (b"exec", 1) => {
                // A transaction that was not executed has selected nothing.
                if let Some(before) = self.transaction.take()
                    && answer != Answer::Other
                {
                    select(self, before);
                }
            }
            (b"discard", 1) if is_accepted => {
                if let Some(before) = self.transaction.take() {
                    select(self, before);
                }
            }
            (b"reset", 1) if is_accepted => {
                self.transaction = None;
                select(self, 0);
            }
            _ => {}
        }
    }

    /// Returns the text of the prompt.
    pub(super) fn prompt(&self) -> String {
        if !self.is_connected() {
            return "not connected> ".into();
        }
        let place = match &self.options.address {
            Address::Unix(path) => format!("redis {}", path.display()),
            Address::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            address => address.to_string(),
        };
        let database = if self.database == 0 { String::new() } else { format!("[{}]", self.database) };
        let transaction = if self.transaction.is_some() { "(TX)" } else { "" };
        format!("{place}{database}{transaction}> ")
    }
}

impl Answer {
    fn of(frame: &Frame) -> Self {
        match frame {
            Frame::Error(_) => Answer::Error,
            Frame::Null | Frame::NullArray => Answer::Null,
            _ => Answer::Other,
        }
    }
}

impl CliOptions {
    /// Returns the commands that begin a connection, each with its name in errors.
    pub(super) fn greeting(&self) -> Vec<(String, Vec<Vec<u8>>)> {
        let mut first: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
        if let Some(password) = &self.password {
            let words = [Some(&b"AUTH"[..]), self.user.as_deref(), Some(password)];
            first.push(("AUTH".into(), words.into_iter().flatten().map(<[u8]>::to_vec).collect()));
        }
        if self.database != 0 {
            let database = self.database.to_string();
            first.push((format!("SELECT {database}"), vec![b"SELECT".to_vec(), database.into_bytes()]));
        }
        if matches!(self.resp3, Some(Resp3::Yes | Resp3::Default)) {
            first.push(("HELLO 3".into(), vec![b"HELLO".to_vec(), b"3".to_vec()]));
        }
        first
    }
}

fn failed(cause: &io::Error) -> String {
    format!("Error: {}", lost(cause))
}
