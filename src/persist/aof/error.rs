//! Errors of an append-only file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::persist::aof::manifest::ManifestError;

/// Error of an operation on an append-only file.
#[derive(Clone, Debug)]
pub(crate) enum AofError {
    /// The disk has failed.
    Io {
        /// The operation that was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        error: Arc<io::Error>,
    },
    /// The manifest is damaged.
    Manifest {
        path: PathBuf,
        /// Line number, from 1 on.
        line: usize,
        /// Description of the damage.
        reason: &'static str,
    },
    /// The manifest names a file that does not exist.
    Missing(PathBuf),
    /// Another process writes to files with the same name.
    InUse(PathBuf),
    /// A file with data exists, but no manifest.
    Unlisted(PathBuf),
    /// A line of the manifest would be longer than Redis can read.
    LongName(String),
    /// The file lacks a part of the log, and has to be rewritten.
    NeedsRewrite,
    /// Another request of this kind is not done yet.
    Busy,
    Stopped,
}

impl AofError {
    /// Returns a function that wraps an error of the disk with the operation that was tried.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AofError + use<> {
        let path = path.to_owned();
        move |error| AofError::Io { action, path, error: Arc::new(error) }
    }

    /// Returns the error for a system that has no thread left.
    pub(crate) fn no_thread(error: io::Error) -> AofError {
        AofError::io("start the writer of", Path::new("the append-only file"))(error)
    }

    pub(super) fn manifest(path: &Path, error: &ManifestError) -> AofError {
        AofError::Manifest { path: path.to_owned(), line: error.line, reason: error.reason }
    }
}

impl fmt::Display for AofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AofError::Io { action, path, error } => write!(f, "cannot {action} {}: {error}", path.display()),
            AofError::Manifest { path, line, reason } => {
                write!(f, "cannot read the manifest {}, line {line}: {reason}", path.display())
            }
            AofError::Missing(path) => {
                write!(f, "{} is named by the manifest: No such file or directory", path.display())
            }
            AofError::InUse(path) => {
                let path = path.display();
                write!(
                    f,
                    "another running server has {path}: stop it, or give this one another dir, appenddirname or appendfilename"
                )
            }
            AofError::Unlisted(path) => {
                write!(f, "there is no manifest, but {}: restore the manifest, or move the file away", path.display())
            }
            AofError::LongName(name) => write!(f, "the name of the file {name} is too long for a manifest"),
            AofError::NeedsRewrite => f.write_str("the file lacks a part of the log, and has to be rewritten"),
            AofError::Busy => f.write_str("another request is not done yet"),
            AofError::Stopped => f.write_str("the writer has stopped"),
        }
    }
}

impl std::error::Error for AofError {}
