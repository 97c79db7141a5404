//! Asynchronous connection of `keylatch lock`: every wait on it can be abandoned.
//!
//! Invariant: a request is sent as a whole, and an abandoned reply is skipped before the next one is waited for.

use std::collections::VecDeque;
use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::codec::Decoder;

use crate::app::endpoint::Endpoint;
use crate::app::link::lost;
use crate::app::lock::failure::RequestError;
use crate::app::lock::options::ServerOptions;
use crate::dial::{Address, AsyncStream, open};
use crate::resp::{Frame, FrameDecoder, write_command};
use crate::text::system_text;

pub(super) struct LockConnection {
    stream: Box<dyn AsyncStream>,
    /// Bytes still to be sent, and those sent of the same requests.
    unsent: Vec<u8>,
    /// Number of these bytes that have been sent.
    sent: usize,
    received: BytesMut,
    decoder: FrameDecoder,
    /// Number of replies still to come.
    unanswered: usize,
    /// The pushes that arrived before replies.
    pushes: VecDeque<Vec<Frame>>,
    /// Id of this connection, if the server reports it.
    pub id: Option<i64>,
    /// Address of the server.
    pub address: Address,
    /// True if the server reports that it is a replica.
    pub is_replica: bool,
}

impl LockConnection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If there is no connection, or the server refuses it.
    pub(super) async fn open(server: &ServerOptions, endpoint: &Endpoint) -> Result<Self, RequestError> {
        let stream = open(&endpoint.address, endpoint.is_tls.then_some(&server.tls)).await.map_err(|cause| {
            RequestError::Unreachable(format!("could not connect to {}: {}", endpoint.address, system_text(&cause)))
        })?;
        let mut connection = LockConnection {
            stream,
            unsent: Vec::new(),
            sent: 0,
            received: BytesMut::new(),
            decoder: FrameDecoder::new(),
            unanswered: 0,
            pushes: VecDeque::new(),
            id: None,
            address: endpoint.address.clone(),
            is_replica: false,
        };
        if let Some(login) = &endpoint.login {
            connection.ask(&login.words()).await?;
        }
        Ok(connection)
    }

    /// Connects, logs in, and selects the database.
    ///
    /// # Errors
    /// If there is no connection, or the server refuses it.
    pub(super) async fn connect(server: &ServerOptions, endpoint: &Endpoint) -> Result<Self, RequestError> {
        let mut connection = Self::open(server, endpoint).await?;
        match connection.ask(&[b"HELLO", b"3", b"SETNAME", &server.own_name]).await {
            Ok(hello) => {
                connection.id = field(&hello, "id").and_then(integer);
                let role = field(&hello, "role").and_then(Frame::as_bytes);
                connection.is_replica = matches!(role, Some(b"replica" | b"slave"));
            }
            Err(RequestError::Refused(text)) if text.starts_with(b"NOAUTH") => return Err(RequestError::Refused(text)),
            // Pushes are a luxury, which old servers do not have and users may be denied.
            Err(RequestError::Refused(_) | RequestError::UnknownCommand) => {}
            Err(error) => return Err(error),
        }
        if let Some(database) = endpoint.database.filter(|database| *database != 0) {
            connection.ask(&[b"SELECT", database.to_string().as_bytes()]).await?;
        }
        Ok(connection)
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// If the connection fails, or the reply is an error.
    pub(super) async fn ask(&mut self, words: &[&[u8]]) -> Result<Frame, RequestError> {
        self.queue(words);
        self.reply().await
    }

    /// Queues a command to be sent.
    pub(super) fn queue(&mut self, words: &[&[u8]]) {
        write_command(&mut self.unsent, words);
        self.unanswered += 1;
    }

    /// Sends the queued commands, and waits for the last reply.
    ///
    /// # Errors
    /// If the connection fails, or the reply is an error.
    pub(super) async fn reply(&mut self) -> Result<Frame, RequestError> {
        self.replies(1).await.map(|mut replies| replies.pop().unwrap_or(Frame::Null)).and_then(|reply| match reply {
            Frame::Error(text) => Err(RequestError::of_error(&text)),
            reply => Ok(reply),
        })
    }

    /// Sends the queued commands, and waits for the last `count` replies.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) async fn replies(&mut self, count: usize) -> Result<Vec<Frame>, RequestError> {
        let broken = |cause: io::Error| RequestError::Unreachable(format!("lost the connection: {}", lost(&cause)));
        self.flush().await.map_err(broken)?;
        let mut replies = Vec::new();
        while self.unanswered > 0 {
            match self.receive().await.map_err(broken)? {
                Frame::Push(items) => self.pushes.push_back(items),
                reply => {
                    self.unanswered -= 1;
                    if self.unanswered < count {
                        replies.push(reply);
                    }
                }
            }
        }
        Ok(replies)
    }

    /// Waits for a push; abandoned replies are skipped.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) async fn next_push(&mut self) -> io::Result<Vec<Frame>> {
        loop {
            if let Some(push) = self.pushes.pop_front() {
                return Ok(push);
            }
            match self.receive().await? {
                Frame::Push(items) => self.pushes.push_back(items),
                _ => self.unanswered = self.unanswered.saturating_sub(1),
            }
        }
    }

    /// Sends the queued commands, closes the sending side, and waits for all replies.
    ///
    /// # Errors
    /// If the connection ends before all replies have come, as it does if the close ends a wait of this client.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.shutdown().await?;
        while self.unanswered > 0 {
            if !matches!(self.receive().await?, Frame::Push(_)) {
                self.unanswered -= 1;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.unsent.len() {
            // Not `write_all`, of which nobody knows how much it has sent when it is abandoned.
            match self.stream.write(&self.unsent[self.sent..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                len => self.sent += len,
            }
        }
        self.unsent.clear();
        self.sent = 0;
        self.stream.flush().await
    }

    async fn receive(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.received).map_err(io::Error::other)? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Returns a field of a map, which is an array of names and values in RESP2.
pub(super) fn field<'a>(map: &'a Frame, name: &str) -> Option<&'a Frame> {
    let is = |key: &Frame| key.as_bytes() == Some(name.as_bytes());
    match map {
        Frame::Map(pairs) => pairs.iter().find(|(key, _)| is(key)).map(|(_, value)| value),
        Frame::Array(items) => items.chunks_exact(2).find(|pair| is(&pair[0])).map(|pair| &pair[1]),
        _ => None,
    }
}

/// Returns the value of an integer.
pub(super) fn integer(frame: &Frame) -> Option<i64> {
    match frame {
        Frame::Integer(value) => Some(*value),
        _ => None,
    }
}
