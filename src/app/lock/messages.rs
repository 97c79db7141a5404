//! Messages on standard error, which a thread of its own writes: a terminal that is stopped, or a pipe that nobody
//! reads, holds up neither the renewals of a lock nor the signals for its command.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use crate::app::process::Console;

/// Maximum number of messages that wait to be written; further ones are dropped.
const CAPACITY: usize = 64;

/// Time for which the end of the program waits until the messages are written.
const LIMIT: Duration = Duration::from_secs(1);

/// Text for standard error.
enum Message {
    Line(String),
    /// The text as it is, for a terminal.
    Raw(String),
}

/// The sender of the messages.
pub(super) struct Messages {
    sender: SyncSender<Message>,
    written: Receiver<()>,
}

impl Messages {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn start(console: Console) -> io::Result<Self> {
        let (sender, messages) = mpsc::sync_channel(CAPACITY);
        let (end, written) = mpsc::channel();
        thread::Builder::new().name("messages".to_owned()).spawn(move || {
            for message in messages {
                write(message, console);
            }
            // The program may have ended already.
            let _ = end.send(());
        })?;
        Ok(Messages { sender, written })
    }

    /// Sends a line, with the name of the program in front.
    pub(super) fn complain(&self, text: &str) {
        self.send(Message::Line(format!("keylatch lock: {text}")));
    }

    /// Sends text for a terminal, as it is.
    pub(super) fn draw(&self, text: String) {
        self.send(Message::Raw(text));
    }

    fn send(&self, message: Message) {
        // Where nothing is written, the rest is dropped.
        let _ = self.sender.try_send(message);
    }

    /// Waits for a limited time until all messages are written.
    pub(super) fn finish(self) {
        drop(self.sender);
        // Where nothing is written, the rest is dropped.
        let _ = self.written.recv_timeout(LIMIT);
    }
}

fn write(message: Message, console: Console) {
    match message {
        Message::Line(line) => (console.complain)(&line),
        Message::Raw(text) => {
            let mut out = io::stderr().lock();
            // A terminal that has gone shows nothing.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}
