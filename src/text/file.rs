//! Reading files that a running server is told to read.

use std::fs;
use std::io;
use std::path::Path;

/// Reads a regular file. Any other file is refused: a pipe without a writer, or a terminal, would block the thread that
/// reads it, and with it all clients that this thread serves.
///
/// # Errors
/// If the file is not regular, or cannot be read.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "Not a regular file"))
    }
}
