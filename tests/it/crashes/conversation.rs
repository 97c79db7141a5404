//! Client that does not wait: it sends requests, and reads the replies that have arrived.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::harness::{Replies, encode, show};

/// Kind of a request, and meaning of its reply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// A write.
    Write,
    /// LOCK.ACQUIRE.
    Lock,
    /// A request whose reply means that the state with this index is durable.
    Durable(usize),
    /// WAITAOF, whose reply may mean that the state with this index is durable.
    Sync(usize),
    /// SAVE, whose reply may mean that the state with this index is durable.
    Save(usize),
    /// Another request.
    Other,
}

/// Connection with its unanswered requests.
pub(super) struct Conversation {
    stream: TcpStream,
    received: Replies,
    waiting: VecDeque<Asked>,
    last: String,
    last_write: String,
}

impl Conversation {
    pub(super) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the server accepts");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_nonblocking(true).expect("a socket that does not wait");
        let (received, waiting) = (Replies::default(), VecDeque::new());
        Conversation { stream, received, waiting, last: String::new(), last_write: String::new() }
    }

    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => panic!("the server does not read: {error}"),
            }
        }
    }

    /// Sends a command of words separated by blanks.
    pub(super) fn send(&mut self, request: &str, asked: Asked) {
        self.write(&encode(&request.split(' ').collect::<Vec<_>>()));
        self.waiting.push_back(asked);
    }

    /// Sends commands, and an ECHO.
    pub(super) fn send_unit(&mut self, commands: &[Vec<Vec<u8>>]) {
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend(encode(command));
            self.waiting.push_back(if command[0] == b"LOCK.ACQUIRE" { Asked::Lock } else { Asked::Write });
        }
        bytes.extend(encode(&["ECHO", "."]));
        self.waiting.push_back(Asked::Other);
        self.write(&bytes);
    }

    /// Declares that the reply to the last request means that the state with this index is durable.
    pub(super) fn last_asked_is_durable(&mut self, state: usize) {
        self.waiting.iter_mut().next_back().into_iter().for_each(|asked| *asked = Asked::Durable(state));
    }

    /// Declares that no outstanding reply means durability.
    pub(super) fn nothing_is_durable(&mut self) {
        let durable = self.waiting.iter_mut().filter(|asked| matches!(asked, Asked::Durable(_)));
        durable.for_each(|asked| *asked = Asked::Other);
    }

    /// Returns whether replies are outstanding.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the last reply.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Returns the last reply to a write.
    pub(super) fn last_write(&self) -> &str {
        &self.last_write
    }

    /// Returns the replies that have arrived since the last call.
    pub(super) fn replies(&mut self) -> Vec<(Asked, String)> {
        let (mut replies, mut chunk) = (Vec::new(), [0; 16 * 1024]);
        if self.waiting.is_empty() {
            return replies;
        }
        while let Ok(len @ 1..) = self.stream.read(&mut chunk) {
            self.received.push(&chunk[..len]);
        }
        while let Some((_, bytes)) = self.received.next() {
            let asked = self.waiting.pop_front().expect("a reply that was asked for");
            self.last = show(&bytes);
            if matches!(asked, Asked::Write) {
                self.last_write.clone_from(&self.last);
            }
            replies.push((asked, self.last.clone()));
        }
        replies
    }
}
