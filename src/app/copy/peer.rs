//! A connection to one of the two servers; its errors name the server.

use std::io;

use crate::app::endpoint::Endpoint;
use crate::app::link::{RespConnection, lost};
use crate::dial::TlsOptions;
use crate::resp::Frame;
use crate::text::system_text;

/// One connection.
pub(super) struct CopyConnection {
    link: RespConnection,
    name: String,
    /// The selected database.
    database: u32,
}

impl CopyConnection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If there is no connection, or the server refuses it.
    pub(super) fn connect(endpoint: &Endpoint, tls: &TlsOptions) -> Result<Self, String> {
        let name = endpoint.address.to_string();
        let link = RespConnection::connect(&endpoint.address, endpoint.is_tls.then_some(tls))
            .map_err(|cause| format!("Could not connect to {name}: {}", system_text(&cause)))?;
        let mut peer = CopyConnection { link, name, database: 0 };
        if let Some(login) = &endpoint.login
            && let Frame::Error(text) = peer.ask(&login.words())?
        {
            return Err(peer.refused("AUTH", &text));
        }
        match peer.ask(&[b"PING"])? {
            // A user without this permission may have all others.
            Frame::Error(text) if !text.starts_with(b"NOPERM") => Err(peer.refused("PING", &text)),
            _ => Ok(peer),
        }
    }

    /// Selects a database; returns the server's refusal, if any.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn select(&mut self, database: u32) -> Result<Option<String>, String> {
        if self.database == database {
            return Ok(None);
        }
        match self.ask(&[b"SELECT", database.to_string().as_bytes()])? {
            Frame::Error(text) => Ok(Some(readable(&text))),
            _ => {
                self.database = database;
                Ok(None)
            }
        }
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> Result<Frame, String> {
        let sent = self.link.send(words);
        self.checked(sent)?;
        self.receive()
    }

    /// Writes parts of commands.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = self.link.write(bytes);
        self.checked(written)
    }

    /// Sends the bytes written so far.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        let sent = self.link.flush();
        self.checked(sent)
    }

    /// Waits for a reply.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn receive(&mut self) -> Result<Frame, String> {
        let received = self.link.receive();
        self.checked(received)
    }

    /// Describes the refusal of a command that the copy cannot do without.
    pub(super) fn refused(&self, command: &str, text: &[u8]) -> String {
        format!("{} refuses {command}: {}", self.name, readable(text))
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T, String> {
        result.map_err(|cause| format!("Lost the connection to {}: {}", self.name, lost(&cause)))
    }
}

/// Returns the text of an error.
pub(super) fn readable(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
