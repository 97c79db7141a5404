//! Connections that block, of any kind.

use std::io::{Read, Write};
use std::net::TcpStream;
#[cfg(feature = "binary")]
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(feature = "binary")]
use std::os::unix::net::UnixStream;

/// A connection of any kind.
pub(crate) trait Transport: Read + Write + Send {
    /// Returns the socket, by which another thread can end the connection.
    #[cfg(feature = "binary")]
    fn socket(&self) -> BorrowedFd<'_>;
}

impl Transport for TcpStream {
    #[cfg(feature = "binary")]
    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

#[cfg(feature = "binary")]
impl Transport for UnixStream {
    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}
