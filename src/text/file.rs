//! Reading files that a running server is told to read.

use std::fs;
use std::io;
use std::path::Path;

/// Reads a regular file. Anything else is refused: a pipe that nobody writes, or a terminal, would hold up the thread that
/// reads it, and with it all clients that this thread serves.
///
/// # Errors
/// When it is no regular file, or cannot be read.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    match fs::metadata(path)?.is_file() {
        true => fs::read(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "Not a regular file")),
    }
}
